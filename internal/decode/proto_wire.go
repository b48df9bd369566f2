package decode

import (
	"errors"
	"fmt"
	"io"
)

// The wire types of protobuf's fields.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wireGroup  = 3
	wireEnd    = 4
	wire32     = 5
)

var errWire = errors.New("invalid protobuf")

// A wire reads the fields of a protobuf message.
type wire struct {
	data []byte
	pos  int
}

func (w *wire) done() bool { return w.pos >= len(w.data) }

// A wireStack has the wires of the messages that are being decoded, which contain each other. They are used again: each would be
// memory of its own, since it is passed to functions that only the type tells.
type wireStack struct {
	all  []*wire
	used int
}

func (s *wireStack) open(data []byte) *wire {
	if s.used == len(s.all) {
		s.all = append(s.all, new(wire))
	}
	w := s.all[s.used]
	s.used++
	w.data, w.pos = data, 0
	return w
}

// close gives back w, the last wire that was opened.
func (s *wireStack) close(w *wire) {
	w.data = nil
	s.used--
}

// field consumes a field's number and wire type.
func (w *wire) field() (num int, typ int, err error) {
	v, err := w.varint()
	if err != nil {
		return 0, 0, err
	}
	return fieldOf(v, int64(w.pos))
}

// fieldOf returns the number and wire type in v, a varint that ends at pos. The number is cut to 32 bits, as generated code does.
func fieldOf(v uint64, pos int64) (num, typ int, err error) {
	if num = int(int32(v >> 3)); num <= 0 {
		return 0, 0, fmt.Errorf("%w: field number %d at byte %d", errWire, num, pos)
	}
	return num, int(v & 7), nil
}

func (w *wire) varint() (uint64, error) {
	if w.pos < len(w.data) && w.data[w.pos] < 0x80 {
		w.pos++
		return uint64(w.data[w.pos-1]), nil
	}
	return w.longVarint()
}

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

// bytes consumes a length and as many bytes, which are not copied.
func (w *wire) bytes() ([]byte, error) {
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
	if n > uint64(len(w.data)-w.pos) {
		return nil, io.ErrUnexpectedEOF
	}
	b := w.data[w.pos : w.pos+int(n) : w.pos+int(n)]
	w.pos += int(n)
	return b, nil
}

// message consumes the bytes of a field that must be of that wire type.
func (w *wire) message(typ int) ([]byte, error) {
	if typ != wireBytes {
		return nil, w.wrongType(typ, "bytes")
	}
	return w.bytes()
}

func (w *wire) wrongType(typ int, want string) error {
	return fmt.Errorf("%w: wire type %d, want %s, at byte %d", errWire, typ, want, w.pos)
}

// alike returns how many fields with tag follow the one whose tag has just been consumed without a gap, and where the last of them
// ends. Elements of a repeated field do, so that their slice can be made of the right size.
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

// skip consumes the value of a field.
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
		// Generated code looks at no number inside a group.
		tag, err := w.varint()
		if err != nil {
			return err
		}
		typ = int(tag & 7)
	}
}

// each calls f for each field of the message in data. f consumes the field's value and returns true, or leaves it.
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
