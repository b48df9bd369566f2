package table

import (
	"math/bits"
	"math/rand/v2"
)

// A seed is a store's own, so that nobody can choose keys that collide.
type seed [2]uint64

func newSeed() seed { return seed{rand.Uint64(), rand.Uint64()} }

// hashOf returns a hash of key, by the multiply and fold of wyhash, which the runtime uses where it cannot use AES. A Get is
// a tenth faster with it than with maphash.Comparable, which calls three functions deep for each string.
func hashOf(s seed, key Key) uint64 {
	lengths := fold(s[0]^uint64(len(key.Namespace)), s[1]^uint64(len(key.Name)))
	return fold(hashText(s, key.Name)^lengths, hashText(s, key.Namespace)^s[1])
}

func hashText(s seed, t string) uint64 {
	h := s[0]
	for ; len(t) > 16; t = t[16:] {
		h = fold(word(t)^s[1], word(t[8:])^h)
	}
	// The rest in two words, which may overlap: the length is hashed apart.
	var a, b uint64
	switch n := len(t); {
	case n >= 8:
		a, b = word(t), word(t[n-8:])
	case n >= 4:
		a, b = half(t), half(t[n-4:])
	case n > 0:
		a = uint64(t[0])<<16 | uint64(t[n/2])<<8 | uint64(t[n-1])
	}
	return fold(a^s[1], b^h)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// word and half are one load each; the compiler sees it.

func word(t string) uint64 {
	_ = t[7]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

func half(t string) uint64 {
	_ = t[3]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24
}
