package serve_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// What a client sends behind its request for a watch does not take the answer from it.
func TestBehindTheRequest(t *testing.T) {
	get := "GET " + path + "?watch=1&resourceVersion=1 HTTP/1.1\r\nHost: example.com\r\n"
	for _, tr := range transports[:3] {
		for name, text := range map[string][2]string{
			"an empty line":            {"\r\n\r\n", ""},
			"an empty line later":      {"\r\n", "\r\n"},
			"a request":                {"\r\n" + get + "\r\n", ""},
			"a part of a request":      {"\r\n" + get, ""},
			"requests later":           {"\r\n", strings.Repeat(get+"\r\n", 100)},
			"an empty body":            {"Content-Length: 0\r\n\r\n", ""},
			"a body":                   {"Content-Length: 5\r\n\r\nhello", ""},
			"an empty body in chunks":  {"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""},
			"a body in chunks, later":  {"Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"},
			"a body with a line break": {"Content-Length: 2\r\n\r\n\r\n\r\n", ""},
		} {
			t.Run(tr.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				run := startMemory(t, tr, lw.NewMemory[*Widget]())
				defer run.stop() // which waits for all watches
				c := dialServer(t, run.srv)
				defer c.Close()
				noErr(t, second(io.WriteString(c, get+text[0])))
				r := bufio.NewReader(c)
				if text[1] != "" && !strings.Contains(name, "body") ||
					name == "a body" { // net/http reads a body in chunks before it answers
					resp, err := http.ReadResponse(r, nil)
					noErr(t, err)
					if name == "a body" && resp.Close {
						t.Error("a body, which net/http passes over, ends the connection")
					}
					r = bufio.NewReader(resp.Body)
				}
				noErr(t, second(io.WriteString(c, text[1])))
				for n := range 3 {
					put(t, run.m.Create, fmt.Sprint(n), n)
					for line := ""; !strings.Contains(line, fmt.Sprintf(`"name":"%d"`, n)); {
						var err error
						if line, err = r.ReadString('\n'); err != nil {
							t.Fatalf("%v after %q", err, line)
						}
					}
				}
			})
		}
	}
}

// A client that does not stop sending is cut off.
func TestSendsWithoutEnd(t *testing.T) {
	over(t, transports[1:3], serve.Options{}, widgets, func(t *testing.T, run running) {
		c := dial(t, run.srv, "resourceVersion=1")
		defer c.Close()
		var err error
		for sent := 0; err == nil && sent < 64<<20; sent += 64 << 10 {
			_, err = c.Write(make([]byte, 64<<10))
		}
		if err == nil {
			t.Error("it goes on")
		}
	})
}

// A metered is a connection that counts what is written, as one of a metrics library does.
type metered struct {
	net.Conn
	l *meteredListener
}

func (c metered) Write(b []byte) (int, error) {
	c.l.written.Add(int64(len(b)))
	return c.Conn.Write(b)
}

func (c metered) Close() error {
	c.l.closed.Add(1)
	return c.Conn.Close()
}

type meteredListener struct {
	net.Listener
	written, closed atomic.Int64
}

func (l *meteredListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return metered{c, l}, nil
}

// What is around a Listener sees all that is written, and its watches are as those of others: they
// are told of everything, also when they read late, and end when their time is over, when their
// clients go, and when the Handler is closed.
func TestWrappedListener(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			t.Parallel()
			l := &meteredListener{}
			tr := listening("wrapped", secure, func(inner net.Listener) net.Listener {
				l.Listener = serve.Listener(inner)
				return l
			})
			run := startMemory(t, tr, lw.NewMemory(newWidget(name("first"), 1)))
			reads, late, gone := dial(t, run.srv, "resourceVersion=0"), dial(t, run.srv, "resourceVersion=0"),
				dial(t, run.srv, "resourceVersion=0")
			timed := dial(t, run.srv, "resourceVersion=0&timeoutSeconds=1")
			rig.Met(t, patience, "four do not watch", func() bool { return run.h.Status()[0].Watches == 4 })
			var all sync.WaitGroup
			all.Go(func() {
				if n, last, err := count(reads, 301, func(int) {}); n != 301 || err != nil {
					t.Errorf("%d events, %v: %.200s", n, err, last)
				}
			})
			resize(t, run.m, longWidget("a", 0, 20_000), 300)
			all.Wait()
			_ = gone.Close()
			if n, _, err := count(timed, 1000, func(int) {}); err != io.EOF || n == 0 {
				t.Errorf("a watch of a second has ended with %v after %d events", err, n)
			}
			if n, last, err := count(late, 301, func(int) {}); n != 301 || err != nil {
				t.Errorf("a client that reads late: %d events, %v: %.200s", n, err, last)
			}
			rig.Met(t, patience, "two do not watch", func() bool { return run.h.Status()[0].Watches == 2 })
			noErr(t, run.h.Close())
			if n := l.written.Load(); n < 2*300*20_000 {
				t.Errorf("%d bytes were counted", n)
			}
			rig.Same(t, "connections that were closed", 4, l.closed.Load())
			for _, c := range []net.Conn{reads, late, timed} {
				_ = c.Close()
			}
			run.srv.Close()
		})
	}
}

