package measure

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestHistogramQuantile(t *testing.T) {
	var h Histogram
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(rand.Int64N(int64(1) << rand.IntN(40)))
		h.Add(d)
		all = append(all, d)
	}
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 1} {
		want, got := Quantile(all, q), h.Quantile(q)
		if got < want || float64(got) > 1.07*float64(want)+1 {
			t.Errorf("Quantile(%v) = %v, want %v to a sixteenth more", q, got, want)
		}
	}
}

func TestBucketBounds(t *testing.T) {
	for b := range 50 * 16 {
		if upper := upperOf(b); bucketOf(upper) != b || bucketOf(upper+1) != b+1 {
			t.Fatalf("bucket %d ends at %d, which is in %d, and %d in %d", b, upper, bucketOf(upper), upper+1, bucketOf(upper+1))
		}
	}
}
