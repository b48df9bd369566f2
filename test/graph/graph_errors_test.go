package graph_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// The errors of waits say what a derived collection does, and what it waits for.
func TestGraphErrors(t *testing.T) {
	inGraph(t, nil, func(t *testing.T, b *graphBench) {
		rig.Create(t, b.left, "a", 1)
		b.right.Fail(refused)
		good := lw.Derive(b.g, b.l, rig.SumOf, "good")
		bad := lw.Derive(b.g, b.r, rig.SumOf, "bad")
		behind := lw.Derive(b.g, bad, same, "behind")
		busy := good.AddHandler(lw.Handler[*rig.Sum]{Add: func(*rig.Sum) { time.Sleep(time.Hour) }})
		enough, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("out of patience"))

		var got []string
		say := func(err error) { got = append(got, err.Error()) }
		say(behind.WaitForSync(enough))
		rig.Start(t, b.l)
		rig.Start(t, b.r)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- b.g.Run(ctx) }()
		synctest.Wait()
		unmet := func(ctx context.Context) error {
			_, err := lw.WaitFor(ctx, good, rig.Key("b"), func(s *rig.Sum) bool { return s != nil })
			return err
		}
		say(unmet(enough))
		say(behind.WaitForSync(enough))
		say(busy.WaitForSync(enough))
		stop()
		<-over
		say(unmet(t.Context()))
		want := []string{
			"lw: graph/behind: not synced, since the Run of the graph has not been called: right: not synced, since Run has not been called: out of patience",
			"lw: graph/good: waiting for a condition of default/b, which does not exist at 1 (watching): out of patience",
			"lw: graph/behind: not synced, since it waits for right: right: not synced (waiting, mode pages): list: widgets is forbidden: not for you: out of patience",
			"lw: graph/good: handler not synced (1 changes pending): out of patience",
			"lw: graph/good: waiting for a condition of default/b, which does not exist at 1 (stopped): stopped",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
	})
}

// A wait during the first step, when all inputs have synced, says which function the step is in.
func TestGraphErrorInFirstStep(t *testing.T) {
	inGraph(t, nil, func(t *testing.T, b *graphBench) {
		rig.Create(t, b.left, "a", 1)
		slow := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			time.Sleep(time.Hour)
			return rig.SumOf(w)
		}, "slow")
		rig.Start(t, b.l)
		rig.Start(t, b.g)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("out of patience"))
		defer cancel()
		want := "lw: graph/slow: not synced, the step of the graph is in function of slow at default/a, and began 1m0s ago: out of patience"
		if diff := cmp.Diff(want, slow.WaitForSync(ctx).Error()); diff != "" {
			t.Error(diff)
		}
	})
}

// What is made of a graph that has stopped, or of a collection that was closed, is over at once.
func TestMadeTooLate(t *testing.T) {
	inGraph(t, nil, func(t *testing.T, b *graphBench) {
		rig.Create(t, b.left, "a", 1)
		closed := lw.Derive(b.g, b.l, rig.SumOf, "closed")
		union := lw.NewUnion[*rig.Sum](b.g, lw.Derive(b.g, b.r, rig.SumOf))
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- b.g.Run(ctx) }()
		rig.Start(t, b.l)
		rig.Start(t, b.r)
		if err := b.g.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		closed.Close()
		union.Add(closed)
		b.create(b.right, "b", 2)
		mustShow(t, union, "a union that a closed collection was added to", map[string]int{"b": 2})
		stop()
		<-over
		if late := lw.Derive(b.g, b.l, rig.SumOf); !isOver(late) {
			t.Error("a collection of a graph that has stopped is not over")
		}
	})
}

// A result without a name is an error of its input, whatever made it, until it has one.
func TestNamelessResults(t *testing.T) {
	one := byName[*rig.Widget, *rig.Widget]()
	for name, derive := range map[string]func(b *graphBench, f func(size int) *rig.Sum) lw.Collection[*rig.Sum]{
		"Derive": func(b *graphBench, f func(int) *rig.Sum) lw.Collection[*rig.Sum] {
			return lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { return f(w.Size) })
		},
		"GroupAll": func(b *graphBench, f func(int) *rig.Sum) lw.Collection[*rig.Sum] {
			return lw.GroupAll(b.g, b.l, lw.KeyOf[*rig.Widget], func(_ lw.Key, objs []*rig.Widget) *rig.Sum { return f(objs[0].Size) })
		},
		"GroupBy": func(b *graphBench, f func(int) *rig.Sum) lw.Collection[*rig.Sum] {
			return lw.GroupBy(b.g, b.l, lw.KeyOf[*rig.Widget], summedUp, func(_ lw.Key, n int) *rig.Sum { return f(n) })
		},
		"Join": func(b *graphBench, f func(int) *rig.Sum) lw.Collection[*rig.Sum] {
			return lw.Join(b.g, b.l, b.r, one, func(l, _ *rig.Widget) *rig.Sum { return f(l.Size) })
		},
		"LeftJoin": func(b *graphBench, f func(int) *rig.Sum) lw.Collection[*rig.Sum] {
			return lw.LeftJoin(b.g, b.l, b.r, one, func(l *rig.Widget, _ []*rig.Widget) *rig.Sum { return f(l.Size) })
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			var errs rig.Errors
			b := newGraphBench(t, &lw.GraphOptions{OnError: errs.Add})
			for i, name := range []string{"a", "b"} {
				rig.Create(t, b.left, name, 1+10*i)
				rig.Create(t, b.right, name, 1)
			}
			c := derive(b, func(n int) *rig.Sum {
				s := rig.SumOf(rig.NewWidget([]string{"a", "b"}[n/10], n))
				if n == 2 {
					s.Name = ""
				}
				return s
			})
			b.start()
			b.update(b.left, "a", 2)
			b.update(b.left, "b", 12)
			mustShow(t, c, "after a result without a name", map[string]int{"a": 1, "b": 12})
			if got := errs.TakeSorted(); len(got) != 1 || !containsAll(got[0], "the result has no name", "default/a") {
				t.Errorf("reported: %q", got)
			}
			if aside := b.g.Status().Collections[0].SetAside; len(aside) != 1 || aside[rig.Key("a")] == nil {
				t.Errorf("set aside: %v, want a", aside)
			}
			b.update(b.left, "a", 3)
			mustShow(t, c, "after a result with a name", map[string]int{"a": 3, "b": 12})
			if aside := b.g.Status().Collections[0].SetAside; aside != nil {
				t.Errorf("set aside: %v at the end", aside)
			}
		})
	}
}
