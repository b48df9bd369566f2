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
)

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
		"nothing":  {nil, &figures{}, ""},
		"integers": {m.varint(4, 1).varint(5, minus).varint(8, minus).varint(16, 1<<32-1).varint(17, minus), &figures{B: true, I32: -1, I64: -1, U32: math.MaxUint32, U64: minus}, ""},
		"extremes": {m.varint(6, 255).varint(7, 0xffff).varint(8, 1<<63), &figures{U8: 255, I16: -1, I64: math.MinInt64}, ""},
		"cut to their size": {m.varint(4, 2).varint(5, 1<<32|7).varint(6, 0x1ff).varint(7, 1<<16|2).varint(16, 1<<40|8).varint(23, 0x180).varint(24, 0x30005),
			&figures{B: true, I32: 7, U8: 255, I16: 2, U32: 8, I8: -128, U16: 5}, ""},
		"the last one": {m.varint(4, 1).varint(4, 0).varint(5, 5).varint(5, 6).bytes(15, "a").bytes(15, "b").bytes(20, "a").bytes(20, ""), &figures{I32: 6, After: "b", Bytes: []byte{}}, ""},
		"floats":       {m.fixed32(2, f32).fixed64(3, f64), &figures{F32: 1.5, F64: -2.25}, ""},
		"pointers":     {m.varint(18, 0).varint(19, 0).bytes(21, ""), &figures{P: new(int32), BP: new(bool), StrP: new(string)}, ""},
		"repeated": {m.varint(9, 1).varint(9, 2).fixed32(10, f32).fixed64(11, f64).bytes(12, "a").bytes(12, "").bytes(12, "b").varint(22, 1).bytes(15, "z"),
			&figures{Ints: []int32{1, 2}, Floats: []float32{1.5}, Wide: []float64{-2.25}, Texts: []string{"a", "", "b"}, Bools: []bool{true}, After: "z"}, ""},
		"packed": {m.bytes(9, string(packed)).bytes(10, string(floats)).bytes(11, string(wide)).bytes(22, "\x01\x00"),
			&figures{Ints: []int32{1, 300, math.MinInt32, -1}, Floats: []float32{1.5, 1.5, 1.5}, Wide: []float64{-2.25, -2.25, -2.25}, Bools: []bool{true, false}}, ""},
		"packed and not": {m.varint(9, 1).bytes(9, "\x02\x03").varint(9, 4).bytes(9, "\x05").bytes(15, "z"), &figures{Ints: []int32{1, 2, 3, 4, 5}, After: "z"}, ""},
		"packed, long":   {m.bytes(9, strings.Repeat("\x07", minShare)).varint(9, 1), &figures{Ints: append(slices.Repeat([]int32{7}, minShare), 1)}, ""},
		"maps": {m.bytes(13, entry(m.bytes(1, "k").bytes(2, "v"))).bytes(14, entry(m.bytes(2, "v").bytes(1, "k"))),
			&figures{Blobs: map[string][]byte{"k": []byte("v")}, Words: map[string]string{"k": "v"}}, ""},
		"halves of entries": {m.bytes(13, entry(m.bytes(1, "k"))).bytes(14, "").bytes(14, entry(m.bytes(1, "k"))), &figures{Blobs: map[string][]byte{"k": {}}, Words: map[string]string{"": "", "k": ""}}, ""},
		"unknown fields":    {m.varint(30, 1).fixed64(31, 1).fixed32(32, 1).bytes(33, "xx").tag(35, wireGroup).varint(4, 1).tag(35, wireEnd).varint(5, 3), &figures{I32: 3}, ""},
		"packed, cut":       {m.bytes(9, "\x01\xac"), nil, "Ints: unexpected EOF"},
		"packed, no float":  {m.bytes(11, string(wide[:8])+"x"), nil, "Wide: unexpected EOF"},
		"a float, cut":      {m.fixed64(3, 1)[:8], nil, "F64: unexpected EOF"},
		"a small one, cut":  {m.fixed32(2, 1)[:4], nil, "F32: unexpected EOF"},
		"a float as int":    {m.varint(3, 1), nil, "F64: invalid protobuf: wire type 0, want a fixed number, at byte 1"},
		"an int as float":   {m.fixed64(5, 1), nil, "I32: invalid protobuf: wire type 1, want a varint, at byte 1"},
		"a string as int":   {m.varint(15, 1), nil, "After: invalid protobuf: wire type 0, want bytes, at byte 1"},
		"an int as string":  {m.bytes(4, "x"), nil, "B: invalid protobuf: wire type 2, want a varint, at byte 1"},
		"a long varint":     {append(m.tag(8, wireVarint), strings.Repeat("\x80", 10)+"\x01"...), nil, "I64: invalid protobuf: a varint of more than 64 bits at byte 11"},
		"the longest":       {append(m.tag(8, wireVarint), strings.Repeat("\xff", 9)+"\x01"...), &figures{I64: -1}, ""},
		"the end of none":   {m.tag(30, wireEnd), nil, "invalid protobuf: the end of no group at byte 2"},
		"no wire type":      {m.tag(30, 7), nil, "invalid protobuf: wire type 7 at byte 2"},
		"an open group":     {m.tag(30, wireGroup), nil, "unexpected EOF"},
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
		tagged[int32]("varint,x,opt,name=f"), tagged[int32]("varint,1001,opt,name=f"), tagged[int32]("zigzag32,1,opt,name=f"), tagged[map[int32]string]("bytes,1,rep,name=f"),
		tagged[complex128]("bytes,1,opt,name=f"), tagged[struct{ X int }]("bytes,1,opt,name=f"),
	} {
		if _, err := newWireCompiler(false, false).message(typ, mask{}); err == nil {
			t.Errorf("%v is compiled", typ)
		}
	}
}

// tagged returns a struct with a field a of type T, which has the given protobuf tag.
func tagged[T any](tag string) reflect.Type {
	return reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[T](), Tag: reflect.StructTag(fmt.Sprintf(`json:"a" protobuf:%q`, tag))}})
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

// If an entry of a map has two values, the last one counts, and nothing of the first is kept, as in
// generated code.
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
		entry(1, name("a"), namespace("b")), entry(2, []byte("a"), []byte("b")), entry(3, []byte("a"), nil), entry(4, text("1"), nil, text("2"), nil),
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
