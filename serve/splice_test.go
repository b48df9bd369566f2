package serve

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/wire"
)

// object draws a JSON object with names and values that mislead whoever does not parse.
func drawObject(t *rapid.T, depth int) map[string]any {
	names := rapid.SampledFrom([]string{
		"metadata", "resourceVersion", "uid", "kind", "apiVersion", "name", "a", "", `"`, `\`, `a"b\`, "{", "}", "[,]:", "é\u2028", "labels",
	})
	object := map[string]any{}
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		object[names.Draw(t, "name")] = drawValue(t, depth)
	}
	return object
}

func drawValue(t *rapid.T, depth int) any {
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"", "x", `"`, `\"`, `\\`, `{"metadata":{"uid":"u"}}`, "},", "\n"}).Draw(t, "string")
	case 1:
		return rapid.SampledFrom([]float64{0, -1.5e300, 12}).Draw(t, "number")
	case 2:
		return nil
	case 3:
		return true
	case 4:
		return []any{}
	case 5:
		return drawObject(t, depth-1)
	}
	return []any{drawValue(t, depth-1), drawObject(t, depth-1)}
}

// encode writes an object with or without spaces.
func drawJSON(t *rapid.T, object any) []byte {
	data, err := json.Marshal(object)
	if rapid.Bool().Draw(t, "spaces") {
		data, err = json.MarshalIndent(object, " ", "\t")
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decodeObject(t rapid.TB, data []byte) map[string]any {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return object
}

// Another version changes the version, adds what is missing, and leaves everything else.
func TestWithVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := drawObject(t, 2)
		if rapid.Bool().Draw(t, "metadata") {
			object["metadata"] = drawObject(t, 1)
		}
		id := identity{"n", "o", rapid.SampledFrom([]string{"", "u"}).Draw(t, "uid")}
		data := drawJSON(t, object)
		got, err := withVersion(data, 7, id)
		if err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		want := decodeObject(t, data)
		meta, ok := want["metadata"].(map[string]any)
		if !ok {
			meta = map[string]any{"namespace": "n", "name": "o"}
			want["metadata"] = meta
		}
		meta["resourceVersion"] = "7"
		if uid, _ := meta["uid"].(string); id.uid != "" && uid == "" {
			meta["uid"] = "u"
		}
		if diff := cmp.Diff(want, decodeObject(t, got)); diff != "" || memberCount(t, got) != len(want) {
			t.Fatalf("%s\nbecame\n%s\n%s", data, got, diff)
		}
	})
}

// The kind is put in front if it is not there, and in the place of one that says nothing; nothing
// else changes.
func TestWithKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := drawObject(t, 2)
		for _, name := range []string{"kind", "apiVersion"} {
			delete(object, name)
			if rapid.Bool().Draw(t, name) {
				object[name] = rapid.SampledFrom([]any{"Own", "", nil, 5, []any{}, map[string]any{}}).Draw(t, "own")
			}
		}
		data := drawJSON(t, object)
		got, err := withKind(data, "Pod", "v1")
		if err != nil {
			t.Fatal(err)
		}
		want := decodeObject(t, data)
		for name, otherwise := range map[string]string{"kind": "Pod", "apiVersion": "v1"} {
			if own, _ := want[name].(string); own == "" {
				want[name] = otherwise
			}
		}
		if diff := cmp.Diff(want, decodeObject(t, got)); diff != "" {
			t.Fatalf("%s\nbecame\n%s\n%s", data, got, diff)
		}
		if n := memberCount(t, got); n != len(want) {
			t.Fatalf("%d members of %d names: %s", n, len(want), got)
		}
		if again, err := withKind(got, "Pod", "v1"); err != nil || &again[0] != &got[0] {
			t.Fatal("an object with a kind was copied")
		}
	})
}

// memberCount returns how many members a JSON object has. A name may come twice.
func memberCount(t rapid.TB, data []byte) (n int) {
	if err := wire.Members(data, 0, func([]byte, int, int) bool { n++; return true }); err != nil {
		t.Fatal(err)
	}
	return n
}

