// Package lz compresses small pieces of text that are like each other: byte-oriented LZ77 with a
// dictionary. It is made for the objects of one collection, of some kilobytes each, which have most
// of their bytes in common. It reads what it has written itself; of other bytes it says that they
// are wrong, and reads and writes nothing outside of them.
//
// What is packed is a sequence of steps: literal bytes, and then a match, which is a copy of what
// stands so many bytes before, in the text itself or in the dictionary before it. A step is
//
//	a byte      literals in its upper half, match minus 4 in its lower half; 15: a uvarint follows
//	uvarint     literals minus 15, if the upper half is 15
//	literals
//	uvarint     match minus 19, if the lower half is 15
//	2 bytes     the distance, little endian
//
// A lower half of 0 is the last step, which has no match.
package lz

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"
)

const (
	// MaxDict is the most bytes of a dictionary that count. An object of 8 KiB still reaches all of it.
	MaxDict = 56 << 10
	// window is the longest distance.
	window = 1<<16 - 1
	// minMatch is the shortest match: the bytes that a hash is of.
	minMatch = 6
	// matchBias is what a match of the lower half 1 has less than it says.
	matchBias = 5
	// long is a match in the text itself that is good enough: the dictionary is not asked.
	long = 32

	ownBits  = 14
	dictBits = 15
)

// A Dict compresses with a dictionary. It is safe for concurrent use.
type Dict struct {
	text []byte
	// places has, for the hash of six bytes, where they begin in text, plus one. Nil: text is empty.
	places *[1 << dictBits]uint16
}

// New returns a Dict of the last MaxDict bytes of text, which it copies. No text is a valid one.
func New(text []byte) *Dict {
	d := &Dict{}
	if len(text) < minMatch+2 {
		return d
	}
	d.text = append(d.text, text[max(0, len(text)-MaxDict):]...)
	d.places = new([1 << dictBits]uint16)
	for i := 0; i+8 <= len(d.text); i++ {
		d.places[hash(binary.LittleEndian.Uint64(d.text[i:]), dictBits)] = uint16(i + 1)
	}
	return d
}

// Size returns how many bytes of memory d has.
func (d *Dict) Size() int {
	if d.places == nil {
		return 0
	}
	return len(d.text) + len(d.places)*2
}

// hash is of the six lower bytes of v.
func hash(v uint64, n uint) uint32 { return uint32(v << 16 * 0x9E3779B185EBCA87 >> (64 - n)) }

// An own table has, for the hash of six bytes, where they begin in the text that is packed, plus
// one, and is shared by all dictionaries: a program may have hundreds.
type own [1 << ownBits]uint32

var owns = sync.Pool{New: func() any { return new(own) }}

// Pack appends what src is packed to to dst.
func (d *Dict) Pack(dst, src []byte) []byte {
	seen := owns.Get().(*own)
	clear(seen[:])
	lit := 0 // where the literals of the next step begin
	for i := 0; i+8 <= len(src); {
		v := binary.LittleEndian.Uint64(src[i:])
		from, n := d.match(seen, src, i, v)
		seen[hash(v, ownBits)] = uint32(i + 1)
		if n == 0 {
			i += 1 + (i-lit)>>6 // faster through what has no matches
			continue
		}
		start, before := i, d.common(src, from, i, lit)
		start, from, n = start-before, from-before, n+before
		dst = step(dst, src[lit:start], n, len(d.text)+start-from)
		i = start + n
		lit = i
		if i+8 <= len(src) && i >= 2 {
			seen[hash(binary.LittleEndian.Uint64(src[i-2:]), ownBits)] = uint32(i - 1)
		}
	}
	owns.Put(seen)
	return step(dst, src[lit:], 0, 0)
}

