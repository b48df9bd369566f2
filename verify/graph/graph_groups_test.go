package graph_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// membersBy groups the objects of b.l by key, with GroupBy and with GroupAll. A result is the
// number of members.
func membersBy[K comparable](key func(*rig.Widget) K) func(b *graphBench) (count, all *lw.Derived[*rig.Sum]) {
	result := func(k K, n int) *rig.Sum { return &rig.Sum{Meta: lw.Meta{Name: fmt.Sprintf("%v of %T", k, k)}, Sum: n} }
	return func(b *graphBench) (count, all *lw.Derived[*rig.Sum]) {
		count = lw.GroupBy(b.g, b.l, key, counted, result, "count")
		all = lw.GroupAll(b.g, b.l, key, func(k K, objs []*rig.Widget) *rig.Sum { return result(k, len(objs)) }, "all")
		return count, all
	}
}

type region string

// TestGroupsByAnyKey: a group's key is of any comparable type. Three objects of the sizes 1, 2 and
// 3 are grouped; the third leaves, and comes again.
func TestGroupsByAnyKey(t *testing.T) {
	for name, tt := range map[string]struct {
		group       func(b *graphBench) (count, all *lw.Derived[*rig.Sum])
		want, later map[string]int // with the third, and without it
	}{
		"string": {membersBy(func(w *rig.Widget) string { return []string{"", "odd", "even", "odd"}[w.Size] }),
			map[string]int{"even of string": 1, "odd of string": 2}, map[string]int{"even of string": 1, "odd of string": 1}},
		"no text": {membersBy(func(*rig.Widget) string { return "" }),
			map[string]int{" of string": 3}, map[string]int{" of string": 2}},
		"type of a string": {membersBy(func(w *rig.Widget) region { return region(w.Name) }),
			map[string]int{"a of graph_test.region": 1, "b of graph_test.region": 1, "c of graph_test.region": 1},
			map[string]int{"a of graph_test.region": 1, "b of graph_test.region": 1}},
		"number": {membersBy(func(w *rig.Widget) any { return w.Size % 2 }),
			map[string]int{"0 of int": 1, "1 of int": 2}, map[string]int{"0 of int": 1, "1 of int": 1}},
		"struct": {membersBy(func(w *rig.Widget) zone { return zone{w.Namespace, "z", w.Size / 2} }),
			map[string]int{"{default z 0} of graph_test.zone": 1, "{default z 1} of graph_test.zone": 2},
			map[string]int{"{default z 0} of graph_test.zone": 1, "{default z 1} of graph_test.zone": 1}},
		"texts alike": {membersBy(func(w *rig.Widget) any { return []any{nil, 1, "1", int64(1)}[w.Size] }),
			map[string]int{"1 of int64": 1, "1 of int": 1, "1 of string": 1}, map[string]int{"1 of int": 1, "1 of string": 1}},
		"not equal to itself": {membersBy(func(w *rig.Widget) any { return []float64{0, 1, math.NaN(), math.NaN()}[w.Size] }),
			map[string]int{"1 of float64": 1}, map[string]int{"1 of float64": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inGraph(t, &lw.GraphOptions{Verify: true}, "a1 b2 c3", "", func(t *testing.T, b *graphBench) {
				count, all := tt.group(b)
				b.start()
				expect := func(want map[string]int) {
					t.Helper()
					synctest.Wait()
					mustShow(t, count, "count", want)
					mustShow(t, all, "all", want)
				}
				expect(tt.want)
				for range 3 {
					rig.Remove(t, b.left, "c")
					expect(tt.later)
					rig.Create(t, b.left, "c", 3)
					expect(tt.want)
				}
			})
		})
	}
}

