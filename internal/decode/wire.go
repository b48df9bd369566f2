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

// field consumes a field's number and wire type.
func (w *wire) field() (num int, typ int, err error) {
	v, err := w.varint()
	if err != nil {
		return 0, 0, err
	}
	// The number is cut to 32 bits, as generated code does.
	if num = int(int32(v >> 3)); num <= 0 {
		return 0, 0, fmt.Errorf("%w: field number %d at byte %d", errWire, num, w.pos)
	}
	return num, int(v & 7), nil
}

func (w *wire) varint() (uint64, error) {
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

// alike returns how many fields with the number of the one whose tag has just been consumed follow it without a gap. Elements of
// a repeated field do, so that their slice can be made of the right size.
func (w *wire) alike() int {
	at := w.pos - 1
	tag := w.data[at]
	if tag >= 0x80 || tag&7 != wireBytes {
		return 0 // a number above 15 has a tag of two bytes
	}
	look := wire{data: w.data, pos: w.pos}
	n := 0
	for {
		if _, err := look.bytes(); err != nil || look.done() || look.data[look.pos] != tag {
			return n
		}
		look.pos++
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
func each(data []byte, f func(w *wire, num, typ int) (bool, error)) error {
	w := wire{data: data}
	for !w.done() {
		num, typ, err := w.field()
		if err != nil {
			return err
		}
		taken, err := f(&w, num, typ)
		if err == nil && !taken {
			err = w.skip(typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
