package decode

import (
	"encoding/binary"
	"math/bits"
)

// maxCompact is how deep skipCompact follows arrays and objects: one bit of a word for each.
const maxCompact = 64

// skip consumes a value and checks its syntax. Nothing is made of it.
func (p *parser) skip() error {
	if p.skipCompact(nil) {
		return nil
	}
	return p.skipAny()
}

// A span is where a name, a string or another scalar of a value is, from the start of the value.
type span struct{ start, end uint32 }

// skipCompact consumes a value as servers write it: without white space, and not deeper than
// maxCompact. One loop without recursion takes two thirds of the time of skipAny, and what a
// projection leaves out is most of its objects. Where skipCompact meets anything else it consumes
// nothing and reports false: then skipAny decides what the value is. It appends to spans where the
// names and scalars are, unless spans is nil; the value must then have less than 4 GiB.
func (p *parser) skipCompact(spans *[]span) bool {
	data, i := p.data, p.pos
	depth := 0
	objects := uint64(0) // a bit for each level, the lowest for the innermost: it is an object
	for {
		// A value begins at i.
		if i >= len(data) {
			return false
		}
		opened, start := false, i
		switch c := data[i]; c {
		case '"':
			if i = stringEnd(data, i); i < 0 {
				return false
			}
		case '{', '[':
			if depth++; depth > maxCompact || p.depth+depth > maxDepth || p.tick() != nil {
				return false
			}
			objects <<= 1
			if c == '{' {
				objects |= 1
			}
			opened = true
			i++
		default:
			if i = p.scalarEnd(i); i < 0 {
				return false
			}
		}
		if spans != nil && !opened {
			*spans = append(*spans, span{uint32(start - p.pos), uint32(i - p.pos)})
		}
		// A value has ended before i, or a bracket has opened there. The last bracket that closes
		// ends the whole value.
		for {
			if depth == 0 {
				p.pos = i
				return true
			}
			if i >= len(data) {
				return false
			}
			if c := data[i]; objects&1 != 0 && c != '}' || objects&1 == 0 && c != ']' {
				break
			}
			i++
			depth--
			objects >>= 1
			opened = false
		}
		if !opened {
			if data[i] != ',' {
				return false
			}
			i++
		}
		if objects&1 != 0 {
			start := i
			if i = stringEnd(data, i); i < 0 || i >= len(data) || data[i] != ':' {
				return false
			}
			if spans != nil {
				*spans = append(*spans, span{uint32(start - p.pos), uint32(i - p.pos)})
			}
			i++
		}
	}
}

// stringEnd returns the end of the string that begins at data[i]. It is -1 if no string does, or if
// the string is wrong or cut off. The UTF-8 need not be checked, since JSON takes any bytes.
func stringEnd(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	i++
	for i < len(data) {
		// See plainPrefix. Here a byte that is not ASCII is nothing special.
		if i+8 <= len(data) {
			w := binary.LittleEndian.Uint64(data[i:])
			quote, slash := w^ones*'"', w^ones*'\\'
			special := ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
			if special == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(special) / 8
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			_, size := escape(data[i:])
			if size == 0 {
				return -1
			}
			i += size
		case c < 0x20:
			return -1
		default:
			i++
		}
	}
	return -1
}

// scalarEnd returns the end of the number, the truth value or the null that begins at i. It is -1
// if none does. The parser stays where it is.
func (p *parser) scalarEnd(i int) int {
	if i >= len(p.data) {
		return -1
	}
	start := p.pos
	p.pos = i
	var err error
	switch p.data[i] {
	case 't':
		err = p.literal("true")
	case 'f':
		err = p.literal("false")
	case 'n':
		err = p.literal("null")
	default:
		_, err = p.number()
	}
	i, p.pos = p.pos, start
	if err != nil {
		return -1
	}
	return i
}
