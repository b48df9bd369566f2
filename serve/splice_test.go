package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/wire"
)

// objectOf decodes an object as encoding/json decodes its parts, which is what an Object is.
func objectOf(data []byte) (*Object, error) {
	o := &Object{}
	err := o.anyJSON(data)
	return o, err
}

// must ends a test at an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sameObject checks that data is decoded as an object of any form is.
func sameObject(t rapid.TB, data []byte) {
	t.Helper()
	want, failed := objectOf(data)
	got := &Object{}
	if err := got.UnmarshalJSON(data); fmt.Sprint(err) != fmt.Sprint(failed) {
		t.Fatalf("%s: %v, want %v", data, err, failed)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Object{})); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", data, diff)
	}
}

var oddObjects = []string{
	`{"metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"5","labels":{"a":"b","c":""}}}`,
	`{"kind":"K","metadata":{"name":"a","managedFields":[{"a":{"b":[1,"]}"]}}],"labels":{"a":"b"}},"spec":{"metadata":{"name":"x"}}}`,
	`{"metadata":{"name":"a","name":"b","labels":{"a":"b"},"labels":{"c":"d"}},"metadata":{"name":"c"}}`,
	`{"metadata":{"labels":{"a":"b","a":"c"},"name":"x","labels":null}}`,
	`{"metadata":{"labels":{},"name":null,"uid":null}}`, `{"metadata":null}`, `{"metadata":[]}`, `{"metadata":{}}`,
	`{}`, `null`,
	`{"metadata":{"name":"\u0061\n","labels":{"\u0061":"\\"}}}`, `{"metadata":{"name":"é","labels":{"é":"é"}}}`,
	"{\"metadata\":{\"name\":\"\xff\",\"labels\":{\"\xff\":\"a\tb\"}}}", `{"metadata":{"labels":{"a":1}}}`,
	`{"metadata":{"labels":{"a":null,"b":{}}}}`,
	`{"metadata":{"labels":{"a":"b"]}}`, `{"metadata":{"labels":["a","b"]}}`, `{"metadata":{"labels":{"a":"b",}}}`,
	`{"metadata":{"labels":{"a" : "b"}}}`,
	`{"metadata":{"labels":{"a":"b" }}}`, `{"metadata":{"labels":{ "a":"b"}}}`, `{"metadata":{"labels":{"a":"b":"c"}}}`,
	`{"metadata":{"labels":{"a","b"}}}`,
	`{"metadata":{"labels":{"a":"b""c":"d"}}}`, `{"metadata":{"labels":"a"}}`,
	`{"metadata":{"name":5,"labels":{"a":"b"}}}`, `{"metadata":{"name":"a"]}`,
	` { "metadata" : { "name" : "a" , "labels" : { "a" : "b" } } , "spec" : [ ] } `, `{"metadata":{"name":"a"}`,
	`{"metadata":{"name":"a"},`, `{"metadata":{"name":"a"}}x`,
	`{"Metadata":{"Name":"a"},"metadata":{"NAME":"b"}}`, `{"metadata":{"name":tr"ue"}}`,
	`{"a":"metadata","metadata":{"":"","labels":{"":""}}}`,
}

// An object is what it is without a fast way, whatever its form and wherever its bytes end.
func TestObjectOfJSON(t *testing.T) {
	for _, data := range oddObjects {
		for n := range len(data) + 1 {
			sameObject(t, []byte(data[:n]))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		object := drawObject(t, 2)
		meta := drawObject(t, 1)
		for _, name := range []string{"name", "namespace", "uid", "resourceVersion"} {
			if rapid.Bool().Draw(t, name) {
				meta[name] = rapid.SampledFrom([]any{"a", "long-enough-for-two-words", "", "\"", "\\", "é", 5, nil}).Draw(t,
					"value")
			}
		}
		if rapid.Bool().Draw(t, "labels") {
			meta["labels"] = rapid.MapOf(rapid.SampledFrom([]string{"a", "app.kubernetes.io/name", "", "\\", "é"}),
				rapid.SampledFrom([]string{"", "b", "a,b:c", "\"", "\n"})).Draw(t, "of")
		}
		object["metadata"] = meta
		sameObject(t, drawJSON(t, object))
	})
}

func FuzzObjectOfJSON(f *testing.F) {
	for _, data := range oddObjects {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameObject(t, data) })
}

