package lw_test

import (
	"iter"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/go-lw/lw"
)

// A NaN among the keys of a multi index is not found, and in nobody's way: neither where there are few keys nor where there are
// many, nor when the object changes or goes.
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
		x.Delete(newRow("a", "", "").Key())
		keys("gone", nil)
		if x.Len() != 0 {
			t.Errorf("%d objects are left", x.Len())
		}
	}
}
