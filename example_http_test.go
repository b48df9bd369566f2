package lw_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/go-lw/lw"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Sprocket is an API type as it is written for a custom resource, with the fields that matter here.
type Sprocket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Color string `json:"color"`
	} `json:"spec"`
}

func ExampleHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"SprocketList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"42"},"items":[
			{"metadata":{"namespace":"shop","name":"door","resourceVersion":"40"},"spec":{"color":"green"}},
			{"metadata":{"namespace":"shop","name":"bell","resourceVersion":"41"},"spec":{"color":7}}]}`)
	}))
	defer server.Close()

	sprockets := &lw.HTTP[*Sprocket]{URL: server.URL + "/apis/example.com/v1/sprockets", Drop: []string{"metadata.managedFields"}}
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
	// shop/door green
	// set aside: lw: decode shop/bell: spec.color: at byte 289: a number, want a string
	// 42 <nil>
}
