package apiserver_test

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw/internal/apiserver"
)

// A list that is refused, then one that works, and a watch that is cut after its first event.
func Example() {
	srv := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{{Resource: "nodes", Kind: "Node", Cluster: true}}})
	url, stop, err := srv.Start("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	nodes := srv.Collection("nodes")
	for _, name := range []string{"a", "b"} {
		if _, err := nodes.Create(map[string]any{"metadata": map[string]any{"name": name, "uid": name, "creationTimestamp": nil}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	srv.Inject(apiserver.Fault{Verb: apiserver.List, Do: apiserver.Fail(apierrors.NewTooManyRequests("later", 1))})
	srv.Inject(apiserver.Fault{Verb: apiserver.Watch, Do: apiserver.At(1, apiserver.Cut)})

	for _, query := range []string{"", "", "?watch=1"} {
		resp, err := http.Get(url + nodes.URL("") + query)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Printf("%s, Retry-After %q, %.24s\n", resp.Status, resp.Header.Get("Retry-After"), body)
	}
	fmt.Println(srv.Count(apiserver.List), "lists,", srv.Count(apiserver.Watch), "watch")
	// Output:
	// 429 Too Many Requests, Retry-After "1", {"kind":"Status","apiVer
	// 200 OK, Retry-After "", {"kind":"NodeList","apiV
	// 200 OK, Retry-After "", {"type":"ADDED","object"
	// 2 lists, 1 watch
}
