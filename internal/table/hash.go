package table

import (
	"math/bits"
	"math/rand/v2"
)

// A seed makes the hashes of one store differ from those of all others, so that nobody who names
// objects can choose keys that collide.
type seed [2]uint64

func newSeed() seed { return seed{rand.Uint64(), rand.Uint64()} }

// hashOf returns a hash of key. It multiplies and folds as wyhash does, which is also the runtime's
// hash where the processor has no AES instructions. A Get is a tenth faster with it than with
// maphash.Comparable, which makes three nested calls for each string.
//
// No bit of it is used twice: the lowest three choose the shard, the next sixteen go into the tag,
// and the upper half chooses the entry. The lengths are hashed as well, because hashText relies on
// it, and so that a byte cannot move from the namespace to the name unnoticed.
func hashOf(s seed, key Key) uint64 {
	lengths := fold(s[0]^uint64(len(key.Namespace)), s[1]^uint64(len(key.Name)))
	return fold(hashText(s, key.Name)^lengths, hashText(s, key.Namespace)^s[1])
}

// hashText hashes the bytes of t, 16 at a time.
func hashText(s seed, t string) uint64 {
	h := s[0]
	for ; len(t) > 16; t = t[16:] {
		h = fold(word(t)^s[1], word(t[8:])^h)
	}
	// The rest, at most 16 bytes, is read as two words. They may overlap, or be the same for two
	// strings of different lengths, because hashOf adds the length.
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

// fold multiplies a and b and mixes both halves of the product, so that each bit of the operands
// reaches the low and the high bits of the result.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// word and half return the first 8 and the first 4 bytes of t as a number, the lowest byte first.
// The compiler recognizes the pattern and turns each of them into a single load. The index before
// it is the only check of bounds.
func word(t string) uint64 {
	_ = t[7]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

func half(t string) uint64 {
	_ = t[3]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24
}
