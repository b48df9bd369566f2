package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

func TestHandlerWithoutSomeFunctions(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		only := &rig.Calls{}
		all := only.Handler()
		inf.AddHandler(lw.Handler[*rig.Widget]{Add: all.Add})
		inf.AddHandler(lw.Handler[*rig.Widget]{Update: all.Update})
		inf.AddHandler(lw.Handler[*rig.Widget]{Delete: all.Delete})
		inf.AddHandler(lw.Handler[*rig.Widget]{Synced: all.Synced})
		only.Sorted(t, "add a1", "synced")
		rig.Update(t, m, "a", 2)
		only.MustBe(t, "update a1 a2")
		rig.Remove(t, m, "a")
		only.MustBe(t, "delete a2")
	})
}

// Change is called with what the other functions leave out: why, and up to which version.
func TestHandlerOfChanges(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		var got []string
		h := lw.Handler[*rig.Widget]{Resync: time.Minute, Synced: func() { got = append(got, "synced") }}
		h.Change = func(d lw.Delta[*rig.Widget]) {
			got = append(got, fmt.Sprintf("%v %s %v %t %s", d.Type, d.Object().Name, d.Cause, d.Initial, d.ResourceVersion))
		}
		inf.AddHandler(h)
		synctest.Wait()
		rig.Create(t, m, "b", 1)
		rig.Update(t, m, "b", 2)
		rig.Remove(t, m, "a")
		rig.Sleep(time.Minute + time.Second)
		rig.Same(t, "changes", []string{
			"added a initial true 2", "synced",
			"added b watch false 3", "updated b watch false 4", "deleted a watch false 5",
			"updated b resync false 5",
		}, got)
	})
}

func TestHandlerWithoutFunctions(t *testing.T) {
	inf := lw.NewInformer(lw.NewMemory[*rig.Widget](), nil)
	for _, h := range []lw.Handler[*rig.Widget]{
		{},
		{Filter: func(*rig.Widget) bool { return true }},
		{Add: func(*rig.Widget) {}, Resync: -1},
		{Change: func(lw.Delta[*rig.Widget]) {}, Delete: func(*rig.Widget) {}},
	} {
		rig.MustPanic(t, "lw: AddHandler: ", func() { inf.AddHandler(h) })
	}
}

// A handler that removes itself in the call of the last object is not synced: the call that says so
// does not come.
func TestRemoveInTheLastAdd(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, _ memory, inf informer) {
		got := &rig.Calls{}
		h := got.Handler()
		regs := make(chan *lw.Registration, 1)
		add := h.Add
		h.Add = func(w *rig.Widget) { add(w); (<-regs).Remove() }
		reg := inf.AddHandler(h)
		regs <- reg
		<-reg.Done()
		got.MustBe(t, "add a1")
		if err := reg.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
			t.Errorf("WaitForSync: %v", err)
		}
	})
}

// Objects are told apart by their UID, not by what was there before them: one in the place of
// another, without a deletion in between, is two calls; one that went out of the collection and
// comes back is added.
func TestStoryFollowsTheUID(t *testing.T) {
	other := rig.Stamped("a", 2, "12")
	other.UID = "another"
	sized := func(size int, rv string) lw.WatchEvent[*rig.Widget] { return rig.Modified(rig.Stamped("a", size, rv)) }
	for name, tc := range map[string]struct {
		updates rig.Stream
		want    []string
	}{
		"another object in its place": {rig.Events(rig.Modified(other)), []string{"add a1", "synced", "delete a1", "add a2"}},
		"out and in": {rig.Events(sized(-1, "12"), sized(3, "13"), sized(4, "14")),
			[]string{"add a1", "synced", "delete a1", "add a3", "update a3 a4"}},
		"never in": {rig.Events(sized(-1, "12"), sized(-2, "13")), []string{"add a1", "synced", "delete a1"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{
				Lists:   []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))},
				Watches: []rig.Stream{{After: time.Second}, tc.updates},
			}
			positive := lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) {
				if w.Size < 0 {
					return nil, nil
				}
				return w, nil
			})
			inf := lw.NewInformer(positive, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
			got := &rig.Calls{}
			inf.AddHandler(got.Handler())
			rig.Start(t, inf)
			rig.Sleep(time.Minute)
			got.MustBe(t, tc.want...)
		})
	}
}

