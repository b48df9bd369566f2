package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A message is a protobuf message that is written field by field.
type message []byte

func (m message) varint(num int, v uint64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(num)<<3|wireVarint), v)
}

func (m message) fixed32(num int, v uint32) message {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(m, uint64(num)<<3|wire32), v)
}

func (m message) fixed64(num int, v uint64) message {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(m, uint64(num)<<3|wire64), v)
}

func (m message) bytes(num int, b string) message {
	return append(binary.AppendUvarint(binary.AppendUvarint(m, uint64(num)<<3|wireBytes), uint64(len(b))), b...)
}

// tag appends the tag of a field without a value.
func (m message) tag(num, typ int) message {
	return binary.AppendUvarint(m, uint64(num)<<3|uint64(typ))
}

// Unknown fields are skipped, of whatever wire type. A broken one is an error.
func TestUnknownFieldsOfProtobuf(t *testing.T) {
	decode := func(data ...[]byte) Object {
		return messageOf(newDecoder[*figures](t, Options{}), slices.Concat(data...))
	}
	named, behind := message{}.bytes(1, string(message{}.bytes(1, "a"))), message{}.bytes(15, "z")
	group := message{}.tag(90, wireGroup).varint(1, 300).fixed32(2, 1).fixed64(3, 1).bytes(4, "xyz").tag(5, wireGroup).varint(1, 1).tag(5, wireEnd).tag(90, wireEnd)
	for name, field := range map[string]message{
		"varint": message{}.varint(90, math.MaxUint64), "fixed32": message{}.fixed32(90, 0xffffffff), "fixed64": message{}.fixed64(90, math.MaxUint64),
		"bytes": message{}.bytes(90, "\x00\x01\xff"), "group": group, "nothing": {}, "a high number": message{}.varint(1<<28, 1),
	} {
		o := decode(named, field, behind)
		if got, _ := o.Value.(*figures); o.Err != nil || got.Name != "a" || got.After != "z" {
			t.Errorf("%s: %+v, %v", name, got, o.Err)
		}
		for n := 1; n < len(field); n++ {
			if decode(named, field[:n]).Err == nil {
				t.Errorf("%s, cut at %d of %d bytes, is no error", name, n, len(field))
			}
		}
	}
	for name, field := range map[string]message{
		"a wrong type of a float":    message{}.varint(2, 1),
		"of another":                 message{}.fixed32(3, 1),
		"of an integer":              message{}.fixed32(5, 1),
		"of integers":                message{}.fixed32(9, 1),
		"of floats":                  message{}.varint(10, 1),
		"of texts":                   message{}.varint(12, 1),
		"of a map":                   message{}.varint(13, 1),
		"of a key":                   message{}.bytes(13, string(message{}.varint(1, 1))),
		"of a value":                 message{}.bytes(13, string(message{}.varint(2, 1))),
		"of a word's key":            message{}.bytes(14, string(message{}.varint(1, 1))),
		"of metadata":                message{}.varint(1, 1),
		"of a name":                  message{}.bytes(1, string(message{}.varint(1, 1))),
		"a broken entry":             message{}.bytes(13, "\x0a\x05k"),
		"a broken field of an entry": message{}.bytes(13, string(message{}.bytes(1, "k"))+"\x80"),
		"packed floats that end":     message{}.bytes(10, "\x00\x00\x00"),
		"the number 0":               message{}.varint(0, 1),
	} {
		if o := decode(named, field, behind); o.Err == nil {
			t.Errorf("%s is no error: %+v", name, o.Value)
		}
	}
}

// enveloped returns the start of an object: an envelope that says the kind, and that a message of
// size bytes follows.
func enveloped(t fataler, kind string, size uint64) []byte {
	t.Helper()
	b := append([]byte(magic), mustMarshal(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}})...)
	// What Unknown writes behind its first field is not needed.
	head := len(magic) + 2 + int(b[len(magic)+1])
	return binary.AppendUvarint(append(b[:head:head], 2<<3|wireBytes), size)
}

