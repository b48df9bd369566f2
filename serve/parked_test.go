package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A watchedListener knows what is done to its connections.
type watchedListener struct {
	freed chan struct{} // gets a token for each connection that nothing refers to any more

	mu    sync.Mutex // guards conns
	conns []*deadlines
}

// The deadlines of a connection outlive it.
type deadlines struct {
	mu    sync.Mutex
	write time.Time // the last one
	sets  int
}

func (d *deadlines) get() (write time.Time, sets int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write, d.sets
}

type watchedConn struct {
	*net.TCPConn
	deadlines *deadlines
}

func (c *watchedConn) SetWriteDeadline(t time.Time) error {
	c.deadlines.mu.Lock()
	c.deadlines.write = t
	c.deadlines.sets++
	c.deadlines.mu.Unlock()
	return c.TCPConn.SetWriteDeadline(t)
}

func (l *watchedListener) wrap(c *net.TCPConn) net.Conn {
	w := &watchedConn{c, &deadlines{}}
	runtime.AddCleanup(w, func(freed chan struct{}) { freed <- struct{}{} }, l.freed)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, w.deadlines)
	return w
}

// startWatched runs a server whose connections tell what is done to them.
func startWatched(t *testing.T, secure bool, opts serve.Options) (running, *watchedListener) {
	l := &watchedListener{freed: make(chan struct{}, 100)}
	run := handleMemory(t, opts, lw.NewMemory[*Widget](), widgets).on(t,
		listening("", secure, func(under net.Listener) net.Listener {
			return serve.Listener(accepting{under, l.wrap})
		}))
	return run, l
}

// answerOf reads the head of the answer to a watch.
func answerOf(t *testing.T, c net.Conn) *bufio.Reader {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(err, resp)
	}
	return bufio.NewReader(resp.Body)
}

// line reads an event, which must have all of want.
func line(t *testing.T, r *bufio.Reader, want ...string) {
	t.Helper()
	text, err := r.ReadString('\n')
	noErr(t, err)
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Fatalf("%.300q has no %.300s", text, part)
		}
	}
}

// end checks that a watch has ended, cleanly, and with no other event.
func end(t *testing.T, r *bufio.Reader) {
	t.Helper()
	if text, err := r.ReadString('\n'); err != io.EOF || text != "" {
		t.Errorf("the end of a watch is %q, %v", text, err)
	}
}

// A watch that has nothing to write has no deadline, which would cut it off at its next event; and
// of a client that has gone nothing is left, though nothing changes.
func TestQuietWatches(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			run, l := startWatched(t, secure, serve.Options{})
			defer run.stop()
			conns := make([]net.Conn, 4)
			bodies := make([]*bufio.Reader, len(conns))
			quiet := func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, d := range l.conns {
					if write, sets := d.get(); !write.IsZero() || sets == 0 {
						return false
					}
				}
				return len(l.conns) == len(conns)
			}
			for i := range conns {
				conns[i] = dial(t, run.srv, "resourceVersion=1")
				bodies[i] = answerOf(t, conns[i])
			}
			rig.Met(t, patience, "the watches have no deadline", quiet)
			for n := range 2 {
				put(t, run.m.Create, fmt.Sprint("w", n), n)
				for _, body := range bodies {
					line(t, body, `"ADDED"`)
				}
				rig.Met(t, patience, "the watches have no deadline after an event", quiet)
			}
			for _, c := range conns {
				_ = c.Close()
			}
			rig.Met(t, patience, "no watch is counted", func() bool { return run.h.Status()[0].Watches == 0 })
			rig.Met(t, patience, "a connection of a client that has gone is still referred to", func() bool {
				runtime.GC()
				return len(l.freed) == len(conns)
			})
		})
	}
}

// Watches that one goroutine writes to have each its own bookmarks, and its own end.
func TestEachHasItsTime(t *testing.T) {
	run, _ := startWatched(t, false, serve.Options{BookmarkEvery: 20 * time.Millisecond,
		Limits: serve.Limits{WatchTimeout: 50 * time.Millisecond}})
	defer run.stop()
	open := func(query string) *bufio.Reader {
		c := dial(t, run.srv, "resourceVersion=0&"+query)
		t.Cleanup(func() { _ = c.Close() })
		noErr(t, c.SetReadDeadline(time.Now().Add(patience)))
		return answerOf(t, c)
	}
	for range runtime.GOMAXPROCS(0) { // one for each goroutine
		open("timeoutSeconds=1000")
	}
	var bodies []*bufio.Reader
	for range runtime.GOMAXPROCS(0) {
		bodies = append(bodies, open("timeoutSeconds=1000&allowWatchBookmarks=1"), open(""))
	}
	for i, body := range bodies {
		if i%2 == 0 {
			line(t, body, `"BOOKMARK"`)
			line(t, body, `"BOOKMARK"`)
			continue
		}
		end(t, body)
	}
}

// A trickle is a connection from which a few bytes are read at a time.
type trickle struct{ net.Conn }

func (c trickle) Read(p []byte) (int, error) { return c.Conn.Read(p[:min(len(p), 999)]) }

// An event of 5 MiB, which is more than any buffer between, comes whole to a client that reads a
// little at a time; and so does what follows it. A client that goes away in the middle of the
// initial events delays nobody, and leaves nothing behind (TestMain looks for goroutines).
func TestLargeEvent(t *testing.T) {
	over(t, transports[:3], serve.Options{}, widgets, func(t *testing.T, run running) {
		large := longWidget("large", 1, 5<<20)
		created := store(t, run.m.Create, large)
		gone := dial(t, run.srv, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		noErr(t, second(io.ReadFull(gone, make([]byte, 1000))))
		_ = gone.Close()

		slow := dial(t, run.srv, "resourceVersion="+created.ResourceVersion)
		defer slow.Close()
		large.Size = 2
		store(t, run.m.Update, large)
		put(t, run.m.Create, "small", 3)
		lines := answerOf(t, trickle{slow})
		line(t, lines, `"large"`, large.Labels["long"])
		line(t, lines, `"small"`)
	})
}

// An authorizer that panics fails its request alone, and one that blocks delays nobody else.
func TestAuthorizeMisbehaves(t *testing.T) {
	for _, tr := range transports {
		release := make(chan struct{})
		opts := serve.Options{Authorize: func(_ *http.Request, a serve.Attributes) error {
			switch a.Name {
			case "panics":
				panic("no answer")
			case "blocks":
				<-release
			}
			return nil
		}}
		over(t, []transport{tr}, opts, widgets, func(t *testing.T, run running) {
			get := func(name string) (int, error) {
				resp, err := run.srv.Client().Get(run.srv.URL + in("n") + "/" + name)
				if err != nil {
					return 0, err
				}
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
				return resp.StatusCode, err
			}
			blocked := make(chan int, 1)
			go func() { code, _ := get("blocks"); blocked <- code }()
			for range 3 {
				if code, err := get("panics"); err == nil && code != http.StatusInternalServerError {
					t.Errorf("an authorizer that panics: %d", code)
				}
				if code, err := get("fine"); err != nil || code != http.StatusOK {
					t.Errorf("beside it: %d %v", code, err)
				}
			}
			close(release)
			rig.Same(t, "an authorizer that blocked, of no object", http.StatusNotFound, <-blocked)
		}, newWidget(name("fine"), 1))
	}
}
