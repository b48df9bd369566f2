package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// checkNoRoom checks that no slice of v that an append can reach has room, and returns how many there
// are.
func checkNoRoom(t *testing.T, what string, v any) (n int) {
	t.Helper()
	visit(reflect.ValueOf(v), func(v reflect.Value) bool {
		if v.Kind() == reflect.Slice {
			if n++; v.Cap() != v.Len() {
				t.Errorf("%s: a %v of %d has room for %d: %.100v", what, v.Type(), v.Len(), v.Cap(), v)
			}
		}
		return v.CanInterface() && v.Type() != reflect.TypeFor[metav1.Time]()
	})
	return n
}

// roomy is a type of a custom resource with what apimachinery decodes, and with numbers.
type roomy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec              roomySpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

type roomySpec struct {
	Numbers []int64              `json:"numbers" protobuf:"varint,1,rep,name=numbers"`
	Floats  []float64            `json:"floats" protobuf:"fixed64,2,rep,name=floats"`
	Names   []string             `json:"names" protobuf:"bytes,3,rep,name=names"`
	Refs    []*Ref               `json:"refs" protobuf:"bytes,4,rep,name=refs"`
	Ext     runtime.RawExtension `json:"ext" protobuf:"bytes,5,opt,name=ext"`
	Sets    Sets                 `json:"sets" protobuf:"bytes,6,opt,name=sets"`
}

type Ref struct {
	Name  string   `json:"name" protobuf:"bytes,1,opt,name=name"`
	Bytes []byte   `json:"bytes" protobuf:"bytes,2,opt,name=bytes"`
	More  [][]byte `json:"more" protobuf:"bytes,3,rep,name=more"`
}

// Sets decode themselves, with room for more.
type Sets struct {
	Items []string
	Inner struct{ All []int }
}

func (s *Sets) UnmarshalJSON(b []byte) error {
	s.Items = append(make([]string, 0, 9), string(b))
	s.Inner.All = append(make([]int, 0, 9), len(b))
	return nil
}

func (s *Sets) Unmarshal(b []byte) error { return s.UnmarshalJSON(b) }

