package decode

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"
)

// A skipPattern is the last value that was skipped in one place, such as the spec's containers of a
// projection that wants none. The next value there mostly has the same names and brackets, and
// other strings and numbers here and there. So it is compared with the pattern, a word at a time,
// and only a scalar that differs is parsed. That takes a fraction of the time of a parser.
//
// It accepts nothing that is no JSON: up to the first difference the bytes are those of a right
// value, and behind a name or scalar in which the two differ, both are in the same place of the
// grammar again.
type skipPattern struct {
	raw   []byte // the value, without white space between its tokens; nil: there is no pattern yet
	spans []span // its names and scalars
	size  int    // its part of Decoder.patternBytes
	// score falls with each value that does not fit, and rises with each that does. Below 0 the
	// values here have nothing in common, and the next pauses of them are not compared.
	score  int
	pauses int
}

const (
	// A shorter value is parsed as quickly as it is compared, and a longer one is not worth its
	// memory.
	minPattern = 64
	maxPattern = 16 << 10
	// maxPatterns is how many bytes all patterns of a Decoder have.
	maxPatterns = 64 << 10
	// maxScore and patternPause are the limits of skipPattern.score and pauses.
	maxScore     = 8
	patternPause = 64
)

// skipLike consumes the value that is next, and checks its syntax. s is the pattern of its place.
func (d *Decoder) skipLike(s *skipPattern) error {
	p := &d.p
	p.next()
	if s.pauses > 0 {
		s.pauses--
		return p.skip()
	}
	if s.raw != nil && s.match(p) {
		s.score = min(s.score+1, maxScore)
		return nil
	}
	start := p.pos
	d.spans = d.spans[:0]
	compact := p.skipCompact(&d.spans)
	switch {
	// A value that is cut off says nothing about the pattern.
	case !compact && p.src != nil:
	case s.raw != nil && s.missed():
	case compact:
		d.learn(s, p.data[start:p.pos])
	}
	if compact {
		return nil
	}
	return p.skipAny()
}

// missed notes that a value did not fit, and reports whether the next ones are not compared.
func (s *skipPattern) missed() bool {
	if s.score -= 2; s.score >= 0 {
		return false
	}
	s.score, s.pauses = 0, patternPause
	return true
}

// learn makes value, whose spans are d.spans, the pattern s, if it is of a fitting length.
func (d *Decoder) learn(s *skipPattern, value []byte) {
	size := len(value) + int(unsafe.Sizeof(span{}))*len(d.spans)
	d.patternBytes -= s.size
	if len(value) < minPattern || len(value) > maxPattern || d.patternBytes+size > maxPatterns {
		*s = skipPattern{pauses: patternPause}
		return
	}
	s.raw, s.spans, s.size = bytes.Clone(value), slices.Clone(d.spans), size
	d.patternBytes += size
}

// match consumes the value that is next if it has the tokens of the pattern, but for what its
// strings, numbers and other scalars are. Else it consumes nothing and reports false.
func (s *skipPattern) match(p *parser) bool {
	// The values of a pattern are not deeper than maxCompact.
	if p.depth+maxCompact > maxDepth {
		return false
	}
	data := p.data
	// a is how far the pattern is, and b how far the value in data is.
	a, b, spans := 0, p.pos, s.spans
	for {
		n := commonPrefix(s.raw[a:], data[b:])
		a, b = a+n, b+n
		if a == len(s.raw) {
			p.pos = b
			return true
		}
		for len(spans) > 0 && int(spans[0].end) < a {
			spans = spans[1:]
		}
		if len(spans) == 0 || int(spans[0].start) > a {
			return false
		}
		// They differ in spans[0], or right behind it, where a number may be longer than the
		// pattern's. The bytes before that are the same, so it begins at the same distance.
		at := spans[0]
		if b -= a - int(at.start); s.raw[at.start] == '"' {
			b = stringEnd(data, b)
		} else {
			b = p.scalarEnd(b)
		}
		if b < 0 {
			return false
		}
		a, spans = int(at.end), spans[1:]
	}
}

// commonPrefix returns how many bytes at the start of a and b are the same.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for ; i+8 <= n; i += 8 {
		if diff := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); diff != 0 {
			return i + bits.TrailingZeros64(diff)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
