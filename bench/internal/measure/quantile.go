package measure

import (
	"math"
	"slices"
	"time"
)

// Quantile returns the q-quantile of values, which it sorts; q is from 0 to 1.
func Quantile[T float64 | time.Duration](values []T, q float64) T {
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}
