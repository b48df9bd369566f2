package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func (m message) tag(num, typ int) message {
	return binary.AppendUvarint(m, uint64(num)<<3|uint64(typ))
}

// Unknown fields are skipped, of whatever wire type. A broken one is an error.
func TestUnknownFieldsOfProtobuf(t *testing.T) {
	decode := func(data ...[]byte) Object {
		return messageOf(newDecoder[*figures](t, Options{}), slices.Concat(data...))
	}
	var m message
	named, behind := m.bytes(1, string(m.bytes(1, "a"))), m.bytes(15, "z")
	group := m.tag(90, wireGroup).varint(1, 300).fixed32(2, 1).fixed64(3, 1).bytes(4, "xyz")
	group = group.tag(5, wireGroup).varint(1, 1).tag(5, wireEnd).tag(90, wireEnd)
	for name, field := range map[string]message{
		"varint": m.varint(90, math.MaxUint64), "fixed32": m.fixed32(90, 0xffffffff),
		"fixed64": m.fixed64(90, math.MaxUint64), "bytes": m.bytes(90, "\x00\x01\xff"), "group": group, "nothing": {},
		"a high number": m.varint(1<<28, 1),
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
		"a wrong type of a float": m.varint(2, 1), "of another": m.fixed32(3, 1), "of an integer": m.fixed32(5, 1),
		"of integers": m.fixed32(9, 1), "of floats": m.varint(10, 1), "of texts": m.varint(12, 1),
		"of a map": m.varint(13, 1), "of a key": m.bytes(13, string(m.varint(1, 1))),
		"of a value":      m.bytes(13, string(m.varint(2, 1))),
		"of a word's key": m.bytes(14, string(m.varint(1, 1))), "of metadata": m.varint(1, 1),
		"of a name": m.bytes(1, string(m.varint(1, 1))), "a broken entry": m.bytes(13, "\x0a\x05k"),
		"a broken field of an entry": m.bytes(13, string(m.bytes(1, "k"))+"\x80"),
		"packed floats that end":     m.bytes(10, "\x00\x00\x00"), "the number 0": m.varint(0, 1),
	} {
		if o := decode(named, field, behind); o.Err == nil {
			t.Errorf("%s is no error: %+v", name, o.Value)
		}
	}
}

// enveloped returns an envelope that says the kind, and that a message of size bytes follows.
func enveloped(t fataler, kind string, size uint64) []byte {
	t.Helper()
	b := append([]byte(magic),
		mustMarshal(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}})...)
	// What Unknown writes behind its first field is not needed.
	head := len(magic) + 2 + int(b[len(magic)+1])
	return binary.AppendUvarint(append(b[:head:head], 2<<3|wireBytes), size)
}

