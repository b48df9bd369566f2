package lw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// The errors of waits say what a derived collection does, and what it waits for.
func TestGraphErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		create(t, b.left, "a", 1)
		b.right.Fail(refused)
		good := lw.Derive(b.g, b.l, sumOf, "good")
		bad := lw.Derive(b.g, b.r, sumOf, "bad")
		behind := lw.Derive(b.g, bad, func(s *sum) *sum { return s }, "behind")
		busy := good.AddHandler(lw.Handler[*sum]{Add: func(*sum) { time.Sleep(time.Hour) }})
		enough, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("out of patience"))

		var got []string
		say := func(err error) { got = append(got, err.Error()) }
		say(behind.WaitForSync(enough))
		start(t, b.l)
		start(t, b.r)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- b.g.Run(ctx) }()
		synctest.Wait()
		unmet := func(ctx context.Context) error {
			_, err := lw.WaitFor(ctx, good, key("b"), func(s *sum) bool { return s != nil })
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
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		create(t, b.left, "a", 1)
		slow := lw.Derive(b.g, b.l, func(w *Widget) *sum {
			time.Sleep(time.Hour)
			return sumOf(w)
		}, "slow")
		start(t, b.l)
		start(t, b.g)
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
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		create(t, b.left, "a", 1)
		closed := lw.Derive(b.g, b.l, sumOf, "closed")
		union := lw.NewUnion[*sum](b.g, lw.Derive(b.g, b.r, sumOf))
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- b.g.Run(ctx) }()
		start(t, b.l)
		start(t, b.r)
		if err := b.g.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		closed.Close()
		union.Add(closed)
		create(t, b.right, "b", 2)
		synctest.Wait()
		if diff := cmp.Diff(map[lw.Key]int{key("b"): 2}, sumsOf(union)); diff != "" {
			t.Errorf("a union that a closed collection was added to (-want +got):\n%s", diff)
		}
		stop()
		<-over
		if late := lw.Derive(b.g, b.l, sumOf); !isOver(late) {
			t.Error("a collection of a graph that has stopped is not over")
		}
	})
}

func sumsOf(c lw.Collection[*sum]) map[lw.Key]int {
	all := map[lw.Key]int{}
	for s := range c.Store().All() {
		all[lw.KeyOf(s)] = s.Sum
	}
	return all
}

// A result without a name is an error of its input, whatever made it, until it has one.
func TestNamelessResults(t *testing.T) {
	one := lw.On[string, *Widget, *Widget]{Left: lw.One((*Widget).GetName), Right: lw.One((*Widget).GetName)}
	for name, derive := range map[string]func(b *graphBench, f func(size int) *sum) lw.Collection[*sum]{
		"Derive": func(b *graphBench, f func(int) *sum) lw.Collection[*sum] {
			return lw.Derive(b.g, b.l, func(w *Widget) *sum { return f(w.Size) })
		},
		"GroupAll": func(b *graphBench, f func(int) *sum) lw.Collection[*sum] {
			return lw.GroupAll(b.g, b.l, lw.KeyOf[*Widget], func(_ lw.Key, objs []*Widget) *sum { return f(objs[0].Size) })
		},
		"GroupBy": func(b *graphBench, f func(int) *sum) lw.Collection[*sum] {
			return lw.GroupBy(b.g, b.l, lw.KeyOf[*Widget], lw.Aggregate[*Widget, int]{Add: func(n int, w *Widget) int { return n + w.Size }, Remove: func(n int, w *Widget) int { return n - w.Size }}, func(_ lw.Key, n int) *sum { return f(n) })
		},
		"Join": func(b *graphBench, f func(int) *sum) lw.Collection[*sum] {
			return lw.Join(b.g, b.l, b.r, one, func(l, _ *Widget) *sum { return f(l.Size) })
		},
		"LeftJoin": func(b *graphBench, f func(int) *sum) lw.Collection[*sum] {
			return lw.LeftJoin(b.g, b.l, b.r, one, func(l *Widget, _ []*Widget) *sum { return f(l.Size) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs errorLog
				b := newGraphBench(t, &lw.GraphOptions{OnError: errs.add})
				create(t, b.left, "a", 1)
				create(t, b.right, "a", 1)
				c := derive(b, func(n int) *sum {
					s := &sum{Meta: lw.Meta{Namespace: "default", Name: "a"}, Sum: n}
					if n == 2 {
						s.Name = ""
					}
					return s
				})
				b.start()
				update(t, b.left, "a", 2)
				synctest.Wait()
				if diff := cmp.Diff(map[lw.Key]int{key("a"): 1}, sumsOf(c)); diff != "" {
					t.Errorf("after a result without a name (-want +got):\n%s", diff)
				}
				errs.mustHave(t, "the result has no name")
				if n := len(b.g.Status().Collections[0].SetAside); n != 1 {
					t.Errorf("%d keys are set aside, want 1", n)
				}
				update(t, b.left, "a", 3)
				synctest.Wait()
				if diff := cmp.Diff(map[lw.Key]int{key("a"): 3}, sumsOf(c)); diff != "" || len(b.g.Status().Collections[0].SetAside) > 0 {
					t.Errorf("after a result with a name (-want +got):\n%s\n%v", diff, b.g.Status().Collections[0].SetAside)
				}
			})
		})
	}
}
