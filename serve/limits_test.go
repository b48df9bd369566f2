package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// However a watch or a list ends, its place in the limits is free then: as many as before can
// begin, at once, and one more is refused.
func TestLimitsAfterEachEnd(t *testing.T) {
	var hold chan struct{} // closed when an encoding is to go on
	r := widgets
	r.Encode = func(w *Widget) ([]byte, error) {
		switch w.Size {
		case 500:
			return nil, errors.New("no encoding")
		case 501:
			panic("no encoding")
		case 502:
			<-hold
		}
		return json.Marshal(w)
	}
	authorize := func(r *http.Request, _ serve.Attributes) error {
		if r.URL.Query().Has("deny") {
			return errors.New("no")
		}
		return nil
	}
	bad := func(query string, code int) func(*bubble, *lw.Memory[*Widget]) {
		return func(b *bubble, _ *lw.Memory[*Widget]) {
			b.answers(code, "", "GET", path+query, "")
		}
	}
	gives := func(size int) func(*bubble, *lw.Memory[*Widget]) {
		return func(b *bubble, m *lw.Memory[*Widget]) {
			w := b.watch("resourceVersion=" + m.ResourceVersion())
			put(b.t, m.Create, "odd", size)
			w.want(b.t, "ERROR 500", "END")
			bad("", 500)(b, m)
			bad("?watch=1", 200)(b, m)
			remove(t, m, "odd")
		}
	}
	for what, end := range map[string]func(*bubble, *lw.Memory[*Widget]){
		"a client goes":          func(b *bubble, m *lw.Memory[*Widget]) { w := b.watch(""); w.cancel(); w.take() },
		"time":                   bad("?watch=1&timeoutSeconds=1", 200),
		"a selector":             bad("?watch=1&fieldSelector=a=b", 400),
		"a label selector":       bad("?watch=1&labelSelector=%3D", 400),
		"a combination":          bad("?watch=1&resourceVersionMatch=Exact&resourceVersion=1", 422),
		"a version":              bad("?watch=1&resourceVersion=x", 500),
		"a version that is gone": bad("?watch=1&resourceVersion=1", 200),
		"a future version": bad("?watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&resourceVersion=99",
			504),

		"no permission":             bad("?watch=1&timeoutSeconds=9&deny", 403),
		"HEAD":                      func(b *bubble, _ *lw.Memory[*Widget]) { b.do("HEAD", path+"?watch=1", "") },
		"an encoding fails":         gives(500),
		"an encoding panics":        gives(501),
		"a list with a selector":    bad("?fieldSelector=a=b", 400),
		"a list with a version":     bad("?resourceVersion=x", 400),
		"a list with a token":       bad("?continue=x", 400),
		"a list of a combination":   bad("?resourceVersionMatch=Exact", 422),
		"a list of the future":      bad("?resourceVersion=99", 504),
		"a list of the past":        bad("?resourceVersion=1&resourceVersionMatch=Exact", 410),
		"a list without permission": bad("?deny", 403),
		"clients that wait for a version go": func(b *bubble, _ *lw.Memory[*Widget]) {
			for _, query := range []string{"?resourceVersion=99",
				"?watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&resourceVersion=99"} {
				b.leave(path + query)
			}
		},
		"clients that wait for their turn go": func(b *bubble, m *lw.Memory[*Widget]) {
			hold = make(chan struct{})
			put(b.t, m.Create, "odd", 502)
			for range 3 { // one is in progress, two wait
				b.leave(path)
			}
			close(hold)
			synctest.Wait()
			remove(t, m, "odd")
		},
	} {
		t.Run(what, func(t *testing.T) {
			opts := serve.Options{Authorize: authorize, Limits: serve.Limits{Watches: 3, WatchesPerClient: 2, Lists: 1}}
			opts.Client = func(r *http.Request) string { return r.URL.Query().Get("client") }
			inBubble(t, opts, func(b *bubble) {
				b.t = t
				m := lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 2))
				m.Compact()
				b.memory(m, r)
				for range 4 {
					end(b, m)
				}
				synctest.Wait()
				rig.Same(t, "open watches", 0, b.h.Status()[0].Watches)
				b.answersAfter(0, http.StatusOK, "", path)
				var open []*stream
				for _, next := range []struct{ client, refused string }{{"", ""}, {"", ""}, {"", "2 watches of this client"},
					{"other", ""}, {"third", "3 watches"}} {
					w := b.watch("timeoutSeconds=60&resourceVersion=" + m.ResourceVersion() + "&client=" + next.client)
					if next.refused == "" {
						w.want(t)
						open = append(open, w)
					} else if got := w.take(); !strings.HasPrefix(got[0], "429") || !strings.Contains(got[0], next.refused) {
						t.Errorf("one more watch of client %q: %s, want %s", next.client, got, next.refused)
					}
				}
				for _, w := range open {
					w.cancel()
				}
			})
		})
	}
}

// leave makes a request whose client goes before it is answered.
func (b *bubble) leave(path string) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://server"+path, nil)
	noErr(b.t, err)
	ended := make(chan error, 1)
	go func() {
		resp, err := b.client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		ended <- err
	}()
	synctest.Wait()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		b.t.Errorf("%s is answered: %v", path, err)
	}
	synctest.Wait()
}

