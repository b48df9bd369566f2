package store_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// handlersOf returns the status of each handler but for the lag.
func handlersOf(inf *lw.Informer[*rig.Widget]) []lw.HandlerStatus {
	all := inf.Status().Handlers
	for i := range all {
		all[i].Lag, all[i].LagCount, all[i].LagSum = nil, 0, 0
	}
	return all
}

// What each handler was told is counted by type. Calls that Filter prevents, and functions that are
// nil, do not count.
func TestHandlerStatusCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2), rig.NewWidget("c", 9))
		inf := lw.NewInformer(m, &lw.Options{OnPanic: func(*lw.Panic) {}, OnError: func(error) {}})
		none := func(*rig.Widget) {}
		inf.AddHandler(lw.Handler[*rig.Widget]{Name: "all", Add: none, Update: func(_, _ *rig.Widget) {}, Delete: none,
			Resync: time.Hour})
		inf.AddHandler(lw.Handler[*rig.Widget]{Name: "small", Add: none, Update: func(_, _ *rig.Widget) {}, Delete: none,
			Filter: func(w *rig.Widget) bool { return w.Size < 5 }})
		inf.AddHandler(lw.Handler[*rig.Widget]{Delete: func(*rig.Widget) { panic("no") }})
		want := []lw.HandlerStatus{{Name: "all"}, {Name: "small"}, {Name: "handler"}}
		rig.Same(t, "before Run", want, handlersOf(inf), missingIsZero)
		stop := rig.Begin(t, inf)
		rig.Update(t, m, "a", 2)  // small: an update
		rig.Update(t, m, "c", 8)  // small: nothing
		rig.Update(t, m, "c", 3)  // small: an add
		rig.Update(t, m, "b", 20) // small: a delete
		rig.Remove(t, m, "c")
		rig.Sleep(time.Hour + time.Minute)
		want = []lw.HandlerStatus{
			{Name: "all", Synced: true, Calls: map[lw.EventType]uint64{lw.Added: 3, lw.Updated: 4 + 2, lw.Deleted: 1}},
			{Name: "small", Synced: true, Calls: map[lw.EventType]uint64{lw.Added: 2 + 1, lw.Updated: 1, lw.Deleted: 2}},
			{Name: "handler", Synced: true, Calls: map[lw.EventType]uint64{lw.Deleted: 1}, Panics: 1},
		}
		rig.Same(t, "", want, handlersOf(inf), missingIsZero)
		stop()
		if got := inf.Status().Handlers; len(got) != 0 {
			t.Errorf("after Run: %v", got)
		}
	})
}

// While a call blocks, Status does not, and shows what waits. What was told as a net effect counts
// as folded.
func TestHandlerStatusOfABlockedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 0), rig.NewWidget("b", 0))
		inf := lw.NewInformer(m, rig.Quiet())
		release := make(chan struct{})
		inf.AddHandler(lw.Handler[*rig.Widget]{Name: "stuck", Update: func(_, _ *rig.Widget) { <-release }})
		defer rig.Begin(t, inf)()
		rig.Update(t, m, "b", 1)
		synctest.Wait()
		const changes = 5000
		for i := range changes {
			rig.Update(t, m, "a", i+1)
		}
		synctest.Wait()
		got := handlersOf(inf)[0]
		if got.Calls[lw.Updated] != 0 || got.Folded < changes/2 || got.Folded > changes || got.Pending < 2 ||
			got.Pending > changes/2 {
			t.Errorf("blocked: %+v", got)
		}
		if status := inf.Status(); status.Pending != got.Pending {
			t.Errorf("Status.Pending is %d, and of the only handler %d", status.Pending, got.Pending)
		}
		close(release)
		synctest.Wait()
		want := []lw.HandlerStatus{{Name: "stuck", Synced: true, Calls: map[lw.EventType]uint64{lw.Updated: 2},
			Folded: changes}}
		rig.Same(t, "not blocked any more", want, handlersOf(inf), missingIsZero)
	})
}

