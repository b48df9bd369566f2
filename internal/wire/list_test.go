package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/internal/wire"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// listOf writes a list as a server does, from items that it never gathers.
func listOf(t *testing.T, c *wire.Codec, meta *metav1.ListMeta, items [][]byte) []byte {
	t.Helper()
	var total wire.Total
	for _, item := range items {
		total = c.Add(total, len(item))
	}
	list := c.AppendListHead(nil, meta, total)
	length := c.ListLength(len(list), total)
	for i, item := range items {
		list = append(c.AppendItemHead(list, i == 0, len(item)), item...)
	}
	list = append(list, c.ListTail()...)
	if int64(len(list)) != length {
		t.Errorf("a list of %d items has %d bytes, ListLength says %d", len(items), len(list), length)
	}
	return list
}

// TestLists reads lists with apimachinery's decoders, and compares their lengths with those said
// before.
func TestLists(t *testing.T) {
	meta := metav1.ListMeta{ResourceVersion: "9", Continue: "token", RemainingItemCount: new(int64(5))}
	for name, e := range encodings {
		for _, shape := range []wire.Shape{wire.Full, wire.Partial} {
			c := wire.NewCodec(wire.Format{Encoding: e.Encoding, Shape: shape}, podKind, nil)
			for _, n := range []int{0, 1, 2, 23, 24, 300} {
				want := &metav1.PartialObjectMetadataList{ListMeta: meta}
				want.APIVersion, want.Kind = c.Kind().APIVersion, c.Kind().Kind+"List"
				var items [][]byte
				for i := range n {
					obj := pod(fmt.Sprint("pod-", i), i%200)
					obj.TypeMeta = c.Kind()
					items = append(items, e.bytesOf(t, obj))
					if e.Encoding == wire.Protobuf {
						obj.TypeMeta = metav1.TypeMeta{} // is only in the envelope of the list
					}
					want.Items = append(want.Items, *obj)
				}
				if n == 0 && e.Encoding != wire.Protobuf {
					want.Items = []metav1.PartialObjectMetadata{} // as in a list of JSON: not null
				}
				list := listOf(t, c, &meta, items)
				got, _, err := e.object.Decode(list, nil, nil)
				if err != nil {
					t.Errorf("%s, %d items: %v", name, n, err)
					continue
				}
				if e.Encoding == wire.Protobuf {
					var bytesWanted bytes.Buffer
					rig.OK(t, e.object.Encode(want, &bytesWanted))
					if !bytes.Equal(list, bytesWanted.Bytes()) {
						t.Errorf("%d items: %d bytes differ from apimachinery's %d", n, len(list), bytesWanted.Len())
					}
				}
				got.GetObjectKind().SetGroupVersionKind(want.GroupVersionKind())
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %d items (-want +got):\n%.2000s", name, n, diff)
				}
			}
		}
	}
}

// TestCBORNumber compares how a list in CBOR says how many items follow with what apimachinery
// does.
func TestCBORNumber(t *testing.T) {
	c := wire.NewCodec(wire.Format{Encoding: wire.CBOR}, podKind, nil)
	for _, n := range []int{0, 23, 24, 255, 256, 65535, 65536} {
		array, err := direct.Marshal(make([]bool, n))
		if err != nil {
			t.Fatal(err)
		}
		if head := c.AppendListHead(nil, &metav1.ListMeta{}, wire.Total{Items: n}); !bytes.HasSuffix(head, array[:len(array)-n]) {
			t.Errorf("%d items: the head ends with % x, want % x", n, head[len(head)-5:], array[:len(array)-n])
		}
	}
}

// TestJSONList pins what a list looks like to the byte.
func TestJSONList(t *testing.T) {
	c := wire.NewCodec(wire.Format{}, metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, nil)
	got := listOf(t, c, &metav1.ListMeta{ResourceVersion: "9"}, [][]byte{[]byte(`{"a":1}`), []byte(`{"b":2}`)})
	const want = `{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"9"},"items":[{"a":1},{"b":2}]}` + "\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

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
