package handlers_test

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/judge"
	"github.com/go-lw/lw/internal/verify/rig"
)

// What the contract says of handlers.

// Point 4: per handler and object (Add Update* Delete)*, old is the object of the call before,
// versions rise; also over relists, for a handler that is folded, one that filters, and a late one.
func TestOneStoryPerObject(t *testing.T) {
	beforeRun(t, "", nil, func(t *testing.T, m memory, inf informer) {
		stories := []*judge.Story[*rig.Widget]{rig.NewStory(t), rig.NewStory(t), rig.NewStory(t)}
		slow := stories[1].Handler()
		add := slow.Add
		slow.Add = func(w *rig.Widget) { time.Sleep(time.Second); add(w) }
		filtered := stories[2].Handler()
		filtered.Filter = func(w *rig.Widget) bool { return w.Size%3 != 0 }
		inf.AddHandler(stories[0].Handler())
		inf.AddHandler(slow)
		inf.AddHandler(filtered)
		rig.Start(t, inf)
		for i := range 5000 {
			name := strconv.Itoa(i * 7 % 11)
			switch _, err := m.Get(t.Context(), rig.Key(name)); {
			case err != nil:
				rig.Create(t, m, name, i)
			case i%5 == 0:
				rig.Remove(t, m, name)
				rig.Create(t, m, name, i)
			case i%7 == 0:
				rig.Remove(t, m, name)
			default:
				rig.Update(t, m, name, i)
			}
			if i%1000 == 999 {
				m.Compact()
				m.Disconnect()
				late := rig.NewStory(t)
				stories = append(stories, late)
				inf.AddHandler(late.Handler())
			}
			if i%100 == 0 {
				rig.Sleep(10 * time.Millisecond)
			}
		}
		rig.Sleep(time.Hour)
		want := rig.Sizes(inf.Store())
		wantFiltered := maps.Clone(want)
		maps.DeleteFunc(wantFiltered, func(_ lw.Key, size int) bool { return size%3 == 0 })
		rig.MustAddUp(t, stories[2], wantFiltered)
		for _, s := range slices.Delete(stories, 2, 3) {
			rig.MustAddUp(t, s, want)
		}
	})
}

// Point 5: an object that was deleted and created again is Delete, then Add, in the watch and
// across a gap; no reader sees it missing across the gap.
func TestIdentityIsTheUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, another := rig.Stamped("a", 1, "9"), rig.Stamped("a", 1, "19")
		one.UID, another.UID = "u1", "u2"
		src := &rig.Script{
			Lists:   []rig.Reply{rig.List("10", one), rig.List("20", another)},
			Watches: []rig.Stream{rig.ExpiredAfter(time.Second), rig.Forever()},
		}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		var got []string
		inf.AddHandler(lw.Handler[*rig.Widget]{
			Add: func(w *rig.Widget) { got = append(got, "add "+string(w.UID)) },
			Delete: func(w *rig.Widget) {
				got = append(got, "delete "+string(w.UID))
				if now, ok := inf.Store().Get(rig.Key("a")); !ok || now.UID != "u2" {
					t.Errorf("while u1's deletion is told the store holds %v, %v", now, ok)
				}
			},
			Update: func(old, new *rig.Widget) { got = append(got, "update") },
		})
		rig.Start(t, inf)
		rig.Sleep(time.Minute)
		rig.Same(t, "calls", []string{"add u1", "delete u1", "add u2"}, got)
	})
}

// Point 6: a relist says nothing of what did not change, and keeps the object; resync is for those
// who ask.
func TestNoNoise(t *testing.T) {
	beforeRun(t, "a1 b1", &lw.Options{OnError: func(error) {}}, func(t *testing.T, m memory, inf informer) {
		var mu sync.Mutex
		var plain, resynced []string // guarded by mu
		told := func(to *[]string, w *rig.Widget) {
			mu.Lock()
			defer mu.Unlock()
			*to = append(*to, w.Name)
		}
		inf.AddHandler(lw.Handler[*rig.Widget]{Update: func(_, new *rig.Widget) { told(&plain, new) }})
		inf.AddHandler(lw.Handler[*rig.Widget]{
			Resync: time.Hour,
			Update: func(old, new *rig.Widget) {
				if old == new {
					told(&resynced, new)
				}
			},
		})
		rig.Start(t, inf)
		rig.Sleep(time.Second)
		before, _ := inf.Store().Get(rig.Key("a"))
		for size := range 2 {
			rig.Update(t, m, "b", 2+size)
			m.Disconnect()
			m.Compact()
			rig.Sleep(time.Minute)
		}
		if after, _ := inf.Store().Get(rig.Key("a")); after != before {
			t.Error("a relist replaced an object that did not change")
		}
		mu.Lock()
		if slices.Contains(plain, "a") {
			t.Error("a relist told of an object that did not change")
		}
		rig.Same(t, "resync after two minutes", nil, resynced)
		mu.Unlock()
		rig.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(resynced)
		rig.Same(t, "resync", []string{"a", "b"}, resynced)
		if len(plain) > 2 {
			t.Errorf("a handler without resync was told %v", plain)
		}
	})
}

