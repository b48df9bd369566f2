package graph_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// isFreed collects garbage until p is gone.
func isFreed[T any](p weak.Pointer[T]) bool {
	for range 10 {
		runtime.GC()
		synctest.Wait()
		if p.Value() == nil {
			return true
		}
	}
	return false
}

// Close frees what a collection holds, and what is derived from it, and leaves the informers that
// nobody reads any more.
func TestGraphLeaks(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		for i := range 20 {
			rig.Create(t, b.left, fmt.Sprint("w", i), i)
			rig.Create(t, b.right, fmt.Sprint("w", i), i)
		}
		kept := lw.Derive(b.g, b.r, rig.SumOf, "kept")
		b.start()
		for _, tt := range []struct {
			name string
			make func() lw.Collection[*rig.Sum]
		}{
			{"derive", func() lw.Collection[*rig.Sum] { return lw.Derive(b.g, b.l, rig.SumOf) }},
			{"join", func() lw.Collection[*rig.Sum] {
				return lw.Join(b.g, b.l, kept, byName[*rig.Widget, *rig.Sum](), leftOf[*rig.Sum])
			}},
			{"left join", func() lw.Collection[*rig.Sum] {
				return lw.LeftJoin(b.g, b.l, kept, byName[*rig.Widget, *rig.Sum](),
					func(l *rig.Widget, _ []*rig.Sum) *rig.Sum { return rig.SumOf(l) })
			}},
			{"group", func() lw.Collection[*rig.Sum] {
				return lw.GroupAll(b.g, b.l, lw.KeyOf, func(key lw.Key, all []*rig.Widget) *rig.Sum { return rig.SumOf(all[0]) })
			}},
			{"union", func() lw.Collection[*rig.Sum] {
				return lw.NewUnion[*rig.Sum](b.g, lw.Derive(b.g, b.l, rig.SumOf), kept)
			}},
		} {
			first, second, obj, told := closeAgain(t, b, tt.make)
			if !isFreed(first) || !isFreed(second) || !isFreed(obj) {
				t.Errorf("%s: after Close there are still %v, %v, %v", tt.name, first.Value(), second.Value(), obj.Value())
			}
			before := told.Load()
			for i := range 20 {
				rig.Update(t, b.left, fmt.Sprint("w", i), 1000+i)
				rig.Update(t, b.left, fmt.Sprint("w", i), i)
			}
			synctest.Wait()
			if told.Load() != before {
				t.Errorf("%s: %d calls came after Close", tt.name, told.Load()-before)
			}
			if n := len(b.g.Status().Collections); n > 2 {
				t.Errorf("%s: %d collections are left", tt.name, n)
			}
		}
		for _, c := range b.g.Status().Collections {
			if c.Name != "kept" && c.Name != "Sum" {
				t.Errorf("%s is left", c.Name)
			}
		}
		if kept.Store().Len() != 20 {
			t.Errorf("what was not closed shows %d, want 20", kept.Store().Len())
		}
	})
}

// closeAgain makes a collection and one behind it, closes both, and returns what must be freed.
func closeAgain(t *testing.T, b *graphBench, build func() lw.Collection[*rig.Sum]) (first,
	second weak.Pointer[lw.Derived[*rig.Sum]], obj weak.Pointer[rig.Sum], told *atomic.Int64) {
	c := build()
	d, ok := c.(*lw.Derived[*rig.Sum])
	if !ok {
		d = c.(*lw.Union[*rig.Sum]).Derived
	}
	behind := lw.Derive(b.g, c, func(s *rig.Sum) *rig.Sum { return &rig.Sum{Meta: s.Meta, Sum: -s.Sum} }, "behind")
	told = new(atomic.Int64)
	reg := behind.AddHandler(lw.Handler[*rig.Sum]{
		Add: func(*rig.Sum) { told.Add(1) }, Update: func(_, _ *rig.Sum) { told.Add(1) },
		Delete: func(*rig.Sum) { told.Add(1) },
	})
	synctest.Wait()
	if told.Load() != 20 {
		t.Errorf("told of %d objects, want 20", told.Load())
	}
	s, _ := behind.Store().Get(rig.Key("w1"))
	if s == nil {
		t.Fatal("nothing is shown")
	}
	behind.At(b.g.Snapshot()) // a snapshot that was asked for is forgotten too
	d.Close()
	d.Close()
	synctest.Wait()
	if err := behind.WaitForSync(t.Context()); err != nil {
		t.Errorf("what had synced has not any more: %v", err)
	}
	if !isDone(reg.Done()) {
		t.Error("the handler was not removed")
	}
	n := 0
	behind.AddHandler(lw.Handler[*rig.Sum]{Add: func(*rig.Sum) { n++ }})
	synctest.Wait()
	if n > 0 {
		t.Error("a handler that was added after Close was called")
	}
	return weak.Make(d), weak.Make(behind), weak.Make(s), told
}

