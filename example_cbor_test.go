package lw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/go-lw/lw"
)

// A server with CBOR writes it where Accept names it. One without it answers in JSON. The objects
// are the same, and so is all that reads them.
func ExampleHTTP_cbor() {
	server := httptest.NewServer(http.HandlerFunc(sprocketsInCBOR))
	defer server.Close()

	sprockets := &lw.HTTP[*Sprocket]{URL: server.URL + "/apis/example.com/v1/sprockets", Accept: "application/cbor,application/json"}
	list, err := sprockets.List(context.Background(), metav1.ListOptions{}, func(s *Sprocket, err error) error {
		if err != nil {
			fmt.Println("set aside:", err)
			return nil
		}
		fmt.Println(lw.KeyOf(s), s.Spec.Color)
		return nil
	})
	fmt.Println(list.ResourceVersion, err)
	// Output:
	// asked for application/cbor,application/json
	// shop/door green
	// set aside: lw: decode shop/bell: spec.color: at byte 97: a number, want a string
	// 42 <nil>
}

// sprocketsInCBOR answers as an API server with CBOR does.
func sprocketsInCBOR(w http.ResponseWriter, r *http.Request) {
	fmt.Println("asked for", r.Header.Get("Accept"))
	item := func(name string, color any) any {
		return map[string]any{"metadata": map[string]any{"namespace": "shop", "name": name}, "spec": map[string]any{"color": color}}
	}
	body, _ := direct.Marshal(map[string]any{
		"kind": "SprocketList", "apiVersion": "example.com/v1", "metadata": map[string]any{"resourceVersion": "42"},
		"items": []any{item("door", "green"), item("bell", 7)},
	})
	w.Header().Set("Content-Type", "application/cbor")
	_, _ = w.Write(append([]byte{0xd9, 0xd9, 0xf7}, body...)) // the tag that marks CBOR
}
