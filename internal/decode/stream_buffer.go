package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

const (
	minBuffer = 8 << 10
	// listBuffer is what a list begins with: its objects come without a pause, and each read has its cost.
	listBuffer = 64 << 10
	// keepBuffer is the most that a buffer holds on to when what it was grown for has passed.
	maxKeptBuffer = 256 << 10
)

var errTooLarge = errors.New("more than")

// A buffer reads a stream in pieces that it holds whole, and no more than limit bytes of it at a time.
type buffer struct {
	r          io.Reader
	data       []byte // what has been read and not been passed is data[pos:]
	pos        int
	limit      int
	base       int64        // the offset of data[0] in the stream
	err        error        // of r; it stays
	minSize    int          // the least memory to read into, unless limit is less
	beforeFill func() error // asked before more of a value is read; nil: nobody
}

func (b *buffer) reset(r io.Reader, limit, least int) {
	*b = buffer{r: r, data: b.data[:0], limit: limit, minSize: least}
	if cap(b.data) < min(least, limit) || cap(b.data) > 4*least {
		b.data = nil
	}
}

// offset is where in the stream the next byte stands.
func (b *buffer) offset() int64 { return b.base + int64(b.pos) }

// fill reads at least one more byte behind data[pos:]. It may move data, so what was taken from it is no longer valid.
func (b *buffer) fill() error {
	if b.err != nil {
		return b.err
	}
	unread := len(b.data) - b.pos
	if unread >= b.limit {
		return b.tooLarge()
	}
	switch {
	case unread == 0 && cap(b.data) > maxKeptBuffer:
		b.move(make([]byte, 0, b.minSize))
	case unread == cap(b.data):
		b.move(make([]byte, unread, min(max(2*unread, b.minSize), b.limit)))
	case len(b.data) == cap(b.data) || unread == 0:
		b.move(b.data[:unread])
	}
	for range 100 {
		n, err := b.r.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		b.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	b.err = io.ErrNoProgress
	return b.err
}

// move copies what is held to the start of to.
func (b *buffer) move(to []byte) {
	copy(to, b.data[b.pos:])
	b.base += int64(b.pos)
	b.data, b.pos = to, 0
}

// peek passes white space and returns the byte after it; io.EOF is as the stream returned it.
func (b *buffer) peek() (byte, error) {
	for {
		for b.pos < len(b.data) {
			switch c := b.data[b.pos]; c {
			case ' ', '\t', '\r', '\n':
				b.pos++
			default:
				return c, nil
			}
		}
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
}

// value passes the JSON value that is next and returns its bytes, which are valid until the next call. Only brackets and
// quotes have been looked at, so it may not be valid JSON.
func (b *buffer) value() ([]byte, error) {
	first, err := b.peek()
	if err != nil {
		return nil, b.truncated(err)
	}
	switch first {
	case '{', '[', '"':
		return b.enclosed()
	}
	return b.scalar()
}

// The bytes that matter for where a value ends, outside of strings.
var brackets = [256]int8{'{': 1, '[': 1, '}': -1, ']': -1, '"': 2}

// enclosed is value for an object, an array or a string.
func (b *buffer) enclosed() ([]byte, error) {
	var (
		n      int // bytes of the value that have been looked at, which a move does not change
		depth  int
		quoted bool
	)
	for {
		rest := b.data[b.pos:]
		for n < len(rest) {
			if !quoted {
				kind := brackets[rest[n]]
				n++
				switch kind {
				case 0:
					continue
				case 1:
					depth++
					continue
				case -1:
					if depth--; depth == 0 {
						return b.take(n), nil
					}
					continue
				}
				quoted = true
			}
			if n += unquoted(rest[n:]); n == len(rest) {
				break
			}
			if rest[n] == '\\' {
				if n+1 == len(rest) {
					break
				}
				n += 2
				continue
			}
			n++
			if quoted = false; depth == 0 {
				return b.take(n), nil
			}
		}
		if b.beforeFill != nil {
			if err := b.beforeFill(); err != nil {
				return nil, err
			}
		}
		if err := b.fill(); err != nil {
			return nil, b.truncated(err)
		}
	}
}

// scalar is value for anything else. It passes at least a byte, be it one that begins no value.
func (b *buffer) scalar() ([]byte, error) {
	for n := 1; ; {
		for rest := b.data[b.pos:]; n < len(rest); n++ {
			switch rest[n] {
			case '{', '[', '"', '}', ']', ',', ' ', '\t', '\r', '\n':
				return b.take(n), nil
			}
		}
		if err := b.fill(); err == io.EOF {
			return b.take(n), nil
		} else if err != nil {
			return nil, b.truncated(err)
		}
	}
}

func (b *buffer) take(n int) []byte {
	v := b.data[b.pos : b.pos+n : b.pos+n]
	b.pos += n
	return v
}

// unquoted returns the number of bytes before the first quote or backslash in s.
func unquoted(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, slash := w^ones*'"', w^ones*'\\'
		if found := ((quote-ones)&^quote | (slash-ones)&^slash) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// line returns the bytes up to the next line break, and that, without passing them. It returns nil where no line break comes, and
// where there may be a whole value without one: nobody may wait for a byte that the server has no need to send.
func (b *buffer) line() []byte {
	for n := 0; ; {
		rest := b.data[b.pos:]
		if i := bytes.IndexByte(rest[n:], '\n'); i >= 0 {
			return rest[: n+i+1 : n+i+1]
		}
		if n = len(rest); n > 0 {
			switch rest[n-1] {
			case '}', ' ', '\t', '\r':
				return nil
			}
		}
		if b.fill() != nil {
			return nil // whole values before the error come first, and then it comes again
		}
	}
}

// held returns what has been read and not been passed.
func (b *buffer) unread() []byte { return b.data[b.pos:] }

// holdsLine reports whether data has a line that looks like a whole value.
func (b *buffer) hasLine() bool {
	rest := bytes.TrimLeft(b.data[b.pos:], " \t\r\n")
	n := bytes.IndexByte(rest, '\n')
	return n > 0 && rest[0] == '{' && rest[n-1] == '}'
}

// exactly passes n bytes and returns them; they are valid until the next call. A length from the stream may be one that no int has.
func (b *buffer) exactly(n uint64) ([]byte, error) {
	if n > uint64(b.limit) {
		return nil, b.tooLarge()
	}
	for len(b.data)-b.pos < int(n) {
		if err := b.fill(); err != nil {
			return nil, b.truncated(err)
		}
	}
	return b.take(int(n)), nil
}

// uvarint passes a protobuf varint. An end of the stream before its first byte is io.EOF.
func (b *buffer) uvarint() (uint64, error) {
	for {
		w := wire{data: b.data[b.pos:min(len(b.data), b.pos+binary.MaxVarintLen64)]}
		v, err := w.varint()
		if err == nil {
			b.pos += w.pos
			return v, nil
		}
		if err != io.ErrUnexpectedEOF {
			return 0, fmt.Errorf("%w: a varint of more than 64 bits at byte %d", errWire, b.offset())
		}
		if err := b.fill(); err == io.EOF && w.pos == 0 {
			return 0, err
		} else if err != nil {
			return 0, b.truncated(err)
		}
	}
}

// field passes the number and wire type of a protobuf field. An end of the stream before it is io.EOF.
func (b *buffer) field() (num, typ int, err error) {
	v, err := b.uvarint()
	if err != nil {
		return 0, 0, err
	}
	return fieldOf(v, b.offset())
}

// message passes a length and as many bytes, to f.
func (b *buffer) message(f func([]byte) error) error {
	n, err := b.uvarint()
	if err != nil {
		return b.truncated(err)
	}
	data, err := b.exactly(n)
	if err != nil {
		return err
	}
	return f(data)
}

// skipField passes the value of a protobuf field. Groups, which no API uses, are refused.
func (b *buffer) skipField(typ int) (err error) {
	switch typ {
	case wireVarint:
		_, err = b.uvarint()
	case wire64:
		_, err = b.exactly(8)
	case wire32:
		_, err = b.exactly(4)
	case wireBytes:
		err = b.message(func([]byte) error { return nil })
	default:
		err = fmt.Errorf("%w: wire type %d at byte %d", errWire, typ, b.offset())
	}
	if err == io.EOF {
		err = b.truncated(err)
	}
	return err
}

func (b *buffer) tooLarge() error {
	return fmt.Errorf("%w %d bytes in one piece at byte %d", errTooLarge, b.limit, b.offset())
}

// cut is err, which a read returned, in the middle of something.
func (b *buffer) truncated(err error) error {
	if errors.Is(err, errTooLarge) || errors.Is(err, errWire) {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("cut off at byte %d: %w", b.base+int64(len(b.data)), err)
}
