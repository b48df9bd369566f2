package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/internal/verify/conform"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestConform plays on a real API server the table of writes that the tests of internal/apiserver
// play on lw's. So what the table says is what Kubernetes answers.
func TestConform(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		server, reader := shared(t, kind)
		client, err := rest.HTTPClientFor(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		client.Timeout = patience
		for _, r := range conform.Resources {
			if !r.Typed {
				defineResource(t, reader, r)
			}
		}
		played, right := 0, 0
		for _, s := range conform.Sections() {
			namespace := "conform-" + s.Namespace()
			create(t, reader, "/api/v1/namespaces", object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace}})
			s.Cases = slices.DeleteFunc(s.Cases, func(c conform.Case) bool { return c.Own || c.Pod && kind.Name == servers.Kube.Name })
			played += len(s.Cases)
			right += s.Play(t, conform.Server{Client: client, URL: server.URL}, namespace)
		}
		t.Logf("%d of %d requests are answered as the table says", right, played)
	}, servers.Generic, servers.Kube)
}

// defineResource creates the CRD of a resource of the table, and waits until it is served.
func defineResource(t testing.TB, r *servers.Reader, res conform.Resource) {
	version := object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{
		"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
	sub := object{}
	if res.Status {
		sub["status"] = object{}
	}
	if s := res.Scale; s != nil {
		sub["scale"] = object{"specReplicasPath": s.Replicas, "statusReplicasPath": s.StatusReplicas, "labelSelectorPath": s.Selector}
	}
	if len(sub) > 0 {
		version["subresources"] = sub
	}
	scope, all := "Namespaced", "/apis/example.io/v1/"+res.Plural
	if res.Cluster {
		scope = "Cluster"
	}
	create(t, r, crds, object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": res.Plural + ".example.io"},
		"spec": object{"group": "example.io", "scope": scope, "versions": []object{version},
			"names": object{"plural": res.Plural, "kind": res.Kind, "singular": strings.ToLower(res.Kind)}}})
	mustBeServed(t, r, all)
}
