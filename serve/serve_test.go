package serve_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/conform"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/serve"
)

type Widget struct {
	Metadata `json:"metadata"`
	Size     int `json:"size"`
}

type Metadata struct {
	lw.Meta
	Labels map[string]string `json:"labels,omitempty"`
}

func (w *Widget) GetLabels() map[string]string { return w.Labels }

func newWidget(key lw.Key, size int) *Widget {
	w := &Widget{Size: size}
	w.Labels = map[string]string{"even": map[bool]string{true: "yes", false: "no"}[size%2 == 0]}
	w.Namespace, w.Name = key.Namespace, key.Name
	return w
}

var widgets = serve.Resource[*Widget]{
	Group: "example.io", Name: "widgets", Kind: "Widget",
	Fields: map[string]func(*Widget) string{"size": func(w *Widget) string { return strconv.Itoa(w.Size) }},
}

var selectors = []lwtest.Selector[*Widget]{
	{Labels: "even=yes", Matches: func(w *Widget) bool { return w.Size%2 == 0 }},
	{Fields: "size=1", Matches: func(w *Widget) bool { return w.Size == 1 }},
	{Fields: "metadata.name=one", Matches: func(w *Widget) bool { return w.Name == "one" }},
}

// A transport is a way from a client to a Handler.
type transport struct {
	name  string
	start func(h http.Handler) *httptest.Server
}

// listening is a transport whose servers accept at what wrap returns.
func listening(name string, secure bool, wrap func(net.Listener) net.Listener) transport {
	return transport{name, func(h http.Handler) *httptest.Server {
		srv := httptest.NewUnstartedServer(h)
		srv.Listener = wrap(srv.Listener)
		if secure {
			srv.StartTLS()
		} else {
			srv.Start()
		}
		return srv
	}}
}

var transports = []transport{
	{"net/http", httptest.NewServer},
	listening("direct", false, serve.Listener),
	listening("direct TLS", true, serve.Listener),
	{"HTTP2", func(h http.Handler) *httptest.Server {
		srv := httptest.NewUnstartedServer(h)
		srv.EnableHTTP2 = true
		srv.StartTLS()
		return srv
	}},
}

// fewer divides the number of checks of a property test, which runs many times.
func fewer(t *testing.T, by int) {
	checks := flag.Lookup("rapid.checks").Value
	was := checks.String()
	n, err := strconv.Atoi(was)
	noErr(t, err)
	noErr(t, checks.Set(strconv.Itoa(max(1, n/by))))
	t.Cleanup(func() { _ = checks.Set(was) })
}

// A chain serves what a Memory has, directly or through relays.
type chain struct {
	name  string
	serve func(t testing.TB, m *lw.Memory[*Widget], tr transport) (url string, client *http.Client, stop func())
}

const path = "/apis/example.io/v1/widgets"

var quiet = slog.New(slog.DiscardHandler)

// A serving is a Handler that serves something.
type serving struct {
	h     *serve.Handler
	m     *lw.Memory[*Widget] // what it serves, if it is that
	end   context.CancelFunc  // of Serve
	ended chan error          // gets what Serve has returned, and is closed then
}

// handle runs a Handler of what serveOn serves until the test ends, and waits until it is synced.
func handle(t testing.TB, opts serve.Options, serveOn func(ctx context.Context, h *serve.Handler) error) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	opts.Logger = cmp.Or(opts.Logger, quiet)
	if opts.Authorize == nil {
		opts.Authorize = serve.AllowAll
	}
	s := serving{serve.New(&opts), nil, cancel, make(chan error, 1)}
	go func() {
		defer close(s.ended)
		s.ended <- serveOn(ctx, s.h)
	}()
	t.Cleanup(func() {
		cancel()
		for range s.ended { // until it has ended
		}
	})
	for len(s.h.Status()) == 0 {
		select {
		case err := <-s.ended:
			t.Fatal(err)
		default:
			runtime.Gosched()
		}
	}
	noErr(t, s.h.WaitForSync(ctx))
	return s
}

