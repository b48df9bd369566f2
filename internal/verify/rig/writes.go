package rig

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Thing is what BenchWrites writes: example.io/v1 things.
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

// thing is a Thing of 2 KiB. meta are members of its metadata, each with a comma.
func thing(name, meta string, n int) string {
	var items strings.Builder
	for i := range 18 {
		fmt.Fprintf(&items, `{"name":"container-%d","image":"registry.example.io/team/app-%d:v%d","args":["--port","80%d"]},`,
			i, i, n, i)
	}
	return fmt.Sprintf(`{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":%q,%s"labels":{"app":"x","tier":"y"}},"spec":{"size":%d,"items":[%s]}}`,
		name, meta, n, strings.TrimSuffix(items.String(), ","))
}

// BenchWrites measures writes of Things on the server at url, which may be about to begin. cpu is
// the CPU time of whoever counts.
func BenchWrites(b *testing.B, client *http.Client, url string, cpu func() time.Duration) {
	base := url + "/apis/example.io/v1/namespaces/bench/things"
	Met(b, time.Minute, "things are not served", func() bool {
		resp, err := client.Get(base)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
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
	version := do(b, http.MethodPost, "", plain, thing("a", "", 0))
	for _, w := range []struct {
		name string
		do   func(b *testing.B, i int)
	}{
		{"create", func(b *testing.B, i int) {
			do(b, http.MethodPost, "", plain, thing(fmt.Sprint("n-", time.Now().UnixNano()), "", i))
		}},
		{"update", func(b *testing.B, i int) {
			version = do(b, http.MethodPut, "/a", plain, thing("a", `"resourceVersion":"`+version+`",`, i))
		}},
		{"apply", func(b *testing.B, i int) {
			do(b, http.MethodPatch, fmt.Sprintf("/a?force=true&fieldManager=m%d", i%2), apply, thing("a", "", i/2))
		}},
	} {
		b.Run(w.name, func(b *testing.B) {
			n := 0
			for ; n < 20; n++ { // what a server fills at first
				w.do(b, n)
			}
			from := cpu()
			for b.Loop() {
				n++
				w.do(b, n)
			}
			b.ReportMetric(float64((cpu()-from).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
		})
	}
}
