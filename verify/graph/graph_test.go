package graph_test

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A graph syncs whenever the first list comes: the wake-up for it is not lost.
func TestGraphStarts(t *testing.T) {
	for range 300 {
		inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
			d := lw.Derive(b.g, b.l, rig.SumOf)
			b.run()
			mustShow(t, d, "a graph that has synced", map[string]int{"a": 1})
		})
	}
}

// The version of a collection is the number of the step that it shows, as a decimal.
func TestGraphVersionsAreSteps(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, rig.SumOf)
		b.start()
		for want := 1; want <= 21; want++ {
			if got := d.Store().ResourceVersion(); got != fmt.Sprint(want) || b.g.Status().Steps != uint64(want) {
				t.Errorf("version %s after %d steps, want %d", got, b.g.Status().Steps, want)
			}
			b.update(b.left, "a", 1+want)
		}
	})
}

// A loop over the events of a derived collection is told where each comes from.
func TestGraphEventsHaveTheirCause(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, rig.SumOf)
		b.start()
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ev := range d.Events(ctx) {
				got = append(got, fmt.Sprint(ev.Type, " ", ev.Cause, " ", ev.Key().Name))
			}
		}()
		synctest.Wait()
		b.update(b.left, "a", 2)
		b.create(b.left, "b", 1)
		b.remove(b.left, "a")
		cancel()
		<-done
		rig.Same(t, "events", []string{
			fmt.Sprint(lw.Added, " ", lw.CauseInitial, " a"), fmt.Sprint(lw.Updated, " ", lw.CauseDerived, " a"),
			fmt.Sprint(lw.Added, " ", lw.CauseDerived, " b"), fmt.Sprint(lw.Deleted, " ", lw.CauseDerived, " a"),
		}, got)
	})
}

// flood has the left be a source of so many widgets: w0, w1 and so on. send changes them in turn.
func (b *graphBench) flood(objects int, sizeOf func(event int) int) (send func(n int)) {
	src := &rig.Fed{Events: make(chan lw.WatchEvent[*rig.Widget]), Version: "1"}
	for i := range objects {
		src.Objs = append(src.Objs, rig.Stamped(fmt.Sprint("w", i), 0, "1"))
	}
	b.l = lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
	sent := 0
	return func(n int) {
		for range n {
			src.Events <- rig.Modified(rig.Stamped(fmt.Sprint("w", sent%objects), sizeOf(sent), fmt.Sprint(sent+2)))
			sent++
		}
		synctest.Wait()
	}
}

// many is how many updates come while something is blocked. If they were kept, they would take
// several times the memory that the tests allow.
const many = 100_000

// A function that blocks delays no informer, none of its handlers and no read, and what waits is
// bounded by the number of objects.
func TestBlockedFunction(t *testing.T) {
	const objects = 1000
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		send := b.flood(objects, func(event int) int { return event + 1 })
		var told atomic.Int64
		b.l.AddHandler(lw.Handler[*rig.Widget]{Update: func(_, w *rig.Widget) { told.Store(int64(w.Size)) }})
		block, blocked := make(chan struct{}), make(chan struct{})
		calls := 0
		d := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			if calls++; calls == objects+1 {
				close(blocked)
				<-block
			}
			return rig.SumOf(w)
		})
		byName := lw.NewIndex(d, func(s *rig.Sum) string { return s.Name })
		b.start()
		send(1)
		<-blocked
		before, began := rig.Heap(), time.Now()
		send(many)
		if w, _ := b.l.Store().Get(rig.Key("w0")); w.Size <= many-objects || told.Load() != many+1 {
			t.Errorf("while the function is blocked, the store has size %d, and the handler was told of %d; want %d", w.Size,
				told.Load(), many+1)
		}
		// A read of the collection shows the state before.
		s, _ := d.Store().Get(rig.Key("w0"))
		if s.Sum != 0 || len(byName.List("w0")) != 1 || d.Store().Len() != objects ||
			b.g.Snapshot().ResourceVersion(b.l) != "1" {
			t.Errorf("while the function is blocked, the collection shows %d at %s", s.Sum, b.g.Snapshot().ResourceVersion(b.l))
		}
		if waits := b.g.Status().Pending; waits > objects+2048 {
			t.Errorf("%d changes of %d objects wait", waits, objects)
		}
		mustHaveGrownLittle(t, before, objects)
		if time.Since(began) != 0 {
			t.Errorf("something has waited %v", time.Since(began))
		}
		close(block)
		mustShow(t, d, "at the end", sizes(b.l.Store()))
		if calls > 2*objects+1 {
			t.Errorf("%d calls for the net changes of %d objects", calls-objects, objects)
		}
	})
}

