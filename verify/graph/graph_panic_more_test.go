package graph_test

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A picky result has an Equal that panics at an evil one, and methods that do so without a widget.
type picky struct {
	*lw.Meta
	size int
}

func (p *picky) Equal(other *picky) bool {
	mind(other.size)
	return p.size == other.size
}

// A result at which Equal panics is shown, and told as an update, whoever compares it. One that
// does not know who it is makes its function fail.
func TestGraphPanicsOfMethods(t *testing.T) {
	var panics panicLog
	take := func() []string {
		return panics.take(func(p *lw.Panic) string { return fmt.Sprintf("%s at %s", p.Handler, p.Key.Name) })
	}
	inGraph(t, &lw.GraphOptions{OnPanic: panics.add}, "a1", "a1", func(t *testing.T, b *graphBench) {
		pick := func(w *rig.Widget) *picky {
			if w.Size == 99 {
				return &picky{} // without a Meta
			}
			return &picky{&lw.Meta{Name: w.Name}, w.Size}
		}
		all := byEachOperator(b, pick)
		updates := make([][]int, len(all))
		for i, d := range all {
			d.AddHandler(lw.Handler[*picky]{Update: func(_, p *picky) { updates[i] = append(updates[i], p.size) }})
		}
		b.start()
		check := func(what string, size, calls int, text string) {
			t.Helper()
			synctest.Wait()
			for i, d := range all {
				if got, _ := d.Store().Get(lw.Key{Name: "a"}); got == nil || got.size != size {
					t.Errorf("%s: collection %d shows %+v, want %d", what, i, got, size)
				}
			}
			if got := take(); len(got) != calls || calls > 0 && got[0] != text {
				t.Errorf("%s: OnPanic got %q, want %d times %q", what, got, calls, text)
			}
		}
		rig.Update(t, b.left, "a", evil)
		check("an evil result", evil, len(all), "Equal at a")
		rig.Update(t, b.left, "a", 2)
		check("the next one", 2, 0, "")
		rig.Update(t, b.left, "a", 99)
		check("one without a name", 2, len(all), "function at a")
		rig.Update(t, b.left, "a", 3)
		check("the one after", 3, 0, "")
		for i := range all {
			rig.Same(t, fmt.Sprintf("collection %d: updates", i), []int{evil, 2, 3}, updates[i])
		}
		// A handler that is blocked is told the net change of what it missed. Equal panics there too.
		entered, open := false, make(chan struct{})
		var told []int
		all[0].AddHandler(lw.Handler[*picky]{Update: func(_, p *picky) {
			if !entered {
				entered = true
				<-open
			}
			told = append(told, p.size)
		}})
		synctest.Wait()
		for i := range 3000 {
			b.update(b.left, "a", 1000+i)
		}
		b.update(b.left, "a", evil)
		take()
		close(open)
		synctest.Wait()
		if got := take(); len(got) != 1 || got[0] != "Equal at a" {
			t.Errorf("OnPanic got %q of a fold", got)
		}
		rig.Same(t, "a blocked handler was told", []int{1000, evil}, told)
	})
}

// A guest is a result whose Equal reads and registers, as all functions of a graph may.
type guest struct {
	lw.Meta
	size int
	call func(what string)
}

func (g *guest) Equal(other *guest) bool {
	other.call("Equal")
	return g.size == other.size
}

