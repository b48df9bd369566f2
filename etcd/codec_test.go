package etcd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
	"github.com/go-lw/lw/internal/verify/layers"
	"github.com/go-lw/lw/internal/verify/rig"
)

type job struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Text              string `json:"text,omitempty"`
}

type plain struct {
	lw.Meta `json:"metadata"`
	Text    string `json:"text,omitempty"`
}

// TestCodecs encodes and decodes; the bytes are overwritten after it, as those of a message are.
func TestCodecs(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", Labels: map[string]string{"k": "v"}}
	kind := metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Job"}
	roundTrip(t, "JSON", JSON[*plain](), &plain{lw.Meta{Namespace: "ns", Name: "a"}, "<&>"},
		`{"metadata":{"namespace":"ns","name":"a"},"text":"<&>"}`)
	const typed = `{"kind":"Job","apiVersion":"example.com/v1"`
	roundTrip(t, "JSON with a kind", JSON[*job](), &job{kind, meta, "x"}, typed)
	roundTrip(t, "Kube, a struct", Kube[*job](), &job{kind, meta, "x"}, typed)
	obj := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta}
	data := roundTrip(t, "Kube, a type of the API", Kube[*metav1.PartialObjectMetadata](), obj, "k8s\x00")
	// As apimachinery reads it.
	var u runtime.Unknown
	var got metav1.PartialObjectMetadata
	if err := u.Unmarshal(data[4:]); err != nil || u.APIVersion != "v1" || u.Kind != "Pod" ||
		got.Unmarshal(u.Raw) != nil || got.Name != "a" {
		t.Errorf("%v, %v, %v", u, got, err)
	}
	const text = `{"apiVersion":"example.com/v1","kind":"X","metadata":{"name":"a"},"n":1}`
	untyped := &unstructured.Unstructured{}
	rig.OK(t, untyped.UnmarshalJSON([]byte(text)))
	roundTrip(t, "JSON, unstructured", JSON[*unstructured.Unstructured](), untyped, text)
	roundTrip(t, "Kube, unstructured", Kube[*unstructured.Unstructured](), untyped, text)
}

// roundTrip checks what obj is encoded as, and that it is decoded again, in several goroutines.
func roundTrip[T lw.Object](t *testing.T, name string, c Codec[T], obj T, prefix string) (data []byte) {
	t.Run(name, func(t *testing.T) {
		var err error
		data, err = c.Encode(obj)
		if err != nil || !strings.HasPrefix(string(data), prefix) || strings.HasSuffix(string(data), "\n") {
			t.Fatalf("%q, %v; want %q", data, err, prefix)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 20 {
					in := bytes.Clone(data)
					got, err := c.Decode(in)
					clear(in)
					if err != nil {
						t.Error(err)
					}
					rig.Same(t, "decoded", obj, got)
				}
			})
		}
		all.Wait()
	})
	return data
}

// TestCodecErrors has what cannot be decoded or encoded.
func TestCodecErrors(t *testing.T) {
	type pod = metav1.PartialObjectMetadata
	for value, want := range map[string]string{
		"":                               "the value is empty",
		"k8s:enc:aescbc:v1:key1:\x01":    `the value is encrypted ("aescbc")`,
		"k8s:enc:":                       "the value is encrypted",
		"k8s\x00\xff":                    "unexpected EOF",
		"{":                              "invalid JSON",
		`{"kind":"other","metadata":{}}`: "want Job, got other",
	} {
		if _, err := Kube[*job]().Decode([]byte(value)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", value, err, want)
		}
	}
	if _, err := JSON[*plain]().Decode([]byte(`{"text":1}`)); err == nil || !strings.Contains(err.Error(), "text") {
		t.Errorf("a text that is a number: %v", err)
	}
	for _, m := range []metav1.TypeMeta{{}, {Kind: "Pod"}, {APIVersion: "v1"}} {
		if _, err := Kube[*pod]().Encode(&pod{TypeMeta: m}); err == nil {
			t.Errorf("%v is encoded", m)
		}
	}
}

