package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/verify/leak"
)

// The memory of an item that is as it was is used for the next object, and for one only. Nothing of
// the item is left in it.
func TestSpareObject(t *testing.T) {
	for form, encode := range carpForms {
		d, _, old := newCarpLender(t, form, Options{})
		d.listing = true
		var got, want []*carp.Carp
		for range 3 {
			// No part comes in bare. One that came would be found in the notes, and decoded into new
			// memory.
			bare := []byte(`{"metadata":{"name":"bare"}}`)
			if form == "protobuf" {
				bare = fieldOfBytes(1, mustMarshal(t, &metav1.ObjectMeta{Name: "bare"}))
			}
			for _, data := range [][]byte{encode(t, newCarp(1)), bare, encode(t, newCarp(2))} {
				g, w := decodeCarp(t, d, form, data)
				got, want = append(got, g), append(want, w)
			}
		}
		checkDiff(t, form, want, got)
		for i, c := range got {
			if i%3 == 0 != (c == old) {
				t.Errorf("%s: object %d is that of the store: %v", form, i, c == old)
			}
		}
		if d.releaseStream(); d.spare.addr != nil {
			t.Errorf("%s: the decoder keeps memory after the stream", form)
		}
	}
}

// An item that is as it was needs no memory for an object, as an event does.
func TestUnchangedItemAllocates(t *testing.T) {
	for form, encode := range carpForms {
		d, _, _ := newCarpLender(t, form, Options{})
		data := encode(t, newCarp(1))
		allocations := func(listing bool) float64 {
			d.listing = listing
			return testing.AllocsPerRun(100, func() {
				_, err := decodeAs(d, form, data)
				ok(t, err)
			})
		}
		if event, item := allocations(false), allocations(true); item > event-1 {
			t.Errorf("%s: %v allocations for an unchanged item, %v for an event", form, item, event)
		}
	}
}

// Of a part that has changed, the elements and members that have not are those of the last version.
func TestElements(t *testing.T) {
	d, last := newLender[*unstructured.Unstructured](t, Options{})
	const head = `{"kind":"K","metadata":{"managedFields":[{"f":{"f:a":{}},"manager":"a","n":1},{"manager":"b","time":"`
	const middle = `"},{"manager":"c"}],"name":"n"},"status":{"conditions":[{"type":"A"},{"type":"B","status":"`
	first := mustDecode[*unstructured.Unstructured](t, d,
		[]byte(head+"10:00"+middle+`True"},{"type":"C","on":true,"none":null}],"parts":{"x":1,"y":[1]}}}`))
	last.keep(first)
	data := []byte(head + "11:00" + middle +
		`False"},{"type":"C","on":true,"none":null},{"type":"D"}],"parts":{"x":1,"y":[1]}}}`)
	got := mustDecode[*unstructured.Unstructured](t, d, data)
	checkDiff(t, "what is decoded", untypedOf(t, data), got)
	checkTaken(t, "JSON", first, got, map[string]bool{
		"metadata managedFields 0": true, "metadata managedFields 1": false, "metadata managedFields 2": true,
		"status conditions": false, "status parts": true,
	})
	checkDiff(t, "the last version has changed", "True",
		first.Object["status"].(map[string]any)["conditions"].([]any)[1].(map[string]any)["status"])
}

func near(d *Decoder, old any, data string) (v any, same bool, err error) {
	d.p.reset([]byte(data), 0)
	v, same, err = d.decodeNear(old, mask{})
	if err == nil {
		err = d.p.end()
	}
	return v, same, err
}

// A value that equals that of the last version is that one, whatever it looks like.
func TestEquals(t *testing.T) {
	for want, pairs := range map[bool][][2]string{
		true: {
			{`{"a":1,"b":2}`, `{"a":1,"b":2}`}, {`{"a":1,"b":2}`, ` { "a" : 1 , "b" : 2 } `}, {`{"a":1,"b":2}`, `{"b":2,"a":1}`},
			{`{"a":1}`, `{"\u0061":1}`}, {`{"":1}`, `{"":1}`}, {`[1,"a",true,false,null,{}]`, `[1,"a",true,false,null,{}]`},
			{`{}`, `{}`}, {`[]`, `[]`}, {`[1.5]`, `[1.50]`}, {`["a\u00e9"]`, `["aé"]`},
		},
		false: {
			{`{"a":1,"b":2}`, `{"a":1,"a":1}`}, {`{"a":1,"b":2,"c":3}`, `{"a":1,"c":3,"c":3}`}, {`{"a":1,"b":2}`, `{"a":1}`},
			{`{"a":1}`, `{"a":1,"b":2}`}, {`{"a":null}`, `{"b":null}`}, {`[1,2]`, `[1]`}, {`[1]`, `[1,2]`},
			{`[null]`, `[null,null]`}, {`[]`, `{}`}, {`{}`, `[]`}, {`[1]`, `["1"]`}, {`["1"]`, `[1]`}, {`[1]`, `[1.0]`},
			{`[1.0]`, `[1]`},
			{`[0.0]`, `[-0.0]`}, {`[null]`, `[false]`}, {`[true]`, `[false]`}, {`["a"]`, `["ab"]`},
		},
	} {
		for _, pair := range pairs {
			var d Decoder
			old, _, err := near(&d, nil, pair[0])
			ok(t, err)
			v, same, err := near(&d, old, pair[1])
			if err != nil || same != want || same && reflect.ValueOf(v).Pointer() != reflect.ValueOf(old).Pointer() {
				t.Errorf("%s is %s: %v, want %v; error %v", pair[1], pair[0], same, want, err)
			}
		}
	}
}

