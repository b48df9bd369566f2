package http_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
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
				rig.Same(t, what+" "+path+": time until it returned", time.Minute, time.Since(start))
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
		rig.OK(t, err)
		rig.Same(t, "times of events", []time.Duration{0, time.Second, 2 * time.Second}, at)
		got, err := watchAll(t.Context(), src, metav1.ListOptions{ResourceVersion: "cut"})
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got.What) != 3 {
			t.Errorf("a watch that breaks: %d events, error %v", len(got.What), err)
		}
	})
}

// redirects returns a client of servers that lead each request on to the next of the URLs, from the
// last of which the list comes, and what each was sent: "host: keys".
func redirects(urls ...string) (*http.Client, *[]string) {
	var sent []string
	n := 0
	return &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		var keys []string
		for name, values := range r.Header {
			if name == "X-Api-Key" || name == "Authorization" || name == "x-raw" {
				keys = append(keys, name+"="+strings.Join(values, ","))
			}
		}
		slices.Sort(keys)
		if r.Header.Get("Accept") != "application/json" {
			keys = append(keys, "Accept="+r.Header.Get("Accept"))
		}
		sent = append(sent, strings.TrimSpace(r.URL.Scheme+"://"+r.URL.Host+" "+strings.Join(keys, " ")))
		if n++; n <= len(urls) {
			return response(r, http.StatusTemporaryRedirect, http.Header{"Location": {urls[n-1]}}, ""), nil
		}
		return response(r, 200, rig.ContentType("application/json"), gadgetList(gadgetA)), nil
	})}, &sent
}

// What Header holds may be a key. It is sent to the URL's own server, and to no other that this
// one, or the one after it, names.
func TestHTTPHeaderStaysAtHome(t *testing.T) {
	const keys = " Authorization=Bearer t X-Api-Key=k x-raw=r"
	for name, tt := range map[string]struct {
		url  string
		to   []string
		want []string
	}{
		"no redirect": {"https://a/x", nil, []string{"https://a" + keys}},
		"to another path": {"https://a/x", []string{"/y", "https://a/z?q=1"},
			[]string{"https://a" + keys, "https://a" + keys, "https://a" + keys}},
		"the port spelled out": {"https://a/x", []string{"https://a:443/y"},
			[]string{"https://a" + keys, "https://a:443" + keys}},
		"the same of http": {"http://a:80/x", []string{"http://a/y"}, []string{"http://a:80" + keys,
			"http://a" + keys}},
		"to another host": {"https://a/x", []string{"https://b/x"}, []string{"https://a" + keys, "https://b"}},
		"to a host below": {"https://a/x", []string{"https://b.a/x"}, []string{"https://a" + keys, "https://b.a"}},
		"to another port": {"https://a/x", []string{"https://a:6443/x"},
			[]string{"https://a" + keys, "https://a:6443"}},
		"from https to http": {"https://a:1/x", []string{"http://a:1/x"}, []string{"https://a:1" + keys, "http://a:1"}},
		"there and back": {"https://a/x", []string{"https://b/x", "https://a/y"},
			[]string{"https://a" + keys, "https://b", "https://a"}},
		"there, back and on": {"https://a/x", []string{"https://b/x", "https://a/y", "https://a/z"},
			[]string{"https://a" + keys, "https://b", "https://a", "https://a"}},
		"there, on and back": {"https://a/x", []string{"https://b/x", "https://b/y", "https://c/", "https://a/y"},
			[]string{"https://a" + keys, "https://b", "https://b", "https://c", "https://a"}},
		"at home, there and back": {"https://a/x", []string{"/y", "https://b/x", "https://a/"},
			[]string{"https://a" + keys, "https://a" + keys, "https://b", "https://a"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, sent := redirects(tt.to...)
			header := http.Header{"X-Api-Key": {"k"}, "Authorization": {"Bearer t"}, "x-raw": {"r"}, "Accept": {"not this"}}
			src := &lw.HTTP[*rig.Gadget]{URL: tt.url, Client: c, Header: header}
			if got, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{}); err != nil || len(got.What) != 1 {
				t.Fatalf("%d objects, error %v", len(got.What), err)
			}
			rig.Same(t, "sent", tt.want, *sent)
			if c.CheckRedirect != nil || len(header) != 4 {
				t.Error("the client or the header was changed")
			}
		})
	}
}