// A callback may call everything that an informer has.
func TestNestedCalls(t *testing.T) {
	beforeRun(t, "a1", nil, func(t *testing.T, m memory, inf informer) {
		inner, outer := &rig.Calls{}, &rig.Calls{}
		h := outer.Handler()
		h.Add = func(w *rig.Widget) {
			outer.Note("add", w)
			reg := inf.AddHandler(inner.Handler())
			if err := lw.WaitForSync(t.Context(), inf, reg); err != nil {
				t.Error(err)
			}
			if err := inf.WaitForResourceVersion(t.Context(), inf.Store().ResourceVersion()); err != nil {
				t.Error(err)
			}
			rig.Same(t, "objects in an index made in a callback", 1, lw.NewIndex(inf, (*rig.Widget).GetNamespace).Len("default"))
			for ev := range inf.Events(t.Context()) {
				outer.Note("event", ev.Object())
				break
			}
			rig.Same(t, "objects of List in a callback", 1, len(inf.Store().List()))
			reg.Remove()
			<-reg.Done()
			if s := inf.Status(); !s.Synced || s.Objects != 1 {
				t.Errorf("Status in a callback: %+v", s)
			}
			if w, err := m.Update(t.Context(), rig.NewWidget(w.Name, 2)); err != nil {
				t.Error(err)
			} else if err := inf.WaitForResourceVersion(t.Context(), w.ResourceVersion); err != nil {
				t.Error(err)
			}
		}
		inf.AddHandler(h)
		rig.Start(t, inf)
		outer.MustBe(t, "add a1", "event a1", "synced", "update a1 a2")
		inner.MustBe(t, "add a1", "synced")
	})
}

// A filter, an index and a transform may read the store; a handler may end the informer and remove
// itself at that.
func TestCallbackStopsTheInformer(t *testing.T) {
	beforeRun(t, "a1 b1", nil, func(t *testing.T, _ memory, inf informer) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		var reg *lw.Registration
		reg = inf.AddHandler(lw.Handler[*rig.Widget]{
			Filter: func(w *rig.Widget) bool { _, ok := inf.Store().Get(lw.KeyOf(w)); return ok },
			Add: func(*rig.Widget) {
				n++
				cancel()
				time.Sleep(time.Second) // Run waits for this call, and reg.Remove for nothing
				reg.Remove()
			},
		})
		before := time.Now()
		rig.OK(t, inf.Run(ctx))
		if took := time.Since(before); n != 1 || took != time.Second {
			t.Errorf("%d calls in %v, want the one that was running", n, took)
		}
		<-reg.Done()
	})
}

// The functions that run in the goroutine that reads from the server may read the informer, too: an
// index's, a transform's and OnError.
func TestCallsFromTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		var inf *lw.Informer[*rig.Widget]
		got := &rig.Calls{}
		look := func(what string) {
			s := inf.Status()
			if n := len(inf.Store().List()); n != s.Objects || n != inf.Store().Len() {
				t.Errorf("in %s: %d objects, Status counts %d, Len %d", what, n, s.Objects, inf.Store().Len())
			}
			got.Note(what)
		}
		src := lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) { look("transform"); return w, nil })
		inf = lw.NewInformer(src, &lw.Options{OnError: func(error) {
			look("error")
			inf.AddHandler(lw.Handler[*rig.Widget]{Synced: func() { got.Note("synced") }})
		}})
		byName := lw.NewIndex(inf, func(w *rig.Widget) string { look("index"); return w.Name })
		rig.Start(t, inf)
		got.MustBe(t, "transform", "index")
		rig.Update(t, m, "a", 2)
		got.MustBe(t, "transform", "index")
		m.Fail(errors.New("down"))
		got.MustBe(t, "error", "synced")
		m.Fail(nil)
		rig.Same(t, "objects in the index", 1, byName.Len("a"))
	})
}

// EveryUpdate and a handler in time are told the same; the net effect of what a blocked one missed
// is told otherwise.
func TestEveryUpdate(t *testing.T) {
	for every, want := range map[bool]int{true: 3000, false: 0} {
		rig.Subtest(t, fmt.Sprint(every), func(t *testing.T) {
			m, inf := runMemory(t, "", nil)
			block := make(chan struct{})
			adds, deletes := 0, 0
			reg := inf.AddHandler(lw.Handler[*rig.Widget]{
				EveryUpdate: every,
				Synced:      func() { <-block },
				Add:         func(*rig.Widget) { adds++ },
				Delete:      func(*rig.Widget) { deletes++ },
			})
			synctest.Wait()
			for i := range 3000 {
				rig.Create(t, m, "a", i)
				rig.Remove(t, m, "a")
				synctest.Wait()
			}
			close(block)
			synctest.Wait()
			// What has not been folded yet is told one by one: at most 1024 changes and a chunk.
			if adds != deletes || adds < want || adds > max(want, 640) {
				t.Errorf("%d Adds and %d Deletes of an object that came and went 3000 times, want about %d", adds, deletes, want)
			}
			mustBePending(t, reg, 0, "at the end")
		})
	}
}

