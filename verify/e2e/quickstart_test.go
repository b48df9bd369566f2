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
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestQuickstart runs examples/quickstart -url as its reader would, on a cluster behind a proxy
// that adds the credentials, as kubectl proxy does.
func TestQuickstart(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "quickstart"
		s, r := shared(t, kind)
		path := collection("pods", namespace)
		for i := range 5 {
			create(t, r, path, pod(namespace, fmt.Sprintf("p-%d", i), "node", "a"))
		}
		quickstart := startBuilt(t, s, filepath.Join("..", "..", "examples", "quickstart"), "-url", proxy(t, s)+path,
			"-for", "50s")
		quickstart.says("synced: 5 objects")
		create(t, r, path, pod(namespace, "new", "node", "a"))
		merge(t, r, path+"/p-0", object{"metadata": object{"labels": object{"value": "b"}}})
		quickstart.says("added " + namespace + "/new")
		quickstart.says("updated " + namespace + "/p-0")
		quickstart.stop(os.Interrupt)
	}, servers.Kube)
}

// proxy serves s over plain HTTP on loopback and adds the admin's token to each request. It returns
// its URL.
func proxy(t testing.TB, s *servers.Server) string {
	t.Helper()
	target := rig.Must[*url.URL](t)(url.Parse(s.URL))
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