// Two real servers: the second one sees no key, however the first one is asked.
func TestHTTPHeaderBetweenServers(t *testing.T) {
	var keys []string
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Host+r.URL.Path+" "+r.Header.Get("X-Api-Key"))
		w.Header().Set("Content-Type", "application/json")
		switch r.Host + r.URL.Path {
		case "one/x":
			http.Redirect(w, r, "http://two/x", http.StatusFound)
		case "two/x":
			http.Redirect(w, r, "http://one/y", http.StatusFound)
		default:
			_, _ = w.Write([]byte(gadgetList(gadgetA)))
		}
	})
	src := &lw.HTTP[*rig.Gadget]{URL: "http://one/x", Client: other, Header: http.Header{"X-Api-Key": {"k"}}}
	got, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
	rig.OK(t, err)
	rig.Same(t, "keys", []string{"one/x k", "two/x ", "one/y "}, keys)
	rig.Same(t, "objects", 1, len(got.What))
}

// The client's own policy is asked all the same; without one ten redirects are followed.
func TestHTTPRedirectPolicy(t *testing.T) {
	header := http.Header{"X-Api-Key": {"k"}}
	list := func(c *http.Client, header http.Header) error {
		_, _, err := rig.ListAll(t.Context(), &lw.HTTP[*rig.Gadget]{URL: "https://a/x", Client: c, Header: header},
			metav1.ListOptions{})
		return err
	}
	for _, header := range []http.Header{nil, header} {
		for n, want := range map[int]string{9: "", 10: "stopped after 10 redirects"} {
			c, _ := redirects(slices.Repeat([]string{"/y"}, n)...)
			if err := list(c, header); !rig.Matches(err, want) {
				t.Errorf("%d redirects, header %v: %v, want %q", n, header, err, want)
			}
		}
	}
	refuse := errors.New("stay here")
	c, sent := redirects("https://b/x")
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.URL.Host != "b" || len(via) != 1 || req.Header.Get("X-Api-Key") != "" {
			t.Errorf("asked whether to go to %v with %v after %d", req.URL, req.Header, len(via))
		}
		return refuse
	}
	if err := list(c, header); !errors.Is(err, refuse) || len(*sent) != 1 ||
		!rig.Matches(err, "lw: HTTP: https://a/x: redirected to https://b/x: stay here") {
		t.Errorf("error %v after %v", err, *sent)
	}
}

// Where a redirect led is in the error of what came from there.
func TestHTTPErrorsNameWhereRedirectsLed(t *testing.T) {
	for to, want := range map[string]string{
		"https://login/in?secret=1": "lw: HTTP: https://a/x: redirected to https://login/in: ",
		"/y?secret=1":               "lw: HTTP: https://a/x: redirected to https://a/y: ",
		"/x?secret=1":               "lw: HTTP: https://a/x: ",
	} {
		for _, last := range []func(r *http.Request) (*http.Response, error){
			func(r *http.Request) (*http.Response, error) {
				return response(r, 200, rig.ContentType("text/html"), "Log in"), nil
			},
			func(r *http.Request) (*http.Response, error) { return response(r, 200, nil, "Log in"), nil },
			func(r *http.Request) (*http.Response, error) { return nil, errors.New("no route") },
		} {
			c := &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Has("limit") {
					return response(r, http.StatusFound, http.Header{"Location": {to}}, ""), nil
				}
				return last(r)
			})}
			_, _, err := rig.ListAll(t.Context(), &lw.HTTP[*rig.Gadget]{URL: "https://a/x", Client: c},
				metav1.ListOptions{Limit: 1})
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") ||
				strings.Contains(err.Error(), "redirected") != strings.Contains(want, "redirected") {
				t.Errorf("%s: got %v, want %s…", to, err, want)
			}
		}
	}
}
