package wire

import (
	"encoding/binary"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A Codec writes the answers about one resource in one format. It does not change, and any
// goroutine may use it.
type Codec struct {
	format  Format
	kind    metav1.TypeMeta // of the objects in the answer
	columns []byte          // the JSON of a table's columns

	// object and list are what TypeMeta is in an envelope; see envelope.
	object, list string
}

// NewCodec returns the codec of a resource whose whole objects have a kind. columns are those of
// its tables; only the codec of a table needs them.
func NewCodec(f Format, kind metav1.TypeMeta, columns []metav1.TableColumnDefinition) *Codec {
	c := &Codec{format: f, kind: kind}
	switch f.Shape {
	case Partial:
		c.kind = metav1.TypeMeta{APIVersion: metaGroup + "/" + metaVersion, Kind: partialKind}
	case Table:
		c.kind = metav1.TypeMeta{APIVersion: metaGroup + "/" + metaVersion, Kind: tableKind}
		if c.columns = mustJSON(columns); len(columns) == 0 {
			c.columns = []byte("[]")
		}
	}
	c.object = envelopeKind(c.kind)
	c.list = envelopeKind(metav1.TypeMeta{APIVersion: c.kind.APIVersion, Kind: c.kind.Kind + listSuffix})
	return c
}

// Format returns the format.
func (c *Codec) Format() Format { return c.format }

// Kind returns the kind of the objects in an answer, which for metadata alone is not that of the
// resource.
func (c *Codec) Kind() metav1.TypeMeta { return c.kind }

// AppendObject appends the answer to a request for one object.
func (c *Codec) AppendObject(dst, object []byte) []byte {
	switch c.format.Encoding {
	case Protobuf:
		return appendEnvelope(dst, c.object, object)
	case CBOR:
		dst = append(dst, selfDescribed...)
	}
	return append(dst, object...)
}

// AppendEvent appends an event of a watch: a line of JSON, an item of CBOR, or a length in four
// bytes and a protobuf message WatchEvent.
func (c *Codec) AppendEvent(dst []byte, t watch.EventType, object []byte) []byte {
	dst = c.AppendEventHead(dst, t, len(object))
	dst = append(dst, object...)
	return append(dst, c.EventTail()...)
}

// AppendEventHead appends what is before the object in an event. The object has n bytes. So its
// place in the event is known, and the event's bytes can serve wherever the object is wanted.
func (c *Codec) AppendEventHead(dst []byte, t watch.EventType, n int) []byte {
	return appendEventHead(dst, c.format.Encoding, t, c.object, n)
}

// EventTail returns what is after the object in an event.
func (c *Codec) EventTail() string { return eventTail(c.format.Encoding) }

// EventSize returns the size of an event whose object has n bytes.
func (c *Codec) EventSize(t watch.EventType, n int) int {
	switch tail := len(c.EventTail()); c.format.Encoding {
	case Protobuf:
		return 4 + eventMessageSize(t, envelopeSize(c.object, n))
	case CBOR:
		return len(cborEventHead) + cborStringSize(len(t)) + len(cborEventObject) + n + tail
	default:
		return len(jsonEventHead) + len(t) + len(jsonEventObject) + n + tail
	}
}

// AppendErrorEvent appends an ERROR event, which has a Status in place of an object.
func (c *Codec) AppendErrorEvent(dst []byte, status *metav1.Status) []byte {
	object := encodeStatus(c.format.Encoding, status)
	dst = appendEventHead(dst, c.format.Encoding, watch.Error, envelopeKind(status.TypeMeta), len(object))
	dst = append(dst, object...)
	return append(dst, c.EventTail()...)
}

const (
	jsonEventHead   = `{"type":"`
	jsonEventObject = `","object":`
)

// appendEventHead appends what is before an object of n bytes in an event. kind is that for the
// envelope of the object.
func appendEventHead(dst []byte, e Encoding, t watch.EventType, kind string, n int) []byte {
	switch e {
	case Protobuf:
		object := envelopeSize(kind, n)
		dst = binary.BigEndian.AppendUint32(dst, uint32(eventMessageSize(t, object)))
		// WatchEvent has the type in field 1, and in field 2 a RawExtension, whose field 1 has the
		// bytes of the object.
		dst = appendField(dst, 1, len(t))
		dst = append(dst, t...)
		dst = appendField(dst, 2, fieldSize(object))
		dst = appendField(dst, 1, object)
		return appendEnvelopeHead(dst, kind, n)
	case CBOR:
		dst = append(dst, cborEventHead...)
		dst = appendCBORString(dst, string(t))
		return append(dst, cborEventObject...)
	}
	dst = append(dst, jsonEventHead...)
	dst = append(dst, t...)
	return append(dst, jsonEventObject...)
}

func eventTail(e Encoding) string {
	switch e {
	case Protobuf:
		return envelopeTail
	case CBOR:
		return ""
	}
	return "}\n"
}

// eventMessageSize returns the size of a WatchEvent in protobuf whose object has so many bytes with
// its envelope.
func eventMessageSize(t watch.EventType, object int) int {
	return fieldSize(len(t)) + fieldSize(fieldSize(object))
}

// Bookmark returns the object of a bookmark. It has a version, and nothing else but the mark that
// the initial events of a streamed list end here, if they do. The objects of a table's bookmarks
// are tables with one row.
func (c *Codec) Bookmark(version uint64, initialEventsEnd bool) []byte {
	obj := metav1.PartialObjectMetadata{TypeMeta: c.kind}
	obj.ResourceVersion = strconv.FormatUint(version, 10)
	if initialEventsEnd {
		obj.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	switch {
	case c.format.Shape == Table:
		obj.APIVersion, obj.Kind = metaGroup+"/"+metaVersion, partialKind
		row := append(append([]byte(`{"cells":[],"object":`), mustJSON(obj)...), '}')
		return c.AppendTable(nil, &metav1.ListMeta{ResourceVersion: obj.ResourceVersion}, false, row)
	case c.format.Encoding == Protobuf:
		// The metadata is field 1 of every kind of object. So PartialObjectMetadata does for all.
		return must(obj.Marshal())
	case c.format.Encoding == CBOR:
		return mustCBOR(obj)
	}
	return mustJSON(obj)
}
