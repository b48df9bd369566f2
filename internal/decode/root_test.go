package decode

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// An item of an unstructured list gets the kind that follows from the list, unless it has one of
// its own.
func TestUnstructuredItems(t *testing.T) {
	const list = `{"kind":"FishList","apiVersion":"v1","items":[
		{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"5"}}, {"kind":"Fish","apiVersion":"v2","metadata":{"name":"b"}},
		{"kind":"Fish","metadata":{"name":"c"}}, {"apiVersion":"v3","metadata":{"name":"d"}}, {"n":12345678901,"f":1.5,"big":12345678901234567890,"small":7}]}`
	d := newDecoder[*unstructured.Unstructured](t, Options{})
	var got []string
	var last map[string]any
	if _, err := d.List(strings.NewReader(list), JSON, func(o Object) error {
		line := "a " + o.Ident.Kind + " of " + o.Ident.APIVersion
		if o.Err != nil {
			line += " " + o.Ident.Name + ": " + o.Err.Error()
		} else {
			u := o.Value.(*unstructured.Unstructured)
			last = u.Object
			line += " says " + strconv.Quote(u.GetKind()) + " " + u.GetName()
		}
		got = append(got, line)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`a Fish of v1 says "Fish" a`, `a Fish of v2 says "Fish" b`, `a Fish of  says "Fish" c`, `a  of v3 d: the object has no kind`, `a Fish of v1 says "Fish" `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	numbers := map[string]any{"kind": "Fish", "apiVersion": "v1", "n": int64(12345678901), "f": 1.5, "big": 12345678901234567890.0, "small": int64(7)}
	if diff := cmp.Diff(numbers, last); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}

func TestProtobufIsCompiled(t *testing.T) {
	for _, d := range []*Decoder{newDecoder[*carp.Carp](t, Options{}), newDecoder[*metav1.PartialObjectMetadata](t, Options{}), newDecoder[*metav1.Status](t, Options{})} {
		if err := d.root.compileMessage(); err != nil || d.root.message == nil {
			t.Errorf("%v is not compiled: %v", d.root.typ, err)
		}
	}
}

func TestOnlyOneEncodingIsCompiled(t *testing.T) {
	d := newDecoder[*carp.Carp](t, Options{})
	if o := messageOf(d, mustMarshal(t, newCarp(1))); o.Err != nil || d.root.json != nil || d.root.message == nil {
		t.Errorf("error %v; JSON is compiled: %v, protobuf: %v", o.Err, d.root.json != nil, d.root.message != nil)
	}
	d = newDecoder[*carp.Carp](t, Options{})
	if _, err := decodeOne(d, []byte(`{"metadata":{"name":"a"}}`)); err != nil || d.root.json == nil || d.root.messageCompiled {
		t.Errorf("error %v; JSON is compiled: %v, protobuf: %v", err, d.root.json != nil, d.root.messageCompiled)
	}
}
