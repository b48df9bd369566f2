package decode

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
