package graph_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/test/internal/inside"
)

// A wait for a graph inside one of its functions could never end: it fails at once, and names the
// function.
func TestWaitInsideAFunction(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		other := lw.Derive(b.g, b.r, rig.SumOf, "other")
		var errs []error
		var d *lw.Derived[*rig.Sum]
		d = lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			ctx := context.Background()
			_, err := lw.WaitFor(ctx, d, rig.Key("a"), func(s *rig.Sum) bool { return s != nil && s.Sum == w.Size })
			errs = append(errs, b.g.WaitForSync(ctx), d.WaitForSync(ctx), err, b.g.WaitForResourceVersion(ctx, b.l, w.ResourceVersion),
				d.AddHandler(lw.Handler[*rig.Sum]{Synced: func() {}}).WaitForSync(ctx))
			return rig.SumOf(w)
		}, "inward")
		rig.Start(t, b.l)
		rig.Start(t, b.g)
		synctest.Wait()
		if len(errs) != 5 {
			t.Fatalf("%d waits have ended", len(errs))
		}
		for i, err := range errs {
			if err == nil || !containsAll(err.Error(), "a function of a graph cannot wait for the graph", "function of inward at default/a") {
				t.Errorf("wait %d: %v", i, err)
			}
		}
		// What has synced, or is there, needs no wait.
		rig.Start(t, b.r)
		rig.OK(t, other.WaitForSync(t.Context()))
		errs = nil
		b.update(b.left, "a", 2)
		for i, want := range []bool{true, true, false, false, true} {
			if len(errs) != 5 || want != (errs[i] == nil) {
				t.Fatalf("waits for a synced collection, and for changes of it: %v", errs)
			}
		}
		if s, _ := d.Store().Get(rig.Key("a")); s == nil || s.Sum != 2 {
			t.Errorf("at the end it shows %+v", s)
		}
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
		if s := b.g.Status(); s.Call != "" || !s.StepBegan.IsZero() {
			t.Errorf("between steps the call is %s, since %v", s.Call, s.StepBegan)
		}
		rig.Sleep(time.Second)
		began := time.Now()
		w := b.update(b.left, "a", evil)
		if s := b.g.Status(); s.Call != "Where of pairs at default/a" || !s.StepBegan.Equal(began) {
			t.Errorf("the call is %s, since %v; the step began at %v", s.Call, s.StepBegan, began)
		}
		late := lw.Derive(b.g, b.l, rig.SumOf, "late")
		gone := func(s *rig.Sum) bool { return s == nil }
		for what, wait := range map[string]func(context.Context) error{
			"Graph.WaitForSync":            b.g.WaitForSync,
			"Derived.WaitForSync":          late.WaitForSync,
			"Graph.WaitForResourceVersion": func(ctx context.Context) error { return b.g.WaitForResourceVersion(ctx, b.l, w.ResourceVersion) },
			"WaitFor":                      func(ctx context.Context) error { _, err := lw.WaitFor(ctx, pairs, rig.Key("a"), gone); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !containsAll(err.Error(), "Where of pairs at default/a", "began ") {
				t.Errorf("%s: %v", what, err)
			}
			cancel()
		}
		close(open)
		synctest.Wait()
		if s := b.g.Status(); s.Call != "" || !s.StepBegan.IsZero() {
			t.Errorf("after the step the call is %s, since %v", s.Call, s.StepBegan)
		}
	})
}

// A handler that waits for its own sync is told so at once.
func TestHandlerWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		inf := lw.NewInformer(m, rig.Quiet())
		var reg *lw.Registration
		var errs []error
		wait := func() { errs = append(errs, reg.WaitForSync(context.Background())) }
		reg = inf.AddHandler(lw.Handler[*rig.Widget]{
			Add: func(*rig.Widget) { wait() }, Synced: wait, Update: func(_, _ *rig.Widget) { wait() },
		})
		rig.Start(t, inf)
		synctest.Wait()
		rig.OK(t, reg.WaitForSync(t.Context()))
		rig.Update(t, m, "a", 2)
		synctest.Wait()
		if len(errs) != 3 || errs[2] != nil {
			t.Fatalf("the waits have ended with %v", errs)
		}
		for _, err := range errs[:2] {
			if err == nil || !containsAll(err.Error(), "a function of a handler cannot wait for that handler") {
				t.Errorf("a wait inside: %v", err)
			}
		}
	})
}

// Run does not return while a handler of a collection runs (contract, point 13).
func TestGraphRunWaitsForHandlers(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		open, done := make(chan struct{}), false
		lw.Derive(b.g, b.l, rig.SumOf).AddHandler(lw.Handler[*rig.Sum]{Add: func(*rig.Sum) { <-open; done = true }})
		rig.Start(t, b.l)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			b.g.Run(ctx)
			if !done {
				t.Error("Run has returned while a handler ran")
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case <-ran:
			t.Error("Run has returned while a handler was blocked")
		default:
		}
		close(open)
		<-ran
	})
}

// A version that the informer had is lost again before the graph has shown it: the wait says so
// (contract, point 15).
func TestGraphWaitForALostVersion(t *testing.T) {
	inGraph(t, nil, "a1", "a1", func(t *testing.T, b *graphBench) {
		before := b.left.ResourceVersion()
		open := make(chan struct{})
		lw.Derive(b.g, b.l, rig.SumOf)
		lw.Derive(b.g, b.r, func(w *rig.Widget) *rig.Sum {
			if w.Size == evil {
				<-open
			}
			return rig.SumOf(w)
		})
		b.start()
		rig.Update(t, b.right, "a", evil)
		synctest.Wait() // in a step
		w := b.update(b.left, "a", 2)
		waited := b.shown(w.ResourceVersion)
		rig.OK(t, b.left.Rewind(before))
		rig.Sleep(time.Hour)
		if at := b.l.Store().ResourceVersion(); at != before {
			t.Fatalf("the informer is at %s, want %s", at, before)
		}
		close(open)
		if err := <-waited; !errors.Is(err, lw.ErrRewound) || !containsAll(err.Error(), w.ResourceVersion, "left") {
			t.Errorf("the wait ended with %v, want ErrRewound", err)
		}
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
		if w, _ := u.Store().Get(rig.Key("a")); w == nil || w.Size != 2 {
			t.Errorf("it shows %+v", w)
		}
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
