package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may nest, as in encoding/json.
const maxDepth = 10000

// A SyntaxError says where bytes stop to be JSON. What follows them in the stream cannot be trusted.
type SyntaxError struct {
	Offset int64 // in the stream
	Msg    string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Msg)
}

// A parser reads JSON values from bytes and checks their syntax as it goes. It accepts what encoding/json accepts.
type parser struct {
	data    []byte
	pos     int
	depth   int
	base    int64  // the offset of data[0] in the stream
	scratch []byte // the last string that was not its own bytes
	plain   bool   // the last string was
	ticks   uint64
	stop    func() error // nil: never
}

func (p *parser) reset(data []byte, base int64) {
	p.data, p.pos, p.depth, p.base = data, 0, 0, base
}

func (p *parser) syntax(format string, args ...any) error {
	return &SyntaxError{Offset: p.base + int64(p.pos), Msg: fmt.Sprintf(format, args...)}
}

// unexpected is the error for the byte at pos, or for the end, where want should have been.
func (p *parser) unexpected(want string) error {
	if p.pos >= len(p.data) {
		return p.syntax("end of input, want %s", want)
	}
	return p.syntax("%q, want %s", p.data[p.pos], want)
}

// isWrong reports whether err, with which the parser has ended, is for a byte that no more bytes behind data can put right. A word,
// a number or an escape that data ends in might go on, but not behind one of these.
func (p *parser) isFinal(err error) bool {
	_, ok := err.(*SyntaxError)
	return ok && p.pos < len(p.data) && bytes.ContainsAny(p.data[p.pos:], " \t\r\n{}[],:\"")
}

// next skips white space and returns the byte after it without consuming it; 0, which no value begins with, at the end.
func (p *parser) next() byte {
	if p.pos < len(p.data) && p.data[p.pos] > ' ' {
		return p.data[p.pos]
	}
	return p.skipSpace()
}

// space is next where white space may stand.
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

// end checks that nothing but white space is left.
func (p *parser) end() error {
	if p.next(); p.pos < len(p.data) {
		return p.unexpected("the end")
	}
	return nil
}

// open consumes the bracket at pos and reports whether it is closed at once.
func (p *parser) open(closing byte) (empty bool, err error) {
	p.pos++
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

func (p *parser) close() {
	p.pos++
	p.depth--
}

// more consumes a comma, or the closing bracket, and reports whether it was a comma.
func (p *parser) more(closing byte) (bool, error) {
	if p.pos < len(p.data) && p.data[p.pos] == ',' {
		p.pos++
		return true, nil
	}
	return p.moreSlow(closing)
}

// ends is more where something else than a comma is next.
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

// key consumes the name of an object's member and its colon. The result is valid until the next string is read.
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

func (p *parser) colon() error {
	if p.next() != ':' {
		return p.unexpected("a colon")
	}
	p.pos++
	return nil
}

// skip consumes a value.
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

// raw consumes a value and returns its bytes.
func (p *parser) raw() ([]byte, error) {
	p.next()
	start := p.pos
	err := p.skip()
	return p.data[start:p.pos], err
}

// rawWithin is raw for a value of at most n bytes that begins at pos. If it is longer, or wrong, nothing is consumed. A value
// around another one may be asked about as well, and so on, so no more than n bytes are looked at.
func (p *parser) rawWithin(n int) ([]byte, bool) {
	start, depth, data := p.pos, p.depth, p.data
	p.data = data[:min(len(data), start+n)]
	err := p.skip()
	p.data = data
	if err != nil {
		p.pos, p.depth = start, depth
		return nil, false
	}
	return data[start:p.pos], true
}

func (p *parser) literal(word string) error {
	rest := p.data[p.pos:]
	if len(rest) < len(word) || string(rest[:len(word)]) != word {
		return p.unexpected(word)
	}
	p.pos += len(word)
	return nil
}

// null consumes a null if one is next.
func (p *parser) null() (bool, error) {
	if p.next() != 'n' {
		return false, nil
	}
	return true, p.literal("null")
}

// number consumes a number and returns its bytes.
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

// short consumes a number of a few digits and nothing else which another value or a bracket follows: most are.
func (p *parser) shortInt() (int32, bool) {
	var n int32
	for i, c := range p.data[p.pos:min(len(p.data), p.pos+9)] {
		switch {
		case '0' <= c && c <= '9':
			n = 10*n + int32(c-'0')
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
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns the number of bytes at the start of b that stand for themselves in a string: ASCII but for the quote, the
// backslash and control characters.
func plainPrefix(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// The high bit of a byte is set in the first term where it is below 0x20, in the next two where it is the quote or
		// the backslash, in the last where it is not ASCII. A borrow spoils only bytes above the first that is found.
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

// str consumes a string and returns what it stands for, with U+FFFD for what is not UTF-8. The result is valid until the next
// string is read.
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

// unquote is str from i on, where the first byte is that does not stand for itself.
func (p *parser) unquote(start, i int) ([]byte, error) {
	p.plain = false
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

// skipString consumes a string.
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

// escape returns the character of the escape at the start of b and its length, which is 0 where it is none.
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
		if low := hex4(b[6:]); low >= 0 {
			if r := utf16.DecodeRune(r, low); r != utf8.RuneError {
				return r, 12
			}
		}
		return utf8.RuneError, 6
	}
	return 0, 0
}

// hex4 returns the code unit of the \uXXXX at the start of b, or -1.
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

// whole checks that data is one JSON value.
func (p *parser) wholeValue() error {
	if err := p.skip(); err != nil {
		return err
	}
	return p.end()
}
