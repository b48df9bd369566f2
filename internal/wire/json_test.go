package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/go-lw/lw/internal/wire"
)

// Bytes that are no JSON object are an error, and no panic.
func TestNoMembers(t *testing.T) {
	for _, data := range []string{"", " \n", "x", `"a"`, "[]", `["a":1]`, `["a":1}`, "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1 `, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":"`, `{"a":{`} {
		if err := wire.Members([]byte(data), 0, func([]byte, int, int) bool { return true }); err != wire.ErrNotObject {
			t.Errorf("members of %q: %v", data, err)
		}
	}
}

// The first member of a name is found, and a walk ends where it is told to.
func TestFindMember(t *testing.T) {
	const data = ` {"a":{"b":1}, "b":"\"}" ,"b":2,"c":-3}`
	for name, want := range map[string]string{"a": `{"b":1}`, "b": `"\"}"`, "c": "-3", "d": ""} {
		from, to, err := wire.FindMember([]byte(data), 0, name)
		if got := data[from:to]; got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	seen := ""
	err := wire.Walk([]byte(data), 0, func(name []byte, from int) int {
		seen += string(name)
		return wire.Stop
	})
	if seen != "a" || err != nil {
		t.Errorf("a walk that ends at once has seen %q: %v", seen, err)
	}
}

// What Members finds in any bytes is what encoding/json finds, and it never panics.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"b":{"c":[1,"]"]}}`, ` { "a" : "\\\"" , "b":null } `, `{"a":}`, `{"a":"`, `[`, `{"a":1 "b":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := map[string]string{}
		err := wire.Members(data, 0, func(name []byte, from, to int) bool {
			got[string(name)] = string(data[from:to])
			return true
		})
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil || want == nil {
			return
		}
		if err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		for raw, value := range got {
			var name string
			if json.Unmarshal([]byte(`"`+raw+`"`), &name) != nil {
				t.Fatalf("the name %q", raw)
			}
			if string(want[name]) != value && len(got) == len(want) {
				t.Fatalf("%q is %s, want %s", name, value, want[name])
			}
		}
	})
}
