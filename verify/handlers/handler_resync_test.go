package handlers_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// What changes while a resync is told is told as the change alone: the object of before is not told
// again.
func TestResyncLeavesOutWhatHasChanged(t *testing.T) {
	inMemory(t, "a1 b1 c1", nil, func(t *testing.T, m memory, inf informer) {
		gate := make(chan struct{})
		var got []string
		first := ""
		inf.AddHandler(lw.Handler[*rig.Widget]{
			Resync: time.Minute,
			Update: func(old, w *rig.Widget) {
				got = append(got, fmt.Sprintf("update %s %d %d", w.Name, old.Size, w.Size))
				if first == "" {
					first = w.Name
					<-gate
				}
			},
			Delete: func(w *rig.Widget) { got = append(got, "delete "+w.Name) },
		})
		rig.Sleep(61 * time.Second)
		if first == "" {
			t.Fatal("there was no resync")
		}
		others := slices.DeleteFunc([]string{"a", "b", "c"}, func(name string) bool { return name == first })
		rig.Update(t, m, others[0], 2)
		rig.Remove(t, m, others[1])
		synctest.Wait()
		close(gate)
		synctest.Wait()
		want := []string{"update " + first + " 1 1", "update " + others[0] + " 1 2", "delete " + others[1]}
		rig.Same(t, "calls", want, got)
	})
}

// A resync that is due while changes wait tells these first, and is of what they have led to; then
// the story goes on.
func TestResyncAfterWhatWaits(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		got := &rig.Calls{}
		h := got.Handler()
		h.Resync = time.Minute
		block := make(chan struct{})
		told := h.Update
		h.Update = func(old, w *rig.Widget) {
			told(old, w)
			if w.Size == 2 {
				<-block
			}
		}
		inf.AddHandler(h)
		got.MustBe(t, "add a1", "synced")
		rig.Update(t, m, "a", 2)
		got.MustBe(t, "update a1 a2")
		rig.Sleep(90 * time.Second)
		rig.Update(t, m, "a", 3)
		rig.Create(t, m, "b", 1)
		synctest.Wait()
		close(block)
		synctest.Wait()
		calls := got.Take()
		slices.Sort(calls[min(2, len(calls)):]) // a resync has no order
		rig.Same(t, "calls", []string{"update a2 a3", "add b1", "update a3 a3", "update b1 b1"}, calls)
		rig.Update(t, m, "a", 4)
		got.MustBe(t, "update a3 a4")
	})
}

// Each handler is told again in its own period, however busy it is in between, and nobody else with
// it.
func TestResyncPeriods(t *testing.T) {
	beforeRun(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		begin := time.Now()
		var mu sync.Mutex
		at := map[string][]time.Duration{}
		handler := func(name string, period, busy time.Duration) lw.Handler[*rig.Widget] {
			return lw.Handler[*rig.Widget]{Resync: period, Update: func(old, new *rig.Widget) {
				if old != new {
					time.Sleep(busy)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				at[name] = append(at[name], time.Since(begin))
			}}
		}
		inf.AddHandler(handler("2s", 2*time.Second, 0))
		inf.AddHandler(handler("3s", 3*time.Second, 0))
		inf.AddHandler(handler("busy", 2*time.Second, 700*time.Millisecond))
		inf.AddHandler(handler("never", 0, 0))
		rig.Start(t, inf)
		rig.Sleep(3500 * time.Millisecond)
		rig.Update(t, m, "a", 2) // keeps the busy one busy at 4 s
		rig.Sleep(5 * time.Second)
		want := map[string][]time.Duration{
			"2s":   {2 * time.Second, 4 * time.Second, 6 * time.Second, 8 * time.Second},
			"3s":   {3 * time.Second, 6 * time.Second},
			"busy": {2 * time.Second, 4200 * time.Millisecond, 6 * time.Second, 8 * time.Second},
		}
		rig.Same(t, "resyncs", want, at)
	})
}

// A resync tells of what is there: of no object that the handler's filter keeps out, has been
// deleted, or was never told.
func TestResyncTellsWhatIsThere(t *testing.T) {
	inMemory(t, "a1 b2 c3", nil, func(t *testing.T, m memory, inf informer) {
		got := &rig.Calls{}
		h := got.Handler()
		h.Resync = time.Minute
		h.Filter = func(w *rig.Widget) bool { return w.Size%2 == 1 }
		inf.AddHandler(h)
		got.Sorted(t, "add a1", "add c3", "synced")
		rig.Remove(t, m, "a")
		got.MustBe(t, "delete a1")
		rig.Sleep(time.Minute)
		got.MustBe(t, "update c3 c3")
		rig.Remove(t, m, "c")
		got.MustBe(t, "delete c3")
		rig.Sleep(time.Hour)
		got.MustBe(t)
	})
}

