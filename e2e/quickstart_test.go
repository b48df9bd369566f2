package e2e_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw/e2e/internal/servers"
	"github.com/go-lw/lw/internal/rig"
)

// TestQuickstart runs examples/quickstart -url as its reader would, on a cluster behind a proxy
// that adds the credentials, as kubectl proxy does.
func TestQuickstart(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "quickstart"
		s := sharedServer(t, kind)
		r := s.Reader("")
		defer r.Close()
		path := collection("pods", namespace)
		for i := range 5 {
			create(t, r, path, pod(namespace, fmt.Sprintf("p-%d", i), "node", "a"))
		}
		program := filepath.Join(t.TempDir(), "quickstart")
		build := exec.CommandContext(within(t, 3*time.Minute), "go", "build", "-o", program, "./examples/quickstart")
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build ./examples/quickstart: %v\n%s", err, out)
		}
		cmd := exec.CommandContext(within(t, patience), program, "-url", proxy(t, s)+path, "-for", "50s")
		out := &lockedBuffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		says := func(what string) {
			t.Helper()
			rig.Until(t, patience, func() string {
				if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), what) {
					return fmt.Sprintf("quickstart does not say %q but:\n%s", what, out)
				}
				return ""
			})
		}
		says("synced: 5 objects in 1 namespaces")
		create(t, r, path, pod(namespace, "new", "node", "a"))
		_, err := r.Do(within(t, patience), http.MethodPatch, path+"/p-0", "application/merge-patch+json",
			object{"metadata": object{"labels": object{"value": "b"}}})
		if err != nil {
			t.Fatal(err)
		}
		says("6 objects +6 ~1 -0")
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("quickstart ended with %v:\n%s", err, out)
		}
		for _, want := range []string{"6 added, 1 updated, 0 deleted", "1 streamed, 0 pages"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("quickstart's report lacks %q:\n%s", want, out)
			}
		}
	}, servers.Kube)
}

// proxy serves s over plain HTTP on loopback and adds the admin's token to each request. It returns
// its URL.
func proxy(t testing.TB, s *servers.Server) string {
	t.Helper()
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(req *httputil.ProxyRequest) {
			req.SetURL(target)
			req.Out.Header.Set("Authorization", "Bearer "+servers.AdminToken)
		},
		FlushInterval: -1,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
	})
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return front.URL
}

// lockedBuffer is a buffer that may be read while a process writes to it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
