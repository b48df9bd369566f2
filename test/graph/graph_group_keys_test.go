package graph_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// membersBy groups the objects of b.l by key, with GroupBy and with GroupAll. A result is the number
// of members.
func membersBy[K comparable](b *graphBench, key func(*rig.Widget) K) (count, all *lw.Derived[*rig.Sum]) {
	result := func(k K, n int) *rig.Sum { return &rig.Sum{Meta: lw.Meta{Name: fmt.Sprintf("%v of %T", k, k)}, Sum: n} }
	count = lw.GroupBy(b.g, b.l, key, counted, result, "count")
	all = lw.GroupAll(b.g, b.l, key, func(k K, objs []*rig.Widget) *rig.Sum { return result(k, len(objs)) }, "all")
	return count, all
}

type region string

// TestGroupsByAnyKey: a group's key is of any comparable type. Three objects of the sizes 1, 2 and 3
// are grouped; the third leaves, and comes again.
func TestGroupsByAnyKey(t *testing.T) {
	for name, tt := range map[string]struct {
		group       func(b *graphBench) (count, all *lw.Derived[*rig.Sum])
		want, later map[string]int // with the third, and without it
	}{
		"string": {func(b *graphBench) (_, _ *lw.Derived[*rig.Sum]) {
			return membersBy(b, func(w *rig.Widget) string { return []string{"", "odd", "even", "odd"}[w.Size] })
		}, map[string]int{"even of string": 1, "odd of string": 2}, map[string]int{"even of string": 1, "odd of string": 1}},
		"no text": {func(b *graphBench) (_, _ *lw.Derived[*rig.Sum]) {
			return membersBy(b, func(*rig.Widget) string { return "" })
		}, map[string]int{" of string": 3}, map[string]int{" of string": 2}},
		"type of a string": {func(b *graphBench) (_, _ *lw.Derived[*rig.Sum]) {
			return membersBy(b, func(w *rig.Widget) region { return region(w.Name) })
		}, map[string]int{"a of graph_test.region": 1, "b of graph_test.region": 1, "c of graph_test.region": 1}, map[string]int{"a of graph_test.region": 1, "b of graph_test.region": 1}},
		"number": {func(b *graphBench) (_, _ *lw.Derived[*rig.Sum]) {
			return membersBy(b, func(w *rig.Widget) any { return w.Size % 2 })
		}, map[string]int{"0 of int": 1, "1 of int": 2}, map[string]int{"0 of int": 1, "1 of int": 1}},
		"struct": {func(b *graphBench) (_, _ *lw.Derived[*rig.Sum]) {
			return membersBy(b, func(w *rig.Widget) zone { return zone{w.Namespace, "z", w.Size / 2} })
		}, map[string]int{"{default z 0} of graph_test.zone": 1, "{default z 1} of graph_test.zone": 2}, map[string]int{"{default z 0} of graph_test.zone": 1, "{default z 1} of graph_test.zone": 1}},
		"texts alike": {func(b *graphBench) (_, _ *lw.Derived[*rig.Sum]) {
			return membersBy(b, func(w *rig.Widget) any { return []any{nil, 1, "1", int64(1)}[w.Size] })
		}, map[string]int{"1 of int64": 1, "1 of int": 1, "1 of string": 1}, map[string]int{"1 of int": 1, "1 of string": 1}},
		"not equal to itself": {func(b *graphBench) (_, _ *lw.Derived[*rig.Sum]) {
			return membersBy(b, func(w *rig.Widget) any { return []float64{0, 1, math.NaN(), math.NaN()}[w.Size] })
		}, map[string]int{"1 of float64": 1}, map[string]int{"1 of float64": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inGraph(t, &lw.GraphOptions{Verify: true}, func(t *testing.T, b *graphBench) {
				b.have("a1 b2 c3", "")
				count, all := tt.group(b)
				rig.Start(t, b.l)
				rig.Start(t, b.g)
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
	synctest.Test(t, func(t *testing.T) {
		var errs []string
		b := newGraphBench(t, &lw.GraphOptions{
			OnError: func(err error) { errs = append(errs, err.Error()) },
			OnPanic: func(*lw.Panic) {},
		})
		b.have("a0 c2 slice3", "")
		byAny := func(w *rig.Widget) any { return []any{1, "1", zone{"z", w.Name, 2}, []int{1}, int64(1)}[w.Size] }
		fails := func(k any, _ int) *rig.Sum { panic("no result") }
		lw.GroupAll(b.g, b.l, byAny, func(k any, objs []*rig.Widget) *rig.Sum { return fails(k, 0) }, "all")
		lw.GroupBy(b.g, b.l, byAny, counted, fails, "count")
		lw.GroupAll(b.g, b.l, func(w *rig.Widget) zone { return zone{"z", w.Name, w.Size} }, func(zone, []*rig.Widget) *rig.Sum { return rig.SumOf(rig.NewWidget("one", 1)) }, "rivals")
		rig.Start(t, b.l)
		rig.Start(t, b.g)
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for i, s := range b.g.Status().Collections[:2] {
				var got []string
				for key := range s.SetAside {
					got = append(got, key.String())
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: set aside (-want +got):\n%s", []string{"all", "count"}[i], diff)
				}
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

// TestGroupWithoutText: a group whose key panics in String is there, without a panic of the program.
func TestGroupWithoutText(t *testing.T) {
	inGraph(t, nil, func(t *testing.T, b *graphBench) {
		b.have("a1 b2", "")
		all := lw.GroupAll(b.g, b.l, func(w *rig.Widget) silent { return silent(w.Name) }, func(_ silent, objs []*rig.Widget) *rig.Sum { return rig.SumOf(objs[0]) })
		rig.Start(t, b.l)
		rig.Start(t, b.g)
		mustShow(t, all, "all", map[string]int{"a": 1, "b": 2})
	})
}