// No lock is held while a function of the user's is called: it may read, ask for the status, and
// register handlers, of its own graph too.
func TestGraphCallsHoldNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // only for calls
		calls, few := map[string]int{}, true
		var b *graphBench
		var all []*lw.Derived[*guest]
		call := func(what string) {
			mu.Lock()
			calls[what]++
			if mu.Unlock(); !few {
				return
			}
			b.g.Status()
			b.g.Snapshot()
			for _, d := range all {
				d.Store().List()
				d.Store().Get(lw.Key{Name: "a"})
				d.AddHandler(lw.Handler[*guest]{Synced: func() {}}).Remove()
			}
			b.l.Store().List()
			b.l.Status()
		}
		b = newGraphBench(t, &lw.GraphOptions{
			OnPanic: func(*lw.Panic) { call("OnPanic") },
			OnError: func(error) { call("OnError") },
		})
		guestOf := func(w *rig.Widget) *guest { return &guest{lw.Meta{Name: w.Name}, w.Size, call} }
		key := func(what string) func(*rig.Widget) iter.Seq[string] {
			return lw.SingleKey(func(w *rig.Widget) string { call(what); return w.Name })
		}
		on := lw.On[string, *rig.Widget, *rig.Widget]{
			Left: key("Left"), Right: key("Right"), Where: func(l, r *rig.Widget) bool { call("Where"); return true },
		}
		keyOf := func(w *rig.Widget) lw.Key { call("key"); return lw.KeyOf(w) }
		all = []*lw.Derived[*guest]{
			lw.Derive(b.g, b.l, func(w *rig.Widget) *guest { call("Derive"); mind(w.Size); return guestOf(w) }),
			lw.DeriveMany(b.g, b.l, func(w *rig.Widget) iter.Seq[*guest] {
				return func(yield func(*guest) bool) {
					call("DeriveMany")
					g := guestOf(w)
					g.Name = "one for all"
					yield(g)
				}
			}),
			lw.Join(b.g, b.l, b.r, on, func(l, r *rig.Widget) *guest { call("Join"); return guestOf(l) }),
			lw.LeftJoin(b.g, b.l, b.r, on, func(l *rig.Widget, _ []*rig.Widget) *guest { call("LeftJoin"); return guestOf(l) }),
			lw.GroupAll(b.g, b.l, keyOf, func(_ lw.Key, all []*rig.Widget) *guest { call("GroupAll"); return guestOf(all[0]) }),
			lw.GroupBy(b.g, b.l, keyOf, lw.Aggregate[*rig.Widget, *rig.Widget]{
				Add:    func(_, w *rig.Widget) *rig.Widget { call("Add"); return w },
				Remove: func(_, w *rig.Widget) *rig.Widget { call("Remove"); return nil },
			}, func(_ lw.Key, w *rig.Widget) *guest { call("GroupBy"); return guestOf(w) }),
		}
		for _, d := range all {
			lw.NewIndex(d, func(g *guest) int { call("index"); return g.size })
			d.AddHandler(lw.Handler[*guest]{
				Add: func(*guest) { call("handler") }, Filter: func(*guest) bool { call("Filter"); return true },
			})
		}
		b.have("a1 b1", "a1 b1")
		b.start()
		for _, size := range []int{1, 2, evil, 3} {
			rig.Update(t, b.left, "a", size)
			b.update(b.right, "a", size)
		}
		// What a blocked handler missed is compared in its own goroutine.
		open := make(chan struct{})
		all[0].AddHandler(lw.Handler[*guest]{Add: func(g *guest) { <-open }})
		few = false
		for i := range 1500 {
			b.update(b.left, "a", 100+i)
		}
		few = true
		before := calls["Equal"]
		close(open)
		synctest.Wait()
		if calls["Equal"] == before {
			t.Error("Equal was not called for a blocked handler")
		}
		for _, what := range []string{
			"Derive", "DeriveMany", "Left", "Right", "Where", "Join", "LeftJoin", "key", "GroupAll", "Add", "Remove", "GroupBy",
			"Equal", "index", "handler", "Filter", "OnPanic", "OnError",
		} {
			if calls[what] == 0 {
				t.Errorf("%s was not called", what)
			}
		}
	})
}