// The lag of a change is counted from the moment when it is in the store to the end of the call,
// for one change in 64. Of changes that were folded together the first one counts.
func TestHandlerStatusLag(t *testing.T) {
	for name, tc := range map[string]struct {
		changes int // at once, after the first one
		every   bool
		call    time.Duration
		count   uint64
		sum     time.Duration
	}{
		"one":           {0, false, 3 * time.Second, 1, 3 * time.Second},
		"63 untimed":    {63, false, time.Second, 1, time.Second},
		"the next one":  {64, false, time.Second, 2, (1 + 65) * time.Second},
		"every update":  {1280, true, time.Second, 21, (21 + 64*210) * time.Second},
		"of net effect": {1280, false, time.Second, 2, (1 + 2) * time.Second},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			m := lw.NewMemory(rig.NewWidget("a", 0), rig.NewWidget("b", 0))
			inf := lw.NewInformer(m, rig.Quiet())
			inf.AddHandler(lw.Handler[*rig.Widget]{
				Add:         func(*rig.Widget) { time.Sleep(time.Hour) }, // is not timed
				Update:      func(_, _ *rig.Widget) { time.Sleep(tc.call) },
				EveryUpdate: tc.every,
			})
			defer rig.Begin(t, inf)()
			rig.Sleep(3 * time.Hour)
			rig.Update(t, m, "b", 1) // at position 0
			synctest.Wait()
			for i := range tc.changes {
				rig.Update(t, m, "a", i+1)
			}
			rig.Sleep(10 * time.Hour)
			got := inf.Status().Handlers[0]
			if got.LagCount != tc.count || got.LagSum != tc.sum {
				t.Errorf("%d timed, with %v in all; want %d, %v", got.LagCount, got.LagSum, tc.count, tc.sum)
			}
		})
	}
}

// The lag has its bounds with how many calls took at most that long.
func TestHandlerStatusLagBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 0))
		inf := lw.NewInformer(m, rig.Quiet())
		// The changes at positions 0, 64, 128 and 192 are timed.
		lags := []time.Duration{200 * time.Microsecond, 201 * time.Microsecond, 5 * time.Minute, time.Hour}
		calls := 0
		inf.AddHandler(lw.Handler[*rig.Widget]{Update: func(_, _ *rig.Widget) {
			if calls%64 == 0 {
				time.Sleep(lags[calls/64])
			}
			calls++
		}})
		defer rig.Begin(t, inf)()
		for i := range 64*3 + 1 {
			rig.Update(t, m, "a", i+1)
			rig.Sleep(2 * time.Hour)
		}
		s := inf.Status().Handlers[0]
		var got []string
		for _, bound := range slices.Sorted(maps.Keys(s.Lag)) {
			got = append(got, fmt.Sprint(bound, " ", s.Lag[bound]))
		}
		want := []string{"50µs 0", "200µs 1", "1ms 2", "5ms 2", "20ms 2", "100ms 2", "500ms 2", "2s 2", "10s 2",
			"1m0s 2", "5m0s 3"}
		rig.Same(t, "buckets", want, got)
		if want := time.Hour + 5*time.Minute + 401*time.Microsecond; s.LagCount != 4 || s.LagSum != want {
			t.Errorf("%d, %v; want 4, %v", s.LagCount, s.LagSum, want)
		}
	})
}

// Names are told apart by numbers. A name stays as long as its handler is registered, and its
// number is free after that.
func TestHandlerStatusOfEqualNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), rig.Quiet())
		add := func(name string) *lw.Registration {
			return inf.AddHandler(lw.Handler[*rig.Widget]{Name: name, Add: func(*rig.Widget) {}})
		}
		mustBe := func(want ...string) {
			t.Helper()
			var got []string
			for _, h := range inf.Status().Handlers {
				got = append(got, h.Name)
			}
			rig.Same(t, "names", want, got, cmpopts.EquateEmpty())
		}
		first := add("")
		second := add("")
		add("b#2")
		add("b")
		mustBe("handler", "handler#2", "b#2", "b")
		defer rig.Begin(t, inf)()
		add("b")
		first.Remove()
		mustBe("handler#2", "b#2", "b", "b#3")
		second.Remove()
		second.Remove()
		add("")
		add("")
		mustBe("b#2", "b", "b#3", "handler", "handler#2")
	})
}

// The handlers of a derived collection have a status as well.
func TestHandlerStatusOfADerivedCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		inf := lw.NewInformer(m, rig.Quiet())
		g := lw.NewGraph(nil)
		sums := lw.Derive(g, inf, rig.SumOf, "sums")
		h := lw.Handler[*rig.Sum]{Update: func(_, _ *rig.Sum) { time.Sleep(time.Second) }}
		sums.AddHandler(h)
		sums.AddHandler(h)
		defer rig.Begin(t, inf)()
		defer rig.Begin(t, g)()
		rig.Update(t, m, "a", 2)
		synctest.Wait()
		c := g.Status().Collections[0]
		if len(c.Handlers) != 2 || c.Pending != 1 || c.Handlers[1].Pending != 1 {
			t.Errorf("busy: %+v", c)
		}
		rig.Sleep(time.Minute)
		for i, got := range g.Status().Collections[0].Handlers {
			got.Lag = nil
			want := lw.HandlerStatus{Name: []string{"handler", "handler#2"}[i], Synced: true,
				Calls: map[lw.EventType]uint64{lw.Updated: 1}, LagCount: 1, LagSum: time.Second}
			rig.Same(t, "handler", want, got, missingIsZero)
		}
	})
}