// A length larger than any memory is refused. So is one that would be small in an int of 32 bits.
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
			if g := readList(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(tt.data), Protobuf); g.end != tt.want ||
				len(g.objects) > 0 {
				t.Errorf("%s of %d bytes: %d objects, error %s; want %s", name, size, len(g.objects), g.end, tt.want)
			}
		}
	}
	for _, size := range []uint64{1 << 63, 1<<64 - 1} {
		if g := readList(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(enveloped(t, "CarpList", size)),
			Protobuf); g.end != fmt.Sprintf("invalid protobuf: a list of %d bytes", size) {
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

// The number of a field is its lower 32 bits, as in generated code.
func TestFieldNumbers(t *testing.T) {
	for num, want := range map[uint64]string{
		1<<32 | 9: "<nil>", 0: "invalid protobuf: field number 0 at byte",
		1 << 31: "invalid protobuf: field number -2147483648 at byte", 1 << 32: "invalid protobuf: field number 0 at byte",
	} {
		more := append(binary.AppendUvarint(nil, num<<3|wireVarint), 1)
		list := carpList(t, 2)
		inList := append(enveloped(t, "CarpList", uint64(len(more))), more...)
		for name, data := range map[string][]byte{"behind the list": append(list, more...), "in the list": inList} {
			if g := readList(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(data), Protobuf); len(g.end) < len(want) ||
				g.end[:len(want)] != want {
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
var unknownFields = map[string]message{"bytes": message{}.bytes(9, "x"), "varint": message{}.varint(9, 1),
	"fixed32": message{}.fixed32(9, 1), "fixed64": message{}.fixed64(9, 1)}

// A broken field of the envelope is an error too, before the list and behind it.
func TestBrokenEnvelopes(t *testing.T) {
	whole := carpList(t, 2)
	// As one that is cut off would be.
	if g := readList(newDecoder[*carp.Carp](t, Options{}),
		bytes.NewReader(enveloped(t, "CarpList", 0)[:len(enveloped(t, "CarpList", 0))-2]),
		Protobuf); g.end != "invalid protobuf: a CarpList of no bytes" {
		t.Errorf("an envelope without a list: %s", g.end)
	}
	d := newDecoder[*carp.Carp](t, Options{})
	list := func(data []byte) (items int, err error) {
		_, err = d.List(bytes.NewReader(data), Protobuf, func(Object) error { items++; return nil })
		return items, err
	}
	for name, behind := range map[string]string{"a tag that ends": "\x80", "a length that ends": "\x12\x80",
		"a field that ends": "\x1a\x05x", "no field": "\x00"} {
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

// figures has numbers of each format that protobuf has, single and packed, pointers, and maps.
type figures struct {
	metav1.TypeMeta
	metav1.ObjectMeta `protobuf:"bytes,1,opt,name=metadata"`

	F32    float32           `protobuf:"fixed32,2,opt,name=f32"`
	F64    float64           `protobuf:"fixed64,3,opt,name=f64"`
	B      bool              `protobuf:"varint,4,opt,name=b"`
	I32    int32             `protobuf:"varint,5,opt,name=i32"`
	U8     uint8             `protobuf:"varint,6,opt,name=u8"`
	I16    int16             `protobuf:"varint,7,opt,name=i16"`
	I64    int64             `protobuf:"varint,8,opt,name=i64"`
	Ints   []int32           `protobuf:"varint,9,rep,packed,name=ints"`
	Floats []float32         `json:"-" protobuf:"fixed32,10,rep,packed,name=floats"`
	Wide   []float64         `protobuf:"fixed64,11,rep,name=wide"`
	Texts  []string          `protobuf:"bytes,12,rep,name=texts"`
	Blobs  map[string][]byte `protobuf:"bytes,13,rep,name=blobs"`
	Words  map[string]string `protobuf:"bytes,14,rep,name=words"`
	After  string            `protobuf:"bytes,15,opt,name=after"`
	U32    uint32            `protobuf:"varint,16,opt,name=u32"`
	U64    uint64            `protobuf:"varint,17,opt,name=u64"`
	P      *int32            `protobuf:"varint,18,opt,name=p"`
	BP     *bool             `protobuf:"varint,19,opt,name=bp"`
	Bytes  []byte            `protobuf:"bytes,20,opt,name=bytes"`
	StrP   *string           `protobuf:"bytes,21,opt,name=strP"`
	Bools  []bool            `protobuf:"varint,22,rep,name=bools"`
	I8     int8              `protobuf:"varint,23,opt,name=i8"`
	U16    uint16            `protobuf:"varint,24,opt,name=u16"`
	Nobody int               // without a tag
}

// Unmarshal makes figures a protobuf type. It must not be called, because the tags can be compiled.
func (*figures) Unmarshal([]byte) error { panic("a compiled type is decoded by its own Unmarshal") }

func TestProtobufNumbers(t *testing.T) {
	f32, f64 := math.Float32bits(1.5), math.Float64bits(-2.25)
	var packed, floats, wide []byte
	for _, v := range []uint64{1, 300, 1 << 31, math.MaxUint64} {
		packed = binary.AppendUvarint(packed, v)
	}
	for range 3 {
		floats = binary.LittleEndian.AppendUint32(floats, f32)
		wide = binary.LittleEndian.AppendUint64(wide, f64)
	}
	entry := func(m message) string { return string(m) }
	var m message
	const minus = math.MaxUint64 // -1
	for name, tt := range map[string]struct {
		data message
		want *figures
		err  string
	}{
		"nothing": {nil, &figures{}, ""},
		"integers": {m.varint(4, 1).varint(5, minus).varint(8, minus).varint(16, 1<<32-1).varint(17, minus),
			&figures{B: true, I32: -1, I64: -1, U32: math.MaxUint32, U64: minus}, ""},
		"extremes": {m.varint(6, 255).varint(7, 0xffff).varint(8, 1<<63), &figures{U8: 255, I16: -1, I64: math.MinInt64}, ""},
		"cut to their size": {m.varint(4, 2).varint(5, 1<<32|7).varint(6, 0x1ff).varint(7, 1<<16|2).varint(16,
			1<<40|8).varint(23, 0x180).varint(24, 0x30005),
			&figures{B: true, I32: 7, U8: 255, I16: 2, U32: 8, I8: -128, U16: 5}, ""},
		"the last one": {m.varint(4, 1).varint(4, 0).varint(5, 5).varint(5, 6).bytes(15, "a").bytes(15, "b").bytes(20,
			"a").bytes(20, ""), &figures{I32: 6, After: "b", Bytes: []byte{}}, ""},
		"floats": {m.fixed32(2, f32).fixed64(3, f64), &figures{F32: 1.5, F64: -2.25}, ""},
		"pointers": {m.varint(18, 0).varint(19, 0).bytes(21, ""), &figures{P: new(int32), BP: new(bool),
			StrP: new(string)}, ""},
		"repeated": {m.varint(9, 1).varint(9, 2).fixed32(10, f32).fixed64(11, f64).bytes(12, "a").bytes(12, "").bytes(12,
			"b").varint(22, 1).bytes(15, "z"),
			&figures{Ints: []int32{1, 2}, Floats: []float32{1.5}, Wide: []float64{-2.25}, Texts: []string{"a", "", "b"},
				Bools: []bool{true}, After: "z"}, ""},
		"packed": {m.bytes(9, string(packed)).bytes(10, string(floats)).bytes(11, string(wide)).bytes(22, "\x01\x00"),
			&figures{Ints: []int32{1, 300, math.MinInt32, -1}, Floats: []float32{1.5, 1.5, 1.5},
				Wide: []float64{-2.25, -2.25, -2.25}, Bools: []bool{true, false}}, ""},
		"packed and not": {m.varint(9, 1).bytes(9, "\x02\x03").varint(9, 4).bytes(9, "\x05").bytes(15, "z"),
			&figures{Ints: []int32{1, 2, 3, 4, 5}, After: "z"}, ""},
		"packed, long": {m.bytes(9, strings.Repeat("\x07", minShare)).varint(9, 1),
			&figures{Ints: append(slices.Repeat([]int32{7}, minShare), 1)}, ""},
		"maps": {m.bytes(13, entry(m.bytes(1, "k").bytes(2, "v"))).bytes(14, entry(m.bytes(2, "v").bytes(1, "k"))),
			&figures{Blobs: map[string][]byte{"k": []byte("v")}, Words: map[string]string{"k": "v"}}, ""},
		"halves of entries": {m.bytes(13, entry(m.bytes(1, "k"))).bytes(14, "").bytes(14, entry(m.bytes(1, "k"))),
			&figures{Blobs: map[string][]byte{"k": {}}, Words: map[string]string{"": "", "k": ""}}, ""},
		"unknown fields": {m.varint(30, 1).fixed64(31, 1).fixed32(32, 1).bytes(33, "xx").tag(35, wireGroup).varint(4,
			1).tag(35, wireEnd).varint(5, 3), &figures{I32: 3}, ""},
		"packed, cut":      {m.bytes(9, "\x01\xac"), nil, "Ints: unexpected EOF"},
		"packed, no float": {m.bytes(11, string(wide[:8])+"x"), nil, "Wide: unexpected EOF"},
		"a float, cut":     {m.fixed64(3, 1)[:8], nil, "F64: unexpected EOF"},
		"a small one, cut": {m.fixed32(2, 1)[:4], nil, "F32: unexpected EOF"},
		"a float as int":   {m.varint(3, 1), nil, "F64: invalid protobuf: wire type 0, want a fixed number, at byte 1"},
		"an int as float":  {m.fixed64(5, 1), nil, "I32: invalid protobuf: wire type 1, want a varint, at byte 1"},
		"a string as int":  {m.varint(15, 1), nil, "After: invalid protobuf: wire type 0, want bytes, at byte 1"},
		"an int as string": {m.bytes(4, "x"), nil, "B: invalid protobuf: wire type 2, want a varint, at byte 1"},
		"a long varint": {append(m.tag(8, wireVarint), strings.Repeat("\x80", 10)+"\x01"...), nil,
			"I64: invalid protobuf: a varint of more than 64 bits at byte 11"},
		"the longest":     {append(m.tag(8, wireVarint), strings.Repeat("\xff", 9)+"\x01"...), &figures{I64: -1}, ""},
		"the end of none": {m.tag(30, wireEnd), nil, "invalid protobuf: the end of no group at byte 2"},
		"no wire type":    {m.tag(30, 7), nil, "invalid protobuf: wire type 7 at byte 2"},
		"an open group":   {m.tag(30, wireGroup), nil, "unexpected EOF"},
	} {
		for _, share := range []bool{false, true} {
			d := newDecoder[*figures](t, Options{Share: share})
			for i := range 3 {
				o := messageOf(d, tt.data)
				if got := fmt.Sprint(o.Err); tt.want == nil && got != tt.err {
					t.Errorf("%s, share %v, time %d: error %s, want %s", name, share, i, got, tt.err)
				} else if tt.want != nil && (o.Err != nil || !reflect.DeepEqual(tt.want, o.Value)) {
					t.Errorf("%s, share %v, time %d: error %v (-want +got):\n%s", name, share, i, o.Err, cmp.Diff(tt.want, o.Value))
				}
			}
		}
	}
}

// A type whose tags cannot be compiled is decoded by its own Unmarshal.
func TestProtobufNotCompiled(t *testing.T) {
	for _, typ := range []reflect.Type{
		tagged[int32]("varint,x,opt,name=f"), tagged[int32]("varint,1001,opt,name=f"), tagged[int32]("zigzag32,1,opt,name=f"),
		tagged[map[int32]string]("bytes,1,rep,name=f"),
		tagged[complex128]("bytes,1,opt,name=f"), tagged[struct{ X int }]("bytes,1,opt,name=f"),
	} {
		if _, err := newWireCompiler(false, false).message(typ, mask{}); err == nil {
			t.Errorf("%v is compiled", typ)
		}
	}
}

// tagged returns a struct with a field a of type T, which has the given protobuf tag.
func tagged[T any](tag string) reflect.Type {
	return structOf(typedField[T]("A", fmt.Sprintf(`json:"a" protobuf:%q`, tag)))
}

func structOf(fields ...reflect.StructField) reflect.Type { return reflect.StructOf(fields) }

func typedField[T any](name, tags string) reflect.StructField {
	return reflect.StructField{Name: name, Type: reflect.TypeFor[T](), Tag: reflect.StructTag(tags)}
}

// entries has maps with each sort of value that generated types have.
type entries struct {
	Nests      map[string]nest              `json:"nests" protobuf:"bytes,1,rep,name=nests"`
	Strings    map[string]string            `json:"strings" protobuf:"bytes,2,rep,name=strings"`
	Blobs      map[string][]byte            `json:"blobs" protobuf:"bytes,3,rep,name=blobs"`
	Quantities map[string]resource.Quantity `json:"quantities" protobuf:"bytes,4,rep,name=quantities"`
}

func (*entries) Unmarshal([]byte) error { panic("the tags are there to be compiled") }

// fieldOfBytes returns field num of wire type wireBytes, with the parts as its content.
func fieldOfBytes(num byte, parts ...[]byte) []byte {
	all := bytes.Join(parts, nil)
	return append(binary.AppendUvarint([]byte{num<<3 | wireBytes}, uint64(len(all))), all...)
}

// Of two values of a map's entry the last one counts, and nothing of the first is kept.
func TestProtobufEntryOfTwoValues(t *testing.T) {
	name := func(s string) []byte { return fieldOfBytes(1, fieldOfBytes(1, []byte(s))) }
	namespace := func(s string) []byte { return fieldOfBytes(1, fieldOfBytes(3, []byte(s))) }
	text := func(s string) []byte { return fieldOfBytes(1, []byte(s)) }
	entry := func(num byte, values ...[]byte) []byte {
		e := text("key of some length, so that it is shared")
		for _, v := range values {
			e = append(e, fieldOfBytes(2, v)...)
		}
		return fieldOfBytes(num, e)
	}
	const key = "key of some length, so that it is shared"
	data := bytes.Join([][]byte{
		entry(1, name("a"), namespace("b")), entry(2, []byte("a"), []byte("b")), entry(3, []byte("a"), nil),
		entry(4, text("1"), nil, text("2"), nil),
	}, nil)
	want := &entries{
		Nests: map[string]nest{key: {ObjectMeta: metav1.ObjectMeta{Namespace: "b"}}}, Strings: map[string]string{key: "b"},
		Blobs: map[string][]byte{key: {}}, Quantities: map[string]resource.Quantity{key: {}},
	}
	for _, share := range []bool{false, true} {
		d := newDecoder[*entries](t, Options{Share: share})
		for range 3 {
			if o := messageOf(d, data); o.Err != nil || !reflect.DeepEqual(want, o.Value) {
				t.Errorf("share %v: error %v (-want +got):\n%s", share, o.Err, cmp.Diff(want, o.Value))
			}
		}
	}
}
