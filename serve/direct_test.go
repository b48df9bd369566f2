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
	"github.com/go-lw/lw/internal/verify/rig"
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
		c = tls.Client(c, configOf(srv))
	}
	return c
}

// configOf is that of a client of a server.
func configOf(srv *httptest.Server) *tls.Config {
	config := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	return config
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
	r := widgets
	r.History.Events = 3000
	// On a busy machine those that stall would be cut off before they read.
	opts := serve.Options{Limits: serve.Limits{WriteTimeout: time.Hour}}
	over(t, transports[:3], opts, r, func(t *testing.T, run running) {
		t.Parallel()
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
		w, write := longWidget("a", 0, 4000), run.m.Create
		for n := range events {
			w.Size = n
			store(t, write, w)
			write = run.m.Update
			// Those that read have no more to read than the history has.
			for i := range have {
				rig.Met(t, patience, fmt.Sprintf("client %d has too few events", i),
					func() bool { return int(have[i].Load()) >= n-1000 })
			}
			if n%100 == 0 {
				resp, err := run.srv.Client().Get(run.srv.URL + path)
				noErr(t, err)
				bodyOf(t, resp)
				rig.Same(t, "code of a list", 200, resp.StatusCode)
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

// A client that reads nothing until its connection is full, in the middle of what is written at once,
// and reads on before the history has moved past it, gets each event once.
func TestStalledClientMissesNothing(t *testing.T) {
	t.Parallel()
	r := widgets
	r.History.Events = 20_000
	opts := serve.Options{Limits: serve.Limits{WriteTimeout: time.Hour}}
	over(t, transports[:3], opts, r, func(t *testing.T, run running) {
		t.Parallel()
		c := dial(t, run.srv, "resourceVersion=1")
		defer c.Close()
		lines, write := answerOf(t, c), run.m.Create
		for n := range 10 { // behind these it waits for more beside others
			put(t, write, "a", n)
			line(t, lines, fmt.Sprintf(`"size":%d`, n))
			write = run.m.Update
		}
		var puts []*Widget
		for n := range 8000 { // 16 MB, which the buffers of no connection have room for
			puts = append(puts, longWidget(fmt.Sprintf("w%04d", n), n, 2000))
		}
		noErr(t, second(run.m.Transact(t.Context(), puts)))
		sent, same := uint64(10), 0
		rig.Met(t, patience, "the server has not stopped", func() bool {
			now := run.h.Status()[0].Sent
			if same++; now == 10 || now != sent {
				sent, same = now, 0
			}
			return same == 50
		})
		for n := range puts {
			line(t, lines, `"ADDED"`, fmt.Sprintf(`"name":"w%04d"`, n))
		}
	})
}

// S11: nothing is left of watches whose clients have gone, or whose server ends.
func TestDirectLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, tr := range transports[1:3] {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			run := startMemory(t, tr, lw.NewMemory[*Widget]())
			defer run.srv.Close()
			var gone, staying []net.Conn
			for range 10 {
				gone = append(gone, dial(t, run.srv, "resourceVersion=1"))
				staying = append(staying, dial(t, run.srv, "resourceVersion=1"))
			}
			put(t, run.m.Create, "a", 1)
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
			rig.Met(t, patience, "others watch than those that stay",
				func() bool { return run.h.Status()[0].Watches == len(staying) })
			closed := make(chan error, 1)
			go func() { closed <- run.h.Close() }()
			for _, r := range readers {
				end(t, r)
			}
			noErr(t, <-closed)
			<-run.ended
			for _, c := range staying {
				_ = c.Close()
			}
		})
	}
}

// A client that takes nothing for Limits.WriteTimeout is cut off, and its watch is gone.
func TestWriteTimeout(t *testing.T) {
	opts := serve.Options{Limits: serve.Limits{WriteTimeout: 50 * time.Millisecond}}
	over(t, transports[:3], opts, widgets, func(t *testing.T, run running) {
		c := dial(t, run.srv, "resourceVersion=1")
		defer c.Close()
		if conn, ok := c.(*tls.Conn); ok {
			noErr(t, conn.Handshake())
		}
		rig.Met(t, patience, "no watch was opened", func() bool { return run.h.Status()[0].Opened == 1 })
		resize(t, run.m, longWidget("a", 0, 1<<20), 32) // more than the buffers of a connection have room for
		rig.Met(t, patience, "there are watches", func() bool { return run.h.Status()[0].Watches == 0 })
	})
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
		run := handleMemory(t, serve.Options{}, lw.NewMemory[*Widget](), widgets)
		both := new(http.Protocols)
		both.SetUnencryptedHTTP2(true)
		l := make(pipeListener)
		srv := &http.Server{Handler: run.h, Protocols: both}
		go func() { _ = srv.Serve(l) }()
		tr := &http.Transport{Protocols: both, DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l <- there
			return here, nil
		}}
		defer func() {
			run.end()
			synctest.Wait()
			tr.CloseIdleConnections()
			_ = srv.Close()
		}()
		resp, err := (&http.Client{Transport: tr}).Get("http://server" + path + "?watch=1&resourceVersion=1")
		noErr(t, err)
		defer resp.Body.Close()
		rig.Same(t, "protocol", 2, resp.ProtoMajor)
		lines := bufio.NewReader(resp.Body)
		for n := range 3 {
			time.Sleep(5 * time.Minute) // many times Limits.WriteTimeout
			put(t, run.m.Create, fmt.Sprint(n), n)
			line(t, lines, "ADDED")
		}
		resize(t, run.m, longWidget("a", 0, 1<<20), 32) // more than a client of HTTP/2 takes unread
		rig.Sleep(29 * time.Second)
		rig.Same(t, "watches before the time is over", 1, run.h.Status()[0].Watches)
		rig.Sleep(2 * time.Second)
		rig.Same(t, "watches of a client that takes nothing", 0, run.h.Status()[0].Watches)
	})
}

// A watch that waits among others is told why it ends: no encoding, or a column that panics.
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
	for odd, tt := range map[string]struct{ accept, why string }{"odd": {"application/json", "no encoding"},
		"panics": {asTable, "no cell"}} {
		over(t, transports[:3], serve.Options{}, r, func(t *testing.T, run running) {
			c := ask(t, run.srv, path+"?watch=1&resourceVersion=1", "Accept: "+tt.accept)
			defer c.Close()
			lines := answerOf(t, c)
			for _, n := range []string{"a", "b"} {
				put(t, run.m.Create, n, 1)
				line(t, lines, `{"type":"ADDED"`)
			}
			put(t, run.m.Create, odd, 1)
			line(t, lines, `{"type":"ERROR"`, `"code":500`, tt.why)
			end(t, lines)
		})
	}
}

// A watch whose selectors take long stays with net/http, and gets what it selects.
func TestLongSelectorOverListener(t *testing.T) {
	run := startMemory(t, transports[1], lw.NewMemory[*Widget]())
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
		put(t, run.m.Create, fmt.Sprint("w", n), n)
	}
	for more, c := range conns {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Close != (more == "") {
			t.Fatalf("%v, %+v", err, resp)
		}
		lines := bufio.NewReader(resp.Body)
		line(t, lines, `"w0"`)
		line(t, lines, `"w2"`)
	}
}
