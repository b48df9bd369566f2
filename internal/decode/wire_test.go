package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// enveloped returns the start of an object of a kind whose message would have size bytes.
func enveloped(t testing.TB, kind string, size uint64) []byte {
	t.Helper()
	b := append([]byte(magic), mustMarshal(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}})...)
	head := len(magic) + 2 + int(b[len(magic)+1]) // what Unknown writes behind its first field is of no interest
	return binary.AppendUvarint(append(b[:head:head], 2<<3|wireBytes), size)
}

// Lengths that no machine has memory for, or that are small where an int has 32 bits, are refused as what they are.
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

// The number of a field is that of its lower 32 bits, as in generated code, in the envelope and in the list as in an object.
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
