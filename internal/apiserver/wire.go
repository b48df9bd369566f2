package apiserver

import (
	"encoding/binary"
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/history"
)

// A Unit is one event of a stream, or one item of a list.
type Unit struct {
	Type    watch.EventType // "" for an item of a list
	Key     types.NamespacedName
	Version uint64
	End     bool // whether it is the bookmark that ends the initial events of a streamed list

	// Object, if set, is sent in place of the object. It should be JSON but may be anything.
	Object []byte
	// Frame, if set, is sent in place of everything that belongs to the unit: in a stream the
	// length or the line break as well.
	Frame []byte

	obj    *stored
	status *metav1.Status
	none   bool // there is nothing to send
}

// unitOf returns the unit that an event of the history is sent as.
func unitOf(ev history.Event[*content]) Unit {
	u := Unit{Type: ev.Type, Version: ev.Version, End: ev.InitialEventsEnd, obj: ev.Object}
	if ev.Object != nil {
		u.Key = ev.Object.Key
	}
	return u
}

// A codec encodes the units of one answer.
//
// JSON streams are lines, each with {"type", "object"}. CBOR streams are the same objects one
// behind another. Protobuf streams are messages WatchEvent, each after its length in four bytes. An
// object, a list or a Status in protobuf is wrapped in an envelope: four magic bytes and a message
// runtime.Unknown, which has the kind and the bytes of the object. In a list only the whole has an
// envelope. See https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding.
type codec struct {
	res    *Resource
	format format
}

// kind returns the apiVersion and kind of the objects in the answer.
func (c codec) kind() (apiVersion, kind string) {
	if c.format.partial() {
		return "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	return c.res.apiVersion(), c.res.Kind
}

// json returns the unit's object as JSON.
func (c codec) json(u Unit) ([]byte, error) {
	switch {
	case u.Object != nil:
		return u.Object, nil
	case u.status != nil:
		return mustJSON(u.status), nil
	case u.obj != nil && c.format.partial():
		return c.res.encode(u.obj, u.Version, partialJSON)
	case u.obj != nil:
		return c.res.encode(u.obj, u.Version, fullJSON)
	}
	apiVersion, kind := c.kind()
	return mustJSON(metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: bookmark(u),
	}), nil
}

// proto returns the unit's object as a protobuf message, and the kind for its envelope.
func (c codec) proto(u Unit) (message []byte, apiVersion, kind string, err error) {
	apiVersion, kind = c.kind()
	switch {
	case u.Object != nil:
		var said metav1.TypeMeta
		if json.Unmarshal(u.Object, &said) == nil {
			apiVersion, kind = said.APIVersion, said.Kind
		}
		convert := c.res.Proto
		if c.format.partial() {
			convert = Proto[metav1.PartialObjectMetadata]()
		}
		if message, err = convert(u.Object); err != nil {
			// The JSON is not an object of the type. Its counterpart is a message that no decoder
			// accepts: there is no wire type 7.
			message = []byte{1<<3 | 7}
		}
		return message, apiVersion, kind, nil
	case u.status != nil:
		message, err = u.status.Marshal()
		return message, u.status.APIVersion, u.status.Kind, err
	case u.obj != nil:
		message, err = c.res.encode(u.obj, u.Version, c.format)
		return message, apiVersion, kind, err
	}
	// Metadata is field 1 of every kind of object. So PartialObjectMetadata does for all.
	message, err = (&metav1.PartialObjectMetadata{ObjectMeta: bookmark(u)}).Marshal()
	return message, apiVersion, kind, err
}

// bookmark returns the metadata of a bookmark, which has nothing else.
func bookmark(u Unit) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(u.Version, 10)}
	if u.End {
		meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return meta
}

// appendFrame appends the unit as a frame of a stream: a line of JSON, an item of CBOR, or a length
// and a protobuf message.
func (c codec) appendFrame(b []byte, u Unit) ([]byte, error) {
	if u.Frame != nil {
		return append(b, u.Frame...), nil
	}
	if !c.format.proto() {
		object, err := c.json(u)
		if err != nil {
			return nil, err
		}
		if c.format.cbor() {
			return append(b, cborEvent(u.Type, object)...), nil
		}
		b = append(b, `{"type":"`...)
		b = append(b, u.Type...)
		b = append(b, `","object":`...)
		b = append(b, object...)
		return append(b, "}\n"...), nil
	}
	message, apiVersion, kind, err := c.proto(u)
	if err != nil {
		return nil, err
	}
	event := metav1.WatchEvent{
		Type:   string(u.Type),
		Object: runtime.RawExtension{Raw: appendEnvelope(nil, apiVersion, kind, message)},
	}
	// The length stands before the message, in network byte order.
	b = binary.BigEndian.AppendUint32(b, uint32(event.Size()))
	start := len(b)
	b = append(b, make([]byte, event.Size())...)
	_, err = event.MarshalToSizedBuffer(b[start:])
	return b, err
}

// appendItem appends the unit as an item of a list, without a comma between items. Items of
// built-in resources leave out kind and apiVersion in JSON.
func (c codec) appendItem(b []byte, u Unit) ([]byte, error) {
	if u.Frame != nil {
		return append(b, u.Frame...), nil
	}
	if c.format.proto() {
		message, _, _, err := c.proto(u)
		b = append(b, 2<<3|2) // items are field 2 of every list; wire type 2: a length follows
		b = binary.AppendUvarint(b, uint64(len(message)))
		return append(b, message...), err
	}
	object, err := c.json(u)
	if err != nil {
		return b, err
	}
	if !c.format.partial() && !c.res.Custom && u.Object == nil {
		// The encoding begins with kind and apiVersion. Leave out everything before the metadata.
		const metadata = `"metadata":`
		object = append([]byte{'{'}, object[len(c.res.head())-len(metadata):]...)
	}
	if c.format.cbor() {
		return append(b, cborOf(object)[len(selfDescribed):]...), nil
	}
	return append(b, object...), nil
}

// listHead returns the bytes of a list before its items, and those after them. In protobuf, head
// does not have the envelope, because that needs the length of the whole list. For CBOR it is the
// JSON of the metadata; see cborList.
func (c codec) listHead(meta metav1.ListMeta) (head, tail []byte, err error) {
	if c.format.proto() {
		message, err := meta.Marshal()
		// The list's metadata is field 1, of wire type 2: a length and a message.
		head = append([]byte{1<<3 | 2}, binary.AppendUvarint(nil, uint64(len(message)))...)
		return append(head, message...), nil, err
	}
	apiVersion, kind := c.kind()
	if c.format.cbor() {
		return mustJSON(meta), nil, nil
	}
	head = []byte(`{"kind":"` + kind + `List","apiVersion":"` + apiVersion + `","metadata":`)
	head = append(head, mustJSON(meta)...)
	return append(head, `,"items":[`...), []byte("]}\n"), nil
}

// appendEnvelope appends a protobuf message in its envelope.
func appendEnvelope(b []byte, apiVersion, kind string, message []byte) []byte {
	b = append(b, 'k', '8', 's', 0)
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: message}
	size := unknown.Size()
	b = append(b, make([]byte, size)...)
	if _, err := unknown.MarshalToSizedBuffer(b[len(b)-size:]); err != nil {
		panic(err) // cannot happen: the buffer has the size that the message asked for
	}
	return b
}
