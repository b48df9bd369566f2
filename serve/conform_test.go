package serve_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/registry/conform"
	"github.com/go-lw/lw/serve"
)

// conforming serves what the table of writes is about.
func (b *bubble) conforming(managed bool) {
	for _, r := range conform.Resources {
		b.serve(func(ctx context.Context) error {
			if r.Typed {
				return serve.ServeStore(ctx, b.h, lw.NewMemory[*conform.Pod](), serve.Resource[*conform.Pod]{Name: r.Plural, Managed: managed})
			}
			return serve.ServeStore(ctx, b.h, lw.NewMemory[*unstructured.Unstructured](), serve.Resource[*unstructured.Unstructured]{
				Group: "example.io", Name: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status, Scale: (*serve.Scale)(r.Scale),
				Versioned: true, Managed: managed,
			})
		})
	}
}

// A served store answers writes as kube-apiserver does.
func TestConform(t *testing.T) {
	for _, managed := range []bool{false, true} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			b.conforming(managed)
			conform.Play(b.t, conform.Server{Client: b.client, URL: "http://server"}, false)
		})
	}
}