// match returns the longer of two matches of what begins at src[i], whose bytes are v: where it
// begins, in the dictionary followed by src, and how long it is. 0: there is none.
func (d *Dict) match(seen *own, src []byte, i int, v uint64) (from, n int) {
	if at := int(seen[hash(v, ownBits)]) - 1; at >= 0 && i-at <= window {
		if m := prefix(src[at:], src[i:]); m >= minMatch {
			from, n = len(d.text)+at, m
		}
	}
	if n >= long || d.places == nil {
		return from, n
	}
	if at := int(d.places[hash(v, dictBits)]) - 1; at >= 0 && len(d.text)+i-at <= window {
		if m := prefix(d.text[at:], src[i:]); m >= minMatch && m > n {
			from, n = at, m
		}
	}
	return from, n
}

// common returns how many bytes before a match are equal, too: before from, and before src[i] down
// to lit. A match does not go over the end of the dictionary.
func (d *Dict) common(src []byte, from, i, lit int) (n int) {
	text := d.text
	if from >= len(text) {
		from, text = from-len(text), src
	}
	for i-n > lit && from-n > 0 && text[from-n-1] == src[i-n-1] {
		n++
	}
	return n
}

// prefix returns how many bytes a and b begin with that are equal.
func prefix(a, b []byte) (n int) {
	for n+8 <= len(a) && n+8 <= len(b) {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// step appends a step. A match of 0 is the end.
func step(dst, lits []byte, match, distance int) []byte {
	l, m := len(lits), 0
	if match > 0 {
		m = match - matchBias
	}
	dst = append(dst, byte(min(l, 15)<<4|min(m, 15)))
	if l >= 15 {
		dst = binary.AppendUvarint(dst, uint64(l-15))
	}
	dst = append(dst, lits...)
	if match == 0 {
		return dst
	}
	if m >= 15 {
		dst = binary.AppendUvarint(dst, uint64(m-15))
	}
	return append(dst, byte(distance), byte(distance>>8))
}

var errCorrupt = errors.New("lz: these bytes were not packed so")

// Unpack appends what src was packed from to dst. It has size bytes; anything else is an error.
func (d *Dict) Unpack(dst []byte, src string, size int) ([]byte, error) {
	begin := len(dst)
	if cap(dst)-begin < size {
		dst = append(make([]byte, 0, begin+size), dst...)
	}
	end := begin + size
	for src != "" {
		l, m := int(src[0]>>4), int(src[0]&15)
		src = src[1:]
		ok := true
		if l, src, ok = length(l, src); !ok || l > len(src) || l > end-len(dst) {
			return dst, errCorrupt
		}
		dst = append(dst, src[:l]...)
		if src = src[l:]; m == 0 {
			if src != "" || len(dst) != end {
				return dst, errCorrupt
			}
			return dst, nil
		}
		if m, src, ok = length(m, src); !ok || len(src) < 2 || m > end-len(dst)-matchBias {
			return dst, errCorrupt
		}
		m += matchBias
		distance := int(src[0]) | int(src[1])<<8
		src = src[2:]
		if dst, ok = d.copy(dst, begin, distance, m); !ok {
			return dst, errCorrupt
		}
	}
	return dst, errCorrupt // without a last step
}

// length returns n, or what n and the uvarint behind it say together.
func length(n int, src string) (int, string, bool) {
	if n < 15 {
		return n, src, true
	}
	more, shift := uint64(0), 0
	for i := 0; i < len(src) && shift < 35; i++ {
		more |= uint64(src[i]&0x7f) << shift
		if src[i] < 0x80 {
			return n + int(more), src[i+1:], true
		}
		shift += 7
	}
	return 0, src, false
}

// copy appends the m bytes that begin distance bytes before the end of dst, whose text begins at
// begin.
func (d *Dict) copy(dst []byte, begin, distance, m int) ([]byte, bool) {
	at := len(dst) - distance
	switch {
	case distance == 0:
		return dst, false
	case at < begin:
		if at += len(d.text) - begin; at < 0 || at+m > len(d.text) {
			return dst, false
		}
		return append(dst, d.text[at:at+m]...), true
	case distance >= m:
		return append(dst, dst[at:at+m]...), true
	}
	for ; m > 0; m-- { // it overlaps itself
		dst = append(dst, dst[at])
		at++
	}
	return dst, true
}
