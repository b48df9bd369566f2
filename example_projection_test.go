package lw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
)

// A projection has the fields that a program reads, with the tags that they have in the API's type. lw finds them in JSON by their
// names and in protobuf by their numbers, and skips the bytes of all others.
func ExampleHTTP_projection() {
	type Place struct {
		lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
		Spec    struct {
			NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
		} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
		Status struct {
			Phase carp.CarpPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
		} `json:"status" protobuf:"bytes,3,opt,name=status"`
	}
	server := httptest.NewServer(http.HandlerFunc(carpsInProtobuf))
	defer server.Close()

	carps := &lw.HTTP[*Place]{URL: server.URL + "/apis/testapigroup/v1/carps"}
	_, err := carps.List(context.Background(), metav1.ListOptions{}, func(p *Place, err error) error {
		if err == nil {
			fmt.Println(p.Key(), "is", p.Status.Phase, "on", p.Spec.NodeName)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// asked for application/vnd.kubernetes.protobuf,application/json
	// pond/koi is Running on n1
	// <nil>
}

// carpsInProtobuf answers as an API server does.
func carpsInProtobuf(w http.ResponseWriter, r *http.Request) {
	fmt.Println("asked for", r.Header.Get("Accept"))
	list := &carp.CarpList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []carp.Carp{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pond", Name: "koi", UID: "u", ResourceVersion: "8", Labels: map[string]string{"color": "red"}},
		Spec:       carp.CarpSpec{NodeName: "n1", RestartPolicy: "Always", SchedulerName: "default"},
		Status:     carp.CarpStatus{Phase: "Running", CarpIP: "10.0.0.1"},
	}}}
	raw, _ := list.Marshal()
	body, _ := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "CarpList", APIVersion: "testapigroup/v1"}, Raw: raw}).Marshal()
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	_, _ = w.Write(append([]byte("k8s\x00"), body...))
}