// A handler that is blocked through several of its periods is told once when it comes back, after
// all that waited.
func TestResyncOfABlockedHandler(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		got := &rig.Calls{}
		h := got.Handler()
		block := make(chan struct{})
		h.Synced = func() { <-block }
		h.Resync = time.Minute
		inf.AddHandler(h)
		got.MustBe(t, "add a1")
		rig.Update(t, m, "a", 2)
		rig.Sleep(10 * time.Minute)
		close(block)
		got.MustBe(t, "update a1 a2")
		rig.Sleep(time.Minute)
		got.MustBe(t, "update a2 a2")
	})
}

// A handler that is never done with what waits is told again all the same.
func TestResyncUnderSteadyChanges(t *testing.T) {
	inMemory(t, "a1 b1", nil, func(t *testing.T, m memory, inf informer) {
		resyncs := 0
		reg := inf.AddHandler(lw.Handler[*rig.Widget]{Resync: 10 * time.Second, Update: func(old, w *rig.Widget) {
			switch {
			case old != w:
				time.Sleep(time.Second)
			case w.Name == "b":
				resyncs++
			}
		}})
		for i := range 100 {
			rig.Update(t, m, "a", 2+i)
			rig.Sleep(900 * time.Millisecond)
			if reg.Pending() == 0 {
				t.Fatalf("the handler was done with everything after change %d", i)
			}
		}
		if resyncs < 5 {
			t.Errorf("%d resyncs in 90 s, want 5 at least", resyncs)
		}
	})
}

// All that waits when a resync comes due counts until the handler has been told of all of it, in
// however many pieces it was read.
func TestPendingDuringResync(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		gate := make(chan struct{})
		told := 0
		reg := inf.AddHandler(lw.Handler[*rig.Widget]{Resync: time.Minute, Update: func(old, w *rig.Widget) {
			if told++; old != w {
				<-gate
			}
		}})
		synctest.Wait()
		rig.Update(t, m, "a", 2) // the handler is in this call when the resync comes due
		synctest.Wait()
		const n = 700
		for i := range n {
			rig.Update(t, m, "a", 3+i)
		}
		rig.Sleep(2 * time.Minute)
		mustBePending(t, reg, 1+n, "before the resync")
		for i := range 3 {
			gate <- struct{}{}
			mustBePending(t, reg, n, fmt.Sprint("in the resync, with told ", i))
		}
		close(gate)
		mustBePending(t, reg, 0, "in the end")
		rig.Same(t, "told", 1+n+1, told)
	})
}

// A resync is of the state up to which the handler has been told. What comes while it is told of
// what waits is no part of it.
func TestResyncIsOfItsCut(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		got := &rig.Calls{}
		h := got.Handler()
		h.Resync = time.Minute
		gate, told := make(chan struct{}), h.Update
		h.Update = func(old, w *rig.Widget) {
			told(old, w)
			if old != w {
				<-gate
			}
		}
		inf.AddHandler(h)
		got.MustBe(t, "add a1", "synced")
		rig.Update(t, m, "a", 2)
		synctest.Wait()
		rig.Update(t, m, "a", 3)
		rig.Sleep(90 * time.Second)
		gate <- struct{}{}
		got.MustBe(t, "update a1 a2", "update a2 a3") // the second call is that of the resync
		rig.Create(t, m, "b", 1)
		synctest.Wait()
		close(gate)
		got.MustBe(t, "update a3 a3", "add b1")
	})
}

// A Resync of less than a second is one of a second, and is warned of. So are options that cannot
// be meant.
func TestOptionsThatCannotBeMeant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, warnings := countWarnings()
		_, inf := runMemory(t, "a1 b1", &lw.Options{Logger: logger, OnError: func(error) {}})
		rig.Same(t, "warnings of nothing", 0, warnings())
		again := 0
		inf.AddHandler(lw.Handler[*rig.Widget]{Resync: 30, Update: func(_, _ *rig.Widget) { again++ }})
		rig.Sleep(time.Minute)
		rig.Same(t, "calls in a minute", 120, again)
		rig.Same(t, "warnings of 30 ns", 1, warnings())
		inf.AddHandler(lw.Handler[*rig.Widget]{Resync: time.Second, Update: func(_, _ *rig.Widget) {}})
		rig.Same(t, "warnings of a second", 1, warnings())
		for _, o := range []lw.Options{{PageSize: -1}, {SyncBudget: -time.Hour}, {WatchTimeout: -1}, {WatchTimeout: 300},
			{SyncBudget: 10}} {
			logger, warnings := countWarnings()
			o.Logger, o.OnError = logger, func(error) {}
			lw.NewInformer(lw.NewMemory[*rig.Widget](), &o)
			rig.Same(t, fmt.Sprintf("warnings of %+v", o), 1, warnings())
			lw.NewReflector(lw.NewMemory[*rig.Widget](), lw.NewFIFO[*rig.Widget](), &o)
			rig.Same(t, "warnings with one more for a reflector", 2, warnings())
		}
	})
}

// countWarnings returns a logger, and how many warnings it has been told.
func countWarnings() (logger *slog.Logger, warnings func() int) {
	var log bytes.Buffer
	logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return logger, func() int { return strings.Count(log.String(), "level=WARN") }
}