// What servers write takes the fast way: of the metadata nothing is made but what an Object shows.
func TestObjectAllocates(t *testing.T) {
	data := []byte(`{"kind":"K","metadata":{"name":"a","uid":"u","resourceVersion":"1","labels":{"a":"b","c":"d"},"managedFields":[` +
		strings.Repeat(`{"manager":"m","fieldsV1":{"f:a":{"f:b":{}}}},`, 50) + `{}]},"spec":{}}`)
	meta := metav1.PartialObjectMetadata{}
	must(t, json.Unmarshal(data, &meta))
	message, err := meta.Marshal()
	must(t, err)
	var o Object
	for what, decode := range map[string]func() error{
		"JSON":     func() error { return o.UnmarshalJSON(data) },
		"protobuf": func() error { return o.Unmarshal(message) },
	} {
		// Three names, the map, its labels, and the bytes.
		if n := testing.AllocsPerRun(100, func() {
			must(t, decode())
		}); n > 11 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

// sameMessage checks that a message is decoded as the whole ObjectMeta says.
func sameMessage(t rapid.TB, data []byte) {
	t.Helper()
	want := &Object{}
	var failed error
	raw, _, _, err := protoField(data, fieldMetadata)
	if err != nil {
		failed = err
	} else {
		var meta metav1.ObjectMeta
		if err := meta.Unmarshal(raw); err != nil {
			failed = fmt.Errorf("metadata: %w", err)
		} else {
			*want = Object{Meta: lw.Meta{Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
				ResourceVersion: meta.ResourceVersion},
				Labels: meta.Labels, data: bytes.Clone(data), proto: true}
		}
	}
	got := &Object{}
	if err := got.Unmarshal(data); fmt.Sprint(err) != fmt.Sprint(failed) {
		t.Fatalf("%q: %v, want %v", data, err, failed)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Object{})); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", data, diff)
	}
}

// message is an object with every field that metadata has.
func message(t testing.TB) []byte {
	at := metav1.NewTime(time.Unix(1e9, 5))
	meta := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "a", GenerateName: "b", Namespace: "c", UID: "e", ResourceVersion: "6", Generation: 300, CreationTimestamp: at,
		DeletionTimestamp: &at, DeletionGracePeriodSeconds: new(int64(30)), Labels: map[string]string{"a": "b", "c": ""},
		Annotations: map[string]string{"d": "e"}, Finalizers: []string{"f"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "K", Name: "n", UID: types.UID("u"), APIVersion: "v1",
			Controller: new(true), BlockOwnerDeletion: new(false)}},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "m", Operation: "Apply", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1("{}"), Subresource: "status",
		}},
	}}
	data, err := meta.Marshal()
	must(t, err)
	return data
}

// A message is what the whole of its metadata says, also if one byte of it is another one, one is
// missing, or something comes behind it.
func TestObjectOfProtobuf(t *testing.T) {
	whole := message(t)
	var plain Object
	if raw, _, _, err := protoField(whole, fieldMetadata); err != nil || !plain.plainProto(raw) {
		t.Fatal("not all that metadata has takes the fast way")
	}
	sameMessage(t, whole)
	_, from, _, _ := protoField(whole, fieldMetadata)
	_, head := binary.Uvarint(whole[from+1:])
	meta := whole[from+1+head:]
	for n := range meta {
		for _, b := range []byte{0, 1, 8, 10, 13, 90, 0x7f, 0x80, 0xff, meta[n] + 1, meta[n] - 1, meta[n] ^ 1, meta[n] ^ 8} {
			changed := bytes.Clone(meta)
			changed[n] = b
			sameMessage(t, enclosed(changed))
		}
		sameMessage(t, enclosed(meta[:n]))
		sameMessage(t, whole[:n])
	}
	for _, more := range []string{"\x0a\x01z", "\x5a\x04\x0a\x02ab", "\x5a\x00", "\x5a\x06\x12\x01x\x0a\x01k", "\x78\x01",
		"\x38\x80", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x92\x01\x00", "\x9a\x01\x00", "\x00\x00", "\x0b\x0c",
		"\x8a\x01\x02\x4a\x00"} {
		sameMessage(t, enclosed([]byte(string(meta)+more)))
	}
}

// enclosed returns a message with metadata.
func enclosed(meta []byte) []byte {
	return append(binary.AppendUvarint([]byte{fieldMetadata<<3 | 2}, uint64(len(meta))), meta...)
}

func FuzzObjectOfProtobuf(f *testing.F) {
	f.Add(message(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		sameMessage(t, data)
		sameMessage(t, enclosed(data))
	})
}

// object draws a JSON object with names and values that mislead whoever does not parse.
func drawObject(t *rapid.T, depth int) map[string]any {
	names := rapid.SampledFrom([]string{
		"metadata", "resourceVersion", "uid", "kind", "apiVersion", "name", "a", "", `"`, `\`, `a"b\`, "{", "}", "[,]:",
		"é\u2028", "labels",
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
	must(t, err)
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

// The kind is put in front, or in the place of one that says nothing; nothing else changes.
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
		must(t, err)
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
	must(t, wire.Members(data, 0, func([]byte, int, int) bool { n++; return true }))
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
	for _, data := range []string{"", " \n", "x", `"a"`, "[]", `["a":1]`, `["a":1}`, "{", `{"a"`, `{"a":`, `{"a":1`,
		`{"a":1,`, `{"a":1 `, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":"`, `{"a":{`} {
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
	for _, s := range []string{`{}`, ` { "metadata" : { "uid":"" } , "kind":"\\"" } `, `{"metadata":}`,
		`{"metadata":{"labels":{"a":"b`, `[`} {
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
		must(t, err)
		got, err := withVersionProto(data, 77, identity{uid: "made"})
		must(t, err)
		want := obj.DeepCopy()
		want.ResourceVersion = "77"
		if want.UID == "" {
			want.UID = "made"
		}
		back := &metav1.PartialObjectMetadata{}
		must(t, back.Unmarshal(got))
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
