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
		if got := Distinct(slices.Clone(values)); !slices.Equal(want, got) {
			t.Errorf("Distinct(%v) = %v, want %v", values, got, want)
		}
	}
}