// TestGroupNames: errors and conflicts name a group by its key as fmt prints it. Of two keys that
// print alike one has a number, which is given back with the group.
func TestGroupNames(t *testing.T) {
	var errs []string
	opts := &lw.GraphOptions{OnError: func(err error) { errs = append(errs, err.Error()) }, OnPanic: func(*lw.Panic) {}}
	inGraph(t, opts, "a0 c2 slice3", "", func(t *testing.T, b *graphBench) {
		byAny := func(w *rig.Widget) any { return []any{1, "1", zone{"z", w.Name, 2}, []int{1}, int64(1)}[w.Size] }
		fails := func(k any, _ int) *rig.Sum { panic("no result") }
		lw.GroupAll(b.g, b.l, byAny, func(k any, objs []*rig.Widget) *rig.Sum { return fails(k, 0) }, "all")
		lw.GroupBy(b.g, b.l, byAny, counted, fails, "count")
		lw.GroupAll(b.g, b.l, func(w *rig.Widget) zone { return zone{"z", w.Name, w.Size} },
			func(zone, []*rig.Widget) *rig.Sum { return rig.SumOf(rig.NewWidget("one", 1)) }, "rivals")
		b.start()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for i, s := range b.g.Status().Collections[:2] {
				var got []string
				for key := range s.SetAside {
					got = append(got, key.String())
				}
				slices.Sort(got)
				rig.Same(t, fmt.Sprint("set aside by collection ", i), want, got)
			}
		}
		// The object whose key no map takes is set aside itself.
		expect("/1", "/{z c 2}", "default/slice")
		for _, i := range []int{1, 4, 1} {
			rig.Create(t, b.left, "b", i)
			expect("/1", "/1#2", "/{z c 2}", "default/slice")
			rig.Remove(t, b.left, "b")
			expect("/1", "/{z c 2}", "default/slice")
		}
		if all := strings.Join(errs, "\n"); !strings.Contains(all, "that of {z a 0} is shown, and not that of {z c 2}") {
			t.Errorf("errors:\n%s", all)
		}
	})
}

// silent is a key whose text cannot be had.
type silent string

func (silent) String() string { panic("no text") }

// TestGroupWithoutText: a group whose key panics in String is there, without a panic of the
// program.
func TestGroupWithoutText(t *testing.T) {
	inGraph(t, nil, "a1 b2", "", func(t *testing.T, b *graphBench) {
		all := lw.GroupAll(b.g, b.l, func(w *rig.Widget) silent { return silent(w.Name) },
			func(_ silent, objs []*rig.Widget) *rig.Sum { return rig.SumOf(objs[0]) })
		b.start()
		mustShow(t, all, "all", map[string]int{"a": 1, "b": 2})
	})
}

// totals is the total of all sizes, of which add and result may panic.
func totals(b *graphBench, add func(w *rig.Widget), result func(n int)) *lw.Derived[*rig.Sum] {
	return lw.GroupBy(b.g, b.l, func(*rig.Widget) string { return "total" }, lw.Aggregate[*rig.Widget, int]{
		Add:    func(n int, w *rig.Widget) int { add(w); return n + w.Size },
		Remove: summedUp.Remove,
	}, func(name string, n int) *rig.Sum { result(n); return &rig.Sum{Meta: lw.Meta{Name: name}, Sum: n} })
}

// mustTotal expects that the total is want, and that so many objects are set aside.
func mustTotal(t *testing.T, b *graphBench, d *lw.Derived[*rig.Sum], what string, want, aside int) {
	t.Helper()
	mustShow(t, d, what, map[string]int{"total": want})
	if got := b.g.Status().Collections[0].SetAside; len(got) != aside {
		t.Errorf("%s: set aside are %v, want %d", what, got, aside)
	}
}

// After a panic of an aggregate the next step computes all groups anew. An object that has changed
// meanwhile counts as it is.
func TestGroupByCountsTheNewest(t *testing.T) {
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) {}}, "a1 b1", "", func(t *testing.T, b *graphBench) {
		gate := make(chan struct{}, 1)
		inside.AfterStep(b.g, func() { gate <- struct{}{}; <-gate })
		d := totals(b, func(w *rig.Widget) { mind(w.Size) }, func(int) {})
		b.start()
		mustTotal(t, b, d, "at first", 2, 0)
		gate <- struct{}{} // the next step is held at its end
		b.update(b.left, "a", evil)
		b.update(b.left, "a", 5)
		<-gate
		mustTotal(t, b, d, "the next version, in the step that counts anew", 6, 0)
		rig.Update(t, b.left, "a", 7)
		mustTotal(t, b, d, "and the one after that", 8, 0)
	})
}

