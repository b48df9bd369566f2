package wire

import "encoding/binary"

// selfDescribed is the tag that is before each answer and each event in CBOR, and marks it as such.
const selfDescribed = "\xd9\xd9\xf7"

// The major types of CBOR that a server writes around objects. Strings are byte strings, as those
// of apimachinery are.
const (
	cborBytes = 2
	cborArray = 4
	cborMap   = 5
)

// An event is a map of the type and the object, which has its own tag.
var (
	cborEventHead   = string(appendCBORString(appendCBORHead([]byte(selfDescribed), cborMap, 2), "type"))
	cborEventObject = string(appendCBORString(nil, "object")) + selfDescribed
)

// appendCBORHead appends the head of an item: its major type, and its length or its number of
// elements.
func appendCBORHead(dst []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= 0xff:
		return append(dst, major|24, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= 0xffffffff:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

func appendCBORString(dst []byte, s string) []byte {
	return append(appendCBORHead(dst, cborBytes, uint64(len(s))), s...)
}

// cborStringSize returns the size of a string of n bytes.
func cborStringSize(n int) int {
	var head [9]byte
	return len(appendCBORHead(head[:0], cborBytes, uint64(n))) + n
}
