package source_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// TestWantedBy: a set wants what the objects of two collections name, until the last of them lets
// go.
func TestWantedBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set lw.KeySet
		inf := rig.Run(t, lw.Wanted[*rig.Widget](newDistant("a", "b", "c"), &set), nil)
		// The widget "n" of size 1 names "a", of size 2 "a" and "b", of another none.
		named := func(w *rig.Widget) (keys []lw.Key) {
			for i := range w.Size {
				keys = append(keys, lw.Key{Namespace: "default", Name: string(rune('a' + i))})
			}
			return keys
		}
		one, two := lw.NewMemory(rig.NewWidget("n", 2)), lw.NewMemory(rig.NewWidget("n", 1), rig.NewWidget("m", 1))
		regs := []*lw.Registration{}
		for _, src := range []*lw.Memory[*rig.Widget]{one, two} {
			regs = append(regs, lw.WantedBy(&set, rig.Run(t, src, nil), named))
		}
		there := func() (names string) {
			synctest.Wait()
			for _, name := range []string{"a", "b", "c"} {
				if inf.KeyState(lw.Key{Namespace: "default", Name: name}) == lw.KeyThere {
					names += name
				}
			}
			return names
		}
		for _, step := range []struct {
			what string
			do   func()
			want string
		}{
			{"the first lists", func() { <-regs[0].Synced(); <-regs[1].Synced() }, "ab"},
			{"an update wants more", func() { rig.Update(t, two, "n", 3) }, "abc"},
			{"and less", func() { rig.Update(t, two, "n", 0) }, "ab"},
			{"a deletion lets go", func() {
				rig.OK(t, (rig.Plain[*rig.Widget]{Memory: one}).Delete(lw.Key{Namespace: "default", Name: "n"}))
			}, "a"},
			{"it comes again", func() { rig.Create(t, one, "n", 3) }, "abc"},
			{"the registration is removed", func() { regs[0].Remove(); <-regs[0].Done() }, "a"},
			{"the last one is, too", func() { regs[1].Remove() }, ""},
		} {
			step.do()
			if got := there(); got != step.want {
				t.Errorf("%s: %q, want %q", step.what, got, step.want)
			}
		}
	})
}

// TestWantedNamespaces: a namespace that is added is listed alone, and one that is let go is
// Deleted.
func TestWantedNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, set := newDistant("a", "b"), &lw.NamespaceSet{}
		for _, ns := range []string{"one", "two"} {
			for _, name := range []string{"x", "y"} {
				w := rig.NewWidget(name, 1)
				w.Namespace = ns
				if _, err := src.Create(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
		}
		set.Set("me", "one")
		inf := rig.Run(t, lw.Wanted[*rig.Widget](src, set), nil)
		var calls rig.Calls
		inf.AddHandler(calls.Handler())
		synctest.Wait()
		calls.Take()
		set.Set("me", "one", "default")
		synctest.Wait()
		if diff := cmp.Diff([]string{"metadata.namespace=default"}, src.parts); diff != "" {
			t.Error(diff)
		}
		if inf.Store().Len() != 4 {
			t.Errorf("%d objects", inf.Store().Len())
		}
		rig.Update(t, src.Memory, "a", 2)
		set.Set("me", "default")
		synctest.Wait()
		if diff := cmp.Diff(5, calls.Len()); diff != "" { // two come, one changes, two go
			t.Errorf("%v: %s", calls.Take(), diff)
		}
		if inf.Store().Len() != 2 || inf.KeyState(lw.Key{Namespace: "one", Name: "x"}) != lw.KeyUnwanted {
			t.Errorf("%d objects", inf.Store().Len())
		}
	})
}

// A secret is as large as those of Helm.
type secret struct {
	lw.Meta `json:"metadata"`
	Data    map[string][]byte `json:"data"`
}

// TestWantedHeap: of 5,000 Secrets of 32 KB, of which 20 are wanted, an informer keeps less than 10
// MB, also while it lists; of all it would keep 160.
func TestWantedHeap(t *testing.T) {
	const all, size, most = 5_000, 32 << 10, 10 << 20
	data := strings.Repeat("QUJD", size/3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		io.WriteString(w, `{"kind":"SecretList","metadata":{"resourceVersion":"9"},"items":[`)
		for i := range all {
			comma := ","
			if i == 0 {
				comma = ""
			}
			fmt.Fprintf(w, `%s{"metadata":{"name":"s%d","namespace":"default","uid":"u%d","resourceVersion":"%d"},"data":{"release":"`, comma, i, i, i%9+1)
			io.WriteString(w, data)
			io.WriteString(w, `"}}`)
		}
		io.WriteString(w, `]}`)
	}))
	t.Cleanup(server.Close)                                       // after the informer has stopped
	heap := func() int64 { rig.Heap(); return int64(rig.Heap()) } // collects twice
	empty := heap()
	var keys lw.KeySet
	for i := range 20 {
		keys.Set(fmt.Sprint(i), rig.Key(fmt.Sprint("s", i*200)))
	}
	inf := lw.NewInformer(lw.Wanted[*secret](&lw.HTTP[*secret]{URL: server.URL, Client: server.Client()}, &keys), &lw.Options{List: lw.ListWhole})
	rig.Start(t, inf)
	peak := int64(0)
	for !inf.Status().Synced {
		peak = max(peak, heap()-empty)
	}
	kept := heap() - empty
	if n := inf.Store().Len(); n != 20 || kept > most || peak > most {
		t.Errorf("%d Secrets, %d KB of the heap, and %d while it listed", n, kept>>10, peak>>10)
	}
	t.Logf("%d KB of the heap, and %d while it listed", kept>>10, peak>>10)
}