// Pending counts what a handler has yet to be told, of its first list too.
func TestPending(t *testing.T) {
	beforeRun(t, "a1 b1 c1", nil, func(t *testing.T, m memory, inf informer) {
		next := make(chan struct{})
		reg := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { <-next },
			Update: func(_, _ *rig.Widget) { <-next }})
		mustBePending(t, reg, 0, "before Run")
		rig.Start(t, inf)
		synctest.Wait()
		rig.Update(t, m, "a", 2)
		for want := 4; want > 0; want-- {
			synctest.Wait()
			// A call that runs may count as told or not: an Add of the snapshot does not.
			if n := reg.Pending(); n != want && n != want-1 {
				t.Errorf("%d changes pending, want %d", n, want)
			}
			rig.Same(t, "what Status counts", reg.Pending(), inf.Status().Pending)
			next <- struct{}{}
		}
		mustBePending(t, reg, 0, "at the end")

		// What comes while a call runs is handed over together, and none of it is forgotten before it is
		// told.
		for size := range 4 {
			rig.Update(t, m, "b", 10+size)
		}
		for left := 4; left > 0; left-- {
			synctest.Wait()
			if n := reg.Pending(); n < left || n > 4 {
				t.Errorf("%d changes pending, want %d to 4", n, left)
			}
			next <- struct{}{}
		}
		mustBePending(t, reg, 0, "at the end")

		var leaves *lw.Registration
		leaves = inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { <-next; leaves.Remove() }})
		next <- struct{}{}
		<-leaves.Done()
		mustBePending(t, leaves, 0, "for a handler that was removed")
	})
}

// Handlers that come and go while events flow and the informer stops: each story is whole, and
// nobody hangs.
func TestHandlerAbuse(t *testing.T) {
	beforeRun(t, "", &lw.Options{OnError: func(error) {}}, func(t *testing.T, m memory, inf informer) {
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		var users sync.WaitGroup
		for i := range 50 {
			users.Go(func() {
				for ctx.Err() == nil {
					s := rig.NewStory(t)
					reg := inf.AddHandler(s.Handler())
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
					if i%2 == 0 {
						_ = reg.WaitForSync(ctx)
					}
					reg.Remove()
					<-reg.Done()
				}
			})
		}
		last := rig.NewStory(t)
		reg := inf.AddHandler(last.Handler())
		for i := range 2000 {
			name := strconv.Itoa(i % 37)
			if _, err := m.Get(t.Context(), rig.Key(name)); err != nil {
				rig.Create(t, m, name, i)
			} else if i%3 == 0 {
				rig.Remove(t, m, name)
			} else {
				rig.Update(t, m, name, i)
			}
			if i%10 == 0 {
				rig.Sleep(time.Millisecond)
			}
		}
		synctest.Wait()
		rig.MustAddUp(t, last, rig.Sizes(inf.Store()))
		cancel()
		users.Wait()
		<-reg.Done()
		rig.OK(t, <-ran)
	})
}

// Run that is cancelled before it begins asks the server for nothing, and an informer runs once.
func TestRunCancelledBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{Lists: []rig.Reply{rig.List("10")}}
		inf := lw.NewInformer[*rig.Widget](src, nil)
		reg := inf.AddHandler(lw.Handler[*rig.Widget]{Synced: func() { t.Error("synced") }})
		rig.OK(t, inf.Run(rig.Canceled(t)))
		rig.Same(t, "requests", 0, len(src.Requests()))
		<-reg.Done()
		if s := inf.Status(); s.Phase != "stopped" || s.Synced {
			t.Errorf("status: %+v", s)
		}
		if err := inf.Run(t.Context()); !errors.Is(err, lw.ErrStarted) || err.Error() != "lw: Widget: already started" {
			t.Errorf("a second Run: %v", err)
		}
	})
}

// AddHandler at the same time as Run, for each of many interleavings: no call is missed and none
// comes twice.
func TestAddHandlerWhileStarting(t *testing.T) {
	for range 50 {
		beforeRun(t, "a1 b1", nil, func(t *testing.T, _ memory, inf informer) {
			var handlers [8]rig.Calls
			for i := range handlers {
				go inf.AddHandler(handlers[i].Handler())
			}
			rig.Start(t, inf)
			for i := range handlers {
				go func() {
					if err := inf.WaitForSync(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				handlers[i].Sorted(t, "add a1", "add b1", "synced")
			}
		})
	}
}