// mustHaveGrownLittle expects the heap that many updates of so many objects may leave. Each object
// may be there three times: as the graph shows it, as it waits, as the store has it.
func mustHaveGrownLittle(t *testing.T, before float64, objects int) {
	t.Helper()
	if grown := rig.Heap() - before; grown > float64(4000*objects) {
		t.Errorf("%d updates of %d objects while one call is blocked: the heap has grown by %.0f bytes", many, objects, grown)
	}
}

// A handler of a collection that blocks delays nothing else. What waits for it is bounded by the
// number of objects, and what comes to nothing is not told.
func TestBlockedDerivedHandler(t *testing.T) {
	const objects = 1000
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		// At the end all widgets but w0 are of the size that they had when the handler blocked.
		send := b.flood(objects, func(event int) int {
			if event >= many-objects && event%objects != 0 {
				return 0
			}
			return event + 1
		})
		d := lw.Derive(b.g, b.l, rig.SumOf)
		block, blocked := make(chan struct{}), make(chan struct{})
		slow, quick := newSumStory(t), newSumStory(t)
		adds := 0
		h := slow.handler()
		add := h.Add
		h.Add = func(s *rig.Sum) {
			add(s)
			if adds++; adds == objects {
				close(blocked)
				<-block
			}
		}
		d.AddHandler(h)
		d.AddHandler(quick.handler())
		b.start()
		<-blocked
		before := rig.Heap()
		send(many)
		mustShow(t, d, "while a handler is blocked", sizes(b.l.Store()))
		quick.mustShow(t, d)
		mustHaveGrownLittle(t, before, objects)
		if c := b.g.Status().Collections[0]; c.Pending > objects+2048 || c.Pending == 0 {
			t.Errorf("%d changes of %d objects wait", c.Pending, objects)
		}
		close(block)
		synctest.Wait()
		slow.mustShow(t, d)
		if slow.updates != 1 {
			t.Errorf("the handler was told of %d updates, want 1: of the one object that differs", slow.updates)
		}
	})
}

// A sumStory checks what a handler of sums is told: (Add Update* Delete)* for each key, with what
// was told in the call before, and no Update that changes nothing.
type sumStory struct {
	t       *testing.T
	present map[lw.Key]*rig.Sum // used by the handler's goroutine, and by the test when all is calm
	updates int
	calls   int
}

func newSumStory(t *testing.T) *sumStory { return &sumStory{t: t, present: map[lw.Key]*rig.Sum{}} }

func (s *sumStory) handler() lw.Handler[*rig.Sum] {
	return lw.Handler[*rig.Sum]{
		Add:    func(o *rig.Sum) { s.tell("Add", nil, o) },
		Update: func(old, o *rig.Sum) { s.tell("Update", old, o) },
		Delete: func(o *rig.Sum) { s.tell("Delete", o, nil) },
	}
}

func (s *sumStory) tell(what string, old, obj *rig.Sum) {
	s.calls++
	key := lw.KeyOf(cmp.Or(obj, old))
	if last := s.present[key]; last != old {
		s.t.Errorf("%s of %v from %+v, and told before was %+v", what, key, old, last)
	}
	if what == "Update" {
		s.updates++
		if old.UID != obj.UID || old.Sum == obj.Sum && old.Names == obj.Names {
			s.t.Errorf("Update of %v from %+v to %+v", key, old, obj)
		}
	}
	if s.present[key] = obj; obj == nil {
		delete(s.present, key)
	}
}

// mustShow checks that what was told adds up to what d shows.
func (s *sumStory) mustShow(t *testing.T, d lw.Collection[*rig.Sum]) {
	t.Helper()
	shown := map[lw.Key]*rig.Sum{}
	for o := range d.Store().All() {
		shown[lw.KeyOf(o)] = o
	}
	rig.Same(t, "what a handler was told of what is shown", shown, s.present)
}
