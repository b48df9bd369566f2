package graph_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// A right at which a key function panics stays as it was in all joins. One left with several rights
// stays set aside as long as it cannot be joined with one of them.
func TestGraphPanicsOfRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		b := newGraphBench(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) { calls++ }, OnError: func(err error) { t.Error(err) }})
		on := by(tensOf, func(w *rig.Widget) int { mind(w.Size); return w.Size / 10 })
		pair := func(l, r *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.Meta{Name: l.Name + r.Name}, Sum: r.Size} }
		pairs := lw.Join(b.g, b.l, b.r, on, pair, "pairs")
		counts := lw.LeftJoin(b.g, b.l, b.r, on, countOf[*rig.Widget], "counts")
		either := lw.Join(b.g, b.l, b.r, by(tensOf, tensOf), func(l, r *rig.Widget) *rig.Sum { mind(r.Size); return pair(l, r) }, "either")
		b.have("a15", "a11 b12 c14")
		b.start()
		b.update(b.right, "a", evil)
		b.update(b.right, "b", 14)
		b.update(b.left, "a", 16)
		mustShow(t, pairs, "pairs", map[string]int{"aa": 11, "ab": 14, "ac": 14})
		mustShow(t, counts, "counts", map[string]int{"a": 3})
		mustShow(t, either, "either", map[string]int{"aa": 11, "ab": 14, "ac": 14})
		for _, c := range b.g.Status().Collections {
			if len(c.SetAside) != 1 {
				t.Errorf("%s: set aside are %v, want one", c.Name, c.SetAside)
			}
		}
		mustBeCured := func(what string) {
			t.Helper()
			synctest.Wait()
			for _, c := range b.g.Status().Collections {
				if c.SetAside != nil {
					t.Errorf("%s: set aside are %v after %s", c.Name, c.SetAside, what)
				}
			}
		}
		rig.Update(t, b.right, "a", 17)
		mustBeCured("the next version of the evil right")
		b.update(b.right, "a", evil)
		rig.Remove(t, b.right, "a")
		mustBeCured("the evil right has gone")
		if pairs.Store().Len() != 2 || either.Store().Len() != 2 {
			t.Errorf("%d and %d pairs at the end, want 2", pairs.Store().Len(), either.Store().Len())
		}
	})
}

// A left for which Where panics at a right stays as it was, until Where can be asked again.
func TestGraphPanicsOfWhereAtARight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := 0
		b := newGraphBench(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) { panics++ }, OnError: func(err error) { t.Error(err) }})
		on := allPairs()
		on.Where = func(_, r *rig.Widget) bool { mind(r.Size); return r.Size > 0 }
		totals := lw.LeftJoin(b.g, b.l, b.r, on, func(l *rig.Widget, rights []*rig.Widget) *rig.Sum {
			total := rig.SumOf(l)
			for _, r := range rights {
				total.Sum += r.Size
			}
			return total
		})
		b.have("a100", "b1 c2")
		b.start()
		check := func(what string, want, aside int) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(map[string]int{"a": want}, contents(totals.Store())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			if got := b.g.Status().Collections[0].SetAside; len(got) != aside {
				t.Errorf("%s: set aside are %v, want %d", what, got, aside)
			}
		}
		check("at first", 103, 0)
		rig.Update(t, b.right, "b", evil)
		check("an evil right", 103, 1)
		if panics != 1 {
			t.Errorf("OnPanic was called %d times, want once: Where is not asked again in the same step", panics)
		}
		rig.Update(t, b.right, "c", 3)
		check("another right", 103, 1)
		rig.Update(t, b.right, "b", 4)
		check("its next version", 107, 0)
		rig.Update(t, b.right, "b", evil)
		check("it is evil again", 107, 1)
		rig.Remove(t, b.right, "b")
		check("it goes", 103, 0)
	})
}

// A left that is set aside for two of its pairs has the errors of both.
func TestGraphPanicsOfTwoPairs(t *testing.T) {
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) {}}, func(t *testing.T, b *graphBench) {
		first, second := errors.New("first"), errors.New("second")
		lw.Join(b.g, b.l, b.r, allPairs(), func(_, r *rig.Widget) *rig.Sum {
			panic(map[string]error{"b": first, "c": second}[r.Name])
		})
		b.have("a1", "b1 c1")
		b.start()
		synctest.Wait()
		err := b.g.Status().Collections[0].SetAside[rig.Key("a")]
		if !errors.Is(err, first) || !errors.Is(err, second) {
			t.Errorf("set aside for %v, want both errors", err)
		}
	})
}

// A left is no longer set aside for a pair that it has left, also if the pair never had a result.
func TestGraphPanicsOfALeftPair(t *testing.T) {
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) {}}, func(t *testing.T, b *graphBench) {
		size := func(w *rig.Widget) int { return w.Size }
		lw.Join(b.g, b.l, b.r, by(size, size), func(l, _ *rig.Widget) *rig.Sum {
			mind(l.Size)
			return rig.SumOf(l)
		})
		rig.Create(t, b.left, "a", evil)
		rig.Create(t, b.right, "b", evil)
		b.start()
		for _, step := range []struct{ size, aside int }{{evil, 1}, {1, 0}, {evil, 1}, {2, 0}} {
			b.set(b.left, "a", step.size)
			synctest.Wait()
			if got := b.g.Status().Collections[0].SetAside; len(got) != step.aside {
				t.Errorf("with size %d: set aside are %v, want %d", step.size, got, step.aside)
			}
		}
	})
}
