// Package wire measures informers from the socket on. A small server sends encoded objects over the
// loopback interface to a child process. Each measurement has its own child process, which runs an
// informer of lw or of client-go and reports what it used.
package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/go-lw/lw/bench/internal/pods"
)

// A Format is an encoding of Kubernetes objects.
type Format string

const (
	JSON     Format = "application/json"
	Protobuf Format = "application/vnd.kubernetes.protobuf"
	// protobufMetadata is Protobuf of the metadata alone.
	protobufMetadata = Protobuf + ";as=PartialObjectMetadata"
)

// A frame is an encoded ADDED event. What differs between versions of an object with the same
// status can be overwritten in place: all resource versions have the same number of digits, and all
// zones the same number of letters.
type frame struct {
	bytes     []byte
	version   int // where the digits of the resource version begin
	zone      int // where the last letter of the zone's label is; 0: there is none
	typeStart int // where the event's type begins
	// item and end are where the bytes that an item of a list has, too, begin and end. In JSON they
	// are those after the brace that opens the object.
	item, end int
}

// A collection has the objects of a kind in one encoding.
type collection struct {
	kind
	format    Format
	frames    []frame // the objects as ADDED events
	restarted []frame // the first of them, with another status
}

// newCollection returns a collection of n objects, of which the first changing ones can change
// their status.
func newCollection(k kind, format Format, n, changing int) (*collection, error) {
	c := &collection{kind: k, format: format}
	for i := range n {
		if err := c.encode(&c.frames, c.object(i)); err != nil {
			return nil, fmt.Errorf("%s %d: %w", c.gvk.Kind, i, err)
		}
		if i < changing {
			if err := c.encode(&c.restarted, c.kind.restarted(i)); err != nil {
				return nil, fmt.Errorf("%s %d: %w", c.gvk.Kind, i, err)
			}
		}
	}
	return c, nil
}

// encode adds obj as an ADDED event to frames.
func (c *collection) encode(frames *[]frame, obj object) error {
	event, content, err := c.event(watch.Added, obj)
	if err != nil {
		return err
	}
	f := frame{bytes: slices.Clip(event), typeStart: bytes.Index(event, []byte(watch.Added))}
	if f.version, err = once(event, obj.GetResourceVersion()); err != nil {
		return err
	}
	if f.item, err = once(event, string(content)); err != nil {
		return err
	}
	f.end = f.item + len(content)
	if zone := obj.GetLabels()[pods.ZoneLabel]; zone != "" {
		at, err := once(event, zone)
		if err != nil {
			return err
		}
		f.zone = at + len(zone) - 1
	}
	*frames = append(*frames, f)
	return nil
}

// once returns where s is in b, which must have it once.
func once(b []byte, s string) (int, error) {
	at := bytes.Index(b, []byte(s))
	if at < 0 || at != bytes.LastIndex(b, []byte(s)) {
		return 0, fmt.Errorf("%.40q does not stand once in its event", s)
	}
	return at, nil
}

// event returns an event of obj, encoded as a server does, and the part of it that an item of a
// list has, too.
//
// In JSON the object of an event has kind and apiVersion, even if an item of a list has not: an
// item that is a custom resource has them. In protobuf they are outside of the object's own
// message.
func (c *collection) event(typ watch.EventType, obj object) (event, content []byte, err error) {
	if c.format == Protobuf {
		message, ok := obj.(interface{ Marshal() ([]byte, error) })
		if !ok {
			return nil, nil, errors.New("it has no protobuf")
		}
		if content, err = message.Marshal(); err != nil {
			return nil, nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(c.gvk)
		event, err = protobufEvent(typ, obj)
		return event, content, err
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, nil, err
	}
	content = b[1:]
	event = fmt.Appendf(nil, `{"type":%q,"object":{`, typ)
	if obj.GetObjectKind().GroupVersionKind().Empty() {
		event = fmt.Appendf(event, `"kind":%q,"apiVersion":%q,`, c.gvk.Kind, c.gvk.GroupVersion())
	}
	return append(append(event, content...), '}', '\n'), content, nil
}

func protobufEvent(typ watch.EventType, obj runtime.Object) ([]byte, error) {
	raw, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), obj)
	if err != nil {
		return nil, err
	}
	message, err := (&metav1.WatchEvent{Type: string(typ), Object: runtime.RawExtension{Raw: raw}}).Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...), nil
}

