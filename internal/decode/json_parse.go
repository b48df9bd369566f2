package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may nest, as in encoding/json. The decoders are
// recursive, and Go cannot recover from a stack that has overflowed.
const maxDepth = 10000

// A SyntaxError says where the bytes stop to be JSON. Nobody knows where the next object begins
// then, so it ends the stream.
type SyntaxError struct {
	// Offset is the number of the wrong byte in the stream.
	Offset int64
	Msg    string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Msg)
}

// A parser reads JSON values from bytes in memory, and checks their syntax as it goes. It accepts
// what encoding/json accepts, which is RFC 8259 with two liberties: bytes that are no UTF-8 stand
// for U+FFFD, and so do halves of surrogate pairs.
//
// The methods consume what they return, from pos on. Those on the way of every value are split in
// two: a short one for the usual case, which the compiler inlines, and another for white space and
// the rest.
type parser struct {
	data []byte
	pos  int
	// depth is the number of arrays and objects around pos.
	depth int
	// base is the offset of data[0] in the stream, for errors.
	base int64
	// scratch is the memory of the last string that had escapes. The next such string overwrites
	// it.
	scratch []byte
	// plain says that the last string had no escapes: its value is its own bytes.
	plain bool
	// ticks counts towards the next call of stop, which ends the decoding by an error; nil is never
	// called.
	ticks uint64
	stop  func() error
}

// reset makes data the bytes to parse. They begin at base in the stream.
func (p *parser) reset(data []byte, base int64) {
	p.data, p.pos, p.depth, p.base = data, 0, 0, base
}

// syntax returns a SyntaxError for the byte at pos.
func (p *parser) syntax(format string, args ...any) error {
	return &SyntaxError{Offset: p.base + int64(p.pos), Msg: fmt.Sprintf(format, args...)}
}

// unexpected returns the error for the byte at pos, or for the end of the bytes, where want should
// be.
func (p *parser) unexpected(want string) error {
	if p.pos >= len(p.data) {
		return p.syntax("end of input, want %s", want)
	}
	return p.syntax("%q, want %s", p.data[p.pos], want)
}

// isFinal reports whether err stays an error, whatever bytes come behind data. The parser has just
// ended with it. If pos is at the end of data, more bytes may help. If data ends with a part of a
// literal, a number or an escape, pos is before that part, and more bytes may help too. They cannot
// if the rest has one of the bytes below, which are in no literal, number or escape that could
// still become right.
func (p *parser) isFinal(err error) bool {
	_, ok := err.(*SyntaxError)
	return ok && p.pos < len(p.data) && bytes.ContainsAny(p.data[p.pos:], " \t\r\n{}[],:\"")
}

// next skips white space and returns the byte after it, without consuming that. At the end it
// returns 0, with which no value begins. Every byte up to the space is white space or an error, so
// one comparison finds the usual case.
func (p *parser) next() byte {
	if p.pos < len(p.data) && p.data[p.pos] > ' ' {
		return p.data[p.pos]
	}
	return p.skipSpace()
}

// skipSpace is next where there may be white space.
func (p *parser) skipSpace() byte {
	for p.pos < len(p.data) {
		switch c := p.data[p.pos]; c {
		case ' ', '\t', '\r', '\n':
			p.pos++
		default:
			return c
		}
	}
	return 0
}

// end checks that only white space is left.
func (p *parser) end() error {
	if p.next(); p.pos < len(p.data) {
		return p.unexpected("the end")
	}
	return nil
}

// open consumes an opening bracket, which must be at pos. It reports whether the closing one
// follows at once, and consumes that too.
func (p *parser) open(closing byte) (empty bool, err error) {
	p.pos++
	// The depth counts both sorts of brackets, as in encoding/json.
	if p.depth++; p.depth > maxDepth {
		return false, p.syntax("more than %d levels", maxDepth)
	}
	if err := p.tick(); err != nil {
		return false, err
	}
	if p.next() == closing {
		p.close()
		return true, nil
	}
	return false, nil
}

// close consumes a closing bracket.
func (p *parser) close() {
	p.pos++
	p.depth--
}

// more is called behind an element or a member. It consumes a comma or the closing bracket, and
// reports whether it was a comma: then another element must follow.
func (p *parser) more(closing byte) (bool, error) {
	if p.pos < len(p.data) && p.data[p.pos] == ',' {
		p.pos++
		return true, nil
	}
	return p.moreSlow(closing)
}

// moreSlow is more where something else than a comma is at pos.
func (p *parser) moreSlow(closing byte) (bool, error) {
	switch p.next() {
	case ',':
		p.pos++
		return true, nil
	case closing:
		p.close()
		return false, nil
	}
	return false, p.unexpected("a comma or " + string(closing))
}

// key consumes the name of an object's member and its colon. The result is valid until the next
// string is read.
func (p *parser) key() ([]byte, error) {
	if p.next() != '"' {
		return nil, p.unexpected("a name")
	}
	b, err := p.str()
	if err == nil {
		err = p.colon()
	}
	return b, err
}

