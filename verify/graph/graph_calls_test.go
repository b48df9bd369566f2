package graph_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// A wait for a graph inside one of its functions could never end: it fails at once, and names the
// function.
func TestWaitInsideAFunction(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		other := lw.Derive(b.g, b.r, rig.SumOf, "other")
		var errs []error
		added := 0
		var d *lw.Derived[*rig.Sum]
		d = lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			ctx := context.Background()
			_, err := lw.WaitFor(ctx, d, rig.Key("a"), func(s *rig.Sum) bool { return s != nil && s.Sum == w.Size })
			reg := d.AddHandler(lw.Handler[*rig.Sum]{Add: func(*rig.Sum) { added++ }})
			errs = append(errs, b.g.WaitForSync(ctx), d.WaitForSync(ctx), err, b.g.WaitForResourceVersion(ctx, b.l, w.ResourceVersion),
				reg.WaitForSync(ctx), other.AddHandler(lw.Handler[*rig.Sum]{Synced: func() {}}).WaitForSync(ctx))
			reg.Remove()
			return rig.SumOf(w)
		}, "inward")
		rig.Start(t, b.l)
		rig.Start(t, b.g)
		synctest.Wait()
		if len(errs) != 6 {
			t.Fatalf("%d waits have ended", len(errs))
		}
		for i, err := range errs {
			mustFail(t, fmt.Sprint("wait ", i), err, nil, "a function of a graph cannot wait for the graph", "function of inward at default/a")
		}
		// What has synced, or is there, needs no wait, and a handler of it no step.
		rig.Start(t, b.r)
		rig.OK(t, other.WaitForSync(t.Context()))
		errs = nil
		b.update(b.left, "a", 2)
		for i, want := range []bool{true, true, false, false, true, true} {
			if len(errs) != 6 || want != (errs[i] == nil) {
				t.Fatalf("waits for a synced collection, and for changes of it: %v", errs)
			}
		}
		if added != 1 {
			t.Errorf("%d calls of Add in the function", added)
		}
		mustShow(t, d, "at the end", map[string]int{"a": 2})
	})
}

// A function that does not return is named by the waits that it delays, and by the status.
func TestFunctionThatHangs(t *testing.T) {
	inGraph(t, nil, "a1", "a1", func(t *testing.T, b *graphBench) {
		open := make(chan struct{})
		on := byName[*rig.Widget, *rig.Widget]()
		on.Where = func(l, _ *rig.Widget) bool {
			if l.Size == evil {
				<-open
			}
			return true
		}
		lw.Derive(b.g, b.l, rig.SumOf, "quick")
		pairs := lw.Join(b.g, b.l, b.r, on, leftOf[*rig.Widget], "pairs")
		b.start()
		mustCall := func(when, want string, since time.Time) {
			t.Helper()
			synctest.Wait()
			if s := b.g.Status(); s.Call != want || !s.StepBegan.Equal(since) {
				t.Errorf("%s the call is %s, since %v, want %s, since %v", when, s.Call, s.StepBegan, want, since)
			}
		}
		mustCall("between steps", "", time.Time{})
		rig.Sleep(time.Second)
		began := time.Now()
		w := b.update(b.left, "a", evil)
		mustCall("in a step", "Where of pairs at default/a", began)
		late := lw.Derive(b.g, b.l, rig.SumOf, "late")
		gone := func(s *rig.Sum) bool { return s == nil }
		for what, wait := range map[string]func(context.Context) error{
			"Graph.WaitForSync":            b.g.WaitForSync,
			"Derived.WaitForSync":          late.WaitForSync,
			"Graph.WaitForResourceVersion": func(ctx context.Context) error { return b.g.WaitForResourceVersion(ctx, b.l, w.ResourceVersion) },
			"WaitFor":                      func(ctx context.Context) error { _, err := lw.WaitFor(ctx, pairs, rig.Key("a"), gone); return err },
		} {
			mustFail(t, what, wait(within(t, time.Second)), context.DeadlineExceeded, "Where of pairs at default/a", "began ")
		}
		close(open)
		mustCall("after the step", "", time.Time{})
	})
}

// A handler that waits for its own sync is told so at once.
func TestHandlerWaitsForItself(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		var reg *lw.Registration
		var errs []error
		wait := func() { errs = append(errs, reg.WaitForSync(context.Background())) }
		reg = b.l.AddHandler(lw.Handler[*rig.Widget]{
			Add: func(*rig.Widget) { wait() }, Synced: wait, Update: func(_, _ *rig.Widget) { wait() },
		})
		rig.Start(t, b.l)
		synctest.Wait()
		rig.OK(t, reg.WaitForSync(t.Context()))
		b.update(b.left, "a", 2)
		if len(errs) != 3 || errs[2] != nil {
			t.Fatalf("the waits have ended with %v", errs)
		}
		for _, err := range errs[:2] {
			mustFail(t, "a wait inside", err, nil, "a function of a handler cannot wait for that handler")
		}
	})
}

