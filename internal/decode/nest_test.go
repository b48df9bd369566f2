package decode

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// A nest contains itself in every way in which generated types do.
type nest struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	One               *nest           `json:"one,omitempty" protobuf:"bytes,2,opt,name=one"`
	Many              []nest          `json:"many,omitempty" protobuf:"bytes,3,rep,name=many"`
	Named             map[string]nest `json:"named,omitempty" protobuf:"bytes,4,rep,name=named"`
	Any               any             `json:"any,omitempty"`
	Float             float64         `json:"float,omitempty"`
}

func (*nest) Unmarshal([]byte) error { panic("the tags are there to be compiled") }

// nested returns the message of a nest with depth-1 others within each other, by field, around the innermost.
func nested(depth, field int, innermost []byte) []byte {
	// Lengths are known from within, so the bytes are written from behind.
	var out []byte
	put := func(b ...byte) {
		for i := len(b) - 1; i >= 0; i-- {
			out = append(out, b[i])
		}
	}
	length := func(n int) {
		var b []byte
		for ; n >= 0x80; n >>= 7 {
			b = append(b, byte(n)|0x80)
		}
		put(append(b, byte(n))...)
	}
	put(innermost...)
	for range depth - 1 {
		size := len(out)
		length(size)
		put(byte(field<<3 | wireBytes))
		if field == 4 { // the value of an entry
			out[len(out)-1] = 2<<3 | wireBytes
			length(len(out))
			put(4<<3 | wireBytes)
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// Protobuf may nest as deep as JSON, and no deeper: a stack is no place for what a server sends.
func TestProtobufNesting(t *testing.T) {
	meta := []byte{1<<3 | wireBytes, 3, 1<<3 | wireBytes, 1, 'a'}
	for _, share := range []bool{false, true} {
		for field, name := range map[int]string{2: "one", 3: "many", 4: "named"} {
			for depth, fits := range map[int]bool{maxDepth: true, maxDepth + 1: false, 2_000_000: false} {
				if depth > maxDepth+1 && (field != 2 || share) {
					continue // once is enough to overflow a stack
				}
				d := newDecoder[*nest](t, Options{Share: share})
				o := messageOf(d, append(append([]byte(nil), meta...), nested(depth, field, nil)...))
				switch {
				case fits && o.Err != nil:
					t.Errorf("share %v, %d levels of %q: %v", share, depth, name, o.Err)
				case !fits && (o.Err == nil || !strings.HasSuffix(o.Err.Error(), "invalid protobuf: more than 10000 levels")):
					t.Errorf("share %v, %d levels of %q: error %.200v", share, depth, name, o.Err)
				case !fits && o.Ident.Name != "a":
					t.Errorf("share %v, %d levels of %q: %+v is set aside", share, depth, name, o.Ident)
				}
				// What was refused leaves nothing behind.
				if o := messageOf(d, nested(maxDepth, field, nil)); o.Err != nil {
					t.Errorf("share %v, %q after %d levels: %v", share, name, depth, o.Err)
				}
			}
		}
	}
}

// entries has maps of every sort of value that generated types have.
type entries struct {
	Nests      map[string]nest              `json:"nests" protobuf:"bytes,1,rep,name=nests"`
	Strings    map[string]string            `json:"strings" protobuf:"bytes,2,rep,name=strings"`
	Blobs      map[string][]byte            `json:"blobs" protobuf:"bytes,3,rep,name=blobs"`
	Quantities map[string]resource.Quantity `json:"quantities" protobuf:"bytes,4,rep,name=quantities"`
}

func (*entries) Unmarshal([]byte) error { panic("the tags are there to be compiled") }

// fieldOfBytes returns a field of bytes, with tag, around others.
func fieldOfBytes(num byte, parts ...[]byte) []byte {
	all := bytes.Join(parts, nil)
	return append(binary.AppendUvarint([]byte{num<<3 | wireBytes}, uint64(len(all))), all...)
}

// Of two values in one entry of a map the last one counts, and nothing of the first, as in generated code.
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

// A message that comes twice is merged with Share as without, and what others share stays as it is.
func TestShareMerges(t *testing.T) {
	var first, second carp.Carp
	grace, yes := int64(30), true
	first.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app":{}}}}`)}}
	first.Labels, first.Finalizers = map[string]string{"app": "a label to share", "a": "b"}, []string{"example.com/first", "example.com/second"}
	first.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "some-name", Controller: &yes}}
	first.Spec = carp.CarpSpec{NodeSelector: map[string]string{"kubernetes.io/os": "linux"}, TerminationGracePeriodSeconds: &grace}
	second.Labels, second.Finalizers = map[string]string{"app": "b", "c": "d"}, []string{"example.com/third"}
	second.ManagedFields, second.OwnerReferences = []metav1.ManagedFieldsEntry{{Manager: "n"}}, []metav1.OwnerReference{{Kind: "Node"}}
	second.Spec = carp.CarpSpec{NodeSelector: map[string]string{"arch": "amd64"}, HostPID: true}
	a, b := mustMarshal(t, &first), mustMarshal(t, &second)
	d := newDecoder[*carp.Carp](t, Options{Share: true})
	for i, data := range [][]byte{a, a, a, append(bytes.Clone(a), b...), a, append(bytes.Clone(b), a...), append(bytes.Clone(a), a...), a, b} {
		var want carp.Carp
		if err := want.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		if o := messageOf(d, data); o.Err != nil || !reflect.DeepEqual(&want, o.Value) {
			t.Errorf("object %d: error %v (-want +got):\n%s", i, o.Err, cmp.Diff(&want, o.Value))
		}
	}
	o := messageOf(d, a)
	if again := messageOf(d, a); reflect.ValueOf(o.Value.(*carp.Carp).Labels).Pointer() != reflect.ValueOf(again.Value.(*carp.Carp).Labels).Pointer() {
		t.Error("labels are not shared any more")
	}
}

// A pointer's message that comes twice is merged with Share as without, the last one over the first one.
func TestMessageTwice(t *testing.T) {
	meta := func(num byte, s string) []byte { return fieldOfBytes(2, fieldOfBytes(1, fieldOfBytes(num, []byte(s)))) }
	data := append(append(meta(1, "a name of some length, to be shared"), meta(3, "a namespace of some length")...), meta(3, "b")...)
	want := &nest{One: &nest{ObjectMeta: metav1.ObjectMeta{Name: "a name of some length, to be shared", Namespace: "b"}}}
	for _, share := range []bool{false, true} {
		d := newDecoder[*nest](t, Options{Share: share})
		for i := range 4 {
			if o := messageOf(d, data); o.Err != nil || !reflect.DeepEqual(want, o.Value) {
				t.Errorf("share %v, object %d: error %v (-want +got):\n%s", share, i, o.Err, cmp.Diff(want, o.Value))
			}
		}
	}
}
