package decode

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// Of a part that has changed, the elements and members that have not are those of the last version.
func TestElements(t *testing.T) {
	var last any
	d := newDecoder[*unstructured.Unstructured](t, Options{})
	d.ReuseFrom(func(string, string) any { return last })
	const head = `{"kind":"K","metadata":{"managedFields":[{"f":{"f:a":{}},"manager":"a","n":1},{"manager":"b","time":"`
	const middle = `"},{"manager":"c"}],"name":"n"},"status":{"conditions":[{"type":"A"},{"type":"B","status":"`
	first := mustDecode[*unstructured.Unstructured](t, d, []byte(head+"10:00"+middle+`True"},{"type":"C","on":true,"none":null}],"parts":{"x":1,"y":[1]}}}`))
	last = first
	data := []byte(head + "11:00" + middle + `False"},{"type":"C","on":true,"none":null},{"type":"D"}],"parts":{"x":1,"y":[1]}}}`)
	got := mustDecode[*unstructured.Unstructured](t, d, data)
	if diff := cmp.Diff(untypedOf(t, data), got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		path []any
		same bool
	}{
		{[]any{"metadata", "managedFields", 0}, true},
		{[]any{"metadata", "managedFields", 1}, false},
		{[]any{"metadata", "managedFields", 2}, true},
		{[]any{"status", "conditions"}, false},
		{[]any{"status", "parts"}, true},
	} {
		of := func(u *unstructured.Unstructured) uintptr {
			v := any(u.Object)
			for _, step := range c.path {
				switch step := step.(type) {
				case string:
					v = v.(map[string]any)[step]
				case int:
					v = v.([]any)[step]
				}
			}
			return reflect.ValueOf(v).Pointer()
		}
		if same := of(first) == of(got); same != c.same {
			t.Errorf("the memory of %v is that of the last version: %v", c.path, same)
		}
	}
	if diff := cmp.Diff("True", first.Object["status"].(map[string]any)["conditions"].([]any)[1].(map[string]any)["status"]); diff != "" {
		t.Errorf("the last version has changed (-want +got):\n%s", diff)
	}
}

// What is not sure to be equal is decoded.
func TestEquals(t *testing.T) {
	for _, c := range []struct {
		old, data string
		want      bool
	}{
		{`{"a":1,"b":2}`, `{"a":1,"b":2}`, true},
		{`{"a":1,"b":2}`, ` { "a" : 1 , "b" : 2 } `, true},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, false}, // who writes so may write a name twice
		{`{"a":1,"b":2}`, `{"a":1,"a":1}`, false},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`[1,"a",true,false,null,{}]`, `[1,"a",true,false,null,{}]`, true},
		{`[1,2]`, `[1]`, false},
		{`[1]`, `[1,2]`, false},
		{`[]`, `{}`, false},
		{`{}`, `[]`, false},
		{`{}`, `{}`, true},
		{`[1]`, `["1"]`, false},
		{`["1"]`, `[1]`, false},
		{`[1]`, `[1.0]`, false},
		{`[1.5]`, `[1.5]`, false},
		{`[null]`, `[false]`, false},
		{`[true]`, `[false]`, false},
		{`["a\u00e9"]`, `["aé"]`, true},
		{`{"a":{"b":1}}`, `{"a":{"b":1}`, false},
		{`{"a":1}`, `{"a":1,}`, false},
		{`[1]`, `[1,]`, false},
	} {
		var d Decoder
		d.p.reset([]byte(c.old), 0)
		old, err := d.decodeAny(mask{})
		if err != nil {
			t.Fatal(err)
		}
		d.p.reset([]byte(c.data), 0)
		if got := d.p.equals(old) && d.p.end() == nil; got != c.want {
			t.Errorf("%s equals %s: %v, want %v", c.data, c.old, got, c.want)
		}
	}
}

// What equals a value is what is decoded as that value.
func TestEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Decoder
		decoded := func(data string) (any, bool) {
			d.p.reset([]byte(data), 0)
			v, err := d.decodeAny(mask{})
			return v, err == nil && d.p.end() == nil
		}
		text := genValue(t, 3)
		old, ok := decoded(text)
		if !ok {
			t.Fatalf("%s is no JSON", text)
		}
		// As a server writes it, and whatever is near that.
		canonical, err := json.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{text, string(canonical)}
		for range 3 {
			near := texts[rapid.IntRange(0, 1).Draw(t, "which")]
			at := rapid.IntRange(0, len(near)-1).Draw(t, "at")
			to := min(len(near), at+rapid.IntRange(0, 2).Draw(t, "length"))
			texts = append(texts, near[:at]+rapid.SampledFrom([]string{"", "0", "1", `"a"`, "null", "true", "{}", "[]", `"":1,`, ",1", " ", "x", "}"}).Draw(t, "in")+near[to:])
		}
		for _, near := range append(texts, genValue(t, 3)) {
			d.p.reset([]byte(near), 0)
			equal := d.p.equals(old) && d.p.end() == nil
			v, ok := decoded(near)
			if equal && (!ok || !reflect.DeepEqual(v, old)) {
				t.Fatalf("%s equals %s", near, text)
			}
			if near == string(canonical) && !equal && !hasFloat(old) {
				t.Fatalf("%s does not equal itself", near)
			}
		}
	})
}

func hasFloat(v any) bool {
	switch v := v.(type) {
	case float64:
		return true
	case []any:
		for _, e := range v {
			if hasFloat(e) {
				return true
			}
		}
	case map[string]any:
		for _, e := range v {
			if hasFloat(e) {
				return true
			}
		}
	}
	return false
}
