package equal

import (
	"math"
	"slices"
	"testing"
)

func TestDistinct(t *testing.T) {
	nan := math.NaN()
	many := make([]float64, 0, 60)
	for i := range 30 {
		many = append(many, float64(i), float64(i), nan)
	}
	for _, values := range [][]float64{nil, {1}, {1, 1, 2, nan, 1}, {nan}, many} {
		var want []float64
		for _, v := range values {
			if v == v && !slices.Contains(want, v) {
				want = append(want, v)
			}
		}
		got := Distinct(slices.Clone(values))
		if !slices.Equal(want, got) {
			t.Errorf("Distinct(%v) = %v, want %v", values, got, want)
		}
		// What was removed is not kept in memory by what is left.
		if rest := got[len(got):len(values)]; slices.ContainsFunc(rest, func(v float64) bool { return v != 0 }) {
			t.Errorf("Distinct(%v) leaves %v behind its result", values, rest)
		}
	}
}
