package serve_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A pager is a client that lists page by page.
type pager struct {
	b        *bubble
	last     answer          // the last page
	names    []string        // of all pages
	versions map[string]bool // of all pages
}

// page asks for the next page, and returns the code of the answer. That of a page too old has a
// token as well.
func (p *pager) page(limit int) int {
	p.b.t.Helper()
	code, body := p.b.do("GET", fmt.Sprint(path, "?limit=", limit, "&continue=",
		url.QueryEscape(p.last.Metadata.Continue)), "")
	if p.last = forms[0].must(p.b.t, []byte(body)); code != http.StatusOK {
		return code
	}
	p.versions[p.last.Metadata.ResourceVersion] = true
	for _, item := range p.last.Items {
		p.names = append(p.names, item.Metadata.Name)
	}
	return code
}

func numbered(n int) string { return fmt.Sprintf("w%06d", n) }

// S1: clients that list 100,000 objects one by one, while each page is followed by a write, get one
// state each, at a cost that does not depend on how many objects there are. When the history has
// forgotten it, the answer is 410 with a token that goes on at the newest state.
func TestPagesOfOne(t *testing.T) {
	const objects, clients, pages = 100_000, 20, 30 // more clients than past states are kept
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(sized(objects)...)
		r := widgets
		r.History.Events = 2000
		b.memory(m, r)

		// A write is seen by later states: an object goes at the front, and one comes at the end.
		gone := 0
		write := func() {
			t.Helper()
			remove(t, m, numbered(gone))
			put(t, m.Create, numbered(objects+gone), 1)
			gone++
		}
		var lists []*pager
		firsts := map[*pager]int{} // the first object of the state of each
		for range clients {
			write()
			p := &pager{b: b, versions: map[string]bool{}}
			firsts[p] = gone
			rig.Same(t, "code of a page", http.StatusOK, p.page(1))
			lists = append(lists, p)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range pages - 1 {
			for _, p := range lists {
				write()
				rig.Same(t, "code of a page", http.StatusOK, p.page(1))
			}
		}
		runtime.ReadMemStats(&after)
		// A copy of the list has 1.6 MB or more.
		if each := (after.TotalAlloc - before.TotalAlloc) / (clients * (pages - 1)); each > 600<<10 {
			t.Errorf("a page with two writes allocates %d bytes", each)
		}
		for i, p := range lists {
			var want []string
			for n := range pages {
				want = append(want, numbered(firsts[p]+n))
			}
			if diff := cmp.Diff(want, p.names); diff != "" || len(p.versions) != 1 {
				t.Errorf("client %d: versions %v (-want +got):\n%s", i, p.versions, diff)
			}
			if left := p.last.Metadata.RemainingItemCount; left == nil || *left != objects-pages {
				t.Errorf("client %d: %v objects remain, want %d", i, left, objects-pages)
			}
		}
		rest := lists[0]
		if code := rest.page(math.MaxInt32); code != http.StatusOK || rest.last.Metadata.Continue != "" ||
			len(rest.versions) != 1 {
			t.Errorf("the rest: %d, continue %q, versions %v", code, rest.last.Metadata.Continue, rest.versions)
		}
		if last := rest.names[len(rest.names)-1]; len(rest.names) != objects || last != numbered(objects+firsts[rest]-1) {
			t.Errorf("%d objects up to %s", len(rest.names), last)
		}

		for range r.History.Events/2 + 1 { // each is two events
			write()
		}
		synctest.Wait()
		late := lists[1]
		if code := late.page(1); code != http.StatusGone || late.last.Metadata.Continue == "" {
			t.Fatalf("a page of a state that is forgotten: %d, %+v", code, late.last.Metadata)
		}
		if code := late.page(1); code != http.StatusOK || len(late.versions) != 2 ||
			late.names[pages] != numbered(max(gone, firsts[late]+pages)) {
			t.Errorf("after it: %d, versions %v, %v", code, late.versions, late.names[pages:])
		}
	})
}

// S3: a thousand clients move from one relay of a server to another, without a list or a loss.
func TestClientsMove(t *testing.T) {
	const clients, objects = 1000, 20
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory[*Widget]()
		for i := range objects {
			put(t, m.Create, numbered(i), 1)
		}
		// The second relay counts its requests for content.
		second := &bubble{t: t, h: serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet}), ctx: b.ctx}
		var lists, watches atomic.Int64
		front := apiserver.New(apiserver.Options{Wrap: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if q := r.URL.Query(); q.Get("watch") == "" || q.Get("sendInitialEvents") != "" {
					lists.Add(1)
				} else {
					watches.Add(1)
				}
				second.h.ServeHTTP(w, r)
			})
		}})
		defer front.Close()
		second.relay(m, widgets)

		// The first one ends on its own.
		first := &bubble{t: t, h: b.h}
		var end func()
		first.ctx, end = context.WithCancel(b.ctx)
		first.relay(m, widgets)

		var to atomic.Pointer[http.Client]
		to.Store(b.client)
		client := &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			return to.Load().Transport.RoundTrip(r)
		})}
		var informers []*lw.Informer[*Widget]
		for range clients {
			inf := lw.NewInformer(&lw.HTTP[*Widget]{URL: "http://server" + path, Client: client}, &lw.Options{Logger: quiet})
			informers = append(informers, inf)
			go func() { _ = inf.Run(b.ctx) }()
		}
		expect := func(want int, size int) {
			t.Helper()
			synctest.Wait()
			for i, inf := range informers {
				w, _ := inf.Store().Get(name(numbered(0)))
				if n := inf.Store().Len(); n != want || w == nil || w.Size != size {
					t.Fatalf("client %d has %d objects, and the first is %+v; want %d, of size %d: %v", i, n, w, want, size,
						inf.Status())
				}
			}
		}
		time.Sleep(time.Minute)
		expect(objects, 1)

		to.Store(front.Client())
		end()
		put(t, m.Update, numbered(0), 2) // while nobody watches
		time.Sleep(time.Minute)
		expect(objects, 2)
		put(t, m.Create, numbered(objects), 1)
		expect(objects+1, 2)
		if lists.Load() != 0 || watches.Load() < clients {
			t.Errorf("the second relay had %d lists and %d watches", lists.Load(), watches.Load())
		}
		t.Logf("%d lists, %d watches", lists.Load(), watches.Load())
		front.Client().CloseIdleConnections()
	})
}
