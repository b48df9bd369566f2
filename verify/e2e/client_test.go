package e2e_test

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
	"github.com/go-lw/lw/websocket"
)

// A wire is how a client talks to a server.
type wire struct {
	name      string
	clientset bool // through client-go's generated client, else lw.HTTP
	protobuf  bool
	cbor      bool // lw.HTTP's Accept names CBOR, and JSON for a server without it
	http1     bool
	webSocket bool   // watches go over WebSockets
	token     string // default: the admin's
	// to are the servers that a client sends its requests to, in turn; nil: the server. They are
	// relays of it, and perhaps the server itself.
	to []string
}

// wires are all ways that are tested.
var wires = []wire{
	{name: "http-protobuf-h2", protobuf: true},
	{name: "http-json-h1", http1: true},
	{name: "http-json-h2"},
	{name: "http-protobuf-h1", protobuf: true, http1: true},
	{name: "client-protobuf-h2", clientset: true, protobuf: true},
	{name: "client-json-h1", clientset: true, http1: true},
	{name: "http-protobuf-websocket", protobuf: true, webSocket: true},
	{name: "http-json-websocket", http1: true, webSocket: true},
	{name: "client-json-websocket", clientset: true, webSocket: true},
}

// faultWires are those that each fault is tested with, at the same time.
var faultWires = []wire{wires[0], wires[1], wires[4], wires[5], wires[6], wires[7]}

const protobufType = "application/vnd.kubernetes.protobuf"

// A client is one connection pool to a server, with a record of its requests.
type client struct {
	wire   wire
	url    string
	config *rest.Config
	http   *http.Client
	*recorder
	upgrades *upgrades // for a wire with WebSockets
}

// upgrades counts the WebSockets of a transport.
type upgrades struct {
	http.RoundTripper
	n atomic.Int64
}

func (u *upgrades) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.RoundTripper.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		u.n.Add(1)
	}
	return resp, err
}

func newClient(t testing.TB, s *servers.Server, w wire) *client {
	t.Helper()
	c := &client{wire: w, url: s.URL, config: s.Config(), recorder: &recorder{}}
	if len(w.to) > 0 {
		c.url = w.to[0]
		c.config.Host = c.url
	}
	if w.token != "" {
		c.config.BearerToken = w.token
	}
	if w.http1 {
		c.config.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	c.config.ContentType = "application/json"
	if w.protobuf {
		c.config.ContentType = protobufType
	}
	dial := c.config.Dial
	c.config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c.dials.Add(1)
		return dial(ctx, network, address)
	}
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		if c.next = next; w.webSocket {
			c.upgrades = &upgrades{RoundTripper: next}
			c.next = &websocket.Transport{Base: c.upgrades}
		}
		if len(w.to) > 1 {
			// A handshake names the server that it goes to: the choice comes first.
			c.next = &inTurn{RoundTripper: c.next, to: w.to}
		}
		return c.recorder
	})
	var err error
	if c.http, err = rest.HTTPClientFor(c.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// inTurn sends each request to the next of several servers.
type inTurn struct {
	http.RoundTripper
	to []string
	n  atomic.Int64
}

func (t *inTurn) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := url.Parse(t.to[int(t.n.Add(1))%len(t.to)])
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.URL.Host, req.Host = to.Host, ""
	return t.RoundTripper.RoundTrip(req)
}

// clientset returns a generated client on c's connections.
func (c *client) clientset(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	set := rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfigAndClient(c.config, c.http))
	return set
}

// configMaps returns a source of the ConfigMaps of a namespace ("" for all) over the client's wire,
// and their path.
func configMaps(t testing.TB, c *client, namespace string) (lw.Source[*corev1.ConfigMap], string) {
	path := collection("configmaps", namespace)
	return source(t, c, path, func(set kubernetes.Interface) lw.Source[*corev1.ConfigMap] {
		return lw.FromClient(set.CoreV1().ConfigMaps(namespace))
	}), path
}

// pods is the same for Pods.
func pods(t testing.TB, c *client, namespace string) (lw.Source[*corev1.Pod], string) {
	path := collection("pods", namespace)
	return source(t, c, path, func(set kubernetes.Interface) lw.Source[*corev1.Pod] {
		return lw.FromClient(set.CoreV1().Pods(namespace))
	}), path
}

// source returns what generated makes of a clientset, or a lw.HTTP, as c's wire wants it.
func source[T lw.Object](t testing.TB, c *client, path string,
	generated func(kubernetes.Interface) lw.Source[T]) lw.Source[T] {
	t.Helper()
	if c.wire.clientset {
		return generated(c.clientset(t))
	}
	src := &lw.HTTP[T]{URL: c.url + path, Client: c.http}
	switch {
	case c.wire.cbor:
		src.Accept = acceptCBOR
	case !c.wire.protobuf:
		src.Accept = "application/json"
	}
	return src
}

// collection is the path of a resource of core/v1, in one namespace or in all.
func collection(resource, namespace string) string {
	if namespace == "" {
		return "/api/v1/" + resource
	}
	return "/api/v1/namespaces/" + namespace + "/" + resource
}

// followConfigMaps starts one informer for each wire on the ConfigMaps of a namespace, and waits
// until all have synced.
func followConfigMaps(t testing.TB, s *servers.Server, namespace string, opts followOptions,
	over ...wire) []*follower[*corev1.ConfigMap] {
	t.Helper()
	all := startConfigMaps(t, s, namespace, opts, over...)
	for _, f := range all {
		f.synced()
	}
	return all
}

// startConfigMaps is followConfigMaps without the wait.
func startConfigMaps(t testing.TB, s *servers.Server, namespace string, opts followOptions,
	over ...wire) []*follower[*corev1.ConfigMap] {
	t.Helper()
	var all []*follower[*corev1.ConfigMap]
	for _, w := range over {
		c := newClient(t, s, w)
		src, path := configMaps(t, c, namespace)
		all = append(all, follow(t, c, path, src, opts))
	}
	return all
}
