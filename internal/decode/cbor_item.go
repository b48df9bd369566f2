package decode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Reasons of errCBOR.
var (
	errStrayBreak  = errors.New("a break that ends nothing")
	errStringPiece = errors.New("a piece of a string that is none")
)

// The major types of CBOR: the upper three bits of the first byte of a data item.
const (
	cborUint = iota
	cborNegative
	cborBytes
	cborText
	cborArray
	cborMap
	cborTag
	cborSimple
)

const (
	// cborBreak is the byte that ends an item of indefinite length.
	cborBreak = 0xff
	// cborIndefinite, as the lower five bits of the first byte, says that a break ends the item.
	cborIndefinite = 31
)

// A cborHead is what each data item begins with.
type cborHead struct {
	major byte
	// info has the lower five bits of the first byte.
	info byte
	// arg is a number; the length of a string; the number of elements or of pairs; a tag.
	arg uint64
	// size is the number of bytes of the head.
	size int
}

// indefinite reports whether a break ends the item. A break itself has such a head, too.
func (h *cborHead) indefinite() bool { return h.info == cborIndefinite }

// shortCBORHead returns the head of one byte that c is. It reports false if the head is longer.
// Most heads are short, and the compiler puts this function in the place of its calls.
func shortCBORHead(c byte) (cborHead, bool) {
	return cborHead{c >> 5, c & 31, uint64(c & 31), 1}, c&31 < 24
}

// readCBORHead returns the head that data begins with, of any length. Its size is 0 if more bytes
// are needed. The error is a reason without the offset.
func readCBORHead(data []byte) (h cborHead, err error) {
	if len(data) == 0 {
		return h, nil
	}
	h, short := shortCBORHead(data[0])
	if short {
		return h, nil
	}
	h.arg, h.size = 0, 0
	switch {
	case h.info == 24 && len(data) >= 2:
		h.arg, h.size = uint64(data[1]), 2
		// Such a value has a shorter form, which is the only one that is allowed.
		if h.major == cborSimple && h.arg < 32 {
			return h, fmt.Errorf("simple value %d in two bytes", h.arg)
		}
	case h.info == 25 && len(data) >= 3:
		h.arg, h.size = uint64(binary.BigEndian.Uint16(data[1:])), 3
	case h.info == 26 && len(data) >= 5:
		h.arg, h.size = uint64(binary.BigEndian.Uint32(data[1:])), 5
	case h.info == 27 && len(data) >= 9:
		h.arg, h.size = binary.BigEndian.Uint64(data[1:]), 9
	case h.info <= 27:
		// The rest of the head has not come.
	case h.info < cborIndefinite, h.major == cborUint, h.major == cborNegative, h.major == cborTag:
		return h, fmt.Errorf("no item begins with 0x%02x", data[0])
	default:
		h.size = 1
	}
	return h, nil
}

// A cborWalk finds the end of a data item, and checks on the way that the item is well-formed. It
// looks at each byte once, however many pieces they come in, and passes over strings.
type cborWalk struct {
	// n is how many bytes of the item have been looked at. It counts from the start of the item.
	n int
	// open has the items around n, the outermost first.
	open []cborOpen
	// tagged says that a tag is before n, and needs an item.
	tagged bool
}

// walk goes on with data, which begins where the item begins and has more bytes than last time. It
// reports whether n is the end of the item.
func (w *cborWalk) walk(data []byte) (done bool, err error) {
	for w.n < len(data) {
		h, short := shortCBORHead(data[w.n])
		if !short {
			if h, err = readCBORHead(data[w.n:]); err != nil || h.size == 0 {
				return false, err
			}
		}
		var in *cborOpen
		if len(w.open) > 0 {
			in = &w.open[len(w.open)-1]
		}
		// The break ends the innermost item, and only behind a whole element or pair.
		if h.major == cborSimple && h.indefinite() {
			if in == nil || !in.indefinite || w.tagged || in.major == cborMap && in.items%2 == 1 {
				return false, errStrayBreak
			}
			w.n++
			w.open = w.open[:len(w.open)-1]
			if w.ended() {
				return true, nil
			}
			continue
		}
		// A string of indefinite length has strings of its own sort, each with a length.
		if in != nil && in.major <= cborText && (h.major != in.major || h.indefinite()) {
			return false, errStringPiece
		}
		w.tagged = false
		switch {
		case h.major == cborTag:
			w.tagged = true
			w.n += h.size
			continue
		case h.indefinite():
			err = w.begin(cborOpen{major: h.major, indefinite: true})
		case h.major == cborBytes || h.major == cborText:
			// The length may be of any size: it is compared before it is added.
			if h.arg > uint64(len(data)-w.n-h.size) {
				return false, nil
			}
			w.n += int(h.arg)
		case h.arg > 0 && h.major == cborArray:
			err = w.begin(cborOpen{major: h.major, items: h.arg})
		case h.arg > 0 && h.major == cborMap:
			// No stream is so long. Twice the number must not overflow.
			if h.arg > math.MaxInt64 {
				return false, fmt.Errorf("a map of %d members", h.arg)
			}
			err = w.begin(cborOpen{major: h.major, items: 2 * h.arg})
		}
		if err != nil {
			return false, err
		}
		w.n += h.size
		// An item has ended, or its first one is next.
		if opened := h.indefinite() || h.arg > 0 && (h.major == cborArray || h.major == cborMap); !opened && w.ended() {
			return true, nil
		}
	}
	return false, nil
}

// begin goes into item o.
func (w *cborWalk) begin(o cborOpen) error {
	if len(w.open) == maxDepth {
		return fmt.Errorf("more than %d levels", maxDepth)
	}
	w.open = append(w.open, o)
	return nil
}

// ended notes that an item has ended, which may be the last one of those around it. It reports
// whether it was the outermost one.
func (w *cborWalk) ended() bool {
	for len(w.open) > 0 {
		in := &w.open[len(w.open)-1]
		if in.indefinite {
			in.items++
			return false
		}
		if in.items--; in.items > 0 {
			return false
		}
		w.open = w.open[:len(w.open)-1]
	}
	return true
}

// cborItem consumes the CBOR item that is next and returns its bytes, which are valid until the
// next call. They are well-formed.
func (b *buffer) cborItem() ([]byte, error) {
	w := cborWalk{open: b.open[:0]}
	defer func() { b.open = w.open }()
	for {
		done, err := w.walk(b.unread())
		if err != nil {
			return nil, fmt.Errorf("%w at byte %d: %v", errCBOR, b.offset()+int64(w.n), err)
		}
		if done && w.n <= b.limit {
			return b.take(w.n), nil
		}
		if done {
			return nil, b.tooLarge()
		}
		if err := b.fill(); err != nil {
			return nil, b.truncated(err)
		}
	}
}

// cborHead consumes a head. If the stream ends before it the error is io.EOF.
func (b *buffer) cborHead() (cborHead, error) {
	for {
		h, err := readCBORHead(b.unread())
		if err != nil {
			return h, fmt.Errorf("%w at byte %d: %v", errCBOR, b.offset(), err)
		}
		if h.size > 0 {
			b.pos += h.size
			return h, nil
		}
		if err := b.fill(); err == io.EOF && len(b.unread()) == 0 {
			return h, err
		} else if err != nil {
			return h, b.truncated(err)
		}
	}
}

// hasCBOR reports whether the unread bytes have a whole item.
func (b *buffer) hasCBOR() bool {
	w := cborWalk{open: b.open[:0]}
	done, err := w.walk(b.unread())
	return done && err == nil
}