// handleMemory runs a Handler of a Memory.
func handleMemory(t testing.TB, opts serve.Options, m *lw.Memory[*Widget], r serve.Resource[*Widget]) serving {
	t.Helper()
	s := handle(t, opts, func(ctx context.Context, h *serve.Handler) error { return serve.ServeMemory(ctx, h, m, r) })
	s.m = m
	return s
}

// running is a Handler with a server.
type running struct {
	serving
	srv  *httptest.Server
	stop func()
}

// on starts a server of what is served.
func (s serving) on(t testing.TB, tr transport) running {
	srv := tr.start(s.h)
	return running{s, srv, func() {
		s.end()
		srv.CloseClientConnections()
		srv.Close()
		if err := <-s.ended; !errors.Is(err, context.Canceled) && !errors.Is(err, lw.ErrStopped) {
			t.Errorf("Serve ended with %v", err)
		}
	}}
}

func startMemory(t testing.TB, tr transport, m *lw.Memory[*Widget]) running {
	return handleMemory(t, serve.Options{}, m, widgets).on(t, tr)
}

// over runs test with a server of a Memory over some of the ways to it, each in a subtest.
func over(
	t *testing.T, ways []transport, opts serve.Options, r serve.Resource[*Widget], test func(*testing.T, running),
	objs ...*Widget,
) {
	for _, tr := range ways {
		t.Run(tr.name, func(t *testing.T) {
			run := handleMemory(t, opts, lw.NewMemory(objs...), r).on(t, tr)
			defer run.stop()
			test(t, run)
		})
	}
}

// relay runs a relay of a server.
func relay[T lw.Object](t testing.TB, tr transport, src lw.Source[T], r serve.Resource[T]) running {
	return handle(t, serve.Options{}, func(ctx context.Context, h *serve.Handler) error {
		inf := lw.NewInformer(src, &lw.Options{Logger: quiet})
		ctx, cancel := context.WithCancel(ctx)
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		err := serve.Serve(ctx, h, inf, r)
		cancel()
		<-ran
		return err
	}).on(t, tr)
}

func typed(r running) lw.Source[*Widget] {
	return &lw.HTTP[*Widget]{URL: r.srv.URL + path, Client: r.srv.Client()}
}

var rawWidgets = serve.Resource[*serve.Object]{
	Group: "example.io", Name: "widgets", Kind: "Widget",
	Fields: map[string]func(*serve.Object) string{"size": serve.Field("size")},
}

var chains = []chain{
	{"Memory", func(t testing.TB, m *lw.Memory[*Widget], tr transport) (string, *http.Client, func()) {
		r := startMemory(t, tr, m)
		return r.srv.URL, r.srv.Client(), r.stop
	}},
	{"relay", func(t testing.TB, m *lw.Memory[*Widget], tr transport) (string, *http.Client, func()) {
		r := relay(t, tr, lw.Source[*Widget](m), widgets)
		return r.srv.URL, r.srv.Client(), r.stop
	}},
	{"three", func(t testing.TB, m *lw.Memory[*Widget], tr transport) (string, *http.Client, func()) {
		first := startMemory(t, tr, m)
		second := relay(t, tr, typed(first), widgets)
		third := relay(t, tr, typed(second), widgets)
		return third.srv.URL, third.srv.Client(), func() { third.stop(); second.stop(); first.stop() }
	}},
	{"raw", func(t testing.TB, m *lw.Memory[*Widget], tr transport) (string, *http.Client, func()) {
		first := startMemory(t, tr, m)
		second := relay(t, tr, lw.Source[*serve.Object](serve.Raw(first.srv.URL+path, first.srv.Client())), rawWidgets)
		return second.srv.URL, second.srv.Client(), func() { second.stop(); first.stop() }
	}},
}