// A graph without a collection of an informer does not read it.
func TestGraphLeavesInformers(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, rig.SumOf)
		u := lw.NewUnion[*rig.Widget](b.g)
		remove := u.Add(b.l)
		b.start()
		b.mustBeRead(1, "with a collection and a union")
		d.Close()
		b.mustBeRead(1, "with the union")
		remove()
		b.mustBeRead(0, "after the last one has gone")
		rig.Same(t, "the version then", "", b.g.Snapshot().ResourceVersion(b.l))
		again := lw.Derive(b.g, b.l, rig.SumOf)
		b.create(b.left, "a", 1)
		mustShow(t, again, "a new reader", map[string]int{"a": 1})
	})
}

// A union that was closed reads no informer, also one that is added at that moment or later.
func TestUnionAfterClose(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		lw.Derive(b.g, b.r, rig.SumOf, "other")
		first, second, third := lw.NewUnion[*rig.Widget](b.g), lw.NewUnion[*rig.Widget](b.g), lw.NewUnion[*rig.Widget](b.g)
		b.start()
		first.Add(b.l)
		first.Close()
		b.mustBeRead(0, "Add and Close")
		second.Close()
		synctest.Wait()
		remove := second.Add(b.l)
		b.mustBeRead(0, "Add after Close")
		remove()
		third.Add(b.l)()
		b.mustBeRead(0, "Add and remove")
		rig.Same(t, "the third union", map[string]int{}, sizes(third.Store()))
	})
}

// A member that is closed just after it was added is gone, and so is the union that it is in; what
// is derived from a collection that is closed is closed. One that was closed before it was added is
// no member.
func TestCloseOfWhatIsAdded(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, rig.SumOf, "d")
		before := lw.NewUnion[*rig.Sum](b.g)
		after := lw.NewUnion[*rig.Sum](b.g, lw.Derive(b.g, b.r, rig.SumOf, "other"))
		b.start()
		before.Add(d)
		d.Close()
		remove := after.Add(d)
		synctest.Wait()
		b.update(b.left, "a", 2)
		// Either the union is closed too, or the member is not in it. It does not show what nobody
		// keeps in step.
		if !isOver(before.Derived) && before.Store().Len() > 0 {
			t.Errorf("the union shows %v of a member that was closed", contents(before.Store()))
		}
		rig.Create(t, b.right, "b", 2)
		mustShow(t, after, "a union that a closed collection was added to", map[string]int{"b": 2})
		remove()
		mustShow(t, after, "after its removal", map[string]int{"b": 2})
		late := lw.Derive(b.g, d, same, "late")
		synctest.Wait()
		if !isOver(late) {
			t.Errorf("a collection of one that is closed is not; it shows %v", contents(late.Store()))
		}
	})
}

// Run returns at once, from any state, but for calls of handlers, also of what was closed; nothing
// is called after it, and what is made after it is over (contract, point 13).
func TestGraphStops(t *testing.T) {
	for _, closes := range []bool{false, true} {
		inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
			calls, handled := 0, false
			d := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { calls++; return rig.SumOf(w) })
			never := lw.Derive(b.g, b.r, rig.SumOf, "never")
			slow := lw.Derive(b.g, b.l, rig.SumOf, "slow")
			slow.AddHandler(lw.Handler[*rig.Sum]{Add: func(*rig.Sum) { time.Sleep(time.Second); handled = true }})
			d.AddHandler(lw.Handler[*rig.Sum]{Add: func(*rig.Sum) { calls++ }, Update: func(_, _ *rig.Sum) { calls++ }})
			rig.Start(t, b.l)
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error)
			go func() { ran <- b.g.Run(ctx) }()
			synctest.Wait()
			if err := b.g.Run(ctx); err != lw.ErrStarted {
				t.Errorf("a second Run returned %v", err)
			}
			waited := make(chan error, 2)
			go func() { waited <- never.WaitForSync(t.Context()) }()
			go func() { waited <- b.g.WaitForSync(t.Context()) }()
			synctest.Wait()
			if closes {
				slow.Close()
			}
			began := time.Now()
			cancel()
			if err := <-ran; err != nil || !handled || time.Since(began) != time.Second {
				t.Errorf("Run returned %v after %v, closed: %t, the handler has returned: %t", err, time.Since(began),
					closes, handled)
			}
			for range 2 {
				mustFail(t, "a wait", <-waited, lw.ErrStopped)
			}
			before := calls
			b.update(b.left, "a", 2)
			if calls != before {
				t.Errorf("%d calls after Run has returned", calls-before)
			}
			b.mustBeRead(0, "after Run has returned")
			mustShow(t, d, "after Run", map[string]int{"a": 1})
			late := lw.Derive(b.g, b.l, rig.SumOf)
			mustFail(t, "a collection that was made after Run", late.WaitForSync(t.Context()), lw.ErrStopped)
			if !isOver(late) {
				t.Error("a collection that was made after Run is not over")
			}
		})
	}
}

