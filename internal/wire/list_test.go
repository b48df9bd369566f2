package wire_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/go-lw/lw/internal/wire"
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
					if err := e.object.Encode(want, &bytesWanted); err != nil {
						t.Fatal(err)
					}
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

// TestCBORNumber compares how a list in CBOR says how many items follow with what apimachinery does.
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
