package decode

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// mustCBOR returns v as apimachinery's serializer writes it: behind the tag that marks CBOR.
func mustCBOR(t testing.TB, v any) []byte {
	t.Helper()
	data, err := direct.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0xd9, 0xd9, 0xf7}, data...)
}

// cborEvent returns a watch event as a server writes it.
func cborEvent(t testing.TB, typ string, object any) []byte {
	t.Helper()
	return mustCBOR(t, &metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: mustCBOR(t, object)}})
}
