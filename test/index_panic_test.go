package lw_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// An object that an index panicked at holds back the version, as any that is set aside does, until a later version of it comes
// in; and no list takes it away meanwhile, or shows another version of it.
func TestPanicInIndexHoldsTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1))
		inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}, OnPanic: func(*lw.Panic) {}})
		bySize := lw.NewIndex(inf, func(w *Widget) int { return 10 / (w.Size - 5) })
		got := &calls{}
		h := got.handler()
		h.Synced = nil
		inf.AddHandler(h)
		start(t, inf)
		got.sorted(t, "add a1", "add b1")
		mustStay := func(when, version string, b int) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(map[lw.Key]int{key("a"): 1, key("b"): b}, sizes(inf.Store())); diff != "" {
				t.Errorf("%s: store (-want +got):\n%s", when, diff)
			}
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
		update(t, m, "a", 5)
		mustStay("after the event", before, 1)
		update(t, m, "b", 2)
		got.mustBe(t, "update b1 b2")
		mustStay("after another object's", before, 2)
		relists := inf.Status().Relists
		m.Fail(errors.New("down"))
		m.Disconnect()
		update(t, m, "b", 1)
		m.Compact()
		m.Fail(nil)
		sleep(time.Minute)
		if relists == inf.Status().Relists {
			t.Error("there was no list")
		}
		got.mustBe(t, "update b2 b1")
		mustStay("after a list", before, 1)
		update(t, m, "a", 6)
		got.mustBe(t, "update a1 a6")
		if err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()); err != nil {
			t.Error(err)
		}
		if s := inf.Status(); s.ResourceVersion != m.ResourceVersion() || s.SetAside != nil {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// The watch goes on behind an event at which an index has panicked: the event does not come again with the next watch, and so is
// reported once.
func TestPanicInIndexIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		var panics, errs int
		onError := func(err error) {
			if _, ok := errors.AsType[*lw.Panic](err); ok {
				errs++
			}
		}
		inf := lw.NewInformer(m, &lw.Options{OnError: onError, OnPanic: func(*lw.Panic) { panics++ }})
		lw.NewIndex(inf, func(w *Widget) int { return 10 / (w.Size - 5) })
		start(t, inf)
		update(t, m, "a", 5)
		synctest.Wait()
		for range 3 {
			m.Disconnect()
			sleep(time.Minute)
		}
		if panics != 1 || errs != 1 {
			t.Errorf("%d panics and %d errors were reported, want 1 of each", panics, errs)
		}
		if s := inf.Status(); s.Watches < 4 || s.Relists != 0 {
			t.Errorf("%d watches and %d relists, want one watch after the other", s.Watches, s.Relists)
		}
	})
}

// The watch that follows goes on behind the event at which an index panicked, and nobody asks the
// server for anything else before.
func TestPanicInIndexMovesThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists:   []reply{list("10", stamped("a", 1, "8"))},
			watches: []stream{{events: []lw.WatchEvent[*Widget]{modified(stamped("a", 5, "11"))}, after: time.Minute}, forever()},
		}
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, OnPanic: func(*lw.Panic) {}})
		lw.NewIndex(inf, func(w *Widget) int { return 10 / (w.Size - 5) })
		start(t, inf)
		sleep(65 * time.Second)
		mustLog(t, src, "list limit 500", "watch 10", "watch 11")
	})
}

