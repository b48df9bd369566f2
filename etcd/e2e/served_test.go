package e2e

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/serve"
)

// BenchmarkServed is the CPU time of a write of 2 KiB over HTTP/1.1 to a served etcd, of the
// server, of its etcd and of the client together. BenchmarkWrites of module e2e writes the same to
// a kube-apiserver.
//
//	go test -run '^$' -bench Served -benchtime 1000x .
func BenchmarkServed(b *testing.B) {
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: slog.New(slog.DiscardHandler)})
	defer h.Close()
	things, err := etcd.New[*rig.Thing](dial(b, startServer(b).endpoint), "/things/", nil)
	noErr(b, err)
	go serve.ServeStore(b.Context(), h, things, serve.Resource[*rig.Thing]{Group: "example.io", Name: "things", Kind: "Thing"})
	server := httptest.NewServer(h)
	defer server.Close()
	rig.BenchWrites(b, http.DefaultClient, server.URL, cpuNow)
}