// Point 7: a deletion carries the last object that the handler was told of, also one that no watch
// has seen.
func TestNoTombstones(t *testing.T) {
	beforeRun(t, "seen1 unseen1", &lw.Options{OnError: func(error) {}}, func(t *testing.T, m memory, inf informer) {
		told := map[string]*rig.Widget{}
		var deleted []string
		inf.AddHandler(lw.Handler[*rig.Widget]{
			Add:    func(w *rig.Widget) { told[w.Name] = w },
			Update: func(_, w *rig.Widget) { told[w.Name] = w },
			Delete: func(w *rig.Widget) {
				if told[w.Name] != w {
					t.Errorf("%s was deleted as %v, was told as %v", w.Name, w, told[w.Name])
				}
				deleted = append(deleted, w.Name)
			},
		})
		rig.Start(t, inf)
		rig.Sleep(time.Second)
		rig.Remove(t, m, "seen")
		rig.Sleep(time.Second)
		rig.Relist(m, func() { rig.Remove(t, m, "unseen") })
		rig.Same(t, "deleted", []string{"seen", "unseen"}, deleted)
	})
}

// Point 8: a blocked handler delays neither the store nor others; it is told every change up to
// 1024 behind, and the net change beyond; EveryUpdate opts out.
func TestSlowHandlersHurtNobody(t *testing.T) {
	beforeRun(t, "a0", nil, func(t *testing.T, m memory, inf informer) {
		block := make(chan struct{})
		var calls, every, fast int
		wait := func(*rig.Widget) { <-block }
		inf.AddHandler(lw.Handler[*rig.Widget]{Add: wait, Update: func(_, _ *rig.Widget) { calls++ }})
		inf.AddHandler(lw.Handler[*rig.Widget]{EveryUpdate: true, Add: wait, Update: func(_, _ *rig.Widget) { every++ }})
		inf.AddHandler(lw.Handler[*rig.Widget]{Update: func(_, _ *rig.Widget) { fast++ }})
		rig.Start(t, inf)
		rig.Sleep(time.Second)
		const updates = 5000
		for i := range updates {
			rig.Update(t, m, "a", i+1)
			if i == 999 {
				synctest.Wait()
				rig.Same(t, "changes pending", 1001, inf.Status().Pending)
			}
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		rig.Same(t, "the store", map[lw.Key]int{rig.Key("a"): updates}, rig.Sizes(inf.Store()))
		rig.Same(t, "updates that the other handler was told", updates, fast)
		close(block)
		synctest.Wait()
		if calls > 1024+256 {
			t.Errorf("the blocked handler was told %d updates of one object", calls)
		}
		rig.Same(t, "updates that it was told with EveryUpdate", updates, every)
	})
	rig.Subtest(t, "up to 1024", func(t *testing.T) {
		m, inf := ofMemory("a0", nil)
		block := make(chan struct{})
		calls := 0
		inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { <-block },
			Update: func(_, _ *rig.Widget) { calls++ }})
		rig.Start(t, inf)
		rig.Sleep(time.Second)
		for i := range 1024 {
			rig.Update(t, m, "a", i+1)
		}
		synctest.Wait()
		close(block)
		synctest.Wait()
		rig.Same(t, "updates that it was told", 1024, calls)
	})
}

// Point 9: a late handler gets one snapshot as Adds, is synced, then gets what changes after it;
// and nobody waits for it.
func TestLateHandlers(t *testing.T) {
	inMemory(t, "a1 b1", nil, func(t *testing.T, m memory, inf informer) {
		rig.Update(t, m, "a", 2)
		synctest.Wait()
		calls := new(rig.Calls)
		reg := inf.AddHandler(calls.Handler())
		rig.Update(t, m, "a", 3)
		rig.Remove(t, m, "b")
		synctest.Wait()
		rig.OK(t, reg.WaitForSync(t.Context()))
		got := calls.Take()
		slices.Sort(got[:min(2, len(got))])
		rig.Same(t, "calls", []string{"add a2", "add b1", "synced", "update a2 a3", "delete b1"}, got)
		time.AfterFunc(time.Second, func() { rig.Create(t, m, "c", 1) })
		rig.Same(t, "events", []string{"initial added a3 first", "watch added c1"}, collect(inf.Events(t.Context()), 2))
	})
}
