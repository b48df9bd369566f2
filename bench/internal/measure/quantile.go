package measure

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// Quantile returns the q-quantile of values, which it sorts; q is from 0 to 1.
func Quantile[T float64 | time.Duration](values []T, q float64) T {
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}

// A Histogram counts durations in buckets whose width is at most 1/16 of their value. Its size is
// fixed, so it can count millions of durations.
type Histogram struct {
	buckets [64 * 16]uint64
	n       uint64
	max     time.Duration
}

// Add counts d.
func (h *Histogram) Add(d time.Duration) {
	h.buckets[bucketOf(uint64(max(d, 0)))]++
	h.n++
	h.max = max(h.max, d)
}

// Merge adds the counts of o.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// Max returns the longest duration.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the upper end of the bucket with the q-quantile.
func (h *Histogram) Quantile(q float64) time.Duration {
	left := uint64(math.Ceil(q * float64(h.n)))
	for i, n := range h.buckets {
		if left <= n {
			return min(time.Duration(upperOf(i)), h.max)
		}
		left -= n
	}
	return h.max
}

// bucketOf returns the number of v's bucket, which is made of the position of v's highest bit and
// the four bits after it.
func bucketOf(v uint64) int {
	if v < 16 {
		return int(v)
	}
	shift := bits.Len64(v) - 5
	return (shift+1)*16 + int(v>>shift) - 16
}

// upperOf returns the largest value in a bucket.
func upperOf(bucket int) uint64 {
	if bucket < 16 {
		return uint64(bucket)
	}
	shift := bucket/16 - 1
	return (uint64(bucket%16+17) << shift) - 1
}
