package decode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"
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
	first := mustDecode[*unstructured.Unstructured](t, d, []byte(head+"10:00"+middle+`True"},{"type":"C","on":true,"none":null}],"parts":{"x":1,"y":[1]}}}`))
	last.keep(first)
	data := []byte(head + "11:00" + middle + `False"},{"type":"C","on":true,"none":null},{"type":"D"}],"parts":{"x":1,"y":[1]}}}`)
	got := mustDecode[*unstructured.Unstructured](t, d, data)
	checkDiff(t, "", untypedOf(t, data), got)
	checkTaken(t, "JSON", first, got, map[string]bool{
		"metadata managedFields 0": true, "metadata managedFields 1": false, "metadata managedFields 2": true, "status conditions": false, "status parts": true,
	})
	checkDiff(t, "the last version has changed", "True", first.Object["status"].(map[string]any)["conditions"].([]any)[1].(map[string]any)["status"])
}

// near decodes data near old, and reports whether it is the same memory.
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
			{`{"a":1}`, `{"a":1,"b":2}`}, {`{"a":null}`, `{"b":null}`}, {`[1,2]`, `[1]`}, {`[1]`, `[1,2]`}, {`[null]`, `[null,null]`},
			{`[]`, `{}`}, {`{}`, `[]`}, {`[1]`, `["1"]`}, {`["1"]`, `[1]`}, {`[1]`, `[1.0]`}, {`[1.0]`, `[1]`}, {`[0.0]`, `[-0.0]`},
			{`[null]`, `[false]`}, {`[true]`, `[false]`}, {`["a"]`, `["ab"]`},
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
		`{"a":1,"b":"2","c":{"x":1}}`, `{"a":1,"b":"3","c":{"x":1}}`, `{"b":"3","a":2,"c":{"x":1}}`, `{"a":1,"b":"3","c":{"x":1},"d":null}`,
		`{"a":1,"c":{"x":1}}`, `{"a":1,"c":{"x":1},"c":{"x":2}}`,
	} {
		old, _, err := near(&d, nil, `{"a":1,"b":"2","c":{"x":1}}`)
		ok(t, err)
		raw := []byte(data)
		d.p.reset(raw, 0)
		got, same, err := d.decodeNear(old, mask{})
		clear(raw)
		var want any
		ok(t, unmarshal([]byte(data), &want))
		if diff := cmp.Diff(want, got); diff != "" || err != nil || same != reflect.DeepEqual(want, old) {
			t.Errorf("%s: same %v, error %v (-want +got):\n%s", data, same, err, diff)
		}
		checkDiff[any](t, fmt.Sprintf("%s has changed the last version", data), map[string]any{"a": int64(1), "b": "2", "c": map[string]any{"x": int64(1)}}, old)
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
			texts = append(texts, near[:at]+rapid.SampledFrom([]string{"", "0", "1", `"a"`, "null", "true", "{}", "[]", `"":1,`, ",1", " ", "x", "}"}).Draw(t, "in")+near[to:])
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
