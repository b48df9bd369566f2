package store_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// An object that an index panicked at holds back the version, as any that is set aside does, until
// a later version of it comes in; and no list takes it away meanwhile, or shows another version of
// it.
func TestPanicInIndexHoldsTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
		inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}, OnPanic: func(*lw.Panic) {}})
		bySize := lw.NewIndex(inf, func(w *rig.Widget) int { return 10 / (w.Size - 5) })
		got := &rig.Calls{}
		h := got.Handler()
		h.Synced = nil
		inf.AddHandler(h)
		rig.Start(t, inf)
		got.Sorted(t, "add a1", "add b1")
		mustStay := func(when, version string, b int) {
			t.Helper()
			synctest.Wait()
			rig.Same(t, when+": store", map[lw.Key]int{rig.Key("a"): 1, rig.Key("b"): b}, rig.Sizes(inf.Store()))
			if bySize.Len(-2) != 1+map[int]int{1: 1}[b] {
				t.Errorf("%s: the index holds %d", when, bySize.Len(-2))
			}
			if s := inf.Status(); s.ResourceVersion != version || len(s.SetAside) != 1 {
				t.Errorf("%s: version %s, want %s; set aside: %v", when, s.ResourceVersion, version, s.SetAside)
			}
			var p *lw.Panic
			if err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()); !errors.As(err, &p) {
				t.Errorf("%s: WaitForResourceVersion: %v", when, err)
			}
		}
		before := m.ResourceVersion()
		rig.Update(t, m, "a", 5)
		mustStay("after the event", before, 1)
		rig.Update(t, m, "b", 2)
		got.MustBe(t, "update b1 b2")
		mustStay("after another object's", before, 2)
		relists := rig.Relists(inf.Status())
		rig.Relist(m, func() { rig.Update(t, m, "b", 1) })
		if relists == rig.Relists(inf.Status()) {
			t.Error("there was no list")
		}
		got.MustBe(t, "update b2 b1")
		mustStay("after a list", before, 1)
		rig.Update(t, m, "a", 6)
		got.MustBe(t, "update a1 a6")
		rig.OK(t, inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()))
		if s := inf.Status(); s.ResourceVersion != m.ResourceVersion() || s.SetAside != nil {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// The watch goes on behind an event at which an index has panicked: the event does not come again
// with the next watch, and so is reported once.
func TestPanicInIndexIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		var panics, errs int
		onError := func(err error) {
			if _, ok := errors.AsType[*lw.Panic](err); ok {
				errs++
			}
		}
		inf := lw.NewInformer(m, &lw.Options{OnError: onError, OnPanic: func(*lw.Panic) { panics++ }})
		lw.NewIndex(inf, func(w *rig.Widget) int { return 10 / (w.Size - 5) })
		rig.Start(t, inf)
		rig.Update(t, m, "a", 5)
		synctest.Wait()
		for range 3 {
			m.Disconnect()
			rig.Sleep(time.Minute)
		}
		if panics != 1 || errs != 1 {
			t.Errorf("%d panics and %d errors were reported, want 1 of each", panics, errs)
		}
		if s := inf.Status(); rig.Watches(s) < 4 || rig.Relists(s) != 0 {
			t.Errorf("%d watches and %d relists, want one watch after the other", rig.Watches(s), rig.Relists(s))
		}
	})
}

// The watch that follows goes on behind the event at which an index panicked, and nobody asks the
// server for anything else before.
func TestPanicInIndexMovesThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "8"))},
			Watches: []rig.Stream{{Events: []lw.WatchEvent[*rig.Widget]{rig.Modified(rig.Stamped("a", 5, "11"))},
				After: time.Minute}, rig.Forever()},
		}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {},
			OnPanic: func(*lw.Panic) {}})
		lw.NewIndex(inf, func(w *rig.Widget) int { return 10 / (w.Size - 5) })
		rig.Start(t, inf)
		rig.Sleep(65 * time.Second)
		rig.MustLog(t, src, "list limit 500", "watch 10", "watch 11")
	})
}

