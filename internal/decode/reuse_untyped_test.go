package decode

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"
)

func untypedOf(t fataler, data []byte) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	ok(t, u.UnmarshalJSON(data))
	return u
}

// An untyped object takes the same parts from its last version as a typed one.
func TestUntypedParts(t *testing.T) {
	d, last := newLender[*unstructured.Unstructured](t, Options{})
	for _, form := range []string{"JSON", "alphabetical JSON"} {
		clear(last)
		c := newCarp(1)
		old := mustDecode[*unstructured.Unstructured](t, d, carpForms[form](t, c))
		last.keep(old)
		c.ResourceVersion, c.Status.Phase, c.Labels["a"] = "200", "Failed", "changed"
		data := carpForms[form](t, c)
		got := mustDecode[*unstructured.Unstructured](t, d, data)
		checkDiff(t, form, untypedOf(t, data), got)
		checkTaken(t, form, old, got, map[string]bool{
			"spec": true, "status": false, "metadata managedFields": true, "metadata labels": false, "metadata ownerReferences": true,
		})
		d.listing = true
		if again := mustDecode[*unstructured.Unstructured](t, d, carpForms[form](t, newCarp(1))); again != old {
			t.Errorf("%s: an equal object is another one", form)
		}
		d.listing = false
	}
}

// Whatever an untyped object's history is, each version is what apimachinery decodes, and no
// version is changed by those that come later.
func TestUntypedPartsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{Share: rapid.Bool().Draw(t, "share")}
		drop := rapid.Bool().Draw(t, "drop")
		if drop {
			opts.Drop = []string{"metadata.managedFields", "spec.nodeSelector"}
		}
		d, store := newLender[*unstructured.Unstructured](t, opts)
		next := drawCarps(t)
		checkVersions(t, d, 12, store.keep, func() (string, []byte, any) {
			c := next()
			form := rapid.SampledFrom([]string{"JSON", "alphabetical JSON"}).Draw(t, "form")
			data := carpForms[form](t, c)
			switch rapid.IntRange(0, 5).Draw(t, "twice") {
			case 0:
				data = joined(form, data, carpForms[form](t, newCarp(1)))
			case 1:
				data = joined(form, data, fmt.Appendf(nil, `{"spec":null,"metadata":{"name":%q,"labels":null,"labels":{}}}`, c.Name))
			case 2:
				data = joined(form, []byte(`{"other":{},"another":[1],"more":{"a":1},"status":{}}`), data)
			}
			want := untypedOf(t, data)
			if drop {
				unstructured.RemoveNestedField(want.Object, "metadata", "managedFields")
				unstructured.RemoveNestedField(want.Object, "spec", "nodeSelector")
			}
			return form, data, want
		})
	})
}

// Names and values with escapes are the same in every version, whatever the versions have in
// common.
func TestUntypedNamesWithEscapes(t *testing.T) {
	d, last := newLender[*unstructured.Unstructured](t, Options{})
	long := strings.Repeat("long", maxIntern)
	for i, spec := range []string{
		`{"a\u0062c":"x\u0079z","\u00e9t\u00e9":{"\"":1},"n":[{"\\":"\n"}]}`, `{"a\u0062c":"xyz","\u00e9t\u00e9":{"\"":2},"n":[{"\\":"\n","more":1}]}`, `{"abc":"x\u0079z","été":{"\u0022":2},"n":[{"\u005c":"\u000a"}]}`,
		`{"\u0061bc":"other","n":[{"\\":"\t"}],"\u00e9t\u00e9":{"\"":2}}`, `{"` + long + `\u0061":1,"` + long + `":{"` + long + `":2}}`, `{"` + long + `a":1,"` + long + `":{"` + long + `":3}}`,
	} {
		for range 2 {
			data := fmt.Appendf(nil, `{"kind":"K","metadata":{"name":"n","resourceVersion":"%d"},"spec":%s}`, i, spec)
			want := untypedOf(t, data)
			got := mustDecode[*unstructured.Unstructured](t, d, data)
			clear(data) // nothing may point into it
			checkDiff(t, fmt.Sprintf("version %d", i), want, got)
			last.keep(got)
		}
	}
}

// The path of an error has memory of its own, as it may be kept for long.
func TestUntypedErrorPath(t *testing.T) {
	d, last := newLender[*unstructured.Unstructured](t, Options{})
	last.keep(mustDecode[*unstructured.Unstructured](t, d, []byte(`{"kind":"K","metadata":{"name":"n"},"spec":{"known":{"inner":[1]}}}`)))
	data := []byte(`{"kind":"K","metadata":{"name":"n"},"spec":{"known":{"inner":[1e400]}}}`)
	_, err := decodeOne(d, data)
	clear(data)
	if wrong, ok := err.(*FieldError); !ok || wrong.Path() != "spec.known.inner[0]" {
		t.Errorf("%T %v", err, err)
	}
}

