package etcd_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
	"github.com/go-lw/lw/etcd/internal/suite"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/conform"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/serve"
)

// TestSource checks the collection with random histories, as etcd/e2e does on a real server.
func TestSource(t *testing.T) {
	for name, scoped := range map[string]bool{"namespaced": false, "cluster": true} {
		t.Run(name, func(t *testing.T) {
			lwtest.Source(t, func() lwtest.Subject[*item] {
				s := fakeetcd.New(t)
				return suite.Subject(func() *clientv3.Client { return s.Dial(t) }, "/w/", scoped, numbered)
			})
		})
	}
}

// numbered returns an item of key with the parity of n as a label.
func numbered(key lw.Key, n int) *item {
	i := newItem(key.Name, n)
	i.Namespace, i.Labels = key.Namespace, map[string]string{"parity": fmt.Sprint(n % 2)}
	return i
}

// TestWritable checks the writes with random sequences, beside those of an lw.Memory.
func TestWritable(t *testing.T) {
	lwtest.Writable(t, func() (lw.Writable[*item], func()) {
		c, err := etcd.New[*item](fakeetcd.New(t).Client, "/w/", nil)
		if err != nil {
			panic(err)
		}
		return c, nil
	}, numbered, func(obj *item, n int) { obj.N = n })
}

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
				Group: "example.io", Name: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status,
				Scale: (*serve.Scale)(r.Scale), Versioned: true,
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
	rig.OK(t, err)
	go func() { _ = serve.ServeStore(ctx, h, c, r) }()
}