// A watch from a version that is not here yet is told of no version before that.
func TestNoBookmarkBeforeTheBeginning(t *testing.T) {
	served(t, serve.Options{BookmarkEvery: time.Second}, widgets, func(b *bubble, m *lw.Memory[*Widget]) {
		w := b.watch("resourceVersion=4&allowWatchBookmarks=true")
		time.Sleep(10 * time.Second)
		w.want(t)
		for n := range 3 {
			put(t, m.Update, "a", n)
		}
		w.want(t, "MODIFIED a 5")
		time.Sleep(time.Second)
		w.want(t, "BOOKMARK 5")
		w.cancel()
	}, newWidget(name("a"), 1))
}

// What ends ServeMemory is its context, not what it runs with it.
func TestServeMemoryEnds(t *testing.T) {
	cause := errors.New("that is enough")
	for range 20 {
		inBubble(t, serve.Options{}, func(b *bubble) {
			ctx, cancel := context.WithCancelCause(b.ctx)
			ended := make(chan error, 1)
			go func() { ended <- serve.ServeMemory(ctx, b.h, lw.NewMemory[*Widget](), widgets) }()
			synctest.Wait()
			cancel(cause)
			if err := <-ended; !errors.Is(err, cause) && !errors.Is(err, context.Canceled) || errors.Is(err, lw.ErrStopped) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// What a collection refuses while it ends does not count for another one. And Serve returns when no
// watch calls a function of the program any more.
func TestEndWhileAWatchEncodes(t *testing.T) {
	inBubble(t, serve.Options{Limits: serve.Limits{Watches: 3}}, func(b *bubble) {
		release := make(chan struct{})
		r := widgets
		r.Encode = func(w *Widget) ([]byte, error) {
			<-release
			return json.Marshal(w)
		}
		m := lw.NewMemory[*Widget]()
		ctx, cancel := context.WithCancel(b.ctx)
		ended := make(chan error, 1)
		go func() { ended <- serve.ServeMemory(ctx, b.h, m, r) }()
		b.serve(func(ctx context.Context) error {
			return serve.ServeMemory(ctx, b.h, lw.NewMemory[*Widget](), serve.Resource[*Widget]{Name: "others", Kind: "Other"})
		})
		w := b.watch("resourceVersion=1")
		put(t, m.Create, "a", 1)
		synctest.Wait()
		cancel()
		synctest.Wait()
		for range 5 {
			if got := b.watch("resourceVersion=1").take(); !strings.HasPrefix(got[0], "429") {
				t.Errorf("a watch of what ends: %s", got)
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("Serve has returned while a watch encodes: %v", err)
		default:
		}
		close(release)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
		w.want(t, "ADDED a 2", "END")
		for range 2 {
			b.answers(http.StatusOK, "", "GET", "/api/v1/others?watch=1&resourceVersion=0&timeoutSeconds=1", "")
		}
		// The name is free again.
		b.answers(http.StatusNotFound, "", "GET", path, "")
		b.memory(m, r)
		b.answers(http.StatusOK, "", "GET", path, "")
	})
}

// While a Handler closes, it refuses all requests for what it serves, and the watches end one after
// the other, over two seconds. Then each Serve has ended with http.ErrServerClosed.
func TestClosing(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		var ends []chan error
		for _, r := range []serve.Resource[*Widget]{widgets, {Name: "others", Kind: "Other"}} {
			ended := make(chan error, 1)
			ends = append(ends, ended)
			go func() { ended <- serve.ServeMemory(b.ctx, b.h, lw.NewMemory(newWidget(name("a"), 1)), r) }()
		}
		synctest.Wait()
		var open []*stream
		for range 40 {
			open = append(open, b.watch("resourceVersion=2"))
		}
		closed := make(chan error, 2)
		for range 2 { // the second one changes nothing
			go func() { closed <- b.h.Close() }()
			synctest.Wait()
		}
		began, took := time.Now(), make(chan time.Duration, len(open))
		for _, w := range open {
			go func() {
				for ev := range w.events {
					t.Errorf("a watch was told of %s", ev)
				}
				took <- time.Since(began)
			}()
		}
		time.Sleep(time.Second)
		for _, request := range []string{"GET " + path, "GET " + path + "/a", "GET " + path + "?watch=1", "POST " + path} {
			method, at, _ := strings.Cut(request, " ")
			b.answers(http.StatusTooManyRequests, `"retryAfterSeconds":1`, method, at, "{}")
		}
		halves := map[bool]int{}
		for range open {
			d := <-took
			if halves[d > time.Second]++; d > 2*time.Second {
				t.Errorf("a watch ended after %v", d)
			}
		}
		if halves[false] == 0 || halves[true] == 0 { // of 40, by chance once in 500,000,000,000
			t.Errorf("the watches did not end one after the other: %v", halves)
		}
		for range 2 {
			noErr(t, <-closed)
		}
		for _, ended := range ends {
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("Serve: %v", err)
			}
		}
		rig.Same(t, "what is served afterwards", []serve.Status(nil), b.h.Status())
	})
}
