// Pods serves three pods and CustomResourceDefinitions from lwtest.Server, prints its URL, and ends
// with its standard input. The tests of cmd/lwbuild, a module that requires nothing, run it.
package main

import (
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/lwtest"
)

func main() {
	server := lwtest.StartServer(append(lwtest.Definitions(), lwtest.Resource{Plural: "pods", Kind: "Pod"})...)
	defer server.Close()
	for _, name := range []string{"a", "b", "c"} {
		pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if _, err := lwtest.Objects[*metav1.PartialObjectMetadata](server, "pods").Create(pod); err != nil {
			panic(err)
		}
	}
	url, err := server.Listen()
	if err != nil {
		panic(err)
	}
	fmt.Println(url)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
