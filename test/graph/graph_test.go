package graph_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

func TestGraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2))
		inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
		g := lw.NewGraph(&lw.GraphOptions{Verify: true, OnError: func(err error) { t.Error(err) }})
		double := lw.Derive(g, inf, func(w *rig.Widget) *rig.Sum {
			if w.Size < 0 {
				return nil
			}
			return &rig.Sum{Meta: lw.Meta{Namespace: w.Namespace, Name: w.Name}, Sum: 2 * w.Size}
		}, "double")
		parts := lw.DeriveMany(g, inf, func(w *rig.Widget) iter.Seq[*rig.Sum] {
			return func(yield func(*rig.Sum) bool) {
				for i := range w.Size {
					if !yield(&rig.Sum{Meta: lw.Meta{Name: fmt.Sprint(w.Name, i)}, Sum: i}) {
						return
					}
				}
			}
		}, "parts")
		total := lw.GroupBy(g, double, func(s *rig.Sum) lw.Key { return lw.Key{Name: s.Namespace} }, lw.Aggregate[*rig.Sum, int]{
			Add:    func(acc int, s *rig.Sum) int { return acc + s.Sum },
			Remove: func(acc int, s *rig.Sum) int { return acc - s.Sum },
		}, func(key lw.Key, acc int) *rig.Sum { return &rig.Sum{Meta: lw.Meta{Name: key.Name}, Sum: acc} }, "total")
		all := lw.GroupAll(g, double, func(s *rig.Sum) lw.Key { return lw.Key{Name: s.Namespace} }, func(key lw.Key, objs []*rig.Sum) *rig.Sum {
			s := &rig.Sum{Meta: lw.Meta{Name: key.Name}}
			for _, o := range objs {
				s.Sum += o.Sum
				s.Names += o.Name
			}
			return s
		}, "all")
		on := lw.On[string, *rig.Widget, *rig.Sum]{
			Left:  lw.SingleKey(func(w *rig.Widget) string { return w.Name }),
			Right: lw.SingleKey(func(s *rig.Sum) string { return s.Name[:1] }),
		}
		pairs := lw.Join(g, inf, parts, on, func(w *rig.Widget, s *rig.Sum) *rig.Sum {
			return &rig.Sum{Meta: lw.Meta{Name: w.Name + "-" + s.Name}, Sum: w.Size + s.Sum}
		}, "pairs")
		counts := lw.LeftJoin(g, inf, parts, on, func(w *rig.Widget, rights []*rig.Sum) *rig.Sum {
			s := &rig.Sum{Meta: lw.MetaOf(w)}
			for _, r := range rights {
				s.Sum++
				s.Names += r.Name
			}
			return s
		}, "counts")
		union := lw.NewUnion[*rig.Sum](g, double, parts)
		rig.Start(t, inf)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- g.Run(ctx) }()
		if err := g.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		want := func(what string, got lw.Reader[*rig.Sum], want map[string]int) {
			t.Helper()
			if d := cmp.Diff(want, contents(got)); d != "" {
				t.Errorf("%s (-want +got):\n%s", what, d)
			}
		}
		want("double", double.Store(), map[string]int{"a": 2, "b": 4})
		want("parts", parts.Store(), map[string]int{"a0": 0, "b0": 0, "b1": 1})
		want("total", total.Store(), map[string]int{"default": 6})
		want("all", all.Store(), map[string]int{"default": 6})
		want("pairs", pairs.Store(), map[string]int{"a-a0": 1, "b-b0": 2, "b-b1": 3})
		want("counts", counts.Store(), map[string]int{"a": 1, "b": 2})
		want("union", union.Store(), map[string]int{"a": 2, "b": 4, "a0": 0, "b0": 0, "b1": 1})
		rig.Update(t, m, "a", 3)
		synctest.Wait()
		want("double", double.Store(), map[string]int{"a": 6, "b": 4})
		want("parts", parts.Store(), map[string]int{"a0": 0, "a1": 1, "a2": 2, "b0": 0, "b1": 1})
		want("total", total.Store(), map[string]int{"default": 10})
		want("pairs", pairs.Store(), map[string]int{"a-a0": 3, "a-a1": 4, "a-a2": 5, "b-b0": 2, "b-b1": 3})
		want("counts", counts.Store(), map[string]int{"a": 3, "b": 2})
		if s, _ := all.Store().Get(lw.Key{Name: "default"}); s == nil || s.Names != "ab" {
			t.Errorf("all: %+v", s)
		}
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

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
	inGraph(t, nil, func(t *testing.T, b *graphBench) {
		rig.Create(t, b.left, "a", 1)
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
	inGraph(t, nil, func(t *testing.T, b *graphBench) {
		rig.Create(t, b.left, "a", 1)
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