// A state is what differs from an object as it was first. In state {} nothing does.
type state struct {
	restarted bool // another status
	moved     bool // another zone in the labels
}

// modified returns the MODIFIED event of object i in a state, with the version of write number
// write. It is the ADDED event with another type and version, so that nothing is encoded while
// events are measured.
func (c *collection) modified(i int, in state, write int) []byte {
	f := &c.frames[i]
	if in.restarted {
		f = &c.restarted[i]
	}
	rest := f.bytes[f.typeStart+len(watch.Added):]
	b := make([]byte, 0, len(f.bytes)+len(watch.Modified))
	if c.format == JSON {
		b = append(b, f.bytes[:f.typeStart]...)
		b = append(b, watch.Modified...)
	} else {
		// A protobuf frame is the length of the message, in four bytes, and the message. The
		// message begins with field 1, the type: a tag (0x0a), the length of the text, the text.
		b = binary.BigEndian.AppendUint32(b, uint32(2+len(watch.Modified)+len(rest)))
		b = append(b, 0x0a, byte(len(watch.Modified)))
		b = append(b, watch.Modified...)
	}
	b = append(b, rest...)
	const longer = len(watch.Modified) - len(watch.Added)
	copy(b[f.version+longer:], pods.Version(write))
	if in.moved {
		b[f.zone+longer] = pods.OtherZone
	}
	return b
}

// bookmark returns the bookmark that ends the initial events of a streamed list.
func (c *collection) bookmark() ([]byte, error) {
	obj := c.empty()
	obj.SetResourceVersion(c.version())
	obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	event, _, err := c.event(watch.Bookmark, obj)
	return event, err
}

// gone returns the ERROR event of a watch whose history the server has no more.
func (c *collection) gone() ([]byte, error) {
	status := apierrors.NewResourceExpired("too old resource version").ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if c.format == Protobuf {
		return protobufEvent(watch.Error, &status)
	}
	b, err := json.Marshal(&status)
	return fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", watch.Error, b), err
}

// version returns the collection's resource version, which is that of its last object.
func (c *collection) version() string { return pods.Version(len(c.frames) - 1) }

// list returns a list response with the objects from first up to, but not including, last. next is
// its continue token.
//
// The items are encoded already, so they are put together by hand. In protobuf a list of any kind
// is its metadata followed by field 2, length-delimited, once for each item. The response is that
// list within a runtime.Unknown, which names the kind, after the four bytes "k8s\x00".
func (c *collection) list(first, last int, next string) ([]byte, error) {
	meta := metav1.ListMeta{ResourceVersion: c.version(), Continue: next}
	apiVersion, kind := c.gvk.GroupVersion().String(), c.gvk.Kind+"List"
	var b bytes.Buffer
	if c.format == JSON {
		m, err := json.Marshal(meta)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, kind, apiVersion, m)
		for i := range c.frames[first:last] {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteByte('{')
			f := &c.frames[first+i]
			b.Write(f.bytes[f.item:f.end])
		}
		b.WriteString("]}\n")
		return b.Bytes(), nil
	}
	raw, err := (&corev1.PodList{ListMeta: meta}).Marshal()
	if err != nil {
		return nil, err
	}
	for i := range c.frames[first:last] {
		f := &c.frames[first+i]
		raw = append(raw, 0x12) // items: field 2, length-delimited
		raw = binary.AppendUvarint(raw, uint64(f.end-f.item))
		raw = append(raw, f.bytes[f.item:f.end]...)
	}
	unknown, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind, APIVersion: apiVersion}, Raw: raw}).Marshal()
	if err != nil {
		return nil, err
	}
	b.WriteString("k8s\x00")
	b.Write(unknown)
	return b.Bytes(), nil
}
