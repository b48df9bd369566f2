package serve_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
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
	end   context.CancelFunc // of Serve
	ended chan error         // gets what Serve has returned, and is closed then
}

// handle runs a Handler of what serveOn serves until the end of the test, and returns when that has
// synced.
func handle(t testing.TB, opts serve.Options, serveOn func(ctx context.Context, h *serve.Handler) error) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	opts.Logger = cmp.Or(opts.Logger, quiet)
	if opts.Authorize == nil {
		opts.Authorize = serve.AllowAll
	}
	s := serving{serve.New(&opts), cancel, make(chan error, 1)}
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
	return handle(t, opts, func(ctx context.Context, h *serve.Handler) error { return serve.ServeMemory(ctx, h, m, r) })
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