// If neither the new version of an object nor the old one can be added, the object counts as
// nothing until its next version.
func TestGroupByCountsNothing(t *testing.T) {
	broken, panics := false, 0
	note := func(*lw.Panic) {
		if panics++; panics > 10 {
			broken = false // else the steps would have no end
		}
	}
	inGraph(t, &lw.GraphOptions{OnPanic: note}, "a1 b1", "", func(t *testing.T, b *graphBench) {
		d := totals(b, func(w *rig.Widget) {
			if broken && w.Name == "a" {
				panic(errEvil)
			}
		}, func(int) {})
		b.start()
		mustTotal(t, b, d, "at first", 2, 0)
		broken = true
		rig.Update(t, b.left, "a", 2)
		mustTotal(t, b, d, "no version can be added", 1, 1)
		if panics > 5 {
			t.Errorf("%d panics of one change", panics)
		}
		broken = false
		rig.Update(t, b.left, "b", 3)
		mustTotal(t, b, d, "another object", 3, 1)
		rig.Update(t, b.left, "a", 4)
		mustTotal(t, b, d, "the next version", 7, 0)
	})
}

// What is set aside is named until a call has made a result, also while that call runs.
func TestSetAsideDuringTheNextCall(t *testing.T) {
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) {}}, "a1", "", func(t *testing.T, b *graphBench) {
		hold := make(chan struct{})
		d := totals(b, func(*rig.Widget) {}, func(n int) {
			if mind(n); n > evil {
				<-hold
			}
		})
		b.start()
		mustTotal(t, b, d, "at first", 1, 0)
		rig.Update(t, b.left, "a", evil)
		mustTotal(t, b, d, "evil", 1, 1)
		rig.Update(t, b.left, "a", 20)
		mustTotal(t, b, d, "during the next call", 1, 1)
		close(hold)
		mustTotal(t, b, d, "after it", 20, 0)
	})
}

// The status of a collection of groups counts a call for each group that has changed.
func TestGroupAllCountsItsCalls(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		for i, name := range []string{"a", "b", "c"} {
			rig.Create(t, b.left, name, i)
		}
		lw.GroupAll(b.g, b.l, func(w *rig.Widget) string { return []string{"even", "odd"}[w.Size%2] },
			func(name string, objs []*rig.Widget) *rig.Sum {
				return &rig.Sum{Meta: lw.Meta{Name: name}, Sum: len(objs)}
			})
		b.start()
		b.update(b.left, "b", 3)
		b.remove(b.left, "b")
		if s := b.g.Status().Collections[0]; s.Computed != 3 || s.Unchanged != 1 {
			t.Errorf("%d computed, %d unchanged, want 3 and 1", s.Computed, s.Unchanged)
		}
	})
}

// A step waits with what it shows for an index that is being built, goes on when that is there, and
// keeps it in step.
func TestIndexThatIsBuiltDuringAStep(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, rig.SumOf)
		b.start()
		hold, built := make(chan struct{}), make(chan *lw.Index[int, *rig.Sum])
		go func() {
			built <- lw.NewIndex(d, func(s *rig.Sum) int {
				if s.Sum == 1 {
					<-hold
				}
				return s.Sum
			})
		}()
		synctest.Wait()
		b.update(b.left, "a", 2)
		if got := contents(d.Store())["a"]; got != 1 {
			t.Errorf("while an index is built the step shows %d", got)
		}
		close(hold)
		bySum := <-built
		for want := 2; want < 5; want++ {
			synctest.Wait()
			if len(bySum.List(want)) != 1 || len(bySum.List(want-1)) != 0 || contents(d.Store())["a"] != want {
				t.Errorf("the index has %d objects of %d, and %d of before; the store shows %v", len(bySum.List(want)), want,
					len(bySum.List(want-1)), contents(d.Store()))
			}
			rig.Update(t, b.left, "a", want+1)
		}
	})
}
