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
	// idleBuffer is the memory that a watch begins with. A program may have hundreds of watches on
	// which hardly anything comes.
	idleBuffer = 1 << 10
	// watchBuffer is the memory to which a watch's grows if more comes at a time than it has room
	// for.
	watchBuffer = 8 << 10
	// listBuffer is the least memory that a list reads into. Its objects come without a pause, and
	// each Read has its cost.
	listBuffer = 64 << 10
	// maxKeptBuffer is the most memory that a buffer keeps when the large object is gone that it
	// was grown for.
	maxKeptBuffer = 256 << 10
)

// errTooLarge begins the error for an object of more than Options.Limit bytes.
var errTooLarge = errors.New("more than")

// A buffer cuts a stream into pieces, each of which it holds as a whole: an object, an event, a
// line, a field. It finds the end of a piece with as little work as it can, since the piece is
// parsed later. Callers get a part of the buffer's memory, without a copy, which is valid until the
// next piece is read.
//
// The bytes that have been read and not been consumed are data[pos:]. They are moved to the start
// of the memory when there is no more room behind them, and to larger memory when they fill it. No
// piece may have more than limit bytes.
//
// One buffer serves all encodings: value, line and hasLine are for JSON; uvarint, field, message
// and hasFrame are for protobuf; cborHead, cborItem and hasCBOR are for CBOR.
type buffer struct {
	r     io.Reader
	data  []byte
	pos   int
	limit int
	// base is the offset of data[0] in the stream.
	base int64
	// err is the first error of r. It comes once all bytes before it have been consumed, and then
	// each time.
	err error
	// first is the memory to begin with, unless limit is less. It is doubled up to enough whenever
	// a Read has filled it, which shows that more was waiting, and beyond enough only for a piece
	// that fills it.
	first, enough int
	// filled says that the last Read has filled the memory.
	filled bool
	// beforeFill, if it is not nil, is called before more bytes of a value are read. Its error ends
	// the value.
	beforeFill func() error
	// open is the memory of a cborWalk.
	open []cborOpen
}

// reset begins to read r. The memory is used again unless it is too small, or too large for what is
// to come.
func (b *buffer) reset(r io.Reader, limit, first, enough int) {
	*b = buffer{r: r, data: b.data[:0], limit: limit, first: first, enough: enough}
	if cap(b.data) < min(first, limit) || cap(b.data) > 4*enough {
		b.data = nil
	}
}

// shrink moves what has not been consumed to memory that is no larger than it must be, and goes on
// as after reset.
func (b *buffer) shrink(first, enough int) {
	b.first, b.enough, b.filled = first, enough, false
	unread := len(b.data) - b.pos
	b.move(make([]byte, unread, max(unread, min(first, b.limit))))
}

// offset is the offset in the stream of the next byte.
func (b *buffer) offset() int64 { return b.base + int64(b.pos) }