// Names that come once each, and long ones, leave no memory in a decoder that may live for months.
func TestDecoderKeepsFewNames(t *testing.T) {
	n := 0
	for _, typ := range []reflect.Type{reflect.TypeFor[*unstructured.Unstructured](), reflect.TypeFor[*sink]()} {
		d := decoderOf(t, typ, Options{})
		for size, names := range map[int]int{10: 5000, 32 << 10: 200} {
			before := heapNow()
			for range names {
				n++
				name := fmt.Sprintf("%0*d", size, n)
				data := fmt.Appendf(nil, `{"kind":"Sink","metadata":{"name":"n"},"x%s":{"%s":1}}`, name, name)
				must[any](t)(decodeOne(d, data))
			}
			if after := heapNow(); after > before+512<<10 {
				t.Errorf("%v: %d names of %d bytes have left %d bytes", typ, names, size, after-before)
			}
		}
		runtime.KeepAlive(d)
	}
}

// A decoder that waits for the next object keeps nothing of the last one, with a mask or without.
func TestDecoderKeepsNoValue(t *testing.T) {
	for _, only := range [][]string{nil, {"spec.text", "spec.list.text"}} {
		d := newDecoder[*unstructured.Unstructured](t, Options{Only: only})
		before := heapNow()
		text := strings.Repeat("text", 1<<20)
		list := fmt.Sprintf(`{"kind":"KList","items":[{"kind":"K","metadata":{"name":"n"},"spec":{"text":"%s","list":["%s",{"text":["%s"]}]}}]}`, text, text, text)
		_, err := d.List(strings.NewReader(list), JSON, func(o Object) error { return o.Err })
		ok(t, err)
		if after := heapNow(); after > before+1<<20 {
			t.Errorf("only %q: an object that nobody has has left %d bytes", only, after-before)
		}
		runtime.KeepAlive(d)
	}
}

// heapNow returns how many bytes are in use.
func heapNow() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

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
	fuzzVersions[*carp.Carp](f, "JSON", func(data []byte) (any, error) { return carpOf("JSON", data) })
}

// FuzzVersionsUntyped is FuzzVersionsJSON for untyped objects.
func FuzzVersionsUntyped(f *testing.F) {
	const head = `{"kind":"K","metadata":{"name":"n","labels":{"a":"b"}},`
	f.Add([]byte(head+`"{}":{},"a":{"x":[1,{}]}}`), []byte(head+`"[]":[],"a":{"x":[1,{}]}}`), false)
	f.Add([]byte(head+`"a":{},"a":null}`), []byte(head+`"a":{},"metadata":{"labels":null}}`), true)
	fuzzVersions[*unstructured.Unstructured](f, "JSON", func(data []byte) (any, error) {
		u := &unstructured.Unstructured{}
		// Of an unstructured object apimachinery says more than its decoder of JSON does: it asks for
		// a kind, and makes an object with items a list.
		return u, unmarshal(data, &u.Object)
	})
}

// FuzzVersionsProtobuf is FuzzVersionsJSON in protobuf.
func FuzzVersionsProtobuf(f *testing.F) {
	old := mustMarshal(f, newCarp(1))
	c := newCarp(1)
	c.Finalizers = append(c.Finalizers, "more")
	f.Add(old, mustMarshal(f, c), false)
	f.Add(old, joined("protobuf", mustMarshal(f, c), old), true)
	fuzzVersions[*carp.Carp](f, "protobuf", func(data []byte) (any, error) { return carpOf("protobuf", data) })
}

// fuzzVersions compares what is decoded as a T with what apimachinery makes of the same bytes. A
// null is an object for apimachinery alone.
func fuzzVersions[T any](f *testing.F, form string, apimachinery func(data []byte) (any, error)) {
	decoders := map[bool]*Decoder{}
	var last any
	for _, share := range []bool{false, true} {
		decoders[share] = newDecoder[T](f, Options{Share: share})
		decoders[share].ReuseFrom(func(string, string) any { return last })
	}
	f.Fuzz(func(t *testing.T, first, second []byte, listing bool) {
		for share, d := range decoders {
			last, d.listing = nil, listing
			var was any
			for _, data := range [][]byte{first, second} {
				got, err := decodeAs(d, form, data)
				want, wantErr := apimachinery(data)
				if form == "JSON" && isNull(data) {
					wantErr = errors.New("no object")
				}
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
					was = want
				}
				last = got
			}
		}
	})
}
