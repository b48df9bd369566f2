package graph_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// keySets are what key functions of the tests yield for the sizes of widgets: nothing, keys that
// come twice, that are not equal to themselves, and that are equal though they differ.
var keySets = [][]float64{
	{}, {1}, {2}, {1, 1}, {1, 2, 1}, {math.NaN()}, {math.NaN(), 1}, {math.NaN(), math.NaN()}, {0}, {math.Copysign(0, -1)},
	{math.Inf(1)}, {2, 1}, {3, 2, 1, 0, 3}, manyKeys(40),
}

// manyKeys are more than are looked through one by one, each twice.
func manyKeys(n int) (keys []float64) {
	for i := range 2 * n {
		keys = append(keys, float64(i/2))
	}
	return append(keys, math.NaN())
}

func keysOf(w *rig.Widget) iter.Seq[float64] { return slices.Values(keySets[w.Size%len(keySets)]) }

// share reports whether two widgets have a key in common.
func share(l, r *rig.Widget) bool {
	for a := range keysOf(l) {
		for b := range keysOf(r) {
			if a == b {
				return true
			}
		}
	}
	return false
}

// TestJoinKeys compares both joins with a loop over all pairs, whatever the key functions yield.
func TestJoinKeys(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			left, right := lw.NewMemory[*rig.Widget](), lw.NewMemory[*rig.Widget]()
			l, r := lw.NewInformer(left, rig.Quiet()), lw.NewInformer(right, rig.Quiet())
			g := lw.NewGraph(nil)
			on := lw.On[float64, *rig.Widget, *rig.Widget]{Left: keysOf, Right: keysOf}
			pairs := lw.Join(g, l, r, on, func(l, r *rig.Widget) *rig.Sum {
				return &rig.Sum{Meta: lw.Meta{Name: l.Name + r.Name}, Sum: 100*l.Size + r.Size}
			})
			counts := lw.LeftJoin(g, l, r, on, func(l *rig.Widget, rights []*rig.Widget) *rig.Sum {
				s := &rig.Sum{Meta: lw.Meta{Name: l.Name}, Sum: l.Size}
				for _, r := range rights {
					s.Names += fmt.Sprint(r.Name, r.Size, " ")
				}
				return s
			})
			w := &graphWorld{opened: make(chan struct{})}
			defer w.end()
			w.start(l)
			w.start(r)
			w.start(g)
			write := func(t *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(t, "writes") {
					m := []*lw.Memory[*rig.Widget]{left, right}[rapid.IntRange(0, 1).Draw(t, "side")]
					o := rig.NewWidget(rapid.SampledFrom(names).Draw(t, "name"), rapid.IntRange(0, len(keySets)-1).Draw(t, "keys"))
					if rapid.IntRange(0, 4).Draw(t, "delete") == 4 {
						m.Delete(context.Background(), lw.KeyOf(o), "")
					} else if _, err := m.Update(context.Background(), o); err != nil {
						m.Create(context.Background(), o)
					}
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"write": write,
				"": func(t *rapid.T) {
					synctest.Wait()
					wantPairs, wantCounts := map[string]int{}, map[string]string{}
					for l := range left.All() {
						wantCounts[l.Name] = ""
						for r := range right.All() {
							if share(l, r) {
								wantPairs[l.Name+r.Name] = 100*l.Size + r.Size
								wantCounts[l.Name] += fmt.Sprint(r.Name, r.Size, " ")
							}
						}
					}
					if diff := cmp.Diff(wantPairs, contents(pairs.Store())); diff != "" {
						t.Fatalf("pairs (-want +got):\n%s", diff)
					}
					got := map[string]string{}
					for s := range counts.Store().All() {
						got[s.Name] = s.Names
					}
					if diff := cmp.Diff(wantCounts, got); diff != "" {
						t.Fatalf("counts (-want +got):\n%s", diff)
					}
				},
			})
		})
	})
}

