package table

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
)

// TestHash expects that each bit of a key counts, of either string, at any length, and that it
// changes half of the hash.
func TestHash(t *testing.T) {
	s := newSeed()
	seen := make(map[uint64]Key)
	changed, n := 0, 0
	for length := range 70 {
		for i := range length + 1 {
			key := Key{Namespace: strings.Repeat("a", i), Name: strings.Repeat("a", length-i)}
			hash := hashOf(s, key)
			if other, ok := seen[hash]; ok {
				t.Fatalf("%v and %v have one hash", key, other)
			}
			seen[hash] = key
			if i == length {
				continue
			}
			at := len(key.Name) / 2
			for _, other := range []Key{
				{Namespace: key.Namespace, Name: key.Name[:at] + "b" + key.Name[at+1:]},
				{Namespace: key.Namespace, Name: "b" + key.Name[1:]},
				{Namespace: key.Name, Name: key.Namespace},
			} {
				if other != key {
					changed += bits.OnesCount64(hash ^ hashOf(s, other))
					n++
				}
			}
		}
	}
	if mean := float64(changed) / float64(n); mean < 31.5 || mean > 32.5 {
		t.Errorf("%.2f of 64 bits change", mean)
	}
	key := Key{Namespace: "default", Name: "a"}
	//lint:ignore SA4000 Each call of newSeed returns another seed.
	if hashOf(newSeed(), key) == hashOf(newSeed(), key) {
		t.Error("two seeds make one hash")
	}
}

// TestHashSpread expects that names that are numbered fall evenly on the shards, by the low bits,
// and on a table's places, by the high ones.
func TestHashSpread(t *testing.T) {
	s := newSeed()
	const n, parts = 100_000, 64
	var low, high [parts]int
	for i := range n {
		hash := hashOf(s, Key{Namespace: fmt.Sprint("ns-", i%7), Name: fmt.Sprint("pod-", i)})
		low[hash%parts]++
		high[hash>>32*parts>>32]++
	}
	for what, counts := range map[string][parts]int{"low": low, "high": high} {
		chi := 0.0
		for _, count := range counts {
			d := float64(count) - n/parts
			chi += d * d / (n / parts)
		}
		// 63 degrees of freedom: a fair hash exceeds 140 once in ten million times.
		if chi > 140 {
			t.Errorf("%s bits: chi square is %.0f", what, chi)
		}
	}
}
