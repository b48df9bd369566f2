package serve_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/serve"
)

// dial opens a watch, and does not read the answer.
func dial(t testing.TB, srv *httptest.Server, query string) net.Conn {
	t.Helper()
	return ask(t, srv, path+"?watch=1&"+query)
}

// ask sends a request on a connection of its own, and does not read the answer.
func ask(t testing.TB, srv *httptest.Server, target string, header ...string) net.Conn {
	t.Helper()
	c := dialServer(t, srv)
	lines := append([]string{"GET " + target + " HTTP/1.1", "Host: example.com"}, header...)
	noErr(t, second(io.WriteString(c, strings.Join(lines, "\r\n")+"\r\n\r\n")))
	return c
}

// dialServer opens a connection.
func dialServer(t testing.TB, srv *httptest.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	noErr(t, err)
	if strings.HasPrefix(srv.URL, "https") {
		config := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.ServerName = "example.com"
		c = tls.Client(c, config)
	}
	return c
}

// count reads a watch until it has n events, or to its end, and returns the last line.
func count(c net.Conn, n int, told func(events int)) (events int, last string, err error) {
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 64<<10), nil)
	if err != nil {
		return 0, "", err
	}
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for events < n {
		line, err := lines.ReadString('\n')
		if err != nil {
			return events, last, err
		}
		if last = line; !strings.Contains(line, `"ERROR"`) {
			events++
			told(events)
		}
	}
	return events, last, nil
}

// S6: clients that read nothing delay nobody: no other client, no write and no list. A client that
// reads late gets everything that the history still has, and 410 after that.
func TestStalledClients(t *testing.T) {
	t.Parallel()
	for _, tr := range transports[:3] {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			m := lw.NewMemory[*Widget]()
			r := widgets
			r.History.Events = 3000
			// On a busy machine those that stall would be cut off before they read.
			opts := serve.Options{Limits: serve.Limits{WriteTimeout: time.Hour}}
			run := handleMemory(t, opts, m, r).on(t, tr)
			defer run.stop()
			const clients, events = 10, 6000
			var stalled, reading []net.Conn
			for range clients {
				stalled = append(stalled, dial(t, run.srv, "resourceVersion=1"))
				reading = append(reading, dial(t, run.srv, "resourceVersion=1"))
			}
			var all sync.WaitGroup
			have := make([]atomic.Int64, clients)
			for i, c := range reading {
				all.Go(func() {
					defer have[i].Store(events)
					if n, last, err := count(c, events, func(n int) { have[i].Store(int64(n)) }); n != events || err != nil {
						t.Errorf("a client that reads got %d events and %v; the last one is %s", n, err, last)
					}
				})
			}
			w := longWidget("a", 0, 4000)
			for n := range events {
				w.Size = n
				write := m.Update
				if n == 0 {
					write = m.Create
				}
				store(t, write, w)
				// Those that read have no more to read than the history has.
				for i := range have {
					rig.Met(t, patience, fmt.Sprintf("client %d has too few events", i), func() bool { return int(have[i].Load()) >= n-1000 })
				}
				if n%100 == 0 {
					if resp, err := run.srv.Client().Get(run.srv.URL + path); err != nil || resp.StatusCode != 200 {
						t.Fatal(err, resp)
					} else {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
			}
			all.Wait()
			for _, c := range stalled {
				n, last, err := count(c, events+1, func(int) {})
				if !strings.Contains(last, `"code":410`) || err != io.EOF || n == 0 {
					t.Errorf("a client that reads late got %d events, then %v: %.200s", n, err, last)
				}
			}
			for _, c := range append(stalled, reading...) {
				_ = c.Close()
			}
		})
	}
}

// S11: nothing is left of watches whose clients have gone, or whose server ends: no goroutine, and
// no connection.
func TestDirectLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, tr := range transports[1:3] {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			m := lw.NewMemory[*Widget]()
			run := startMemory(t, tr, m)
			defer run.srv.Close()
			var gone, staying []net.Conn
			for range 10 {
				gone = append(gone, dial(t, run.srv, "resourceVersion=1"))
				staying = append(staying, dial(t, run.srv, "resourceVersion=1"))
			}
			put(t, m.Create, "a", 1)
			var readers []*bufio.Reader
			for _, c := range staying {
				readers = append(readers, answerOf(t, c))
				line(t, readers[len(readers)-1], "ADDED")
			}
			for i, c := range gone {
				if i%2 == 0 { // in the middle of another request
					_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n")
				}
				_ = c.Close()
			}
			rig.Met(t, patience, "others watch than those that stay", func() bool { return run.h.Status()[0].Watches == len(staying) })
			closed := make(chan error, 1)
			go func() { closed <- run.h.Close() }()
			for _, r := range readers {
				if line, err := r.ReadString('\n'); err != io.EOF {
					t.Errorf("the end of a watch is %q, %v", line, err)
				}
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
			<-run.ended
			for _, c := range staying {
				_ = c.Close()
			}
		})
	}
}