// A length that is larger than any memory is refused. So is one that would be small if an int had
// only 32 bits.
func TestLengths(t *testing.T) {
	tooMuch := func(at int) string { return fmt.Sprintf("more than %d bytes in one piece at byte %d", MaxObject, at) }
	field := func(b []byte, size uint64) []byte { return binary.AppendUvarint(append(b, 2<<3|wireBytes), size) }
	for _, size := range []uint64{1 << 31, 1<<32 + 5, 1 << 62} {
		status := enveloped(t, "Status", size)
		list := field(enveloped(t, "CarpList", 1<<50), size)
		for name, tt := range map[string]struct {
			data []byte
			want string
		}{
			"a Status": {append(status, "and some more"...), tooMuch(len(status))},
			"an item":  {append(list, "and some more"...), tooMuch(len(list))},
		} {
			if g := readList(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(tt.data), Protobuf); g.end != tt.want || len(g.objects) > 0 {
				t.Errorf("%s of %d bytes: %d objects, error %s; want %s", name, size, len(g.objects), g.end, tt.want)
			}
		}
	}
	for _, size := range []uint64{1 << 63, 1<<64 - 1} {
		if g := readList(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(enveloped(t, "CarpList", size)), Protobuf); g.end != fmt.Sprintf("invalid protobuf: a list of %d bytes", size) {
			t.Errorf("a list of %d bytes: %s", size, g.end)
		}
	}
	for _, size := range []uint32{1 << 31, 1<<32 - 1} {
		frame := append(binary.BigEndian.AppendUint32(nil, size), "and some more"...)
		if g := readWatch(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(frame), Protobuf); g.end != tooMuch(4) {
			t.Errorf("a frame of %d bytes: %s", size, g.end)
		}
	}
}

// The number of a field is its lower 32 bits, as in generated code: in the envelope, in the list,
// and in an object.
func TestFieldNumbers(t *testing.T) {
	for num, want := range map[uint64]string{
		1<<32 | 9: "<nil>", 0: "invalid protobuf: field number 0 at byte", 1 << 31: "invalid protobuf: field number -2147483648 at byte", 1 << 32: "invalid protobuf: field number 0 at byte",
	} {
		more := append(binary.AppendUvarint(nil, num<<3|wireVarint), 1)
		list := carpList(t, 2)
		inList := append(enveloped(t, "CarpList", uint64(len(more))), more...)
		for name, data := range map[string][]byte{"behind the list": append(list, more...), "in the list": inList} {
			if g := readList(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(data), Protobuf); len(g.end) < len(want) || g.end[:len(want)] != want {
				t.Errorf("field %d %s: %s, want %s", num, name, g.end, want)
			}
		}
		o := messageOf(newDecoder[*carp.Carp](t, Options{}), append(mustMarshal(t, newCarp(1)), more...))
		if got := fmt.Sprint(o.Err); len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("field %d of an object: %v, want %s", num, o.Err, want)
		}
	}
}

// unknownFields are fields that nobody knows.
var unknownFields = map[string]message{"bytes": message{}.bytes(9, "x"), "varint": message{}.varint(9, 1), "fixed32": message{}.fixed32(9, 1), "fixed64": message{}.fixed64(9, 1)}

// A broken field of the envelope is an error too, before the list and behind it.
func TestBrokenEnvelopes(t *testing.T) {
	whole := carpList(t, 2)
	d := newDecoder[*carp.Carp](t, Options{})
	list := func(data []byte) (items int, err error) {
		_, err = d.List(bytes.NewReader(data), Protobuf, func(Object) error { items++; return nil })
		return items, err
	}
	for name, behind := range map[string]string{"a tag that ends": "\x80", "a length that ends": "\x12\x80", "a field that ends": "\x1a\x05x", "no field": "\x00"} {
		if n, err := list(append(slices.Clone(whole), behind...)); err == nil {
			t.Errorf("%s behind a list of %d items is no error", name, n)
		}
	}
	for name, behind := range unknownFields {
		if n, err := list(append(slices.Clone(whole), behind...)); err != nil || n != 2 {
			t.Errorf("%s behind a list: %d items, error %v", name, n, err)
		}
		front := append(append([]byte("k8s\x00"), behind...), whole[4:]...)
		if n, err := list(front); err != nil || n != 2 {
			t.Errorf("%s before a list: %d items, error %v", name, n, err)
		}
	}
}

// What a newer server may add to the frame of an event is skipped.
func TestUnknownFieldsOfFrames(t *testing.T) {
	d := newDecoder[*carp.Carp](t, Options{})
	whole := frameOf(t, "ADDED", protobufOf(t, newCarp(1)))[4:]
	for name, more := range unknownFields {
		for _, frame := range [][]byte{append(slices.Clone(more), whole...), append(slices.Clone(whole), more...)} {
			ev, err := d.decodeProtobufFrame(frame, 0)
			if err != nil || ev.Object.Err != nil {
				t.Errorf("%s: errors %v and %v", name, err, ev.Object.Err)
				continue
			}
			if diff := cmp.Diff(wantCarp(1), ev.Object.Value); diff != "" || ev.Type != "ADDED" {
				t.Errorf("%s: %s event (-want +got):\n%s", name, ev.Type, diff)
			}
		}
	}
}