// Versions share slices, and an append to that of one must not write into that of another.
func TestNoRoomInSlices(t *testing.T) {
	lengths := []int{1, 3, 5, 9, 17, 33, 40, 2, 6, 12}
	for _, share := range []bool{false, true} {
		for _, enc := range []Encoding{JSON, CBOR} {
			d := newTemplater[*sink](t, Options{Share: share})
			untyped := newTemplater[*unstructured.Unstructured](t, Options{Share: share})
			for i, n := range append(lengths, lengths...) {
				raw := strings.Repeat("x", n)
				members := fmt.Sprintf(`"str":"%[1]s","bytes":"%[2]s","raw":{"a":"%[1]s"},"ext":{"b":"%[1]s"},"fields":{"f:%[1]s":{}},`+
					`"strs":[%[3]s],"structs":[%[4]s],"ptrs":[%[4]s],"deep":[%[5]s],"mb":{"a":"%[2]s"},"msl":{"a":[%[3]s]},"ma":{"a":[%[3]s]},"any":[[%[3]s]],`+
					`"self":{"a":{"bytes":[%[6]s],"ma":{"b":[%[6]s]}}},"list":[{"raw":[%[6]s]}]`,
					raw, []string{"eA==", "eHg=", "eHh4"}[i%3], manyOf(n, `"x"`), manyOf(n, `{}`), manyOf(n, `[1,2,3]`),
					manyOf(n, "1"))
				if i == 7 { // a name that comes twice
					members += `,"strs":["a"],"structs":[` + manyOf(2*n+3, `{}`) + `],"deep":[[],[1,2,3,4,5]]`
				}
				data := spec(members)
				if enc == CBOR {
					var v any
					if err := unmarshal(data, &v); err != nil {
						t.Fatal(err)
					}
					data = mustCBOR(t, v)
				}
				for _, d := range []*Decoder{d, untyped} {
					o := d.One(data, enc)
					if o.Err != nil {
						t.Fatal(o.Err)
					}
					if checkNoRoom(t, fmt.Sprintf("share %v, encoding %d, object %d", share, enc, i), o.Value) < 5 {
						t.Errorf("few slices in %v", o.Value)
					}
				}
			}
		}
		carps := newTemplater[*carp.Carp](t, Options{Share: share})
		for i := range 20 {
			o := messageOf(carps, mustMarshal(t, newCarp(i)))
			checkNoRoom(t, fmt.Sprintf("share %v, carp %d, error %v", share, i, o.Err), o.Value)
		}
		d := newTemplater[*roomy](t, Options{Share: share})
		for i, n := range append(lengths, lengths...) {
			ref := message{}.bytes(1, "a").bytes(2, strings.Repeat("b", n)).bytes(3, strings.Repeat("c", n)).bytes(3, "d")
			var spec message
			for j := range n {
				spec = spec.varint(1, uint64(j))
			}
			for j := range n {
				spec = spec.fixed64(2, uint64(j)).bytes(3, "a name")
			}
			for range n {
				spec = spec.bytes(4, string(ref))
			}
			if i > 10 { // packed, and apart
				spec = spec.bytes(1, strings.Repeat("\x01", n)).varint(1, 7).bytes(4, string(ref))
			}
			spec = spec.bytes(6, strings.Repeat("x", n))
			data := append(fieldOfBytes(1, mustMarshal(t,
				&metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", n))}}})), fieldOfBytes(2, spec)...)
			o := messageOf(d, data)
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			checkNoRoom(t, fmt.Sprintf("share %v, message %d", share, i), o.Value)
		}
	}
}

// What apimachinery decodes for a Decoder has no room either, however deep it is.
func TestNoRoomInRareTypes(t *testing.T) {
	type hidden map[string][]string
	type rare struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Array  [2]struct{ S []string }                 `json:"array"`
			ByInt  map[int][]struct{ B []json.RawMessage } `json:"byInt"`
			Nested map[int]any                             `json:"nested"`
			Arrays map[int][2][]string                     `json:"arrays"`
			hidden
		} `json:"spec"`
	}
	d := newTemplater[*rare](t, Options{})
	data := []byte(`{"metadata":{"name":"a"},"spec":{"array":[{"S":["a","b","c","d","e"]},{"S":["a"]}],"byInt":{"1":[{"B":["a",{"a": 12345}]},{},{}]},"nested":{"2":[1,2,[3,4,5,6,7]]},"arrays":{"3":[["a","b","c","d","e"],[]]}}}`)
	want := &rare{}
	if err := unmarshal(data, want); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got := mustDecode[*rare](t, d, data)
		if !reflect.DeepEqual(want, got) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		checkNoRoom(t, "rare types", got)
	}
}

// A panicky type panics in its UnmarshalJSON.
type panicky struct{ text string }

func (p *panicky) UnmarshalJSON(b []byte) error {
	if bytes.Contains(b, []byte("PANIC")) {
		panic("of the type")
	}
	p.text = string(b)
	return nil
}

// A panic in a type's own method leaves nothing behind that changes the next object.
func TestPanicInOwnMethod(t *testing.T) {
	type object struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			A    string    `json:"a"`
			P    panicky   `json:"p"`
			List []panicky `json:"list"`
		} `json:"spec"`
	}
	of := func(text string, more string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"name":"a"},"spec":{"a":"%s","p":{"k":%q}%s}}`, strings.Repeat("a", 60),
			text, more)
	}
	d := newTemplater[*object](t, Options{})
	for i := range 8 {
		mustDecode[*object](t, d, of(strings.Repeat("x", 30+i%2), ""))
	}
	func() {
		defer func() { _ = recover() }()
		d.One(of("PANIC", ""), JSON)
	}()
	data := of(strings.Repeat("y", 50), `,"list":[{"k":1}]`)
	want := &object{}
	if err := unmarshal(data, want); err != nil {
		t.Fatal(err)
	}
	if got := mustDecode[*object](t, d, data); !reflect.DeepEqual(want, got) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