// colon consumes the colon between a name and its value.
func (p *parser) colon() error {
	if p.next() != ':' {
		return p.unexpected("a colon")
	}
	p.pos++
	return nil
}

// skip consumes a value and checks its syntax. Nothing is made of it.
func (p *parser) skip() error {
	switch c := p.next(); c {
	case '{':
		empty, err := p.open('}')
		for more := !empty; more && err == nil; {
			if p.next() != '"' {
				return p.unexpected("a name")
			}
			if err = p.skipString(); err != nil {
				return err
			}
			if err = p.colon(); err != nil {
				return err
			}
			if err = p.skip(); err == nil {
				more, err = p.more('}')
			}
		}
		return err
	case '[':
		empty, err := p.open(']')
		for more := !empty; more && err == nil; {
			if err = p.skip(); err == nil {
				more, err = p.more(']')
			}
		}
		return err
	// A string that nobody asked for is not decoded: only its end matters.
	case '"':
		return p.skipString()
	case 't':
		return p.literal("true")
	case 'f':
		return p.literal("false")
	case 'n':
		return p.literal("null")
	default:
		_, err := p.number()
		return err
	}
}

// raw consumes a value and returns its bytes, which are a part of data.
func (p *parser) raw() ([]byte, error) {
	p.next()
	start := p.pos
	err := p.skip()
	return p.data[start:p.pos], err
}

// rawWithin is raw for a value that begins at pos and has at most n bytes. For a longer one, or a
// wrong one, it consumes nothing and reports false. It never looks at more than n bytes. A value
// within a value within a value may be asked for at each level, and would cost the square of the
// depth otherwise.
func (p *parser) rawWithin(n int) ([]byte, bool) {
	start, depth, data := p.pos, p.depth, p.data
	// With the rest out of sight, a longer value looks cut off.
	p.data = data[:min(len(data), start+n)]
	err := p.skip()
	p.data = data
	if err != nil {
		p.pos, p.depth = start, depth
		return nil, false
	}
	return data[start:p.pos], true
}

// literal consumes word.
func (p *parser) literal(word string) error {
	rest := p.data[p.pos:]
	if len(rest) < len(word) || string(rest[:len(word)]) != word {
		return p.unexpected(word)
	}
	p.pos += len(word)
	return nil
}

// null consumes a null, if one is next, and reports whether it was. A null leaves most Go values as
// they are.
func (p *parser) null() (bool, error) {
	if p.next() != 'n' {
		return false, nil
	}
	return true, p.literal("null")
}

// number consumes a number and returns its bytes: a minus, digits without a leading zero, a
// fraction, and an exponent, of which only the digits must be there.
func (p *parser) number() ([]byte, error) {
	data, start, i := p.data, p.pos, p.pos
	digits := func() bool {
		first := i
		for i < len(data) && '0' <= data[i] && data[i] <= '9' {
			i++
		}
		return i > first
	}
	if i < len(data) && data[i] == '-' {
		i++
	}
	switch {
	// A leading zero is the only digit before the fraction.
	case i < len(data) && data[i] == '0':
		i++
	case !digits():
		p.pos = i
		return nil, p.unexpected("a value")
	}
	if i < len(data) && data[i] == '.' {
		if i++; !digits() {
			p.pos = i
			return nil, p.unexpected("a digit")
		}
	}
	// An upper-case letter and its lower-case one differ in the bit 0x20.
	if i < len(data) && data[i]|0x20 == 'e' {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if !digits() {
			p.pos = i
			return nil, p.unexpected("a digit")
		}
	}
	p.pos = i
	return data[start:i], nil
}

// shortInt consumes a number of at most eight digits, if a comma or a closing bracket is right
// behind it; else it consumes nothing. Most numbers are ports, counts and generations, and need no
// strconv. Eight digits always fit an int32.
func (p *parser) shortInt() (int32, bool) {
	var n int32
	for i, c := range p.data[p.pos:min(len(p.data), p.pos+9)] {
		switch {
		case '0' <= c && c <= '9':
			n = 10*n + int32(c-'0')
		// Something else than digits, no digit at all, or a leading zero: number decides what it
		// is.
		case c != ',' && c != '}' && c != ']', i == 0, i > 1 && p.data[p.pos] == '0':
			return 0, false
		default:
			p.pos += i
			return n, true
		}
	}
	return 0, false
}

const (
	// A word of eight bytes, each of which is 1; times a byte it is a word of eight of those.
	ones = 0x0101010101010101
	// The highest bit of each byte.
	highs = 0x8080808080808080
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

// wholeValue checks that data is one JSON value, with nothing behind it but white space.
func (p *parser) wholeValue() error {
	if err := p.skip(); err != nil {
		return err
	}
	return p.end()
}
