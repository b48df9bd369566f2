// Package shard divides the objects of a collection by hashes of their UIDs, as API servers do
// (https://kep.k8s.io/5866). It has the ranges, the hash, and the selectors that name ranges in a
// request.
package shard

import (
	"math"
	"math/bits"
)

// Hash returns the hash that a server compares with the ranges: FNV-1a with 64 bits.
func Hash(value string) uint64 {
	// Package hash/fnv takes a []byte, and so a conversion for each object.
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	h := uint64(offset)
	for i := range len(value) {
		h = (h ^ uint64(value[i])) * prime
	}
	return h
}

// A Range is an interval of hashes. Both bounds belong to it: the bound after the last hash does
// not fit a uint64.
type Range struct{ First, Last uint64 }

// Contains reports whether hash is in the range.
func (r Range) Contains(hash uint64) bool { return r.First <= hash && hash <= r.Last }

// Part returns the i-th of n ranges that together have every hash once. Their sizes differ by one
// hash at most. i must be at least 0 and less than n.
func Part(i, n int) Range {
	r := Range{start(i, n), math.MaxUint64}
	if i < n-1 {
		r.Last = start(i+1, n) - 1
	}
	return r
}

// start returns i times 2^64, divided by n and rounded down.
func start(i, n int) uint64 {
	quotient, _ := bits.Div64(uint64(i), 0, uint64(n))
	return quotient
}
