package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// The wire types of protobuf. The tag of each field has one, in its lowest three bits. It says how
// to find the end of the value, without knowing the field:
// https://protobuf.dev/programming-guides/encoding/
const (
	wireVarint = 0 // a number of one to ten bytes
	wire64     = 1 // eight bytes
	wireBytes  = 2 // a length and as many bytes: a string, a message, or packed numbers
	wireGroup  = 3 // fields up to the matching wireEnd; no API uses groups
	wireEnd    = 4
	wire32     = 5 // four bytes
)

// errWire is for bytes that no protobuf encoder writes.
var errWire = errors.New("invalid protobuf")

// A wire reads the fields of one protobuf message. A field is a tag, which is a varint of the
// field's number and wire type, and a value. Fields may come in any order, and more than once.
//
// The methods consume what they return. Where a value ends too early the error is
// io.ErrUnexpectedEOF, as it is in generated code.
type wire struct {
	data []byte
	pos  int
}

// done reports whether all fields have been consumed.
func (w *wire) done() bool { return w.pos >= len(w.data) }

// A wireStack has the wires of the messages that are being decoded, each within the one before. A
// wire is passed to functions that are known only at run time, so the compiler would put each on
// the heap. The stack uses them again.
type wireStack struct {
	all  []*wire
	used int
}

// open returns a wire that reads data. It must be given back by close.
func (s *wireStack) open(data []byte) *wire {
	if s.used == len(s.all) {
		s.all = append(s.all, new(wire))
	}
	w := s.all[s.used]
	s.used++
	w.data, w.pos = data, 0
	return w
}

// close takes back w, which is the last wire that was opened, and forgets its data.
func (s *wireStack) close(w *wire) {
	w.data = nil
	s.used--
}

// field consumes a tag and returns the field's number and wire type.
func (w *wire) field() (num int, typ int, err error) {
	v, err := w.varint()
	if err != nil {
		return 0, 0, err
	}
	return fieldOf(v, int64(w.pos))
}

// fieldOf returns the number and wire type in v, a tag that ends at pos. The number is cut to 32
// bits, as generated code does, and must be positive then.
func fieldOf(v uint64, pos int64) (num, typ int, err error) {
	if num = int(int32(v >> 3)); num <= 0 {
		return 0, 0, fmt.Errorf("%w: field number %d at byte %d", errWire, num, pos)
	}
	return num, int(v & 7), nil
}

// varint consumes a varint: seven bits in each byte, the lowest first, and the high bit set in all
// but the last. Most have one byte, and that case is short enough to be inlined.
func (w *wire) varint() (uint64, error) {
	if w.pos < len(w.data) && w.data[w.pos] < 0x80 {
		w.pos++
		return uint64(w.data[w.pos-1]), nil
	}
	return w.longVarint()
}

// longVarint is varint for any number of bytes. The bits above the 64th in a tenth byte are
// ignored, as generated code does.
func (w *wire) longVarint() (uint64, error) {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		if w.done() {
			return 0, io.ErrUnexpectedEOF
		}
		c := w.data[w.pos]
		w.pos++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: a varint of more than 64 bits at byte %d", errWire, w.pos)
}

// bytes consumes a length and as many bytes. The result is a part of data, with its capacity cut.
func (w *wire) bytes() ([]byte, error) {
	// The usual case: fewer than 128 bytes, whose length is one byte.
	if at := w.pos + 1; at <= len(w.data) {
		if n := int(w.data[w.pos]); n < 0x80 && n <= len(w.data)-at {
			w.pos = at + n
			return w.data[at:w.pos:w.pos], nil
		}
	}
	n, err := w.varint()
	if err != nil {
		return nil, err
	}
	// Compared as uint64: a length from the server may be one that no int has.
	if n > uint64(len(w.data)-w.pos) {
		return nil, io.ErrUnexpectedEOF
	}
	b := w.data[w.pos : w.pos+int(n) : w.pos+int(n)]
	w.pos += int(n)
	return b, nil
}

// message consumes the value of a field that must be of wire type wireBytes.
func (w *wire) message(typ int) ([]byte, error) {
	if typ != wireBytes {
		return nil, w.wrongType(typ, "bytes")
	}
	return w.bytes()
}

// wrongType returns the error for a field of wire type typ where want should be.
func (w *wire) wrongType(typ int, want string) error {
	return fmt.Errorf("%w: wire type %d, want %s, at byte %d", errWire, typ, want, w.pos)
}

// countRepeats looks ahead for a slice that is to be made of the right size. The tag of one element
// has just been consumed; tag has its bytes. countRepeats returns how many further fields with that
// tag follow the element without a gap, as an encoder writes them, and where the last one ends.
func (w *wire) countRepeats(tag string) (n, end int) {
	look := wire{data: w.data, pos: w.pos}
	for {
		_, err := look.bytes()
		if end = look.pos; err != nil || len(look.data)-end < len(tag) || string(look.data[end:end+len(tag)]) != tag {
			return n, end
		}
		look.pos += len(tag)
		n++
	}
}

// skip consumes the value of a field of wire type typ. A group is a sequence of fields, and may
// contain groups; it is gone over in a loop with a counter, so it cannot overflow the stack.
func (w *wire) skip(typ int) error {
	for groups := 0; ; {
		switch typ {
		case wireVarint:
			if _, err := w.varint(); err != nil {
				return err
			}
		case wire64, wire32:
			n := 8
			if typ == wire32 {
				n = 4
			}
			if len(w.data)-w.pos < n {
				return io.ErrUnexpectedEOF
			}
			w.pos += n
		case wireBytes:
			if _, err := w.bytes(); err != nil {
				return err
			}
		case wireGroup:
			groups++
		case wireEnd:
			if groups--; groups < 0 {
				return fmt.Errorf("%w: the end of no group at byte %d", errWire, w.pos)
			}
		default:
			return fmt.Errorf("%w: wire type %d at byte %d", errWire, typ, w.pos)
		}
		if groups == 0 {
			return nil
		}
		// Like generated code, look at no field number inside a group.
		tag, err := w.varint()
		if err != nil {
			return err
		}
		typ = int(tag & 7)
	}
}

// each calls f for each field of the message in data. f consumes the field's value and returns
// true, or returns false: then each skips the value.
func (s *wireStack) each(data []byte, f func(w *wire, num, typ int) (bool, error)) error {
	w := s.open(data)
	defer s.close(w)
	for !w.done() {
		num, typ, err := w.field()
		if err != nil {
			return err
		}
		taken, err := f(w, num, typ)
		if err == nil && !taken {
			err = w.skip(typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// countNumbers counts the elements of a slice of numbers that follow, as countRepeats does those of
// messages. The tag of one number has just been consumed.
func (w *wire) countNumbers(tag string, typ int) (n int) {
	look := wire{data: w.data, pos: w.pos}
	for look.skip(typ) == nil && bytes.HasPrefix(look.data[look.pos:], []byte(tag)) {
		look.pos += len(tag)
		n++
	}
	return n
}