// A collection that is made while the graph runs shows what one does that was made before, and
// shows it at once.
func TestLateNode(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		for i := range 100 {
			rig.Create(t, b.left, fmt.Sprint("w", i), i)
			rig.Create(t, b.right, fmt.Sprint("w", i), i%10)
		}
		on := lw.On[float64, *rig.Widget, *rig.Sum]{
			Left:  lw.SingleKey(func(w *rig.Widget) float64 { return float64(w.Size % 10) }),
			Right: lw.SingleKey(func(s *rig.Sum) float64 { return float64(s.Sum % 10) }),
		}
		var mu sync.Mutex // guards made
		var made [][]lw.Collection[*rig.Sum]
		build := func() {
			d := lw.Derive(b.g, b.r, rig.SumOf)
			j := lw.Join(b.g, b.l, d, on, func(l *rig.Widget, r *rig.Sum) *rig.Sum {
				return &rig.Sum{Meta: lw.Meta{Name: l.Name + r.Name}, Sum: l.Size}
			})
			l := lw.LeftJoin(b.g, b.l, d, on, countOf[*rig.Sum])
			k := lw.GroupBy(b.g, l, allInOne, rig.AddedUp, rig.TotalOf)
			u := lw.NewUnion[*rig.Sum](b.g, j, k)
			mu.Lock()
			defer mu.Unlock()
			made = append(made, []lw.Collection[*rig.Sum]{d, j, l, k, u})
		}
		build()
		lens := map[lw.Collection[*rig.Sum]]map[int]bool{}
		inside.AfterStep(b.g, func() {
			mu.Lock()
			defer mu.Unlock()
			for _, all := range made[1:] {
				for _, c := range all {
					if lens[c] == nil {
						lens[c] = map[int]bool{}
					}
					lens[c][c.Store().Len()] = true
				}
			}
		})
		b.start()
		stories := map[lw.Collection[*rig.Sum]]*sumStory{}
		for round := range 5 {
			build()
			for _, c := range made[len(made)-1] {
				stories[c] = newSumStory(t)
				c.AddHandler(stories[c].handler())
			}
			for i := range 20 {
				rig.Update(t, b.right, fmt.Sprint("w", i), i%10+10*(round+1))
				rig.Update(t, b.left, fmt.Sprint("w", i), i+100*(round+1))
			}
			synctest.Wait()
		}
		for _, all := range made[1:] {
			for i, c := range all {
				if diff := cmp.Diff(contents(made[0][i].Store()), contents(c.Store())); diff != "" {
					t.Errorf("collection %d (-made before Run, +made late):\n%s", i, diff)
				}
				stories[c].mustShow(t, c)
				delete(lens[c], 0)
				if len(lens[c]) > 1 {
					t.Errorf("collection %d was seen with %v objects", i, lens[c])
				}
			}
		}
	})
}

