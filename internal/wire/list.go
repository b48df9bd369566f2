package wire

import (
	"encoding/binary"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Total is what must be known of the items of a list before its first byte is written, because
// some encodings begin with it. The zero value is that of an empty list, and serves for every list
// in JSON whose length nobody asks for.
//
// A list is written in this order, so that nobody has to gather it:
//
//	var t wire.Total
//	for … { t = c.Add(t, len(item)) }
//	head := c.AppendListHead(nil, &meta, t)
//	length := c.ListLength(len(head), t)
//	for i, … { buf = c.AppendItemHead(buf[:0], i == 0, len(item)) … }
//	c.ListTail()
type Total struct {
	Items int
	Bytes int64 // with what goes before each item
}

// Add returns the total with another item, which has n bytes.
func (c *Codec) Add(t Total, n int) Total {
	t.Bytes += int64(n)
	switch c.format.Encoding {
	case Protobuf:
		t.Bytes += int64(fieldSize(n) - n)
	case JSON:
		if t.Items > 0 {
			t.Bytes++ // the comma
		}
	}
	t.Items++
	return t
}

// ListLength returns the length of a whole list whose head has so many bytes.
func (c *Codec) ListLength(head int, t Total) int64 {
	return int64(head) + t.Bytes + int64(len(c.ListTail()))
}

// AppendListHead appends what is before the items of a list. The items of a table are its rows:
// that of an object, and the object in the form that the request wants.
func (c *Codec) AppendListHead(dst []byte, meta *metav1.ListMeta, t Total) []byte {
	switch c.format.Encoding {
	case Protobuf:
		// The list's metadata is field 1 of its message, and items are field 2.
		data := must(meta.Marshal())
		dst = appendEnvelopeHead(dst, c.list, fieldSize(len(data))+int(t.Bytes))
		dst = appendField(dst, 1, len(data))
		return append(dst, data...)
	case CBOR:
		// The items come last of the four members.
		dst = append(dst, selfDescribed...)
		dst = appendCBORHead(dst, cborMap, 4)
		dst = appendCBORString(dst, "kind")
		dst = appendCBORString(dst, c.kind.Kind+listSuffix)
		dst = appendCBORString(dst, "apiVersion")
		dst = appendCBORString(dst, c.kind.APIVersion)
		dst = appendCBORString(dst, "metadata")
		dst = append(dst, mustCBOR(meta)...)
		dst = appendCBORString(dst, "items")
		return appendCBORHead(dst, cborArray, uint64(t.Items))
	}
	if c.format.Shape == Table {
		return c.appendTableHead(dst, meta, true)
	}
	dst = append(append(dst, `{"kind":"`...), c.kind.Kind...)
	dst = append(append(dst, `List","apiVersion":"`...), c.kind.APIVersion...)
	dst = append(append(dst, `","metadata":`...), mustJSON(meta)...)
	return append(dst, `,"items":[`...)
}

// AppendItemHead appends what is before an item of n bytes in a list. first says whether it is the
// first one.
func (c *Codec) AppendItemHead(dst []byte, first bool, n int) []byte {
	switch {
	case c.format.Encoding == Protobuf:
		return appendField(dst, 2, n)
	case c.format.Encoding == JSON && !first:
		return append(dst, ',')
	}
	return dst
}

// ListTail returns what is after the items of a list.
func (c *Codec) ListTail() string {
	switch c.format.Encoding {
	case Protobuf:
		return envelopeTail
	case CBOR:
		return ""
	}
	return "]}\n"
}

// AppendTable appends a table of one row as an object: the answer to a request for one object, or
// the object of an event. In a watch only the first table has the columns.
func (c *Codec) AppendTable(dst []byte, meta *metav1.ListMeta, columns bool, row []byte) []byte {
	dst = append(c.appendTableHead(dst, meta, columns), row...)
	return append(dst, "]}"...)
}

func (c *Codec) appendTableHead(dst []byte, meta *metav1.ListMeta, columns bool) []byte {
	dst = append(append(dst, `{"kind":"Table","apiVersion":"`...), c.kind.APIVersion...)
	dst = append(append(dst, `","metadata":`...), mustJSON(meta)...)
	dst = append(dst, `,"columnDefinitions":`...)
	if columns {
		dst = append(dst, c.columns...)
	} else {
		dst = append(dst, "null"...)
	}
	return append(dst, `,"rows":[`...)
}

// An object, a list or a Status in protobuf is in an envelope: four magic bytes and a message
// runtime.Unknown. That has the TypeMeta in field 1 and the bytes of the object in field 2. Fields
// 3 and 4 say how these are encoded, and are empty.
const (
	magic        = "k8s\x00"
	envelopeTail = "\x1a\x00\x22\x00"
)

// envelopeKind returns field 1 of an envelope.
func envelopeKind(kind metav1.TypeMeta) string {
	message := appendField(nil, 1, len(kind.APIVersion))
	message = append(message, kind.APIVersion...)
	message = appendField(message, 2, len(kind.Kind))
	message = append(message, kind.Kind...)
	return string(append(appendField(nil, 1, len(message)), message...))
}

// envelopeSize returns the size of an envelope with a message of n bytes in it.
func envelopeSize(kind string, n int) int {
	return len(magic) + len(kind) + fieldSize(n) + len(envelopeTail)
}

// appendEnvelopeHead appends what is before a message of n bytes in its envelope.
func appendEnvelopeHead(dst []byte, kind string, n int) []byte {
	dst = append(append(dst, magic...), kind...)
	return appendField(dst, 2, n)
}

func appendEnvelope(dst []byte, kind string, message []byte) []byte {
	dst = append(appendEnvelopeHead(dst, kind, len(message)), message...)
	return append(dst, envelopeTail...)
}

// appendField appends what is before n bytes in a field of a protobuf message. The number must be
// less than 16.
func appendField(dst []byte, number, n int) []byte {
	const bytesFollow = 2 // the wire type
	return binary.AppendUvarint(append(dst, byte(number<<3|bytesFollow)), uint64(n))
}

// fieldSize returns the size of a field with n bytes in it.
func fieldSize(n int) int {
	size := 1 + 1 + n
	for rest := n >> 7; rest > 0; rest >>= 7 {
		size++
	}
	return size
}
