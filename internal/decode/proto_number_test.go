package decode

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// numbers has a field for each sort of number that a tag can describe.
type numbers struct {
	Bool   bool      `protobuf:"varint,1,opt,name=bool"`
	I32    int32     `protobuf:"varint,2,opt,name=i32"`
	I64    int64     `protobuf:"varint,3,opt,name=i64"`
	U32    uint32    `protobuf:"varint,4,opt,name=u32"`
	U64    uint64    `protobuf:"varint,5,opt,name=u64"`
	F64    float64   `protobuf:"fixed64,6,opt,name=f64"`
	F32    float32   `protobuf:"fixed32,7,opt,name=f32"`
	P      *int32    `protobuf:"varint,8,opt,name=p"`
	B      *bool     `protobuf:"varint,9,opt,name=b"`
	Bytes  []byte    `protobuf:"bytes,10,opt,name=bytes"`
	Str    string    `protobuf:"bytes,11,opt,name=str"`
	StrP   *string   `protobuf:"bytes,12,opt,name=strP"`
	I32s   []int32   `protobuf:"varint,13,rep,name=i32s"`
	Bools  []bool    `protobuf:"varint,14,rep,name=bools"`
	F64s   []float64 `protobuf:"fixed64,15,rep,name=f64s"`
	F32s   []float32 `json:"-" protobuf:"fixed32,16,rep,name=f32s"`
	I8     int8      `protobuf:"varint,17,opt,name=i8"`
	I16    uint16    `protobuf:"varint,18,opt,name=i16"`
	Strs   []string  `protobuf:"bytes,19,rep,name=strs"`
	Nobody int       // without a tag
}

func (*numbers) Unmarshal([]byte) error { panic("the tags are there to be compiled") }

func TestProtobufNumbers(t *testing.T) {
	varint := func(num int, v uint64) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(num)<<3|wireVarint), v)
	}
	bytesOf := func(num int, b string) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(num)<<3|wireBytes), uint64(len(b))), b...)
	}
	fixed64 := func(num int, f float64) []byte {
		return binary.LittleEndian.AppendUint64(binary.AppendUvarint(nil, uint64(num)<<3|wire64), math.Float64bits(f))
	}
	fixed32 := func(num int, f float32) []byte {
		return binary.LittleEndian.AppendUint32(binary.AppendUvarint(nil, uint64(num)<<3|wire32), math.Float32bits(f))
	}
	join := func(all ...[]byte) (b []byte) {
		for _, a := range all {
			b = append(b, a...)
		}
		return b
	}
	floats := func(all ...float64) string {
		var b []byte
		for _, f := range all {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
		}
		return string(b)
	}
	const minus = math.MaxUint64 // -1
	for name, tt := range map[string]struct {
		data []byte
		want *numbers
		err  string
	}{
		"nothing":  {nil, &numbers{}, ""},
		"integers": {join(varint(1, 1), varint(2, minus), varint(3, minus), varint(4, 1<<32-1), varint(5, minus)), &numbers{Bool: true, I32: -1, I64: -1, U32: math.MaxUint32, U64: minus}, ""},
		"cut to their size": {join(varint(1, 2), varint(2, 1<<32|7), varint(4, 1<<40|8), varint(17, 0x180), varint(18, 0x30005)),
			&numbers{Bool: true, I32: 7, U32: 8, I8: -128, I16: 5}, ""},
		"the last one":     {join(varint(1, 1), varint(1, 0), varint(2, 5), varint(2, 6), bytesOf(11, "a"), bytesOf(11, "b"), bytesOf(10, "a"), bytesOf(10, "")), &numbers{I32: 6, Str: "b", Bytes: []byte{}}, ""},
		"floats":           {join(fixed64(6, -1.5), fixed32(7, 2.25)), &numbers{F64: -1.5, F32: 2.25}, ""},
		"pointers":         {join(varint(8, 0), varint(9, 0), bytesOf(12, "")), &numbers{P: new(int32), B: new(bool), StrP: new(string)}, ""},
		"repeated":         {join(varint(13, 1), varint(13, 2), varint(14, 1), fixed64(15, 3), fixed32(16, 4), bytesOf(19, "a"), bytesOf(19, "")), &numbers{I32s: []int32{1, 2}, Bools: []bool{true}, F64s: []float64{3}, F32s: []float32{4}, Strs: []string{"a", ""}}, ""},
		"packed":           {join(bytesOf(13, "\x01\xac\x02"), bytesOf(14, "\x01\x00"), bytesOf(15, floats(1, 2))), &numbers{I32s: []int32{1, 300}, Bools: []bool{true, false}, F64s: []float64{1, 2}}, ""},
		"packed and not":   {join(varint(13, 1), bytesOf(13, "\x02\x03"), varint(13, 4), bytesOf(13, "\x05")), &numbers{I32s: []int32{1, 2, 3, 4, 5}}, ""},
		"packed, long":     {join(bytesOf(13, strings.Repeat("\x07", minShare)), varint(13, 1)), &numbers{I32s: append(slices.Repeat([]int32{7}, minShare), 1)}, ""},
		"unknown fields":   {join(varint(30, 1), fixed64(31, 1), fixed32(32, 1), bytesOf(33, "xx"), []byte{3<<3 | wireGroup | 0x80, 2}, varint(1, 1), []byte{3<<3 | wireEnd | 0x80, 2}, varint(2, 3)), &numbers{I32: 3}, ""},
		"packed, cut":      {bytesOf(13, "\x01\xac"), nil, "I32s: unexpected EOF"},
		"packed, no float": {bytesOf(15, floats(1)+"x"), nil, "F64s: unexpected EOF"},
		"a float, cut":     {fixed64(6, 1)[:8], nil, "F64: unexpected EOF"},
		"a small one, cut": {fixed32(7, 1)[:4], nil, "F32: unexpected EOF"},
		"a float as int":   {varint(6, 1), nil, "F64: invalid protobuf: wire type 0, want a fixed number, at byte 1"},
		"an int as float":  {fixed64(2, 1), nil, "I32: invalid protobuf: wire type 1, want a varint, at byte 1"},
		"a string as int":  {varint(11, 1), nil, "Str: invalid protobuf: wire type 0, want bytes, at byte 1"},
		"an int as string": {bytesOf(1, "x"), nil, "Bool: invalid protobuf: wire type 2, want a varint, at byte 1"},
		"a long varint":    {append([]byte{3<<3 | wireVarint}, strings.Repeat("\x80", 10)+"\x01"...), nil, "I64: invalid protobuf: a varint of more than 64 bits at byte 11"},
		"the longest":      {append([]byte{3<<3 | wireVarint}, strings.Repeat("\xff", 9)+"\x01"...), &numbers{I64: -1}, ""},
		"the end of none":  {[]byte{30<<3&0x7f | wireEnd | 0x80, 1}, nil, "invalid protobuf: the end of no group at byte 2"},
		"no wire type":     {[]byte{30<<3&0x7f | 7 | 0x80, 1}, nil, "invalid protobuf: wire type 7 at byte 2"},
		"an open group":    {[]byte{30<<3&0x7f | wireGroup | 0x80, 1}, nil, "unexpected EOF"},
	} {
		for _, share := range []bool{false, true} {
			d := newDecoder[*numbers](t, Options{Share: share})
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