// A zipped is the ResponseWriter of a middleware that compresses, and hands on what it can.
type zipped struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w zipped) Write(b []byte) (int, error) { return w.z.Write(b) }
func (w zipped) Flush() {
	_ = w.z.Flush()
	w.ResponseWriter.(http.Flusher).Flush()
}
func (w zipped) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.ResponseWriter.(http.Hijacker).Hijack()
}

// A watch goes through a middleware that says in the header what it does to the answer.
func TestCompressingMiddleware(t *testing.T) {
	for _, tr := range transports[:3] {
		zips := transport{tr.name, func(h http.Handler) *httptest.Server {
			return tr.start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				defer z.Close()
				h.ServeHTTP(zipped{w, z}, r)
			}))
		}}
		over(t, []transport{zips}, serve.Options{}, widgets, func(t *testing.T, run running) {
			resp, err := run.srv.Client().Get(run.srv.URL + path + "?watch=1&resourceVersion=0")
			noErr(t, err)
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			for n := range 3 {
				line(t, lines, `"ADDED"`)
				put(t, run.m.Create, fmt.Sprint(n), 1)
			}
		}, newWidget(name("a"), 1))
	}
}

// Where answers cannot be flushed there are no watches, and that is said: to each client, and once
// to the program. A version that is too old is told of all the same: the answer ends with that. One
// that leads to a writer with Flush is fine.
func TestWithoutFlush(t *testing.T) {
	log := make(records, 100)
	m := lw.NewMemory(newWidget(name("a"), 1))
	put(t, m.Update, "a", 3)
	opts := serve.Options{Logger: slog.New(slog.NewTextHandler(log, nil)),
		Limits: serve.Limits{WatchTimeout: 50 * time.Millisecond}}
	h := handleMemory(t, opts, m, widgets).h
	m.Compact()
	for _, tt := range []struct {
		version string
		unwraps bool
		code    int
		text    string
	}{
		{"0", false, 500, "Flush"}, {"0", false, 500, "Flush"},
		{"2", false, 200, `"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"`},
		{"2", false, 200, `"code":410`},
		{"0", true, 200, "ADDED"},
	} {
		recorder := httptest.NewRecorder()
		var w http.ResponseWriter = struct{ http.ResponseWriter }{recorder}
		if tt.unwraps {
			w = unwraps{recorder}
		}
		h.ServeHTTP(w, httptest.NewRequest("GET", path+"?watch=1&resourceVersion="+tt.version, nil))
		if recorder.Code != tt.code || !strings.Contains(recorder.Body.String(), tt.text) {
			t.Errorf("%+v: %d %s", tt, recorder.Code, recorder.Body)
		}
		rig.Same(t, "open watches", 0, h.Status()[0].Watches)
	}
	said := 0
	for len(log) > 0 {
		said += strings.Count(<-log, "Flush")
	}
	rig.Same(t, "how often it was said", 1, said)
}

// The headers of a middleware that were set before the watch began go with it. They stay the
// middleware's: it finds no others among them, and may set more when the Handler has returned.
func TestHeadersOfAMiddleware(t *testing.T) {
	for _, tr := range transports[1:3] {
		returned := make(chan http.Header, 1)
		around := transport{tr.name, func(h http.Handler) *httptest.Server {
			return tr.start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Before", "yes")
				h.ServeHTTP(w, r)
				for n := range 100 {
					w.Header().Set(fmt.Sprint("X-After-", n), "yes")
				}
				returned <- w.Header()
			}))
		}}
		run := startMemory(t, around, lw.NewMemory[*Widget]())
		c := dial(t, run.srv, "resourceVersion=1")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		noErr(t, err)
		header := <-returned
		if resp.Header.Get("X-Before") != "yes" || resp.Header.Get("X-After-0") != "" || header.Get("Connection") != "" ||
			len(header) != 101 {
			t.Errorf("%s: the answer has %v, and the middleware %v", tr.name, resp.Header, header)
		}
		_ = c.Close()
		run.stop()
	}
}

// records are those of a log.
type records chan string

func (r records) Write(b []byte) (int, error) {
	r <- string(b)
	return len(b), nil
}

// An unwraps is a ResponseWriter that has nothing but its way to another one.
type unwraps struct{ w http.ResponseWriter }

func (u unwraps) Header() http.Header         { return u.w.Header() }
func (u unwraps) Write(b []byte) (int, error) { return u.w.Write(b) }
func (u unwraps) WriteHeader(code int)        { u.w.WriteHeader(code) }
func (u unwraps) Unwrap() http.ResponseWriter { return u.w }
