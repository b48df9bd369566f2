package store_test

import (
	"iter"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A NaN among the keys of a multi index is not found, and in nobody's way: neither where there are
// few keys nor where there are many, nor when the object changes or goes.
func TestMultiIndexNaN(t *testing.T) {
	for _, others := range []int{0, 1, 5, 40} {
		x := lw.NewIndexer(newRow("a", "1", "", "NaN"))
		tags := lw.NewMultiIndex(x, func(r *row) iter.Seq[float64] {
			return func(yield func(float64) bool) {
				for _, tag := range r.Tags {
					if f, _ := strconv.ParseFloat(tag, 64); !yield(f) {
						return
					}
				}
			}
		})
		want := []float64(nil)
		list := []string{"NaN"}
		for i := range others {
			list = append(list, strconv.Itoa(i), "NaN", strconv.Itoa(i))
			want = append(want, float64(i))
		}
		keys := func(when string, want []float64) {
			t.Helper()
			if got := slices.Sorted(tags.Keys()); !slices.Equal(got, want) || tags.Len(math.NaN()) != 0 {
				t.Errorf("%s, of %d: Keys() = %v, want %v; %d under NaN", when, others, got, want, tags.Len(math.NaN()))
			}
		}
		keys("alone", nil)
		x.Set(newRow("a", "2", "", list...))
		keys("among others", want)
		if others > 0 {
			wantRows(t, "0", tags.Lookup(0), "a@2")
		}
		x.Set(newRow("a", "3", "", append(slices.Clone(list), "NaN", "100")...))
		keys("and one more", append(slices.Clone(want), 100))
		x.Set(newRow("a", "4", "", "NaN"))
		keys("alone again", nil)
		x.Delete(lw.KeyOf(newRow("a", "", "")))
		keys("gone", nil)
		if x.Len() != 0 {
			t.Errorf("%d objects are left", x.Len())
		}
	}
}

// An object is not found under a value that is not equal to itself, but is under its others.
// Nothing is kept of such a value, by whatever way it came.
func TestIndexOfNaN(t *testing.T) {
	type spot struct{ x, y float64 }
	value := func(s string) float64 {
		f, _ := strconv.ParseFloat(s, 64)
		return f
	}
	for name, make := range map[string]func(*lw.Indexer[*row]) (keys func() []float64, length func(float64) int){
		"one value": func(x *lw.Indexer[*row]) (func() []float64, func(float64) int) {
			ix := lw.NewIndex(x, func(r *row) float64 { return value(r.Node) })
			return func() []float64 { return slices.Collect(ix.Keys()) }, ix.Len
		},
		"two values": func(x *lw.Indexer[*row]) (func() []float64, func(float64) int) {
			ix := lw.NewMultiIndex(x, func(r *row) iter.Seq[float64] {
				return slices.Values([]float64{math.NaN(), value(r.Node), value(r.Node)})
			})
			return func() []float64 { return slices.Collect(ix.Keys()) }, ix.Len
		},
		"many values": func(x *lw.Indexer[*row]) (func() []float64, func(float64) int) {
			ix := lw.NewMultiIndex(x, func(r *row) iter.Seq[float64] {
				return slices.Values(append(slices.Repeat([]float64{math.NaN()}, 20), value(r.Node), value(r.Node), math.NaN()))
			})
			return func() []float64 { return slices.Collect(ix.Keys()) }, ix.Len
		},
		"part of a value": func(x *lw.Indexer[*row]) (func() []float64, func(float64) int) {
			ix := lw.NewMultiIndex(x, func(r *row) iter.Seq[spot] {
				return slices.Values([]spot{{1, value(r.Node)}, {math.NaN(), 1}})
			})
			keys := func() (ys []float64) {
				for key := range ix.Keys() {
					ys = append(ys, key.y)
				}
				return ys
			}
			return keys, func(y float64) int { return ix.Len(spot{1, y}) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := lw.NewIndexer(newRow("a", "1", "NaN"), newRow("b", "1", "1.5"))
			keys, length := make(x)
			mustBe := func(when string, want ...float64) {
				t.Helper()
				rig.Same(t, when+": keys", want, keys())
				for _, v := range want {
					if length(v) != 1 {
						t.Errorf("%s: %d objects of %v", when, length(v), v)
					}
				}
				if n := length(math.NaN()); n != 0 {
					t.Errorf("%s: %d objects of NaN", when, n)
				}
			}
			mustBe("when it is made", 1.5)
			x.Set(newRow("a", "2", "NaN"))
			x.Set(newRow("b", "2", "NaN"))
			mustBe("after two updates")
			x.Set(newRow("c", "2", "2.5"))
			mustBe("after an object that is new", 2.5)
			x.Replace([]*row{newRow("a", "3", "3.5"), newRow("b", "3", "NaN"), newRow("d", "3", "NaN")}, "3")
			mustBe("after a list", 3.5)
			for _, name := range []string{"a", "b", "d"} {
				x.Delete(lw.KeyOf(newRow(name, "", "")))
			}
			mustBe("when all are gone")
		})
	}
}
