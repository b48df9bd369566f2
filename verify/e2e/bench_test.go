package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/conform"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/serve"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// BenchmarkWrites is the CPU time of a write of 2 KiB over HTTP/1.1, as cpu-µs/op: of the generic
// server and its etcd without the client, beside lwtest.Server and a served Memory with the client,
// which runs in the same process. A custom resource is written.
//
//	go test -run '^$' -bench Writes -benchtime 1000x .
func BenchmarkWrites(b *testing.B) {
	b.Run("generic", func(b *testing.B) {
		s, r := shared(b, servers.Generic)
		defineResource(b, r, conform.Resource{Plural: "things", Kind: "Thing"})
		config := s.Config()
		config.NextProtos = []string{"http/1.1"}
		client := rig.Must[*http.Client](b)(rest.HTTPClientFor(config))
		rig.BenchWrites(b, client, s.URL, cpuOf(b, s.APIProcess(), s.EtcdProcess()))
	})
	b.Run("lwtest", func(b *testing.B) {
		s := lwtest.NewServer(b, lwtest.Resource{Group: "example.io", Plural: "things", Kind: "Thing"})
		url := rig.Must[string](b)(s.Listen())
		rig.BenchWrites(b, http.DefaultClient, url, cpuOf(b, os.Getpid()))
	})
	b.Run("serve", func(b *testing.B) {
		h := serve.New(&serve.Options{Authorize: serve.AllowAll})
		defer h.Close()
		things := serve.Resource[*rig.Thing]{Group: "example.io", Name: "things", Kind: "Thing"}
		go serve.ServeStore(b.Context(), h, lw.NewMemory[*rig.Thing](), things)
		server := httptest.NewServer(h)
		defer server.Close()
		rig.BenchWrites(b, http.DefaultClient, server.URL, cpuOf(b, os.Getpid()))
	})
}

// cpuOf returns a clock of the time that the threads of the processes have run.
func cpuOf(b *testing.B, pids ...int) func() time.Duration {
	return func() time.Duration {
		all, err := servers.CPU(pids...)
		if err != nil {
			b.Skip("there is no /proc with schedstat: ", err)
		}
		return all
	}
}
