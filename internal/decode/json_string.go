package decode

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// plainPrefix returns how many bytes at the start of b stand for themselves in a JSON string: ASCII
// without the quote, the backslash and control characters. It takes eight bytes at a time, since
// most of an object's bytes are in strings.
func plainPrefix(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// The usual test for a zero byte in a word, (x-1)&^x&0x80, done for eight bytes at once.
		// The high bit of a byte of special is set by the first term if the byte is below 0x20, by
		// the next two if it is the quote or the backslash, and by the last if it is not ASCII. A
		// subtraction may borrow from the next higher byte and spoil that one's result. Only the
		// lowest byte that is found counts, and that one is right.
		quote, slash := w^ones*'"', w^ones*'\\'
		special := ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash | w) & highs
		if special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// str consumes a string, whose quote must be at pos, and returns what it stands for. Bytes that are
// no UTF-8 stand for U+FFFD each. A string without escapes is returned as a part of data, without a
// copy. The result is valid until the next string is read.
func (p *parser) str() ([]byte, error) {
	start := p.pos + 1
	i := start
	for {
		i += plainPrefix(p.data[i:])
		if i >= len(p.data) {
			if p.extend() {
				continue
			}
			p.pos = i
			return nil, p.unexpected("the end of a string")
		}
		switch c := p.data[i]; {
		case c == '"':
			p.pos = i + 1
			p.plain = true
			return p.data[start:i], nil
		// Not ASCII. A valid character stands for itself; the first invalid byte needs a copy with
		// U+FFFD in its place.
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(p.data[i:])
			if r == utf8.RuneError && size == 1 {
				return p.unquote(start, i)
			}
			i += size
		case c == '\\':
			return p.unquote(start, i)
		default:
			p.pos = i
			return nil, p.syntax("control character %q in a string", c)
		}
	}
}

// unquote is str for a string that needs a copy. The first i bytes of data have been looked at, and
// those from start on stand for themselves.
func (p *parser) unquote(start, i int) ([]byte, error) {
	p.plain = false
	// Strings with escapes are rare, so one piece of memory serves all of them, one after another.
	out := append(p.scratch[:0], p.data[start:i]...)
	for {
		n := plainPrefix(p.data[i:])
		out = append(out, p.data[i:i+n]...)
		if i += n; i >= len(p.data) {
			if p.extend() {
				continue
			}
			p.pos = i
			return nil, p.unexpected("the end of a string")
		}
		switch c := p.data[i]; {
		case c == '"':
			p.pos = i + 1
			p.scratch = out
			return out, nil
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(p.data[i:])
			out = utf8.AppendRune(out, r)
			i += size
		case c == '\\':
			// The escape is replaced by the character that it stands for, in UTF-8.
			r, size := escape(p.data[i:])
			if size == 0 {
				p.pos = i
				return nil, p.syntax("invalid escape in a string")
			}
			out = utf8.AppendRune(out, r)
			i += size
		default:
			p.pos = i
			return nil, p.syntax("control character %q in a string", c)
		}
	}
}

// skipString consumes a string. Its UTF-8 need not be checked, since JSON takes any bytes.
func (p *parser) skipString() error {
	i := p.pos + 1
	for {
		i += plainPrefix(p.data[i:])
		if i >= len(p.data) {
			if p.extend() {
				continue
			}
			p.pos = i
			return p.unexpected("the end of a string")
		}
		switch c := p.data[i]; {
		case c == '"':
			p.pos = i + 1
			return nil
		// Skipped byte by byte, since no quote or backslash can be in a character.
		case c >= utf8.RuneSelf:
			i++
		case c == '\\':
			_, size := escape(p.data[i:])
			if size == 0 {
				p.pos = i
				return p.syntax("invalid escape in a string")
			}
			i += size
		default:
			p.pos = i
			return p.syntax("control character %q in a string", c)
		}
	}
}

// escape returns the character of the escape at the start of b, and its length; the length is 0 if
// it is no escape.
func escape(b []byte) (rune, int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch c := b[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hex4(b)
		if r < 0 {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		// A character above U+FFFF is written as two escapes, a surrogate pair. A half without the
		// other one stands for U+FFFD, and what follows it is read on its own.
		if low := hex4(b[6:]); low >= 0 {
			if r := utf16.DecodeRune(r, low); r != utf8.RuneError {
				return r, 12
			}
		}
		return utf8.RuneError, 6
	}
	return 0, 0
}

// hex4 returns the UTF-16 code unit of the \uXXXX at the start of b, or -1 if there is none.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