// fill reads at least one more byte behind data[pos:], by one Read if that returns any. It may move
// data, so that earlier results are no longer valid.
func (b *buffer) fill() error {
	if b.err != nil {
		return b.err
	}
	unread := len(b.data) - b.pos
	if unread >= b.limit {
		return b.tooLarge()
	}
	// Make room. In order: nothing is left of a large object, so its memory goes; the bytes fill
	// all of the memory, or have filled it and it is small, so it is doubled; they end at its end,
	// or there are none, so they are moved to its start.
	switch {
	case unread == 0 && cap(b.data) > maxKeptBuffer:
		b.move(make([]byte, 0, b.enough))
	case unread == cap(b.data), b.filled && cap(b.data) < min(b.enough, b.limit):
		b.move(make([]byte, unread, min(max(2*cap(b.data), b.first), b.limit)))
	case len(b.data) == cap(b.data) || unread == 0:
		b.move(b.data[:unread])
	}
	// A reader may return no bytes and no error, but not for ever.
	for range 100 {
		n, err := b.r.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		b.err, b.filled = err, len(b.data) == cap(b.data)
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

// move copies what has not been consumed to the start of to, which becomes data.
func (b *buffer) move(to []byte) {
	copy(to, b.data[b.pos:])
	b.base += int64(b.pos)
	b.data, b.pos = to, 0
}

// peek consumes white space and returns the byte after it, without consuming that. At the end of
// the stream the error is io.EOF itself: the caller knows whether the stream may end here.
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

// value consumes the JSON value that is next and returns its bytes, which are valid until the next
// call. It looks only at brackets and quotes, so the bytes may be no valid JSON. If they are valid,
// they are the whole value.
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

// brackets has the bytes that matter for where a value ends, outside of strings: 1 opens, -1
// closes, 2 is a quote. A table costs one load a byte, where a switch costs several branches.
var brackets = [256]int8{'{': 1, '[': 1, '}': -1, ']': -1, '"': 2}

// enclosed is value for an object, an array or a string. It counts brackets without telling their
// sorts apart: a value such as [} is found to be wrong when it is parsed.
func (b *buffer) enclosed() ([]byte, error) {
	var (
		// n is how many bytes of the value have been looked at. It counts from pos, so that a move
		// does not change it.
		n      int
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
			// In a string only the quote and the backslash matter, and most bytes are in strings.
			if n += unquoted(rest[n:]); n == len(rest) {
				break
			}
			// A backslash and the byte behind it belong together. If that byte has not come yet,
			// both are looked at again.
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
		// All that has come was looked at, and the value goes on.
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

// scalar is value for a number, a literal, or anything else: all up to the next byte that cannot be
// in one. It consumes at least one byte, even if no value begins with that, so that no loop stands
// still. The end of the stream may end it.
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

// take consumes n bytes and returns them, with their capacity cut.
func (b *buffer) take(n int) []byte {
	v := b.data[b.pos : b.pos+n : b.pos+n]
	b.pos += n
	return v
}

// unquoted returns how many bytes of s are before the first quote or backslash. It works like
// plainPrefix, on eight bytes at a time.
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

// line returns the bytes up to and with the next line break, without consuming them. Servers end
// each event with a line break, and to search for one byte is much faster than to count brackets.
//
// It returns nil if there is no line break, or if the bytes that have come might be a whole value
// without one: a server need not send the line break, so nobody may wait for it. A value ends with
// a brace, and white space may follow.
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
			// Whole values before the error come first. Then the error comes again.
			return nil
		}
	}
}

// extend reads until more bytes have come behind the unread ones, and these end with a line break
// or may be the end of a value, as for line. It reports false if the stream ends before. The unread
// bytes must begin at the start of the memory: see moveToStart. Then they are not overwritten.
func (b *buffer) extend() bool {
	had := len(b.data)
	for n := had; b.fill() == nil; n = len(b.data) {
		switch b.data[len(b.data)-1] {
		case '}', ' ', '\t', '\r':
			return true
		}
		if bytes.IndexByte(b.data[n:], '\n') >= 0 {
			return true
		}
	}
	return len(b.data) > had
}

// moveToStart moves the unread bytes to the start of the memory.
func (b *buffer) moveToStart() {
	if b.pos > 0 {
		b.move(b.data[:len(b.data)-b.pos])
	}
}

// unread returns the bytes that have been read and not been consumed.
func (b *buffer) unread() []byte { return b.data[b.pos:] }

// hasLine reports whether the unread bytes have a line that looks like a whole event. It may be
// wrong, which is all right for Event.More.
func (b *buffer) hasLine() bool {
	rest := bytes.TrimLeft(b.data[b.pos:], " \t\r\n")
	n := bytes.IndexByte(rest, '\n')
	return n > 0 && rest[0] == '{' && rest[n-1] == '}'
}

// exactly consumes n bytes and returns them. They are valid until the next call. n may be larger
// than any int: it is a length that the server has sent.
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

// uvarint consumes a protobuf varint. If the stream ends before its first byte the error is io.EOF.
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

// field consumes the tag of a protobuf field and returns its number and wire type. If the stream
// ends before it the error is io.EOF.
func (b *buffer) field() (num, typ int, err error) {
	v, err := b.uvarint()
	if err != nil {
		return 0, 0, err
	}
	return fieldOf(v, b.offset())
}

// message consumes a length and as many bytes, and calls f with those.
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

// skipField consumes the value of a protobuf field of wire type typ. Groups, which no API uses, are
// refused here: a list has none.
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

// tooLarge returns the error for a piece of more than limit bytes.
func (b *buffer) tooLarge() error {
	return fmt.Errorf("%w %d bytes in one piece at byte %d", errTooLarge, b.limit, b.offset())
}

// truncated returns the error for a stream that has ended with err in the middle of a piece. io.EOF
// becomes io.ErrUnexpectedEOF, so that nobody takes it for the end of a whole stream. Errors about
// the bytes themselves stay as they are.
func (b *buffer) truncated(err error) error {
	if errors.Is(err, errTooLarge) || errors.Is(err, errWire) || errors.Is(err, errCBOR) {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("cut off at byte %d: %w", b.base+int64(len(b.data)), err)
}

const (
	// A word of eight bytes, each of which is 1; times a byte it is a word of eight of those.
	ones = 0x0101010101010101
	// The highest bit of each byte.
	highs = 0x8080808080808080
)

// A cborOpen is an item of which only a part has been looked at.
type cborOpen struct {
	major      byte
	indefinite bool
	// items is how many items are to come in it; if it is indefinite, how many have come. A pair of
	// a map is two items.
	items uint64
}

// errCBOR is for bytes that are no CBOR (RFC 8949). Nobody knows where the next object begins then,
// so it ends the stream.
var errCBOR = errors.New("invalid CBOR")

const (
	// maxKeptBytes is the most bytes of each sort of working memory that a Decoder keeps after an
	// object. A Decoder lives as long as its source, which may be weeks, and one object of many
	// megabytes must not cost memory for that time.
	maxKeptBytes = 256 << 10
	// maxKeptElements is the same limit for the elements that one field decodes into.
	maxKeptElements = maxKeptBytes / 4
	// maxKeptStack is the limit for the places of a stack. A place takes up to 40 bytes.
	maxKeptStack = maxKeptBytes / 40
)
