package decode

import (
	"bytes"
	"fmt"
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
	// known is where a value begins whose end is known, and its end.
	known struct{ start, end int }
	// src is where bytes behind data may come from; nil: data is all there is. See extend.
	src *buffer
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
	p.known.end = 0
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

// skipSpace is next where there may be white space, or no byte.
func (p *parser) skipSpace() byte {
	for p.pos < len(p.data) || p.extend() {
		switch c := p.data[p.pos]; c {
		case ' ', '\t', '\r', '\n':
			p.pos++
		default:
			return c
		}
	}
	return 0
}

// extend waits for bytes behind data, and reports whether some have come. The bytes that were there
// stay where they are, or their memory is left to who has a part of it, so that all slices of data
// remain valid.
//
// A stream may be cut anywhere, and most cuts are in a token. But nobody waits in a token: a stream
// is only parsed where its bytes may be a whole event, and that ends with a brace or white space
// (see buffer.line). These are at the end of a token, or in a string.
func (p *parser) extend() bool {
	if p.src == nil || !p.src.extend() {
		return false
	}
	p.data = p.src.unread()
	return true
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

// skipAny is skip for any value.
func (p *parser) skipAny() error {
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
			if err = p.skipAny(); err == nil {
				more, err = p.more('}')
			}
		}
		return err
	case '[':
		empty, err := p.open(']')
		for more := !empty; more && err == nil; {
			if err = p.skipAny(); err == nil {
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
	src := p.src
	p.data, p.src = data[:min(len(data), start+n)], nil
	err := p.skip()
	p.data, p.src = data, src
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

// wholeValue checks that data is one JSON value, with nothing behind it but white space.
func (p *parser) wholeValue() error {
	if err := p.skip(); err != nil {
		return err
	}
	return p.end()
}

// An abort ends the decoding of an object because the caller has stopped it. No value of the object
// is to blame, so it gets no path and is not the object's Err.
type abort struct{ error }

// Unwrap returns the error that the function of StopWhen returned.
func (a abort) Unwrap() error { return a.error }

// tickEvery is the number of ticks after which a parser asks whether to go on. They take some tens
// of microseconds, so that an object of many megabytes ends within a millisecond, and the calls
// cost nothing.
const tickEvery = 1024

// tick is called once for everything that one object may have any number of: brackets, elements,
// members. An error ends the object.
func (p *parser) tick() error {
	if p.ticks++; p.ticks%tickEvery != 0 {
		return nil
	}
	return p.checkStop()
}

// checkStop asks the function of StopWhen whether to go on.
func (p *parser) checkStop() error {
	if p.stop == nil {
		return nil
	}
	if err := p.stop(); err != nil {
		return abort{err}
	}
	return nil
}
