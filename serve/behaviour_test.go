package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// S10: without an authorizer nothing is answered; what is refused is refused before all else.
func TestAuthorize(t *testing.T) {
	paths := []string{"/", "/api", "/apis", "/version", "/apis/example.io/v1", path, path + "?watch=1", path + "/x",
		"/nothing", path + "?limit=x", "/openapi/v3/apis/example.io/v1",
		"/apis/example.io/v1/namespaces/n/widgets/x", "/openapi/v3"}
	for what, authorize := range map[string]func(*http.Request, serve.Attributes) error{
		"nil":   nil,
		"error": func(*http.Request, serve.Attributes) error { return errors.New("no") },
	} {
		synctest.Test(t, func(t *testing.T) {
			bubbleOf(t, t.Context(), serve.Options{Authorize: authorize, Logger: quiet}, func(b *bubble) {
				b.memory(lw.NewMemory(newWidget(name("x"), 1)), widgets)
				for _, p := range paths {
					for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
						if code, body := b.do(method, p, ""); code != http.StatusForbidden || strings.Contains(body, "uid") {
							t.Errorf("%s: %s %s: %d %s", what, method, p, code, body)
						}
					}
				}
			})
		})
	}
}

// S2: while a thousand watch, a relist with differences ends all watches with 410, over five
// seconds; one without ends none.
func TestRelist(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := b.relayed(lw.NewMemory(newWidget(name("a"), 1)))
		var all []*stream
		for range 1000 {
			all = append(all, b.watch("resourceVersion=2"))
		}
		put(b.t, m.Update, "a", 2)
		for _, w := range all {
			w.want(b.t, "MODIFIED a 3")
		}
		// The informer's watch ends, and what came after it is compacted: it lists.
		m.Fail(errors.New("away"))
		m.Fail(nil)
		m.Compact()
		time.Sleep(time.Minute)
		for _, w := range all {
			w.want(b.t)
		}
		m.Fail(errors.New("away"))
		put(b.t, m.Create, "b", 1)
		m.Compact()
		m.Fail(nil)
		before := time.Now()
		for b.h.Status()[0].Objects != 2 {
			time.Sleep(10 * time.Millisecond)
			if time.Since(before) > time.Minute {
				b.t.Fatal("no relist")
			}
		}
		before = time.Now()
		ends := map[time.Duration]int{}
		for range 60 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			all = slices.DeleteFunc(all, func(w *stream) bool {
				if len(w.events) == 0 {
					return false
				}
				w.want(b.t, "ERROR 410", "END")
				ends[time.Since(before).Truncate(time.Second)]++
				return true
			})
		}
		rig.Same(b.t, "watches that go on", 0, len(all))
		for second := range 5 * time.Second / time.Second {
			if n := ends[second*time.Second]; n < 100 { // of 200, with a deviation of 13
				b.t.Errorf("%d watches ended in second %d: %v", n, second, ends)
			}
		}
		// A client that comes again lists, and goes on.
		w := b.watch("")
		w.want(b.t, "ADDED a "+versionOf(m, "a"), "ADDED b "+versionOf(m, "b"))
		w.cancel()
	})
}

// TestUnseen: a relay lists anew and finds no difference. A client that is ahead of it, since it
// has come from the server, may have seen what came and went.
func TestUnseen(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1))
		b.relay(lw.WithListOptions(lw.Source[*Widget](m),
			func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name!=other" }), widgets)
		behind := b.watch("resourceVersion=" + m.ResourceVersion())
		m.Fail(errors.New("away"))
		before := m.ResourceVersion()
		put(b.t, m.Create, "b", 1)
		at := m.ResourceVersion()
		ahead := b.watch("resourceVersion=" + at)
		remove(t, m, "b")
		m.Compact()
		m.Fail(nil)
		time.Sleep(time.Minute)
		ahead.want(b.t, "ERROR 410", "END")
		for _, query := range []string{"?watch=1&resourceVersion=", "?resourceVersionMatch=Exact&resourceVersion="} {
			if _, body := b.do("GET", path+query+at, ""); !strings.Contains(body, `"Expired"`) {
				b.t.Errorf("%s%s: %s", query, at, body)
			}
		}
		// What was here, and what is here, goes on.
		for _, version := range []string{before, m.ResourceVersion()} {
			b.answers(http.StatusOK, "", "GET", path+"?resourceVersionMatch=Exact&resourceVersion="+version, "")
		}
		put(b.t, m.Create, "other", 1)
		other := m.ResourceVersion()
		put(b.t, m.Create, "c", 1)
		behind.want(b.t, "ADDED c "+versionOf(m, "c"))
		b.watch("resourceVersion="+other).want(b.t, "ADDED c "+versionOf(m, "c"))
	})
}

