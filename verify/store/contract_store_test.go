package store_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The contract_*_test.go files prove the contract in doc.go, point by point; here what it says of
// the store.

// Point 1: every read is one state of the server, and says which. Writers keep two objects equal in
// one version each; no snapshot ever shows them apart from what the server had at the snapshot's
// version.
func TestOneSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		truth := map[string]map[lw.Key]int{}
		m := lw.NewMemory(rig.NewWidget("a", 0), rig.NewWidget("b", 0))
		note := func() {
			state := map[lw.Key]int{}
			for w := range m.All() {
				state[lw.KeyOf(w)] = w.Size
			}
			truth[m.ResourceVersion()] = state
		}
		note()
		inf := rig.Run(t, m, nil)
		bySize := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size % 2 })
		for i := 1; i <= 200; i++ {
			name := []string{"a", "b"}[i%2]
			rig.Update(t, m, name, i)
			note()
			if i%50 == 0 {
				m.Compact()
				m.Disconnect()
			}
			if i%3 == 0 {
				synctest.Wait()
			}
			snap := inf.Store().Snapshot()
			want, ok := truth[snap.ResourceVersion()]
			if !ok {
				t.Fatalf("the server never had version %q", snap.ResourceVersion())
			}
			if diff := cmp.Diff(want, rig.Sizes(snap)); diff != "" {
				t.Fatalf("snapshot at %s (-server +store):\n%s", snap.ResourceVersion(), diff)
			}
		}
		rig.Sleep(time.Minute)
		for parity := range 2 {
			for _, w := range bySize.List(parity) {
				if w.Size%2 != parity {
					t.Errorf("index %d holds size %d", parity, w.Size)
				}
			}
		}
		rig.Same(t, "store", truth[m.ResourceVersion()], rig.Sizes(inf.Store()))
	})
}

// Point 2: an older list is refused, until it proves to be the truth; then it is a new epoch, which
// is reported.
func TestNeverBack(t *testing.T) {
	rig.Subtest(t, "lagging replica", func(t *testing.T) {
		old := rig.List("10", rig.Stamped("a", 1, "9"))
		now := rig.List("20", rig.Stamped("a", 2, "19"))
		src := &rig.Script{Lists: []rig.Reply{now, old, old, now}, Watches: []rig.Stream{rig.Expired(), rig.Forever()}}
		errs := &rig.Errors{}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListWhole, OnError: errs.Add})
		rig.Start(t, inf)
		seen := ""
		for range 300 {
			rig.Sleep(100 * time.Millisecond)
			rv := inf.Store().ResourceVersion()
			if rv != "" && rv != "20" || rv < seen {
				t.Fatalf("the store went from version %q to %q", seen, rv)
			}
			seen = rv
		}
		if got := src.Listed(); got != 4 {
			t.Errorf("%d lists, want 4: two older ones refused", got)
		}
		if inf.Status().Epoch != 0 {
			t.Errorf("a lagging replica made an epoch")
		}
		errs.MustHave(t, "older than 20")
	})
	rig.Subtest(t, "restored backup", func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		errs := &rig.Errors{}
		inf := rig.Run(t, m, &lw.Options{OnError: errs.Add})
		before := m.ResourceVersion()
		rig.Update(t, m, "a", 2)
		rig.Create(t, m, "b", 2)
		synctest.Wait()
		after := m.ResourceVersion()
		pending := make(chan error, 1)
		go func() { pending <- inf.WaitForResourceVersion(t.Context(), "1000000") }()
		rig.OK(t, m.Rewind(before))
		rig.Sleep(2 * time.Minute)
		rig.Same(t, "store", map[lw.Key]int{rig.Key("a"): 1}, rig.Sizes(inf.Store()))
		if rv := inf.Store().ResourceVersion(); rv == after {
			t.Errorf("the store still says version %s", rv)
		}
		if got := inf.Status().Epoch; got != 1 {
			t.Errorf("epoch %d, want 1", got)
		}
		errs.MustBe(t, lw.ErrRewound)
		if err := <-pending; !errors.Is(err, lw.ErrRewound) {
			t.Errorf("wait ended with %v, want ErrRewound", err)
		}
	})
}