// The same of an object at which an index panics only in a list: what the store has of it stays,
// and nothing that it has not comes in.
func TestPanicInIndexWithinALaterList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{
				rig.List("10", rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9"), rig.Stamped("gone", 1, "7")),
				rig.List("20", rig.Stamped("a", 5, "18"), rig.Stamped("b", 2, "19"), rig.Stamped("c", 5, "20")),
			},
			Watches: []rig.Stream{rig.ExpiredAfter(time.Minute), rig.Forever()},
		}
		var panics []lw.Key
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {},
			OnPanic: func(p *lw.Panic) { panics = append(panics, p.Key) }})
		lw.NewIndex(inf, func(w *rig.Widget) int { return 10 / (w.Size - 5) })
		got := &rig.Calls{}
		inf.AddHandler(got.Handler())
		rig.Start(t, inf)
		synctest.Wait()
		got.Take()
		rig.Sleep(2 * time.Minute)
		got.MustBe(t, "delete gone1", "update b1 b2")
		rig.Same(t, "store", map[lw.Key]int{rig.Key("a"): 1, rig.Key("b"): 2}, rig.Sizes(inf.Store()))
		rig.Same(t, "panicked at", []lw.Key{rig.Key("a"), rig.Key("c")}, panics)
		// The store still has the a of before: it must not say that it shows what was written at 18.
		if got := inf.Store().ResourceVersion(); got != "10" {
			t.Errorf("the version is %s, want 10", got)
		}
		var p *lw.Panic
		if err := inf.WaitForResourceVersion(t.Context(), "18"); !errors.As(err, &p) {
			t.Errorf("WaitForResourceVersion: %v", err)
		}
		aside := inf.Status().SetAside
		if len(aside) != 2 || aside[rig.Key("a")] == nil || aside[rig.Key("c")] == nil {
			t.Errorf("set aside: %v", aside)
		}
	})
}

// With OnPanic an object that an index panics at is set aside, by a list and by an event; store and
// indexes stay consistent.
func TestOnPanicInIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("bad", -1))
		var panics []lw.Key
		errs := &rig.Errors{}
		inf := lw.NewInformer(m, &lw.Options{OnError: errs.Add,
			OnPanic: func(p *lw.Panic) { panics = append(panics, p.Key) }})
		bySize := lw.NewIndex(inf, rig.Positive)
		got := &rig.Calls{}
		inf.AddHandler(got.Handler())
		rig.Start(t, inf)
		got.MustBe(t, "add a1", "synced")
		rig.Same(t, "panicked at", []lw.Key{rig.Key("bad")}, panics)
		var e *lw.Error
		if err := inf.Status().SetAside[rig.Key("bad")]; !errors.As(err, &e) || e.Op != "index" {
			t.Errorf("set aside: %v", err)
		}
		rig.Update(t, m, "a", -1)
		got.MustBe(t)
		if w, ok := inf.Store().Get(rig.Key("a")); !ok || w.Size != 1 || !slices.Contains(bySize.List(1), w) {
			t.Errorf("the store holds %v, the index %v", w, bySize.List(1))
		}
		rig.Update(t, m, "a", 2)
		rig.Update(t, m, "bad", 3)
		got.MustBe(t, "update a1 a2", "add bad3")
		if n := len(inf.Status().SetAside); n != 0 || bySize.Len(1) != 0 || bySize.Len(2) != 1 || bySize.Len(3) != 1 {
			t.Errorf("%d objects are set aside, index: %d, %d, %d", n, bySize.Len(1), bySize.Len(2), bySize.Len(3))
		}
		rig.OK(t, inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()))
	})
}

// Without OnPanic a panic of an index's function is nobody's but the program's: it comes out as it
// was.
func TestPanicOfAnIndexWithoutOnPanic(t *testing.T) {
	for name, objs := range map[string][]*rig.Widget{"list": {rig.NewWidget("a", -1)}, "event": nil} {
		rig.Subtest(t, name, func(t *testing.T) {
			m := lw.NewMemory(objs...)
			inf := lw.NewInformer(m, nil)
			lw.NewIndex(inf, rig.Positive)
			came := make(chan any, 1)
			go func() {
				defer func() { came <- recover() }()
				_ = inf.Run(t.Context())
			}()
			synctest.Wait()
			if name == "event" {
				rig.Create(t, m, "a", -1)
			}
			if v := <-came; v != "negative" {
				t.Errorf("Run panicked with %v", v)
			}
		})
	}
}