func versionOf(m *lw.Memory[*Widget], n string) string {
	w, _ := m.Get(context.Background(), name(n))
	return w.ResourceVersion
}

// S12: after the server went back in time, nothing of before means anything.
func TestRewind(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1))
		put(b.t, m.Create, "b", 1)
		b.relay(m, widgets)
		w := b.watch("resourceVersion=3")
		noErr(b.t, m.Rewind("2"))
		time.Sleep(time.Minute)
		w.want(b.t, "ERROR 410", "END")
		for _, query := range []string{"?resourceVersion=3&resourceVersionMatch=Exact",
			"?resourceVersion=1&resourceVersionMatch=Exact"} {
			if code, body := b.do("GET", path+query, ""); code == http.StatusOK {
				b.t.Errorf("%s: %s", query, body)
			}
		}
		if body := b.answers(200, "", "GET", path+"?resourceVersion=0", ""); strings.Contains(body, `"name":"b"`) {
			b.t.Error(body)
		}
	})
}

// S11: Close ends watches cleanly, over two seconds, and nothing is left. Who allows it is told how
// far he has come, so that he goes on elsewhere from there.
func TestClose(t *testing.T) {
	served(t, serve.Options{}, widgets, func(b *bubble, m *lw.Memory[*Widget]) {
		with, without := b.watch("resourceVersion=2&allowWatchBookmarks=1"), b.watch("resourceVersion=2")
		selects := b.watch("resourceVersion=2&allowWatchBookmarks=1&labelSelector=even=yes")
		put(t, m.Update, "a", 3)
		with.want(t, "MODIFIED a 3")
		without.want(t, "MODIFIED a 3")
		selects.want(t)
		begun := time.Now()
		noErr(b.t, b.h.Close())
		if d := time.Since(begun); d > 2*time.Second {
			b.t.Errorf("Close took %v", d)
		}
		with.want(b.t, "BOOKMARK 3", "END")
		selects.want(t, "BOOKMARK 3", "END")
		without.want(b.t, "END")
		if code, _ := b.do("GET", path, ""); code == http.StatusOK {
			b.t.Error("a closed Handler answers")
		}
		if err := serve.ServeMemory(b.ctx, b.h, m, widgets); !errors.Is(err, http.ErrServerClosed) {
			b.t.Errorf("Serve on a closed Handler: %v", err)
		}
	}, newWidget(name("a"), 1))
}