// Rights come in the order of their keys, by namespace first, whatever the order in which they
// came.
func TestLeftJoinOrder(t *testing.T) {
	inGraph(t, nil, "l1", "", func(t *testing.T, b *graphBench) {
		on := allPairs()
		on.Right = func(w *rig.Widget) iter.Seq[float64] { return slices.Values([]float64{float64(w.Size), 0}) }
		d := lw.LeftJoin(b.g, b.l, b.r, on, func(l *rig.Widget, rights []*rig.Widget) *rig.Sum {
			s := &rig.Sum{Meta: lw.MetaOf(l)}
			for _, r := range rights {
				s.Names += r.Namespace + "/" + r.Name + " "
			}
			return s
		})
		b.start()
		want := []string{}
		for i := range 40 {
			w := rig.NewWidget(fmt.Sprint("w", i*17%40), 1+i%3)
			w.Namespace = fmt.Sprint("n", i%3)
			if _, err := b.right.Create(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			want = append(want, w.Namespace+"/"+w.Name+" ")
			if i%2 == 0 {
				continue // so that steps take two
			}
			if i%4 == 1 {
				rig.Update(t, b.left, "l", i+2) // has all its rights looked for anew
			}
			synctest.Wait()
			slices.Sort(want) // no character of a key is smaller than the slash
			s, _ := d.Store().Get(rig.Key("l"))
			if diff := cmp.Diff(strings.Join(want, ""), s.Names); diff != "" {
				t.Fatalf("after %d (-want +got):\n%s", i+1, diff)
			}
		}
	})
}

// A MultiIndex of a union is that of a store: it may be made at any time, and shows what the store
// shows. TestGraphs has the same of an Index of each kind of collection.
func TestIndexOfDerived(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		b.fill(30)
		u := lw.NewUnion[*rig.Widget](b.g, b.l, b.r)
		digits := func(w *rig.Widget) iter.Seq[int] { return slices.Values([]int{w.Size % 10, w.Size % 10, 100}) }
		early := lw.NewMultiIndex(u, digits)
		b.start()
		late := lw.NewMultiIndex(u, digits)
		for i := range 30 {
			rig.Update(t, b.left, fmt.Sprint("l", i), (i*7)%50)
			if i%5 == 0 {
				rig.Remove(t, b.right, fmt.Sprint("r", i))
			}
			if i == 15 {
				late = lw.NewMultiIndex(u, digits)
			}
			synctest.Wait()
			want := map[int]int{}
			for w := range u.Store().All() {
				want[w.Size%10]++
				want[100]++
			}
			for name, ix := range map[string]*lw.Index[int, *rig.Widget]{"early": early, "late": late} {
				got := map[int]int{}
				for k := range ix.Keys() {
					for range ix.Lookup(k) {
						got[k]++
					}
					if n, list := ix.Len(k), ix.List(k); n != got[k] || len(list) != n {
						t.Errorf("%s: Lookup yields %d, Len is %d, and List has %d", name, got[k], n, len(list))
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s index (-store +index):\n%s", name, diff)
				}
			}
		}
	})
}

// A nil sequence of a function of the user's has nothing in it.
func TestNilSequences(t *testing.T) {
	inGraph(t, nil, "a1", "a1", func(t *testing.T, b *graphBench) {
		many := lw.DeriveMany(b.g, b.l, func(*rig.Widget) iter.Seq[*rig.Sum] { return nil })
		none, all := func(*rig.Widget) iter.Seq[float64] { return nil }, allPairs().Left
		lefts := lw.Join(b.g, b.l, b.r, lw.On[float64, *rig.Widget, *rig.Widget]{Left: none, Right: all}, pairOf)
		rights := lw.LeftJoin(b.g, b.l, b.r, lw.On[float64, *rig.Widget, *rig.Widget]{Left: all, Right: none}, countOf)
		index := lw.NewMultiIndex(b.l, none)
		b.start()
		b.update(b.left, "a", 2)
		mustShow(t, many, "DeriveMany", map[string]int{})
		mustShow(t, lefts, "Left", map[string]int{})
		mustShow(t, rights, "Right", map[string]int{"a": 0})
		if n := len(slices.Collect(index.Keys())); n != 0 {
			t.Errorf("NewMultiIndex: %d keys", n)
		}
	})
}
