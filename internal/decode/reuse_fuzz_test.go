package decode

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// FuzzVersionsJSON decodes two versions of an object, the second with what it can take from the
// first. Both are what apimachinery decodes, and the first is not changed by the second.
func FuzzVersionsJSON(f *testing.F) {
	for _, form := range []string{"JSON", "alphabetical JSON"} {
		old := carpForms[form](f, newCarp(1))
		c := newCarp(1)
		c.Status.Phase = "Failed"
		f.Add(old, carpForms[form](f, c), false)
		c.ManagedFields = append(c.ManagedFields, c.ManagedFields...)
		f.Add(old, joined(form, carpForms[form](f, c), old), true)
		f.Add(joined(form, old, []byte(`{"metadata":{"labels":null},"spec":null,"status":null}`)), old, true)
	}
	fuzzVersions(f, "JSON")
}

// FuzzVersionsUntyped is FuzzVersionsJSON for untyped objects.
func FuzzVersionsUntyped(f *testing.F) {
	const head = `{"kind":"K","metadata":{"name":"n","labels":{"a":"b"}},`
	f.Add([]byte(head+`"{}":{},"a":{"x":[1,{}]}}`), []byte(head+`"[]":[],"a":{"x":[1,{}]}}`), false)
	f.Add([]byte(head+`"a":{},"a":null}`), []byte(head+`"a":{},"metadata":{"labels":null}}`), true)
	d := newDecoder[*unstructured.Unstructured](f, Options{})
	var last any
	d.ReuseFrom(func(string, string) any { return last })
	f.Fuzz(func(t *testing.T, first, second []byte, listing bool) {
		last, d.listing = nil, listing
		var was *unstructured.Unstructured
		for _, data := range [][]byte{first, second} {
			got, err := decodeOne(d, data)
			want := &unstructured.Unstructured{}
			// Of an unstructured object apimachinery says more than its decoder of JSON does: it asks
			// for a kind, and makes an object with items a list.
			wantErr := unmarshal(data, &want.Object)
			if (err == nil) != (wantErr == nil && !isNull(data)) {
				t.Fatalf("%q: error %v, want %v", data, err, wantErr)
			}
			if err != nil {
				continue
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%q (-want +got):\n%s", data, cmp.Diff(want, got))
			}
			if was != nil && !reflect.DeepEqual(was, last) {
				t.Fatalf("%q has changed the version before (-was +is):\n%s", data, cmp.Diff(was, last))
			}
			if last == nil {
				was = want
			}
			last = got
		}
	})
}

// FuzzVersionsProtobuf is FuzzVersionsJSON in protobuf.
func FuzzVersionsProtobuf(f *testing.F) {
	old := mustMarshal(f, newCarp(1))
	c := newCarp(1)
	c.Finalizers = append(c.Finalizers, "more")
	f.Add(old, mustMarshal(f, c), false)
	f.Add(old, joined("protobuf", mustMarshal(f, c), old), true)
	fuzzVersions(f, "protobuf")
}

func fuzzVersions(f *testing.F, form string) {
	decoders := map[bool]*Decoder{}
	var last any
	for _, share := range []bool{false, true} {
		decoders[share] = newDecoder[*carp.Carp](f, Options{Share: share})
		decoders[share].ReuseFrom(func(string, string) any { return last })
	}
	f.Fuzz(func(t *testing.T, first, second []byte, listing bool) {
		for share, d := range decoders {
			last, d.listing = nil, listing
			var was *carp.Carp
			for _, data := range [][]byte{first, second} {
				if isNull(data) {
					return
				}
				got, err := decodeAs(d, form, data)
				want, wantErr := carpOf(form, data)
				if (err == nil) != (wantErr == nil) {
					t.Fatalf("share %v, %q: error %v, want %v", share, data, err, wantErr)
				}
				if err != nil {
					continue
				}
				if !reflect.DeepEqual(want, got) {
					t.Fatalf("share %v, %q (-want +got):\n%s", share, data, cmp.Diff(want, got))
				}
				if was != nil && !reflect.DeepEqual(was, last) {
					t.Fatalf("share %v: %q has changed the version before (-was +is):\n%s", share, data, cmp.Diff(was, last))
				}
				if last == nil {
					was = want.DeepCopy()
				}
				last = got
			}
		}
	})
}
