package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/e2e/internal/servers"
	"github.com/go-lw/lw/internal/registry/conform"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/serve"
)

// BenchmarkWrites is the CPU time of a write of 2 KiB over HTTP/1.1, as cpu-µs/op: of the generic server
// and its etcd without the client, beside lwtest.Server and a served Memory with the client, which
// runs in the same process. A custom resource is written.
//
//	go test -run '^$' -bench Writes -benchtime 1000x .
func BenchmarkWrites(b *testing.B) {
	b.Run("generic", func(b *testing.B) {
		s := sharedServer(b, servers.Generic)
		r := s.Reader("")
		defer r.Close()
		defineResource(b, r, conform.Resource{Plural: "things", Kind: "Thing"})
		config := s.Config()
		config.NextProtos = []string{"http/1.1"}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			b.Fatal(err)
		}
		benchWrites(b, client, s.URL, s.APIProcess(), s.EtcdProcess())
	})
	b.Run("lwtest", func(b *testing.B) {
		s := lwtest.NewServer(b, lwtest.Resource{Group: "example.io", Plural: "things", Kind: "Thing"})
		url, err := s.Listen()
		if err != nil {
			b.Fatal(err)
		}
		benchWrites(b, http.DefaultClient, url, os.Getpid())
	})
	b.Run("serve", func(b *testing.B) {
		h := serve.New(&serve.Options{Authorize: serve.AllowAll})
		defer h.Close()
		things := serve.Resource[*Thing]{Group: "example.io", Name: "things", Kind: "Thing"}
		go serve.ServeStore(b.Context(), h, lw.NewMemory[*Thing](), things)
		server := httptest.NewServer(h)
		defer server.Close()
		rig.Until(b, patience, func() string {
			resp, err := http.Get(server.URL + "/apis/example.io/v1/things")
			if err != nil {
				return err.Error()
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return resp.Status
			}
			return ""
		})
		benchWrites(b, http.DefaultClient, server.URL, os.Getpid())
	})
}

// benchWrites measures the writes on the server at url, whose processes are pids.
func benchWrites(b *testing.B, client *http.Client, url string, pids ...int) {
	base := url + "/apis/example.io/v1/namespaces/bench/things"
	do := func(b *testing.B, method, path, contentType, body string) (version string) {
		req, err := http.NewRequestWithContext(b.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode > 299 {
			b.Fatalf("%s %s: %s %s, %v", method, path, resp.Status, data, err)
		}
		_, version, _ = strings.Cut(string(data), `"resourceVersion":"`)
		version, _, _ = strings.Cut(version, `"`)
		return version
	}
	const plain, apply = "application/json", "application/apply-patch+yaml"
	version := do(b, http.MethodPost, "", plain, thing("a", 0))
	for _, w := range []struct {
		name string
		do   func(b *testing.B, i int)
	}{
		{"create", func(b *testing.B, i int) {
			do(b, http.MethodPost, "", plain, thing(fmt.Sprint("n-", time.Now().UnixNano()), i))
		}},
		{"update", func(b *testing.B, i int) {
			next := strings.Replace(thing("a", i), `"labels"`, `"resourceVersion":"`+version+`","labels"`, 1)
			version = do(b, http.MethodPut, "/a", plain, next)
		}},
		{"apply", func(b *testing.B, i int) {
			do(b, http.MethodPatch, fmt.Sprintf("/a?force=true&fieldManager=m%d", i%2), apply, thing("a", i/2))
		}},
	} {
		b.Run(w.name, func(b *testing.B) {
			n := 0
			for ; n < 20; n++ { // what a server fills at first
				w.do(b, n)
			}
			from := cpuOf(b, pids)
			for b.Loop() {
				n++
				w.do(b, n)
			}
			b.ReportMetric(float64(cpuOf(b, pids)-from)/1e3/float64(b.N), "cpu-µs/op")
		})
	}
}

// A Thing is what is written.
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size  int `json:"size"`
		Items []struct {
			Name  string   `json:"name"`
			Image string   `json:"image"`
			Args  []string `json:"args"`
		} `json:"items"`
	} `json:"spec"`
}

// thing is a Thing of 2 KiB.
func thing(name string, n int) string {
	var parts bytes.Buffer
	for i := range 18 {
		fmt.Fprintf(&parts, `{"name":"container-%d","image":"registry.example.io/team/app-%d:v%d","args":["--port","80%d"]},`, i, i, n, i)
	}
	return fmt.Sprintf(`{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":%q,"labels":{"app":"x","tier":"y"}},"spec":{"size":%d,"items":[%s]}}`,
		name, n, strings.TrimSuffix(parts.String(), ","))
}

// cpuOf returns the time that the threads of the processes have run.
func cpuOf(b *testing.B, pids []int) (all time.Duration) {
	for _, pid := range pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, file := range threads {
			var ns int64
			if stat, err := os.ReadFile(file); err == nil {
				_, _ = fmt.Sscan(string(stat), &ns)
			}
			all += time.Duration(ns)
		}
	}
	if all == 0 {
		b.Skip("there is no /proc with schedstat")
	}
	return all
}
