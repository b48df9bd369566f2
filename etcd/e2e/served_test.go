package e2e

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/serve"
)

// A served is what is written.
type served struct {
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

// BenchmarkServed is the CPU time of a write of 2 KiB over HTTP/1.1 to a served etcd, of the server, of
// its etcd and of the client together. BenchmarkWrites of module e2e writes the same to a
// kube-apiserver.
//
//	go test -run '^$' -bench Served -benchtime 1000x .
func BenchmarkServed(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
	defer h.Close()
	things, err := etcd.New[*served](dial(b, startServer(b).endpoint), "/things/", nil)
	if err != nil {
		b.Fatal(err)
	}
	go serve.ServeStore(b.Context(), h, things, serve.Resource[*served]{Group: "example.io", Name: "things", Kind: "Thing"})
	for len(h.Status()) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := h.WaitForSync(b.Context()); err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	do := func(b *testing.B, method, path, contentType, body string) string {
		req, err := http.NewRequest(method, server.URL+"/apis/example.io/v1/namespaces/bench/things"+path, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode > 299 {
			b.Fatalf("%s %s: %s %s, %v", method, path, resp.Status, data, err)
		}
		_, version, _ := strings.Cut(string(data), `"resourceVersion":"`)
		version, _, _ = strings.Cut(version, `"`)
		return version
	}
	content := func(name, meta string, n int) string {
		var items strings.Builder
		for i := range 18 {
			fmt.Fprintf(&items, `{"name":"container-%d","image":"registry.example.io/team/app-%d:v%d","args":["--port","80%d"]},`, i, i, n, i)
		}
		return fmt.Sprintf(`{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":%q,%s"labels":{"app":"x","tier":"y"}},"spec":{"size":%d,"items":[%s]}}`,
			name, meta, n, strings.TrimSuffix(items.String(), ","))
	}
	const plain, apply = "application/json", "application/apply-patch+yaml"
	version, n := do(b, "POST", "", plain, content("a", "", 0)), 0
	for name, write := range map[string]func(b *testing.B){
		"create": func(b *testing.B) { do(b, "POST", "", plain, content(fmt.Sprint("n-", n), "", n)) },
		"update": func(b *testing.B) {
			version = do(b, "PUT", "/a", plain, content("a", `"resourceVersion":"`+version+`",`, n))
		},
		"apply": func(b *testing.B) {
			version = do(b, "PATCH", fmt.Sprintf("/a?force=true&fieldManager=m%d", n%2), apply, content("a", "", n/2))
		},
	} {
		b.Run(name, func(b *testing.B) {
			from := cpuNow()
			for b.Loop() {
				n++
				write(b)
			}
			b.ReportMetric(float64((cpuNow()-from).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