// TestComplete: what a value does not say of its identity comes from the key; a value that says
// that it is another object is none.
func TestComplete(t *testing.T) {
	c := &Collection[*plain]{prefix: "/w/", opts: Options[*plain]{Codec: JSON[*plain]()}}
	c.identity, _ = newIdentity[*plain]()
	for value, want := range map[string]lw.Meta{
		`{}`:                        {Namespace: "ns", Name: "a", UID: "3", ResourceVersion: "7"},
		`{"metadata":{"name":"a"}}`: {Namespace: "ns", Name: "a", UID: "3", ResourceVersion: "7"},
		`{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"99"}}`: {Namespace: "ns", Name: "a", UID: "u",
			ResourceVersion: "7"},
		`{"metadata":{"name":"b","namespace":"ns"}}`:    {},
		`{"metadata":{"name":"a","namespace":"other"}}`: {},
		`{"metadata":{"namespace":"ns"}}`:               {},
	} {
		obj, err := c.object(&entry{path: []byte("/w/ns/a"), value: []byte(value), created: 3, modified: 7})
		var got lw.Meta
		if err == nil {
			got = obj.Meta
		}
		rig.Same(t, fmt.Sprintf("%s: %v", value, err), want, got)
	}
}

// TestBare: what is encoded has neither version nor UID, and the caller's object keeps both.
func TestBare(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "uid": "u",
		"resourceVersion": "5"}}}
	id, err := newIdentity[*unstructured.Unstructured]()
	rig.OK(t, err)
	bare, err := id.bare(u, "")
	text, _ := json.Marshal(bare.Object)
	if err != nil || string(text) != `{"metadata":{"name":"a"}}` || u.GetUID() != "u" || u.GetResourceVersion() != "5" {
		t.Errorf("%s, %v, %v", text, u, err)
	}
	type wrapped struct{ plain }
	ids, err := newIdentity[*wrapped]()
	if err == nil {
		t.Errorf("an embedded struct that is not exported has an identity: %v", ids)
	}
}

// TestNothingIsKept: of a watch that has ended, nothing is asked any more.
func TestNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New[*plain](fakeetcd.New(t).Client, "/w/", nil)
		rig.OK(t, err)
		for range 3 {
			rig.OK(t, c.Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(1))}, nil))
		}
		if n := len(c.heartbeats.open); n > 0 {
			t.Errorf("%d watches are kept", n)
		}
	})
}

// TestLastSeen: the newest keys are kept, and those that are deleted are not.
func TestLastSeen(t *testing.T) {
	var seen lastSeen
	see := func(key string, modified int64) {
		seen.see(&entry{path: []byte(key), value: []byte(key), modified: modified})
	}
	check := func(want ...string) {
		t.Helper()
		var got []string
		for _, f := range seen.keys[:seen.n] {
			got = append(got, string(f.path))
		}
		rig.Same(t, "", want, got)
	}
	for i, key := range []string{"a", "b", "c", "d", "e", "f"} {
		see(key, int64(i+1))
	}
	check("f", "e", "d", "c")
	see("d", 9)
	check("d", "f", "e", "c")
	see("x", 1)                                      // older than all
	see("e", 2)                                      // an older version of one that is there
	seen.see(&entry{path: []byte("y"), modified: 4}) // in the order of a list
	check("d", "f", "e", "y")
	seen.gone([]byte("d"))
	seen.gone([]byte("nothing"))
	check("f", "e", "y")
	var other lastSeen
	other.see(&entry{path: []byte("z"), modified: 100})
	other.see(&entry{path: []byte("v"), modified: 1})
	seen.merge(&other)
	check("z", "f", "e", "y")
	for _, key := range []string{"z", "f", "e", "y"} {
		seen.gone([]byte(key))
	}
	check("y")
	if seen.keys[0].modified != 0 {
		t.Errorf("the last key is gone, and said to be of %d", seen.keys[0].modified)
	}
}

// No file uses one of a room above its own.
func TestRooms(t *testing.T) {
	if err := layers.HoldModule("..", "etcd"); err != nil {
		t.Error(err)
	}
}