// A right at which a key function panics stays as it was in all joins. One left with several rights
// stays set aside as long as it cannot be joined with one of them.
func TestGraphPanicsOfRights(t *testing.T) {
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) {}}, "a15", "a11 b12 c14", func(t *testing.T, b *graphBench) {
		on := by(tensOf, func(w *rig.Widget) int { mind(w.Size); return w.Size / 10 })
		pair := func(l, r *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.Meta{Name: l.Name + r.Name}, Sum: r.Size} }
		pairs := lw.Join(b.g, b.l, b.r, on, pair, "pairs")
		counts := lw.LeftJoin(b.g, b.l, b.r, on, countOf[*rig.Widget], "counts")
		either := lw.Join(b.g, b.l, b.r, by(tensOf, tensOf), func(l, r *rig.Widget) *rig.Sum { mind(r.Size); return pair(l, r) }, "either")
		b.start()
		b.update(b.right, "a", evil)
		b.update(b.right, "b", 14)
		b.update(b.left, "a", 16)
		mustShow(t, pairs, "pairs", map[string]int{"aa": 11, "ab": 14, "ac": 14})
		mustShow(t, counts, "counts", map[string]int{"a": 3})
		mustShow(t, either, "either", map[string]int{"aa": 11, "ab": 14, "ac": 14})
		b.mustSetAside("an evil right", "a")
		rig.Update(t, b.right, "a", 17)
		b.mustSetAside("the next version of the evil right")
		b.update(b.right, "a", evil)
		rig.Remove(t, b.right, "a")
		b.mustSetAside("the evil right has gone")
		if pairs.Store().Len() != 2 || either.Store().Len() != 2 {
			t.Errorf("%d and %d pairs at the end, want 2", pairs.Store().Len(), either.Store().Len())
		}
	})
}

// A left for which Where panics at a right stays as it was, until Where can be asked again.
func TestGraphPanicsOfWhereAtARight(t *testing.T) {
	panics := 0
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) { panics++ }}, "a100", "b1 c2", func(t *testing.T, b *graphBench) {
		on := allPairs()
		on.Where = func(_, r *rig.Widget) bool { mind(r.Size); return r.Size > 0 }
		totals := lw.LeftJoin(b.g, b.l, b.r, on, func(l *rig.Widget, rights []*rig.Widget) *rig.Sum {
			total := rig.SumOf(l)
			for _, r := range rights {
				total.Sum += r.Size
			}
			return total
		})
		b.start()
		check := func(what string, want int, aside ...string) {
			t.Helper()
			mustShow(t, totals, what, map[string]int{"a": want})
			b.mustSetAside(what, aside...)
		}
		check("at first", 103)
		rig.Update(t, b.right, "b", evil)
		check("an evil right", 103, "a")
		if panics != 1 {
			t.Errorf("OnPanic was called %d times, want once: Where is not asked again in the same step", panics)
		}
		rig.Update(t, b.right, "c", 3)
		check("another right", 103, "a")
		rig.Update(t, b.right, "b", 4)
		check("its next version", 107)
		rig.Update(t, b.right, "b", evil)
		check("it is evil again", 107, "a")
		rig.Remove(t, b.right, "b")
		check("it goes", 103)
	})
}

// A left that is set aside for two of its pairs has the errors of both.
func TestGraphPanicsOfTwoPairs(t *testing.T) {
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) {}}, "a1", "b1 c1", func(t *testing.T, b *graphBench) {
		first, second := errors.New("first"), errors.New("second")
		lw.Join(b.g, b.l, b.r, allPairs(), func(_, r *rig.Widget) *rig.Sum {
			panic(map[string]error{"b": first, "c": second}[r.Name])
		})
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
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) {}}, "", "", func(t *testing.T, b *graphBench) {
		size := func(w *rig.Widget) int { return w.Size }
		lw.Join(b.g, b.l, b.r, by(size, size), func(l, _ *rig.Widget) *rig.Sum {
			mind(l.Size)
			return rig.SumOf(l)
		})
		rig.Create(t, b.left, "a", evil)
		rig.Create(t, b.right, "b", evil)
		b.start()
		for _, size := range []int{1, 2} {
			rig.Update(t, b.left, "a", evil)
			b.mustSetAside("an evil one", "a")
			rig.Update(t, b.left, "a", size)
			b.mustSetAside(fmt.Sprint("with size ", size))
		}
	})
}