// A client that takes nothing for Limits.WriteTimeout is cut off, and its watch is gone.
func TestWriteTimeout(t *testing.T) {
	for _, tr := range transports[:3] {
		t.Run(tr.name, func(t *testing.T) {
			m := lw.NewMemory[*Widget]()
			run := handleMemory(t, serve.Options{Limits: serve.Limits{WriteTimeout: 50 * time.Millisecond}}, m, widgets).on(t, tr)
			defer run.stop()
			c := dial(t, run.srv, "resourceVersion=1")
			defer c.Close()
			if conn, ok := c.(*tls.Conn); ok {
				noErr(t, conn.Handshake())
			}
			rig.Met(t, patience, "no watch was opened", func() bool { return run.h.Status()[0].Opened == 1 })
			resize(t, m, longWidget("a", 0, 1<<20), 32) // more than the buffers of a connection have room for
			rig.Met(t, patience, "there are watches", func() bool { return run.h.Status()[0].Watches == 0 })
		})
	}
}

// A pipeListener accepts connections in memory.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.IPAddr{} }

// Over HTTP/2 net/http ends a stream whose deadline is past, also if nothing waits to be written.
// So a watch without events must have none. The one whose client takes nothing must be cut off.
func TestWriteTimeoutOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
		m := lw.NewMemory[*Widget]()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = serve.ServeMemory(ctx, h, m, widgets) }()
		synctest.Wait()
		both := new(http.Protocols)
		both.SetUnencryptedHTTP2(true)
		l := make(pipeListener)
		srv := &http.Server{Handler: h, Protocols: both}
		go func() { _ = srv.Serve(l) }()
		tr := &http.Transport{Protocols: both, DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l <- there
			return here, nil
		}}
		defer func() {
			cancel()
			synctest.Wait()
			tr.CloseIdleConnections()
			_ = srv.Close()
		}()
		resp, err := (&http.Client{Transport: tr}).Get("http://server" + path + "?watch=1&resourceVersion=1")
		noErr(t, err)
		defer resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Fatalf("the protocol is %s", resp.Proto)
		}
		lines := bufio.NewReader(resp.Body)
		w := newWidget(lw.Key{Namespace: "n", Name: "a"}, 0)
		write := m.Create
		for n := range 3 {
			w.Size = n
			time.Sleep(5 * time.Minute) // many times Limits.WriteTimeout
			store(t, write, w)
			if line, err := lines.ReadString('\n'); err != nil {
				t.Fatalf("an idle watch ended: %v %s", err, line)
			}
			write = m.Update
		}
		w.Labels["long"] = strings.Repeat("x", 1<<20)
		for n := range 32 { // more than a client of HTTP/2 takes unread
			w.Size = 3 + n
			store(t, m.Update, w)
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if n := h.Status()[0].Watches; n != 1 {
			t.Errorf("%d watches are open before the time is over, want 1", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := h.Status()[0].Watches; n != 0 {
			t.Errorf("%d watches of a client that takes nothing are open, want 0", n)
		}
	})
}

// A watch that waits among others is told why it ends: of an object that cannot be encoded, and of
// a column that panics.
func TestParkedWatchesFail(t *testing.T) {
	r := widgets
	r.Encode = func(w *Widget) ([]byte, error) {
		if w.Name == "odd" {
			return nil, errors.New("no encoding")
		}
		return json.Marshal(w)
	}
	r.Columns = []serve.Column[*Widget]{{Name: "Size", Value: func(w *Widget) serve.Cell {
		if w.Name == "panics" {
			panic("no cell")
		}
		return serve.Int(w.Size)
	}}}
	for _, tr := range transports[:3] {
		for odd, tt := range map[string]struct{ accept, why string }{"odd": {"application/json", "no encoding"}, "panics": {asTable, "no cell"}} {
			m := lw.NewMemory[*Widget]()
			run := handleMemory(t, serve.Options{}, m, r).on(t, tr)
			c := ask(t, run.srv, path+"?watch=1&resourceVersion=1", "Accept: "+tt.accept)
			lines := bufio.NewScanner(answerOf(t, c))
			for _, n := range []string{"a", "b", odd} {
				put(t, m.Create, n, 1)
				want, code, why := `{"type":"ADDED"`, "", ""
				if n == odd {
					want, code, why = `{"type":"ERROR"`, `"code":500`, tt.why
				}
				if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) || !strings.Contains(lines.Text(), code) || !strings.Contains(lines.Text(), why) {
					t.Errorf("%s, %s: %s %v", tr.name, n, lines.Text(), lines.Err())
				}
			}
			if lines.Scan() || lines.Err() != nil {
				t.Errorf("%s: it goes on with %s %v", tr.name, lines.Text(), lines.Err())
			}
			_ = c.Close()
			run.stop()
		}
	}
}

// A watch whose selectors take long to match stays with net/http, where it holds up no other, and
// gets what it selects.
func TestLongSelectorOverListener(t *testing.T) {
	m := lw.NewMemory[*Widget]()
	run := handleMemory(t, serve.Options{}, m, widgets).on(t, transports[1])
	defer run.stop()
	var long strings.Builder
	for n := range 200 {
		fmt.Fprintf(&long, ",!a%d", n)
	}
	conns := map[string]net.Conn{}
	for _, more := range []string{"", long.String()} {
		conns[more] = dial(t, run.srv, "resourceVersion=1&labelSelector=even=yes"+more)
		defer conns[more].Close()
	}
	for n := range 4 {
		put(t, m.Create, fmt.Sprint("w", n), n)
	}
	for more, c := range conns {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Close != (more == "") {
			t.Fatalf("%v, %+v", err, resp)
		}
		lines := bufio.NewReader(resp.Body)
		for _, want := range []string{`"w0"`, `"w2"`} {
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, want) {
				t.Errorf("%s, %v, want %s", line, err, want)
			}
		}
	}
}