// Of an object that has changed, what has not is that of the last version, and so are the names:
// the new ones are parts of the bytes that are read.
func TestChangedMembers(t *testing.T) {
	var d Decoder
	for _, data := range []string{
		`{"a":1,"b":"2","c":{"x":1}}`, `{"a":1,"b":"3","c":{"x":1}}`, `{"b":"3","a":2,"c":{"x":1}}`,
		`{"a":1,"b":"3","c":{"x":1},"d":null}`,
		`{"a":1,"c":{"x":1}}`, `{"a":1,"c":{"x":1},"c":{"x":2}}`,
	} {
		old, _, err := near(&d, nil, `{"a":1,"b":"2","c":{"x":1}}`)
		ok(t, err)
		got, same, err := near(&d, old, data)
		clear(d.p.data)
		var want any
		ok(t, unmarshal([]byte(data), &want))
		if diff := cmp.Diff(want, got); diff != "" || err != nil || same != reflect.DeepEqual(want, old) {
			t.Errorf("%s: same %v, error %v (-want +got):\n%s", data, same, err, diff)
		}
		checkDiff[any](t, fmt.Sprintf("%s has changed the last version", data), map[string]any{"a": int64(1), "b": "2",
			"c": map[string]any{"x": int64(1)}}, old)
	}
}

// What is decoded near a value is what is decoded alone, and it is that value if it equals it.
func TestNearModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Decoder
		text := genValue(t, 3)
		old, _, err := near(&d, nil, text)
		if err != nil {
			t.Fatalf("%s is no JSON", text)
		}
		// As a server writes it, and whatever is near that.
		canonical := mustJSON(t, old)
		texts := []string{text, string(canonical)}
		for range 3 {
			near := texts[rapid.IntRange(0, 1).Draw(t, "which")]
			at := rapid.IntRange(0, len(near)-1).Draw(t, "at")
			to := min(len(near), at+rapid.IntRange(0, 2).Draw(t, "length"))
			texts = append(texts, near[:at]+rapid.SampledFrom([]string{"", "0", "1", `"a"`, "null", "true", "{}", "[]", `"":1,`,
				",1", " ", "x", "}"}).Draw(t, "in")+near[to:])
		}
		for _, data := range append(texts, genValue(t, 3)) {
			want, _, wrong := near(&d, nil, data)
			got, same, err := near(&d, old, data)
			if (err == nil) != (wrong == nil) {
				t.Fatalf("%s near %s: error %v; alone: %v", data, text, err, wrong)
			}
			if err != nil {
				continue
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%s near %s (-want +got):\n%s", data, text, cmp.Diff(want, got))
			}
			if equal := reflect.DeepEqual(want, old); same != equal && !hasFloat(old) {
				t.Fatalf("%s near %s: same %v, equal %v", data, text, same, equal)
			}
		}
		if again, err := json.Marshal(old); err != nil || string(again) != string(canonical) {
			t.Fatalf("%s has become %s, error %v", text, again, err)
		}
	})
}

func hasFloat(v any) (has bool) {
	visit(reflect.ValueOf(v), func(v reflect.Value) bool {
		has = has || v.Kind() == reflect.Float64
		return true
	})
	return has
}

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
			"spec": true, "status": false, "metadata managedFields": true,
			"metadata labels": false, "metadata ownerReferences": true,
		})
		d.listing = true
		if again := mustDecode[*unstructured.Unstructured](t, d, carpForms[form](t, newCarp(1))); again != old {
			t.Errorf("%s: an equal object is another one", form)
		}
		d.listing = false
	}
}

// TestUntypedPartsModel is TestPartsModel for untyped objects.
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
				data = joined(form, data, fmt.Appendf(nil, `{"spec":null,"metadata":{"name":%q,"labels":null,"labels":{}}}`,
					c.Name))
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

// Names and values with escapes are the same in every version.
func TestUntypedNamesWithEscapes(t *testing.T) {
	d, last := newLender[*unstructured.Unstructured](t, Options{})
	long := strings.Repeat("long", maxIntern)
	for i, spec := range []string{
		`{"a\u0062c":"x\u0079z","\u00e9t\u00e9":{"\"":1},"n":[{"\\":"\n"}]}`,
		`{"a\u0062c":"xyz","\u00e9t\u00e9":{"\"":2},"n":[{"\\":"\n","more":1}]}`,
		`{"abc":"x\u0079z","été":{"\u0022":2},"n":[{"\u005c":"\u000a"}]}`,
		`{"\u0061bc":"other","n":[{"\\":"\t"}],"\u00e9t\u00e9":{"\"":2}}`, `{"` + long + `\u0061":1,"` + long + `":{"` +
			long + `":2}}`, `{"` + long + `a":1,"` + long + `":{"` + long + `":3}}`,
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
	last.keep(mustDecode[*unstructured.Unstructured](t, d,
		[]byte(`{"kind":"K","metadata":{"name":"n"},"spec":{"known":{"inner":[1]}}}`)))
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
	leak.Collect(f, time.Millisecond)
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
	leak.Collect(f, time.Millisecond)
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
	leak.Collect(f, time.Millisecond)
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
