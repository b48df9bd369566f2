package http_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// serve returns a client of handler, over connections in memory.
func serve(t *testing.T, handler http.HandlerFunc) *http.Client {
	t.Helper()
	conns := make(chan net.Conn)
	ln := &pipeListener{conns: conns, done: make(chan struct{})}
	server := &http.Server{Handler: handler}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(ln) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() { transport.CloseIdleConnections(); server.Close(); <-served })
	return &http.Client{Transport: transport}
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { close(l.done); return nil }

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// In a bubble the test ends only when every goroutine of the request has.
func TestHTTPCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/silent":
				w.WriteHeader(200)
			case "/half":
				_, _ = io.WriteString(w, `{"type":"ADDED","object":`+gadgetA[:40])
			case "/refuse":
				w.WriteHeader(500)
			case "/hang":
				<-r.Context().Done()
				return
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		for _, path := range []string{"/silent", "/half", "/refuse", "/hang"} {
			src := &lw.HTTP[*rig.Gadget]{URL: "http://server" + path, Client: c}
			for _, what := range []string{"list", "watch"} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				start := time.Now()
				var err error
				if what == "list" {
					_, _, err = rig.ListAll(ctx, src, metav1.ListOptions{})
				} else {
					_, err = watchAll(ctx, src, metav1.ListOptions{})
				}
				cancel()
				if path != "/refuse" && !errors.Is(err, context.DeadlineExceeded) || err == nil {
					t.Errorf("%s %s: got %v, want the deadline", what, path, err)
				}
				if took := time.Since(start); took != time.Minute {
					t.Errorf("%s %s: returned after %v, want a minute", what, path, took)
				}
			}
		}
	})
}

// A transport that does not care for the context still cannot hold a watch.
func TestHTTPCancelClosesTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		c := &http.Client{Transport: rig.RoundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: rig.ContentType("application/json"), Body: r, Request: req}, nil
		})}
		go func() { _, _ = io.WriteString(w, `{"type":"ADDED","object":`+gadgetA+`}`) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := watchAll(ctx, &lw.HTTP[*rig.Gadget]{URL: "http://server/", Client: c}, metav1.ListOptions{})
		if !errors.Is(err, context.DeadlineExceeded) || len(got.What) != 1 {
			t.Errorf("got %v after %v, want the deadline after one event", err, got.What)
		}
	})
}

func TestHTTPOverAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Query().Get("watch") == "" {
				_, _ = io.WriteString(w, gadgetList(gadgetA))
				return
			}
			for range 3 {
				_, _ = io.WriteString(w, `{"type":"ADDED","object":`+gadgetA+"}\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
			if r.URL.Query().Get("resourceVersion") == "cut" {
				panic(http.ErrAbortHandler)
			}
		})
		src := &lw.HTTP[*rig.Gadget]{URL: "http://server/", Client: c}
		list, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
		if err != nil || len(list.What) != 1 {
			t.Errorf("list: %v, error %v", list.What, err)
		}
		var at []time.Duration
		start := time.Now()
		err = src.Watch(t.Context(), metav1.ListOptions{}, func(lw.WatchEvent[*rig.Gadget]) error {
			at = append(at, time.Since(start))
			return nil
		})
		if diff := cmp.Diff([]time.Duration{0, time.Second, 2 * time.Second}, at); err != nil || diff != "" {
			t.Errorf("watch: error %v, events at (-want +got):\n%s", err, diff)
		}
		got, err := watchAll(t.Context(), src, metav1.ListOptions{ResourceVersion: "cut"})
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got.What) != 3 {
			t.Errorf("a watch that breaks: %d events, error %v", len(got.What), err)
		}
	})
}