func TestSource(t *testing.T) {
	fewer(t, 25)
	for _, c := range chains {
		for _, tr := range transports {
			for _, accept := range []string{"application/json", "application/cbor"} {
				if accept == "application/cbor" && tr.name != "net/http" {
					continue // the encoding does not depend on the transport
				}
				t.Run(c.name+"/"+tr.name+"/"+accept, func(t *testing.T) {
					t.Parallel() // most of the time they wait
					lwtest.Source(t, func() lwtest.Subject[*Widget] {
						m := rig.Plain[*Widget]{Memory: lw.NewMemory[*Widget]()}
						url, client, stop := c.serve(t, m.Memory, tr)
						subject := lwtest.Subject[*Widget]{
							Source: func() lw.Source[*Widget] {
								return &lw.HTTP[*Widget]{URL: url + path, Client: client, Accept: accept}
							},
							Object: newWidget, Create: m.Create, Update: m.Update, Delete: m.Delete,
							Close: stop, Selectors: selectors,
							Patience: time.Minute, // many of them share the processors
						}
						if c.name == "Memory" {
							subject.Compact = m.Compact
						}
						return subject
					})
				})
			}
		}
	}
}

func TestMain(m *testing.M) {
	history.FromOne = true // tests name the versions of a Memory
	// The parallel tests of this package wait most of the time: for clients that are waited for, for
	// the ends of Handlers, and for the two rounds in which a relay asks its server. So more of them
	// run at once than there are processors. A -parallel of the command line replaces this.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

// conforming serves what the table of writes is about.
func (b *bubble) conforming(managed bool) {
	for _, r := range conform.Resources {
		b.serve(func(ctx context.Context) error {
			if r.Typed {
				return serve.ServeStore(ctx, b.h, lw.NewMemory[*conform.Pod](), serve.Resource[*conform.Pod]{Name: r.Plural,
					Managed: managed})
			}
			return serve.ServeStore(ctx, b.h, lw.NewMemory[*unstructured.Unstructured](),
				serve.Resource[*unstructured.Unstructured]{
					Group: "example.io", Name: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status,
					Scale:     (*serve.Scale)(r.Scale),
					Versioned: true, Managed: managed,
				})
		})
	}
}

// A served store answers writes as kube-apiserver does.
func TestConform(t *testing.T) {
	for _, managed := range []bool{false, true} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			b.conforming(managed)
			conform.Play(b.t, conform.Server{Client: b.client, URL: "http://server"}, false)
		})
	}
}

func TestDocsServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	widgets := lw.NewInformer(lw.NewMemory(newWidget(lw.Key{Namespace: "n", Name: "a"}, 1)), &lw.Options{Logger: quiet})
	ran := make(chan error, 1)
	go func() { ran <- widgets.Run(ctx) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	authorize := serve.AllowAll
	// What docs/serve.md shows.
	run := func() error {
		h := serve.New(&serve.Options{Authorize: authorize})
		go serve.Serve(ctx, h, widgets, serve.Resource[*Widget]{
			Group: "example.io", Name: "widgets",
			Fields: map[string]func(*Widget) string{"size": func(w *Widget) string { return strconv.Itoa(w.Size) }},
		})
		srv := &http.Server{Handler: h, Protocols: new(http.Protocols)}
		srv.Protocols.SetHTTP1(true) // see "What it costs"
		if err := widgets.WaitForSync(ctx); err != nil {
			return err
		}
		return srv.Serve(serve.Listener(l))
	}
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	rig.Met(t, patience, "nothing is served", func() bool {
		resp, err := http.Get("http://" + l.Addr().String() + path + "?fieldSelector=size=1")
		noErr(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		noErr(t, err)
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusNotFound {
			return false // Serve has not begun yet
		}
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"name":"a"`) {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		return true
	})
	cancel()
	<-ran
	l.Close()
	<-ended
	http.DefaultClient.CloseIdleConnections()
}