// The version and the UID are replaced where they stand, in either order.
func TestWithVersionInPlace(t *testing.T) {
	for data, want := range map[string]string{
		`{"metadata":{"uid":"","a":1,"resourceVersion":"5"},"b":2}`:       `{"metadata":{"uid":"made","a":1,"resourceVersion":"77"},"b":2}`,
		`{"metadata":{"resourceVersion":"5","a":1,"uid":""},"b":2}`:       `{"metadata":{"resourceVersion":"77","a":1,"uid":"made"},"b":2}`,
		`{"metadata":{"resourceVersion":"5","uid":"own"}}`:                `{"metadata":{"resourceVersion":"77","uid":"own"}}`,
		`{"metadata":{"uid":"own","resourceVersion":""}}`:                 `{"metadata":{"uid":"own","resourceVersion":"77"}}`,
		`{"metadata":{"uid":"own"}}`:                                      `{"metadata":{"resourceVersion":"77","uid":"own"}}`,
		`{"metadata":{"resourceVersion":"5"}}`:                            `{"metadata":{"uid":"made","resourceVersion":"77"}}`,
		`{"metadata":{}}`:                                                 `{"metadata":{"resourceVersion":"77","uid":"made"}}`,
		`{"spec":{"metadata":{"uid":""}},"metadata":{"uid":"","name":1}}`: `{"spec":{"metadata":{"uid":""}},"metadata":{"resourceVersion":"77","uid":"made","name":1}}`,
		`{"metadata":null,"a":1}`:                                         `{"metadata":{"name":"o","namespace":"n","resourceVersion":"77","uid":"made"},"a":1}`,
		`{"metadata":{"uid":null,"name":"x"}}`:                            `{"metadata":{"resourceVersion":"77","uid":"made","name":"x"}}`,
		`{"a":1}`:                                                         `{"metadata":{"name":"o","namespace":"n","resourceVersion":"77","uid":"made"},"a":1}`,
		` { } `:                                                           ` {"metadata":{"name":"o","namespace":"n","resourceVersion":"77","uid":"made"} } `,
	} {
		got, err := withVersion([]byte(data), 77, identity{"n", "o", "made"})
		if err != nil || string(got) != want {
			t.Errorf("%s became %s, %v; want %s", data, got, err, want)
		}
	}
}

// Bytes that are no JSON object are an error, and no panic.
func TestNoObject(t *testing.T) {
	for _, data := range []string{"", " \n", "x", `"a"`, "[]", `["a":1]`, `["a":1}`, "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1 `, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":"`, `{"a":{`} {
		if _, err := withVersion([]byte(data), 1, identity{name: "a"}); err == nil {
			t.Errorf("a version in %q", data)
		}
		if _, err := withKind([]byte(data), "K", "v1"); err == nil {
			t.Errorf("a kind in %q", data)
		}
		if err := new(Object).UnmarshalJSON([]byte(data)); err == nil {
			t.Errorf("an Object of %q", data)
		}
	}
}

// No bytes make a panic.
func FuzzSplice(f *testing.F) {
	for _, s := range []string{`{}`, ` { "metadata" : { "uid":"" } , "kind":"\\"" } `, `{"metadata":}`, `{"metadata":{"labels":{"a":"b`, `[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = withVersion(data, 1, identity{"a", "b", "c"})
		_, _ = withKind(data, "K", "v1")
		var o Object
		_ = o.UnmarshalJSON(data)
	})
}

// Another version in a protobuf message is as if the object had been encoded with it.
func TestWithVersionProto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		obj := &metav1.PartialObjectMetadata{}
		obj.Name = "x"
		obj.ResourceVersion = rapid.SampledFrom([]string{"", "5", "1234567890123456789"}).Draw(t, "version")
		obj.UID = "own"
		if rapid.Bool().Draw(t, "no uid") {
			obj.UID = ""
		}
		if rapid.Bool().Draw(t, "labels") {
			obj.Labels = map[string]string{"a": string(make([]byte, rapid.IntRange(0, 300).Draw(t, "long")))}
			obj.Generation = 300
		}
		data, err := obj.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := withVersionProto(data, 77, identity{uid: "made"})
		if err != nil {
			t.Fatal(err)
		}
		want := obj.DeepCopy()
		want.ResourceVersion = "77"
		if want.UID == "" {
			want.UID = "made"
		}
		back := &metav1.PartialObjectMetadata{}
		if err := back.Unmarshal(got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Bytes that are no message are an error.
func FuzzProto(f *testing.F) {
	f.Add([]byte("\x0a\x03\x0a\x01x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := withVersionProto(data, 1, identity{uid: "u"})
		if err == nil && len(out) < 3 {
			t.Fatal("no version")
		}
		var o Object
		_ = o.Unmarshal(data)
	})
}
