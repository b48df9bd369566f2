package graph_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// A graph syncs whenever the first list comes: the wake-up for it is not lost.
func TestGraphStarts(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), &lw.Options{OnError: func(error) {}})
			g := lw.NewGraph(nil)
			same := lw.Derive(g, inf, func(w *rig.Widget) *rig.Widget { return w })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go inf.Run(ctx)
			go g.Run(ctx)
			synctest.Wait()
			if same.Store().Len() != 1 {
				t.Fatal("the graph has not synced")
			}
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
		want := []string{
			fmt.Sprint(lw.Added, " ", lw.CauseInitial, " a"), fmt.Sprint(lw.Updated, " ", lw.CauseDerived, " a"),
			fmt.Sprint(lw.Added, " ", lw.CauseDerived, " b"), fmt.Sprint(lw.Deleted, " ", lw.CauseDerived, " a"),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A flood is a Source of some widgets that changes them again and again when it is told to.
type flood struct {
	objects int
	events  chan int // how many come next
	done    chan struct{}
	sent    int
	sizeOf  func(event int) int
}

func newFlood(objects int, sizeOf func(event int) int) *flood {
	return &flood{objects: objects, events: make(chan int), done: make(chan struct{}), sizeOf: sizeOf}
}

func (f *flood) List(_ context.Context, _ metav1.ListOptions, yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	for i := range f.objects {
		if err := yield(rig.Stamped(fmt.Sprint("w", i), 0, "1"), nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "1"}, nil
}

func (f *flood) Watch(ctx context.Context, _ metav1.ListOptions, yield func(lw.WatchEvent[*rig.Widget]) error) error {
	for {
		select {
		case n := <-f.events:
			for range n {
				w := rig.Stamped(fmt.Sprint("w", f.sent%f.objects), f.sizeOf(f.sent), strconv.Itoa(f.sent+2))
				f.sent++
				if err := yield(lw.WatchEvent[*rig.Widget]{Type: watch.Modified, Object: w, ResourceVersion: w.ResourceVersion}); err != nil {
					return err
				}
			}
			f.done <- struct{}{}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send lets n events come, and waits until the informer has taken them.
func (f *flood) send(n int) {
	f.events <- n
	<-f.done
}

// many is how many updates come while something is blocked. If they were kept, they would take
// several times the memory that the tests allow.
const many = 100_000

// A function that blocks delays no informer, none of its handlers and no read, and what waits is
// bounded by the number of objects.
func TestBlockedFunction(t *testing.T) {
	const objects = 1000
	synctest.Test(t, func(t *testing.T) {
		src := newFlood(objects, func(event int) int { return event + 1 })
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		var told atomic.Int64
		inf.AddHandler(lw.Handler[*rig.Widget]{Update: func(_, w *rig.Widget) { told.Store(int64(w.Size)) }})
		g := lw.NewGraph(nil)
		block, blocked := make(chan struct{}), make(chan struct{})
		calls := 0
		d := lw.Derive(g, inf, func(w *rig.Widget) *rig.Sum {
			if calls++; calls == objects+1 {
				close(blocked)
				<-block
			}
			return rig.SumOf(w)
		})
		byName := lw.NewIndex(d, func(s *rig.Sum) string { return s.Name })
		rig.Start(t, inf)
		rig.Start(t, g)
		if err := g.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		src.send(1)
		<-blocked
		before, began := rig.Heap(), time.Now()
		src.send(many)
		synctest.Wait()
		if w, _ := inf.Store().Get(rig.Key("w0")); w.Size <= many-objects || told.Load() != many+1 {
			t.Errorf("while the function is blocked, the store has size %d, and the handler was told of %d; want %d", w.Size, told.Load(), many+1)
		}
		// A read of the collection shows the state before.
		s, _ := d.Store().Get(rig.Key("w0"))
		if s.Sum != 0 || len(byName.List("w0")) != 1 || d.Store().Len() != objects || g.Snapshot().ResourceVersion(inf) != "1" {
			t.Errorf("while the function is blocked, the collection shows %d at %s", s.Sum, g.Snapshot().ResourceVersion(inf))
		}
		if waits := g.Status().Pending; waits > objects+2048 {
			t.Errorf("%d changes of %d objects wait", waits, objects)
		}
		// Each object may be there three times: as the graph shows it, as it waits, as the store has it.
		if grown := rig.Heap() - before; grown > 4000*objects {
			t.Errorf("%d updates of %d objects while the function is blocked: the heap has grown by %.0f bytes", many, objects, grown)
		}
		if time.Since(began) != 0 {
			t.Errorf("something has waited %v", time.Since(began))
		}
		close(block)
		synctest.Wait()
		if calls > 2*objects+1 {
			t.Errorf("%d calls for the net changes of %d objects", calls-objects, objects)
		}
		for w := range inf.Store().All() {
			if s, _ := d.Store().Get(lw.KeyOf(w)); s.Sum != w.Size {
				t.Fatalf("%s is %d at the end, want %d", w.Name, s.Sum, w.Size)
			}
		}
	})
}

// A handler of a collection that blocks delays nothing else. What waits for it is bounded by the
// number of objects, and what comes to nothing is not told.
func TestBlockedDerivedHandler(t *testing.T) {
	const objects = 1000
	synctest.Test(t, func(t *testing.T) {
		// At the end all widgets but w0 are of the size that they had when the handler blocked.
		src := newFlood(objects, func(event int) int {
			if event >= many-objects && event%objects != 0 {
				return 0
			}
			return event + 1
		})
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		g := lw.NewGraph(nil)
		d := lw.Derive(g, inf, rig.SumOf)
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
		rig.Start(t, inf)
		rig.Start(t, g)
		<-blocked
		synctest.Wait()
		before := rig.Heap()
		src.send(many)
		synctest.Wait()
		for w := range inf.Store().All() {
			if s, _ := d.Store().Get(lw.KeyOf(w)); s.Sum != w.Size {
				t.Fatalf("while a handler is blocked, %s is %d, want %d", w.Name, s.Sum, w.Size)
			}
		}
		quick.mustShow(t, d)
		if grown := rig.Heap() - before; grown > 4000*objects {
			t.Errorf("%d updates of %d objects while a handler is blocked: the heap has grown by %.0f bytes", many, objects, grown)
		}
		if c := g.Status().Collections[0]; c.Pending > objects+2048 || c.Pending == 0 {
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

// sameSum reports whether two sums are the same result.
func sameSum(a, b *rig.Sum) bool {
	return a == b || a != nil && b != nil && a.UID == b.UID && a.Sum == b.Sum && a.Names == b.Names
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
	of := obj
	if obj == nil {
		of = old
	}
	key := lw.KeyOf(of)
	if last := s.present[key]; !sameSum(last, old) {
		s.t.Errorf("%s of %v from %+v, and told before was %+v", what, key, old, last)
	}
	if what == "Update" {
		s.updates++
		if old.UID != obj.UID || sameSum(old, obj) {
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
	if len(s.present) != d.Store().Len() {
		t.Errorf("a handler was told of %d objects, and %d are shown", len(s.present), d.Store().Len())
	}
	for key, o := range s.present {
		if shown, _ := d.Store().Get(key); !sameSum(shown, o) {
			t.Errorf("a handler was told of %+v, and %+v is shown", o, shown)
		}
	}
}
