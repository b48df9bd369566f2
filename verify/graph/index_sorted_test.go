package graph_test

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// Status says how large each index is: how many values it has, or how many objects if it is sorted.
func TestStatusOfIndexes(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		for i, name := range []string{"a", "b", "c", "d"} {
			rig.Create(t, b.left, name, i/2*10)
		}
		sums := lw.Derive(b.g, b.l, rig.SumOf, "sums")
		if s := b.l.Status(); s.Indexes != nil {
			t.Errorf("the sizes of no index: %v", s.Indexes)
		}
		bySize := func(w *rig.Widget) int { return w.Size }
		lw.NewIndex(b.l, bySize)
		lw.NewSortedIndex(b.l, bySize)
		lw.NewMultiIndex(b.l, func(w *rig.Widget) iter.Seq[string] { return slices.Values([]string{w.Name, w.Namespace}) })
		lw.NewIndex(sums, func(s *rig.Sum) int { return s.Sum })
		b.start()
		check := func(what string, informer, derived []int) {
			t.Helper()
			synctest.Wait()
			rig.Same(t, what+": the informer", informer, b.l.Status().Indexes)
			rig.Same(t, what+": the derived collection", derived, b.g.Status().Collections[0].Indexes)
		}
		check("at first", []int{2, 4, 5}, []int{2})
		rig.Remove(t, b.left, "c")
		check("without one", []int{2, 3, 4}, []int{2})
		rig.Remove(t, b.left, "d")
		check("without two", []int{1, 2, 3}, []int{1})
	})
}

// sizeOrder is the order of a SortedIndex by size.
func sizeOrder(a, b *rig.Widget) int {
	return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// mustSort compares all that a SortedIndex by size answers with the sorted list.
func mustSort(t *rapid.T, ix *lw.SortedIndex[int, *rig.Widget], list []*rig.Widget) {
	slices.SortFunc(list, sizeOrder)
	n := len(list)
	if ix.Len() != n {
		t.Fatalf("Len() = %d, want %d", ix.Len(), n)
	}
	same := func(what string, want []*rig.Widget, seq iter.Seq[*rig.Widget]) {
		if got := slices.Collect(seq); !slices.Equal(want, got) {
			t.Fatalf("%s (-want +got):\n%s", what, gocmp.Diff(sizesOf(want), sizesOf(got)))
		}
	}
	down := slices.Clone(list)
	slices.Reverse(down)
	for _, p := range [][2]int{{0, n}, {0, 3}, {n / 2, 4}, {n - 1, 1}, {n, 1}, {n + 5, 2}, {-1, 2}, {1, -1}, {0, 0},
		{1, math.MaxInt}, {math.MaxInt, math.MaxInt}, {math.MinInt, math.MinInt}} {
		part := func(all []*rig.Widget) []*rig.Widget {
			all = all[min(max(p[0], 0), n):]
			return all[:min(max(p[1], 0), len(all))]
		}
		same(fmt.Sprint("Up", p), part(list), ix.Up(p[0], p[1]))
		same(fmt.Sprint("Down", p), part(down), ix.Down(p[0], p[1]))
	}
	for _, r := range [][2]int{{0, 5}, {3, 4}, {4, 3}, {-1, 100}, {5, math.MaxInt}} {
		var want []*rig.Widget
		below := 0
		for _, w := range list {
			if w.Size >= r[0] && w.Size < r[1] {
				want = append(want, w)
			}
			if w.Size < r[0] {
				below++
			}
		}
		same(fmt.Sprint("Between", r), want, ix.Between(r[0], r[1]))
		if got := ix.Before(r[0]); got != below {
			t.Fatalf("Before(%d) = %d, want %d", r[0], got, below)
		}
	}
}

func sizesOf(list []*rig.Widget) []string {
	all := []string{}
	for _, w := range list {
		all = append(all, fmt.Sprint(w.Namespace, "/", w.Name, ":", w.Size))
	}
	return all
}

// A SortedIndex is the sorted List, and one of a Snapshot is the sorted list of that Snapshot, also
// after the collection has changed, and if the index is newer than the Snapshot.
func TestSortedIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := lw.NewIndexer[*rig.Widget]()
		size := func(w *rig.Widget) int { return w.Size }
		indexes := []*lw.SortedIndex[int, *rig.Widget]{lw.NewSortedIndex(x, size)}
		var held []*lw.Snapshot[*rig.Widget]
		version := 0
		draw := func(t *rapid.T) *rig.Widget {
			version++
			return rig.Stamped(fmt.Sprint("w", rapid.IntRange(0, 120).Draw(t, "name")), rapid.IntRange(0, 8).Draw(t, "size"),
				fmt.Sprint(version))
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for _, ix := range indexes {
					mustSort(t, ix, x.List())
				}
			},
			"set": func(t *rapid.T) {
				for range rapid.IntRange(1, 60).Draw(t, "n") {
					x.Set(draw(t))
				}
			},
			"delete":  func(t *rapid.T) { x.Delete(lw.KeyOf(draw(t))) },
			"apply":   func(t *rapid.T) { x.Apply(lw.WatchEvent[*rig.Widget]{Type: watch.Modified, Object: draw(t)}) },
			"replace": func(t *rapid.T) { x.Replace([]*rig.Widget{draw(t), draw(t), draw(t)}, "1") },
			"relist": func(t *rapid.T) {
				list := x.List()
				x.Replace(append(list[:len(list)*2/3], draw(t)), "2")
			},
			"snapshot": func(*rapid.T) { held = append(held, x.Snapshot()) },
			"index": func(t *rapid.T) {
				if len(indexes) == 3 {
					t.Skip("enough")
				}
				indexes = append(indexes, lw.NewSortedIndex(x, size))
			},
		})
		for _, s := range held {
			for _, ix := range indexes {
				mustSort(t, ix.At(s), s.List())
			}
		}
	})
}