// S8: an object is encoded once, however many clients ask. S5: bookmarks.
func TestShared(t *testing.T) {
	encoded := map[string]int{}
	r := widgets
	r.Encode = func(w *Widget) ([]byte, error) {
		encoded[w.Name+" "+w.ResourceVersion]++
		return json.Marshal(w)
	}
	served(t, serve.Options{}, r, func(b *bubble, m *lw.Memory[*Widget]) {
		var all []*stream
		for range 10 {
			all = append(all,
				b.watch("sendInitialEvents=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=300"))
			b.do("GET", path, "")
			b.do("GET", path, "", "Accept", "application/cbor")
			b.do("GET", path, "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
		}
		put(b.t, m.Update, "a", 5)
		remove(t, m, "a")
		for _, w := range all {
			w.want(b.t, "ADDED a 2", "BOOKMARK 2 end", "MODIFIED a 3", "DELETED a 4")
		}
		rig.Same(b.t, "encoded", map[string]int{"a 2": 1, "a 3": 1}, encoded)
		if s := b.h.Status()[0]; s.Encoded != 2 || s.Watches != 10 || s.Opened != 10 || s.Lists != 30 {
			b.t.Errorf("%+v", s)
		}
		time.Sleep(61 * time.Second)
		for _, w := range all {
			w.want(b.t, "BOOKMARK 4")
		}
		time.Sleep(240 * time.Second)
		for _, w := range all {
			got := w.take()
			if n := len(got); n < 3 || got[n-1] != "END" || got[n-2] != "BOOKMARK 4" {
				b.t.Errorf("%v", got)
			}
		}
	}, newWidget(name("a"), 1))
}

// What cannot be encoded ends the watches that want it, and no other. It is reported once for all
// of them, and says what it is of.
func TestEncodeFails(t *testing.T) {
	r := widgets
	r.Encode = func(w *Widget) ([]byte, error) {
		switch w.Size {
		case 1:
			return nil, errors.New("no encoding")
		case 2:
			panic("no encoding")
		}
		return json.Marshal(w)
	}
	for size := 1; size <= 2; size++ {
		var reported []string
		inBubble(t, serve.Options{OnError: func(err error) { reported = append(reported, err.Error()) }}, func(b *bubble) {
			m := b.memory(lw.NewMemory[*Widget](), r)
			all, some := b.watch("resourceVersion=1"), b.watch("resourceVersion=1&fieldSelector=size=4")
			other := b.watch("resourceVersion=1")
			put(b.t, m.Create, "a", size)
			put(b.t, m.Create, "b", 4)
			all.want(b.t, "ERROR 500", "END")
			other.want(b.t, "ERROR 500", "END")
			if len(reported) != 1 || !strings.Contains(reported[0], "widgets") || !strings.Contains(reported[0], "n/a") ||
				!strings.Contains(reported[0], "no encoding") {
				t.Errorf("reported: %q", reported)
			}
			some.want(b.t, "ADDED b 3")
			b.answers(http.StatusInternalServerError, "", "GET", path, "")
			some.cancel()
		})
	}
}

// Derived collections have versions of their own, which rise, and which a later process refuses.
func TestDerived(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1))
		r := widgets
		r.Replica = 7
		collected(b, derived(b, m, func(w *Widget) *Widget { return newWidget(lw.KeyOf(w), w.Size*2) }), r)
		one := func() answer {
			list := b.list("")
			if len(list.Items) != 1 {
				b.t.Fatalf("%+v", list)
			}
			list.Items[0].Metadata.Continue = list.Metadata.ResourceVersion
			return list.Items[0]
		}
		first := one()
		if first.Size != 2 || first.Metadata.UID == "" {
			b.t.Fatalf("%+v", first)
		}
		w := b.watch("resourceVersion=" + first.Metadata.Continue)
		time.Sleep(time.Second)
		put(b.t, m.Update, "a", 5)
		got, next := w.take(), one().Metadata
		rig.Same(t, "events", []string{"MODIFIED a " + next.Continue}, got)
		if next.UID != first.Metadata.UID || next.ResourceVersion != next.Continue ||
			next.Continue <= first.Metadata.Continue {
			b.t.Errorf("%+v after %+v", next, first)
		}
		remove(t, m, "a")
		time.Sleep(time.Second)
		put(b.t, m.Create, "a", 1)
		if got := w.take(); len(got) != 2 || !strings.HasPrefix(got[0], "DELETED a") ||
			!strings.HasPrefix(got[1], "ADDED a") {
			b.t.Error(got)
		}
		if one().Metadata.UID == first.Metadata.UID {
			b.t.Error("a new object has the UID of the old one")
		}
		// A version of another replica or process, also between two versions of this one.
		at := first.Metadata.Continue
		for _, version := range []string{"12345678901234567", fmt.Sprint(number(t, at) + 1<<20),
			fmt.Sprint(number(t, at) + 1<<60)} {
			began := time.Now()
			b.watch("resourceVersion="+version).want(b.t, "ERROR 410", "END")
			b.answers(http.StatusGone, "", "GET", path+"?resourceVersionMatch=Exact&resourceVersion="+version, "")
			rig.Same(t, "time of both", 0, time.Since(began))
		}
		b.answers(200, `"size":2`, "GET", path+"?resourceVersionMatch=Exact&resourceVersion="+at, "")
		w.cancel()
	})
}
