package etcd_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/registry/conform"
	"github.com/go-lw/lw/serve"
)

// A served etcd answers the table of writes as kube-apiserver does.
func TestServed(t *testing.T) {
	bubble(t, func(t *testing.T, s *fake) {
		h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: slog.New(slog.DiscardHandler)})
		front := apiserver.New(apiserver.Options{Wrap: func(http.Handler) http.Handler { return h }})
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer front.Close()
		defer cancel()
		for _, r := range conform.Resources {
			if r.Typed {
				serveEtcd(ctx, t, s, h, serve.Resource[*conform.Pod]{Name: r.Plural})
				continue
			}
			serveEtcd(ctx, t, s, h, serve.Resource[*unstructured.Unstructured]{
				Group: "example.io", Name: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status, Scale: (*serve.Scale)(r.Scale), Versioned: true,
			})
		}
		synctest.Wait()
		client := front.Client()
		defer client.CloseIdleConnections()
		conform.Play(t, conform.Server{Client: client, URL: "http://server"}, false)
	})
}

func serveEtcd[T lw.Object](ctx context.Context, t *testing.T, s *fake, h *serve.Handler, r serve.Resource[T]) {
	c, err := etcd.New[T](s.Client, "/registry/"+r.Name+"/", &etcd.Options[T]{ClusterScoped: r.Cluster})
	noErr(t, err)
	go func() { _ = serve.ServeStore(ctx, h, c, r) }()
}
