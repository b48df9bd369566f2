package table

import "math/bits"

// A bitset is a set of small numbers. Its zero value is empty.
type bitset []uint64

// add adds i to the set, which grows as needed.
func (b *bitset) add(i int) {
	for len(*b) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

// has reports whether i is in the set.
func (b bitset) has(i int) bool { return i/64 < len(b) && b[i/64]&(1<<(i%64)) != 0 }

// count returns how many numbers are in the set.
func (b bitset) count() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}