// A member that was taken out of a union can be closed at once, and the union goes on: that is how
// one retires a cluster. This is so before Run; TestGraphs does it between steps and during them.
func TestUnionOutlivesMember(t *testing.T) {
	inGraph(t, &lw.GraphOptions{Verify: true}, "a1 b2", "b7 c3", func(t *testing.T, b *graphBench) {
		retired, stays := lw.Derive(b.g, b.l, rig.SumOf, "retired"), lw.Derive(b.g, b.r, rig.SumOf, "stays")
		u := lw.NewUnion[*rig.Sum](b.g)
		remove := u.Add(retired)
		u.Add(stays)
		total := lw.GroupBy(b.g, u, allInOne, rig.AddedUp, rig.TotalOf, "total")
		story := newSumStory(t)
		total.AddHandler(story.handler())
		remove()
		if behind := retired.Close(); len(behind) > 0 {
			t.Errorf("Close has closed %v too", behind)
		}
		b.start()
		b.update(b.right, "c", 4)
		if isOver(u.Derived) || isOver(total) || !isOver(retired) {
			t.Errorf("closed: the union %t, what is behind it %t, the member %t", isOver(u.Derived), isOver(total),
				isOver(retired))
		}
		mustShow(t, u, "the union", map[string]int{"b": 7, "c": 4})
		mustShow(t, total, "behind the union", map[string]int{"total": 11})
		story.mustShow(t, total)
		b.mustBeRead(0, "without the member")
	})
}

// Close says what it takes along.
func TestCloseNames(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		first := lw.Derive(b.g, b.l, rig.SumOf, "first")
		second := lw.Derive(b.g, first, same, "second")
		u := lw.NewUnion[*rig.Sum](b.g)
		u.Add(second)
		third := lw.Derive(b.g, u, same, "third")
		other := lw.Derive(b.g, b.l, rig.SumOf, "other")
		b.start()
		rig.Same(t, "Close has closed", []string{"second", "Union[Sum]", "third"}, first.Close())
		for _, d := range []*lw.Derived[*rig.Sum]{first, second, u.Derived, third} {
			if !isOver(d) || d.Close() != nil {
				t.Error("a collection is not closed, or closed again")
			}
		}
		if isOver(other) || other.Close() != nil {
			t.Error("another collection is closed too")
		}
	})
}

// A union that is closed while a member leaves it takes nothing from the others that read the
// member's informer.
func TestCloseWhileMemberLeaves(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		held := make(chan struct{})
		u := lw.NewUnion[*rig.Widget](b.g)
		remove := u.Add(b.l)
		d := lw.Derive(b.g, b.l, heldAt(2, held), "d")
		b.start()
		remove()
		b.update(b.left, "a", 2)
		u.Close()
		remove()
		close(held)
		synctest.Wait()
		rig.Update(t, b.left, "a", 3)
		mustShow(t, d, "beside the union that was closed", map[string]int{"a": 3})
		b.mustBeRead(1, "beside the union that was closed")
		d.Close()
		b.mustBeRead(0, "at the end")
	})
}

// A member is read from the return of Add on, and not from the return of remove on.
func TestUnionWaitsForNewMember(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		_, held := b.hold(b.r)
		u := lw.NewUnion[*rig.Widget](b.g)
		b.start()
		b.create(b.right, "b", slow) // a step is going on
		remove := u.Add(b.l)
		version := rig.Create(t, b.left, "c", 2).ResourceVersion
		waited := b.shown(version)
		close(held)
		rig.OK(t, <-waited)
		rig.Same(t, "the union after the wait", map[string]int{"a": 1, "c": 2}, sizes(u.Store()))
		rig.Same(t, "the union is from", []string{"left"}, b.g.Status().Collections[1].From)
		remove()
		err := b.g.WaitForResourceVersion(t.Context(), b.l, version)
		mustFail(t, "a wait after remove, when nothing is derived from the informer", err, nil)
		if from := b.g.Status().Collections[1].From; len(from) > 0 {
			t.Errorf("after remove the union is from %v", from)
		}
	})
}

// A relist that finds no difference moves the version alone. The graph shows it, also if the
// informer relists while the graph is in a step.
func TestVersionMovesDuringStep(t *testing.T) {
	inGraph(t, nil, fmt.Sprint("a", slow, " b", slow), "", func(t *testing.T, b *graphBench) {
		lw.Derive(b.g, b.l, rig.SumOf, "first")
		b.start()
		_, held := b.hold(b.l)
		synctest.Wait() // it is held in a step
		rig.Relist(b.left, func() {
			rig.Create(t, b.left, "c", 1)
			rig.Remove(t, b.left, "c")
		})
		rig.Sleep(10 * time.Minute)
		close(held)
		synctest.Wait()
		rig.Same(t, "the version at which the graph sleeps", b.l.Store().ResourceVersion(),
			b.g.Snapshot().ResourceVersion(b.l))
	})
}
