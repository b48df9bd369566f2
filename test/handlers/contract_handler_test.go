package handlers_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/judge"
	"github.com/go-lw/lw/internal/rig"
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
		for i, s := range stories {
			if i == 2 {
				want := map[lw.Key]int{}
				for k, size := range rig.Sizes(inf.Store()) {
					if size%3 != 0 {
						want[k] = size
					}
				}
				rig.MustAddUp(t, s, want)
				continue
			}
			rig.MustAddUp(t, s, want)
		}
	})
}

// Point 5: an object that was deleted and created again is Delete, then Add, in the watch and
// across a gap; no reader sees it missing across the gap.
func TestIdentityIsTheUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists:   []rig.Reply{rig.List("10", uid("a", "u1", "9")), rig.List("20", uid("a", "u2", "19"))},
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
		if len(resynced) != 0 {
			t.Errorf("resync after two minutes: %v", resynced)
		}
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
		inf.AddHandler(lw.Handler[*rig.Widget]{
			Add:    func(*rig.Widget) { <-block },
			Update: func(_, _ *rig.Widget) { calls++ },
		})
		inf.AddHandler(lw.Handler[*rig.Widget]{
			EveryUpdate: true,
			Add:         func(*rig.Widget) { <-block },
			Update:      func(_, _ *rig.Widget) { every++ },
		})
		inf.AddHandler(lw.Handler[*rig.Widget]{Update: func(_, _ *rig.Widget) { fast++ }})
		rig.Start(t, inf)
		rig.Sleep(time.Second)
		const updates = 5000
		for i := range updates {
			rig.Update(t, m, "a", i+1)
			if i == 999 {
				synctest.Wait()
				if got := inf.Status().Pending; got != 1001 {
					t.Errorf("%d changes pending, want 1001", got)
				}
			}
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if w, _ := inf.Store().Get(rig.Key("a")); w.Size != updates {
			t.Errorf("the store is at %d, want %d", w.Size, updates)
		}
		if fast != updates {
			t.Errorf("the other handler was told %d updates, want %d", fast, updates)
		}
		close(block)
		synctest.Wait()
		if calls > 1024+256 {
			t.Errorf("the blocked handler was told %d updates of one object", calls)
		}
		if every != updates {
			t.Errorf("with EveryUpdate it was told %d updates, want %d", every, updates)
		}
	})
	rig.Subtest(t, "up to 1024", func(t *testing.T) {
		m, inf := ofMemory("a0", nil)
		block := make(chan struct{})
		calls := 0
		inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { <-block }, Update: func(_, _ *rig.Widget) { calls++ }})
		rig.Start(t, inf)
		rig.Sleep(time.Second)
		for i := range 1024 {
			rig.Update(t, m, "a", i+1)
		}
		synctest.Wait()
		close(block)
		synctest.Wait()
		if calls != 1024 {
			t.Errorf("told %d updates, want 1024", calls)
		}
	})
}

// Point 9: a late handler gets one snapshot as Adds, is synced, then gets what changes after it;
// and nobody waits for it.
func TestLateHandlers(t *testing.T) {
	inMemory(t, "a1 b1", nil, func(t *testing.T, m memory, inf informer) {
		rig.Update(t, m, "a", 2)
		synctest.Wait()
		var got []string
		reg := inf.AddHandler(lw.Handler[*rig.Widget]{
			Add:    func(w *rig.Widget) { got = append(got, fmt.Sprint("add ", w.Name, w.Size)) },
			Update: func(old, new *rig.Widget) { got = append(got, fmt.Sprint("update ", new.Name, old.Size, new.Size)) },
			Delete: func(w *rig.Widget) { got = append(got, fmt.Sprint("delete ", w.Name, w.Size)) },
			Synced: func() { got = append(got, "synced") },
		})
		rig.Update(t, m, "a", 3)
		rig.Remove(t, m, "b")
		synctest.Wait()
		if err := reg.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		slices.Sort(got[:2])
		rig.Same(t, "calls", []string{"add a2", "add b1", "synced", "update a2 3", "delete b1"}, got)
		type change struct {
			Type    lw.EventType
			Name    string
			Initial bool
			Cause   lw.Cause
		}
		var changes []change
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for ev := range inf.Events(ctx) {
			changes = append(changes, change{ev.Type, ev.Key().Name, ev.Initial, ev.Cause})
			switch len(changes) {
			case 1:
				rig.Create(t, m, "c", 1)
			case 2:
				cancel()
			}
		}
		want := []change{{lw.Added, "a", true, lw.CauseInitial}, {lw.Added, "c", false, lw.CauseWatch}}
		rig.Same(t, "events", want, changes)
	})
}

func uid(name string, id types.UID, rv string) *rig.Widget {
	w := rig.Stamped(name, 1, rv)
	w.UID = id
	return w
}