// The same of an object at which an index panics only in a list: what the store has of it stays, and nothing that it has not
// comes in.
func TestPanicInIndexWithinALaterList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{
				list("10", stamped("a", 1, "8"), stamped("b", 1, "9"), stamped("gone", 1, "7")),
				list("20", stamped("a", 5, "18"), stamped("b", 2, "19"), stamped("c", 5, "20")),
			},
			watches: []stream{expiredAfter(time.Minute), forever()},
		}
		var panics []lw.Key
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, OnPanic: func(p *lw.Panic) { panics = append(panics, p.Key) }})
		lw.NewIndex(inf, func(w *Widget) int { return 10 / (w.Size - 5) })
		got := &calls{}
		inf.AddHandler(got.handler())
		start(t, inf)
		synctest.Wait()
		got.take()
		sleep(2 * time.Minute)
		got.mustBe(t, "delete gone1", "update b1 b2")
		if diff := cmp.Diff(map[lw.Key]int{key("a"): 1, key("b"): 2}, sizes(inf.Store())); diff != "" {
			t.Errorf("store (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]lw.Key{key("a"), key("c")}, panics); diff != "" {
			t.Errorf("panicked at (-want +got):\n%s", diff)
		}
		// The store still has the a of before: it must not say that it shows what was written at 18.
		if got := inf.Store().ResourceVersion(); got != "10" {
			t.Errorf("the version is %s, want 10", got)
		}
		var p *lw.Panic
		if err := inf.WaitForResourceVersion(t.Context(), "18"); !errors.As(err, &p) {
			t.Errorf("WaitForResourceVersion: %v", err)
		}
		aside := inf.Status().SetAside
		if len(aside) != 2 || aside[key("a")] == nil || aside[key("c")] == nil {
			t.Errorf("set aside: %v", aside)
		}
	})
}

// With OnPanic an object that an index panics at is set aside, by a list and by an event; store and indexes stay consistent.
func TestOnPanicInIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("bad", -1))
		var panics []lw.Key
		errs := &errorLog{}
		inf := lw.NewInformer(m, &lw.Options{OnError: errs.add, OnPanic: func(p *lw.Panic) { panics = append(panics, p.Key) }})
		bySize := lw.NewIndex(inf, func(w *Widget) int {
			if w.Size < 0 {
				panic("negative")
			}
			return w.Size
		})
		got := &calls{}
		inf.AddHandler(got.handler())
		start(t, inf)
		got.mustBe(t, "add a1", "synced")
		if diff := cmp.Diff([]lw.Key{key("bad")}, panics); diff != "" {
			t.Errorf("panicked at (-want +got):\n%s", diff)
		}
		var e *lw.Error
		if err := inf.Status().SetAside[key("bad")]; !errors.As(err, &e) || e.Op != "index" {
			t.Errorf("set aside: %v", err)
		}
		update(t, m, "a", -1)
		got.mustBe(t)
		if w, ok := inf.Store().Get(key("a")); !ok || w.Size != 1 || !slices.Contains(bySize.List(1), w) {
			t.Errorf("the store holds %v, the index %v", w, bySize.List(1))
		}
		update(t, m, "a", 2)
		update(t, m, "bad", 3)
		got.mustBe(t, "update a1 a2", "add bad3")
		if n := len(inf.Status().SetAside); n != 0 || bySize.Len(1) != 0 || bySize.Len(2) != 1 || bySize.Len(3) != 1 {
			t.Errorf("%d objects are set aside, index: %d, %d, %d", n, bySize.Len(1), bySize.Len(2), bySize.Len(3))
		}
		if err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()); err != nil {
			t.Error(err)
		}
	})
}

// Without OnPanic a panic of an index's function is nobody's but the program's: it comes out as it was.
func TestPanicOfAnIndexWithoutOnPanic(t *testing.T) {
	for name, objs := range map[string][]*Widget{"list": {widget("a", -1)}, "event": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory(objs...)
				inf := lw.NewInformer(m, nil)
				lw.NewIndex(inf, func(w *Widget) int {
					if w.Size < 0 {
						panic("negative")
					}
					return w.Size
				})
				came := make(chan any, 1)
				go func() {
					defer func() { came <- recover() }()
					_ = inf.Run(t.Context())
				}()
				synctest.Wait()
				if name == "event" {
					create(t, m, "a", -1)
				}
				if v := <-came; v != "negative" {
					t.Errorf("Run panicked with %v", v)
				}
			})
		})
	}
}