// A version that the informer had is lost again before the graph has shown it: the wait says so
// (contract, point 15).
func TestGraphWaitForALostVersion(t *testing.T) {
	inGraph(t, nil, "a1", "a1", func(t *testing.T, b *graphBench) {
		before := b.left.ResourceVersion()
		open := make(chan struct{})
		lw.Derive(b.g, b.l, rig.SumOf)
		lw.Derive(b.g, b.r, heldAt(evil, open))
		b.start()
		b.update(b.right, "a", evil) // in a step
		w := b.update(b.left, "a", 2)
		waited := b.shown(w.ResourceVersion)
		rig.OK(t, b.left.Rewind(before))
		rig.Sleep(time.Hour)
		if at := b.l.Store().ResourceVersion(); at != before {
			t.Fatalf("the informer is at %s, want %s", at, before)
		}
		close(open)
		mustFail(t, "the wait", <-waited, lw.ErrRewound, w.ResourceVersion, "left")
	})
}

// A member of a union that is removed twice, or was added twice, counts as often as it is there. A
// union cannot be its own member, nor of what it is made of.
func TestUnionMembersTwice(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		u := lw.NewUnion[*rig.Widget](b.g)
		behind := lw.NewUnion[*rig.Widget](b.g, u)
		lw.Derive(b.g, b.r, rig.SumOf)
		b.start()
		show := func(what string, want, readers int) {
			t.Helper()
			synctest.Wait()
			if all, _ := inside.Followers(b.l); u.Store().Len() != want || all != readers {
				t.Errorf("%s: %d objects and %d readers of the informer, want %d and %d", what, u.Store().Len(), all, want, readers)
			}
		}
		first, second := u.Add(b.l), u.Add(b.l)
		show("added twice", 1, 1)
		first()
		first()
		show("one is removed twice", 1, 1)
		rig.Update(t, b.left, "a", 2)
		show("after a change", 1, 1)
		rig.Same(t, "after a change", map[string]int{"a": 2}, sizes(u.Store()))
		second()
		show("both are removed", 0, 0)
		second()
		first()
		u.Add(b.l)
		show("it is added again", 1, 1)
		for _, in := range []lw.Collection[*rig.Widget]{u, u.Derived, behind} {
			rig.MustPanic(t, "lw: Union.Add: the collection depends on the union", func() { u.Add(in) })
		}
		show("after that", 1, 1)
	})
}

// Verify reports a collection once, however many objects differ in however many steps, and again if
// it was right meanwhile. It says what to look for.
func TestVerifyReportsOnce(t *testing.T) {
	errs := &rig.Errors{}
	inGraph(t, &lw.GraphOptions{Verify: true, OnError: errs.Add}, "", "", func(t *testing.T, b *graphBench) {
		for i := range 3 {
			rig.Create(t, b.left, fmt.Sprint("w", i), i)
		}
		wrong := 0
		lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.MetaOf(w), Sum: w.Size + wrong} }, "impure")
		lw.GroupBy(b.g, b.l, func(*rig.Widget) lw.Key { return lw.Key{Name: "most"} }, most, rig.TotalOf, "most")
		b.start()
		mustReport := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			rig.Same(t, what, want, errs.TakeSorted())
		}
		mustReport("at first")
		wrong = 1
		rig.Update(t, b.left, "w0", 10)
		mustReport("an impure function",
			"lw: graph/impure: derive default/w1: verify: a function is not pure, or a shared object was changed: a new computation makes another one: Sum: 1 is now 2 (and 1 more)")
		rig.Update(t, b.left, "w0", 11)
		mustReport("it goes on")
		rig.Update(t, b.left, "w0", 3)
		mustReport("an aggregate that cannot remove",
			"lw: graph/most: derive most: verify: a function is not pure, Remove does not undo Add, or a shared object was changed: a new computation makes another one: Sum: 11 is now 3")
		rig.Update(t, b.left, "w0", 12)
		wrong = 0
		b.update(b.left, "w0", 13)
		rig.Update(t, b.left, "w0", 14)
		mustReport("all is right")
		wrong = 1
		rig.Update(t, b.left, "w0", 15)
		mustReport("again",
			"lw: graph/impure: derive default/w1: verify: a function is not pure, or a shared object was changed: a new computation makes another one: Sum: 1 is now 2 (and 1 more)")
	})
}

// Verify is silent while an object is set aside, whose result is an older one, and looks again when
// it is not.
func TestVerifyOfWhatIsSetAside(t *testing.T) {
	errs := &rig.Errors{}
	opts := &lw.GraphOptions{Verify: true, OnError: errs.Add, OnPanic: func(*lw.Panic) {}}
	inGraph(t, opts, "a1 b2", "", func(t *testing.T, b *graphBench) {
		bad, wrong := 9, 0
		d := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			if w.Size == bad {
				panic("bad")
			}
			return &rig.Sum{Meta: lw.MetaOf(w), Sum: w.Size + wrong}
		}, "it")
		b.start()
		b.update(b.left, "a", 9)
		rig.Same(t, "set aside", 1, len(b.g.Status().Collections[0].SetAside))
		rig.Same(t, "shown", 2, d.Store().Len())
		rig.Same(t, "reported while a is set aside", nil, errs.TakeSorted())
		wrong = 1
		b.update(b.left, "a", 8)
		rig.Same(t, "reported then", 1, len(errs.TakeSorted()))
	})
}