// Point 3: one call at a time, and store and indexes show the change when it comes.
func TestStoreBeforeHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		inf := lw.NewInformer(m, nil)
		bySize := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size })
		var running atomic.Int32
		calls := 0
		seen := func(w *rig.Widget, there bool) {
			if running.Add(1) != 1 {
				t.Error("two calls at once")
			}
			defer running.Add(-1)
			calls++
			got, ok := inf.Store().Get(lw.KeyOf(w))
			if ok != there || ok && got != w {
				t.Errorf("in the call for %s the store holds %v, %v", w.Name, got, ok)
			}
			if got := slices.Contains(bySize.List(w.Size), w); got != there {
				t.Errorf("in the call for %s the index says %v", w.Name, got)
			}
			time.Sleep(time.Millisecond)
		}
		inf.AddHandler(lw.Handler[*rig.Widget]{
			Add:    func(w *rig.Widget) { seen(w, true) },
			Update: func(_, w *rig.Widget) { seen(w, true) },
			Delete: func(w *rig.Widget) { seen(w, false) },
		})
		rig.Start(t, inf)
		for i := range 20 {
			rig.Create(t, m, "b", i)
			rig.Sleep(time.Second)
			rig.Update(t, m, "b", 100+i)
			rig.Sleep(time.Second)
			rig.Remove(t, m, "b")
			rig.Sleep(time.Second)
		}
		synctest.Wait()
		if calls != 61 {
			t.Errorf("%d calls, want 61", calls)
		}
	})
}

// Point 12: exactly once per version, whatever the way it came in.
func TestTransformExactlyOnce(t *testing.T) {
	for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages, lw.ListWhole} {
		rig.Subtest(t, string(mode), func(t *testing.T) {
			m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1), rig.NewWidget("c", 1))
			calls := map[string]int{}
			src := lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) {
				calls[w.Name+"@"+w.ResourceVersion]++
				return w, nil
			})
			inf := lw.NewInformer(src, &lw.Options{List: mode, PageSize: 2})
			inf.AddHandler(lw.Handler[*rig.Widget]{Update: func(_, _ *rig.Widget) {}, Resync: time.Second})
			rig.Start(t, inf)
			rig.Sleep(10 * time.Second)
			rig.Update(t, m, "a", 2)
			rig.Remove(t, m, "b")
			rig.Sleep(10 * time.Second)
			inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) {}})
			rig.Sleep(10 * time.Second)
			if len(calls) != 4 {
				t.Errorf("transformed %v, want 4 versions", calls)
			}
			for version, n := range calls {
				if n != 1 {
					t.Errorf("%s was transformed %d times", version, n)
				}
			}
		})
	}
}

// Point 15: after WaitForResourceVersion every read shows at least that version; where versions
// have no order it says so.
func TestReadYourWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		inf := rig.Run(t, m, nil)
		for i := range 50 {
			w := rig.Update(t, m, "a", i)
			if i%10 == 5 {
				m.Disconnect()
				m.Compact()
			}
			rig.OK(t, inf.WaitForResourceVersion(t.Context(), w.ResourceVersion))
			if got, _ := inf.Store().Get(rig.Key("a")); got.Size != i {
				t.Fatalf("after the wait the store holds %d, want %d", got.Size, i)
			}
		}
		rig.Remove(t, m, "a")
		rig.OK(t, inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()))
		if _, ok := inf.Store().Get(rig.Key("a")); ok {
			t.Error("after the wait for its deletion the object is there")
		}
		for _, version := range []string{"", "0", "abc", "-1", "07"} {
			if err := inf.WaitForResourceVersion(t.Context(), version); err == nil {
				t.Errorf("a wait for version %q ended well", version)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := inf.WaitForResourceVersion(ctx, "1000000000000000000000000000000"); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("a wait for the far future: %v", err)
		}
	})
	rig.Subtest(t, "opaque", func(t *testing.T) {
		src := &rig.Script{OnList: func() rig.Reply { return rig.List("v-one", rig.Stamped("a", 1, "v-zero")) },
			OnWatch: rig.Forever}
		inf := rig.RunFor(t, src, &lw.Options{List: lw.ListWhole}, time.Second)
		if err := inf.WaitForResourceVersion(t.Context(), "5"); err == nil {
			t.Error("a wait on versions without an order ended well")
		}
	})
}
