package decode

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// mustCBOR returns v as apimachinery's serializer writes it: behind the tag that marks CBOR.
func mustCBOR(t fataler, v any) []byte {
	t.Helper()
	data, err := direct.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0xd9, 0xd9, 0xf7}, data...)
}

// cborEvent returns a watch event as a server writes it.
func cborEvent(t fataler, typ string, object any) []byte {
	t.Helper()
	return mustCBOR(t, &metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: mustCBOR(t, object)}})
}

// sameJSON compares what keeps JSON as its bytes by what those mean: CBOR does not keep the order of
// members.
var sameJSON = cmp.Options{
	cmp.Comparer(func(a, b metav1.FieldsV1) bool { return meansSame(a.GetRawBytes(), b.GetRawBytes()) }),
	cmp.Comparer(func(a, b runtime.RawExtension) bool { return meansSame(a.Raw, b.Raw) }),
	cmp.Comparer(func(a, b json.RawMessage) bool { return meansSame(a, b) }),
}

func meansSame(a, b []byte) bool {
	var x, y any
	if bytes.Equal(a, b) {
		return true
	}
	return unmarshal(a, &x) == nil && unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
