package e2e_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
	"github.com/go-lw/lw/websocket"
)

// A cuttingProxy is a proxy as some companies have: it gathers a response before it sends the first
// byte of it, and gives up on one that is not complete after a second. It lets WebSockets through,
// and has the credentials for the server.
type cuttingProxy struct {
	*httptest.Server
	cut    atomic.Int64 // responses that it has given up on
	passed atomic.Int64 // WebSockets that it has let through
}

func newCuttingProxy(t *testing.T, c *client) *cuttingProxy {
	t.Helper()
	to := rig.Must[*url.URL](t)(url.Parse(c.url))
	p := &cuttingProxy{}
	reverse := &httputil.ReverseProxy{
		Transport: c.http.Transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode == http.StatusSwitchingProtocols {
				p.passed.Add(1)
				return nil
			}
			resp.Body = &gathered{body: resp.Body, cut: &p.cut}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	p.Server = httptest.NewServer(reverse)
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// gathered is a body of which nothing can be read before its end, or before a second is over.
type gathered struct {
	body io.ReadCloser
	cut  *atomic.Int64
	all  []byte
	err  error
}

func (g *gathered) Read(p []byte) (int, error) {
	if g.err == nil {
		late := time.AfterFunc(time.Second, func() { g.body.Close() })
		g.all, g.err = io.ReadAll(g.body)
		if !late.Stop() {
			g.cut.Add(1)
			return 0, errors.New("it took too long")
		}
		if g.err == nil {
			g.err = io.EOF
		}
	}
	n := copy(p, g.all)
	if g.all = g.all[n:]; n == 0 && len(p) > 0 {
		return 0, g.err
	}
	return n, nil
}

func (g *gathered) Close() error { return g.body.Close() }

// TestWebSocket follows a collection through a proxy that cuts long responses: through time-outs of
// the server, a restart, and a version that expired. Without WebSockets no event comes through.
func TestWebSocket(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "websocket"
		s, r := started(t, kind)
		path := collection("configmaps", namespace)
		create(t, r, path, configMap(namespace, "first", "a"))

		var followers []*follower[*corev1.ConfigMap]
		var proxies []*cuttingProxy
		for _, accept := range []string{"application/json", ""} {
			p := newCuttingProxy(t, newClient(t, s, wire{name: "proxy"}))
			c := newClient(t, s, wire{name: "websocket " + accept})
			c.next = &websocket.Transport{Base: p.Client().Transport}
			c.http = &http.Client{Transport: c.recorder}
			src := &lw.HTTP[*corev1.ConfigMap]{URL: p.URL + path, Client: c.http, Accept: accept}
			f := follow(t, c, path, src, followOptions{Options: lw.Options{WatchTimeout: 2 * time.Second}})
			f.synced()
			followers, proxies = append(followers, f), append(proxies, p)
		}
		// What the proxy does to an ordinary watch.
		ordinary := &lw.HTTP[*corev1.ConfigMap]{URL: proxies[0].URL + path, Client: proxies[0].Client()}
		seconds := int64(10)
		err := ordinary.Watch(within(t, patience), metav1.ListOptions{TimeoutSeconds: &seconds},
			func(lw.WatchEvent[*corev1.ConfigMap]) error {
				return errors.New("an event came through")
			})
		if err == nil || proxies[0].cut.Load() == 0 {
			t.Fatalf("the proxy did not cut an ordinary watch, which ended with %v", err)
		}
		cut := proxies[0].cut.Load()

		writes := startChurn(t, s, namespace)
		for i, f := range followers {
			f.requested(2, "watches that ended", endedWatch)
			if n := proxies[i].passed.Load(); n < 2 {
				t.Errorf("%s: %d WebSockets, want one for each watch", f.name(), n)
			}
		}
		s.KillAPI()
		for _, f := range followers {
			// The WebSocket breaks; or it had just ended, and the proxy cannot open the next one.
			f.told("the outage", func(err error) bool {
				var status apierrors.APIStatus
				return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &status) &&
					status.Status().Code == http.StatusBadGateway
			})
		}
		rig.OK(t, s.StartAPI(within(t, patience)))
		writes.more(t, 30)
		writes.stop()
		for i, f := range followers {
			f.same(r)
			f.paced()
			if n := proxies[i].cut.Load(); i == 0 && n != cut || i > 0 && n != 0 {
				t.Errorf("%s: the proxy has cut %d responses", f.name(), n)
			}
		}
	}, servers.Kinds...)
}

// endedWatch matches a watch that the server has ended as it should.
func endedWatch(req request) bool {
	return (req.verb == verbWatch || req.verb == verbStream) && req.done && (req.end == nil || req.end == io.EOF)
}