// An index of a running informer shows what its store shows, in handlers too. One of a snapshot of
// another collection sorts the objects of that.
func TestSortedIndexOfAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 3), rig.NewWidget("b", 1))
		inf := lw.NewInformer(m, nil)
		ix := lw.NewSortedIndex(inf, func(w *rig.Widget) int { return w.Size })
		var top []string
		note := func(*rig.Widget) { top = append(top, sizesOf(slices.Collect(ix.Down(0, 1)))...) }
		inf.AddHandler(lw.Handler[*rig.Widget]{Add: note, Update: func(_, w *rig.Widget) { note(w) }, Delete: note})
		rig.Start(t, inf)
		synctest.Wait()
		top = nil
		rig.Update(t, m, "b", 5)
		synctest.Wait()
		rig.Create(t, m, "c", 9)
		synctest.Wait()
		rig.Remove(t, m, "c")
		synctest.Wait()
		rig.Same(t, "the first in handlers", []string{"default/b:5", "default/c:9", "default/b:5"}, top)
		other := lw.NewIndexer(rig.NewWidget("z", 1), rig.NewWidget("y", 2)).Snapshot()
		rig.Same(t, "of another collection", []string{"default/y:2", "default/z:1"},
			sizesOf(slices.Collect(ix.At(other).Down(0, 9))))
	})
}

// A value that is not equal to itself is left out, and comes back with another value. Where a
// function panics the object stays as it was.
func TestSortedIndexOddValues(t *testing.T) {
	x := lw.NewIndexer(rig.NewWidget("a", 1), rig.NewWidget("nan", 0))
	ix := lw.NewSortedIndex(x, func(w *rig.Widget) float64 {
		if w.Size > 100 {
			panic("too large")
		}
		return float64(w.Size) / float64(w.Size) // NaN for 0
	})
	shows := func(when string, want ...string) {
		t.Helper()
		rig.Same(t, when, want, sizesOf(slices.Collect(ix.Up(0, 9))))
	}
	shows("at first", "default/a:1")
	if n := ix.Before(math.NaN()); n != 0 {
		t.Errorf("%d objects are before NaN", n)
	}
	x.Set(rig.NewWidget("nan", 2))
	shows("with another value", "default/a:1", "default/nan:2")
	x.Set(rig.NewWidget("a", 0))
	shows("without a value", "default/nan:2")
	rig.MustPanic(t, "too large", func() { x.Set(rig.NewWidget("nan", 101)) })
	shows("after a panic", "default/nan:2")
	rig.MustPanic(t, "lw: NewSortedIndex: nil function", func() { lw.NewSortedIndex[int](x, nil) })
	rig.MustPanic(t, "lw: NewSortedIndex: nil function",
		func() { lw.NewSortedIndex[string, *metav1.PartialObjectMetadata](nil, nil) })
}

// A loop shows what there is when it begins, not when it was made.
func TestSortedIndexLoopsBeginLate(t *testing.T) {
	x := lw.NewIndexer(rig.NewWidget("a", 1))
	ix := lw.NewSortedIndex(x, func(w *rig.Widget) int { return w.Size })
	up, down, between := ix.Up(0, 9), ix.Down(0, 9), ix.Between(0, 9)
	x.Set(rig.NewWidget("b", 2))
	got := [][]string{sizesOf(slices.Collect(up)), sizesOf(slices.Collect(down)), sizesOf(slices.Collect(between))}
	want := [][]string{{"default/a:1", "default/b:2"}, {"default/b:2", "default/a:1"}, {"default/a:1", "default/b:2"}}
	rig.Same(t, "up, down and between", want, got)
}
