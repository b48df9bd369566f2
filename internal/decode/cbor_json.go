package decode

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// A cborToJSON writes a CBOR item as JSON, as the server would have written the same object in
// JSON. So the decoders of JSON decode it, with all that they can do, and to the same result.
//
// What CBOR has and JSON has not is invalid here, as for apimachinery: numbers that are not finite
// or have more than 64 bits, undefined and other simple values, keys of a map that are no strings,
// text that is no UTF-8. Two members of the same name are left to JSON's decoder.
//
// apimachinery writes all strings as byte strings, and bytes behind a tag that asks for base64. A
// tag that means nothing here is passed over: first of all the one that marks CBOR as such.
type cborToJSON struct {
	data []byte
	pos  int
	// base is the offset of data[0] in the stream.
	base int64
	out  []byte
	// limit is the most bytes of out.
	limit int
	// lenient writes a null in the place of what is invalid.
	lenient bool
	// until ends the work when out has so many bytes, with errReached; 0 means never.
	until int
	depth int
}

// errReached says that out has the bytes of until.
var errReached = errors.New("reached")

// An item's strings may be to be written in an encoding of bytes as text, which a tag around them
// asks for (RFC 8949, section 3.4.5.2).
const (
	plainText   = 0
	toBase64URL = 21
	toBase64    = 22
	toBase16    = 23
)

const errCBORKey = "a key that is no string"

// value writes the item at pos, whose byte strings are bytes in the encoding as. A value that is
// invalid is a FieldError, and pos is anywhere. Any other error is for the stream: bytes that are
// no CBOR, or too many.
func (c *cborToJSON) value(as uint64) error {
	start := c.pos
	h, err := c.head()
	if err != nil {
		return err
	}
	for h.major == cborTag {
		switch h.arg {
		case toBase64URL, toBase64, toBase16:
			as = h.arg
		case tagEpoch:
			err = c.epoch()
			return c.written(start, err)
		case tagBignum, tagNegativeBignum:
			return c.written(start, c.invalid("a number of more than 64 bits"))
		}
		if h, err = c.head(); err != nil {
			return err
		}
	}
	switch h.major {
	case cborUint:
		c.out = strconv.AppendUint(c.out, h.arg, 10)
	case cborNegative:
		c.negative(h.arg)
	case cborBytes, cborText:
		err = c.str(h, as)
	case cborArray:
		err = c.array(h, as)
	case cborMap:
		err = c.object(h, as)
	default:
		err = c.simple(h)
	}
	return c.written(start, err)
}

// written ends the work on the item that begins at start, whose error is err.
func (c *cborToJSON) written(start int, err error) error {
	if _, invalid := err.(*FieldError); invalid && c.lenient {
		// An item in it would have been written as a null, so this one has written nothing.
		var w cborWalk
		done, err := w.walk(c.data[start:])
		if err != nil {
			return c.malformed(start+w.n, err)
		}
		if !done {
			return io.ErrUnexpectedEOF
		}
		c.pos = start + w.n
		c.out = append(c.out, "null"...)
		return nil
	}
	switch {
	case err != nil:
		return err
	case len(c.out) > c.limit:
		return fmt.Errorf("%w %d bytes of JSON in one piece at byte %d", errTooLarge, c.limit, c.base)
	case c.until > 0 && len(c.out) >= c.until:
		return errReached
	}
	return nil
}

// head consumes a head.
func (c *cborToJSON) head() (cborHead, error) {
	if c.pos < len(c.data) {
		if h, short := shortCBORHead(c.data[c.pos]); short {
			c.pos++
			return h, nil
		}
	}
	return c.longHead()
}

// longHead is head for a head of more than one byte.
func (c *cborToJSON) longHead() (cborHead, error) {
	h, err := readCBORHead(c.data[c.pos:])
	if err != nil {
		return h, c.malformed(c.pos, err)
	}
	if h.size == 0 {
		return h, io.ErrUnexpectedEOF
	}
	c.pos += h.size
	return h, nil
}

// malformed returns err with the offset of the byte at pos.
func (c *cborToJSON) malformed(pos int, err error) error {
	return fmt.Errorf("%w at byte %d: %v", errCBOR, c.base+int64(pos), err)
}

// invalid returns the error of the value that ends at pos.
func (c *cborToJSON) invalid(format string, args ...any) error {
	return fieldError(c.base+int64(c.pos), fmt.Errorf("CBOR: "+format, args...))
}

// down goes into an array or a map.
func (c *cborToJSON) down() error {
	if c.depth++; c.depth > maxDepth {
		return c.malformed(c.pos, fmt.Errorf("more than %d levels", maxDepth))
	}
	return nil
}

// more reports whether another element comes, of those of h, after n. It consumes the break behind
// the last one.
func (c *cborToJSON) more(h cborHead, n uint64) (bool, error) {
	if !h.indefinite() {
		return n < h.arg, nil
	}
	if c.pos == len(c.data) {
		return false, io.ErrUnexpectedEOF
	}
	if c.data[c.pos] != cborBreak {
		return true, nil
	}
	c.pos++
	return false, nil
}

// array writes an array, behind its head h.
func (c *cborToJSON) array(h cborHead, as uint64) error {
	if err := c.down(); err != nil {
		return err
	}
	c.out = append(c.out, '[')
	for n := uint64(0); ; n++ {
		more, err := c.more(h, n)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if n > 0 {
			c.out = append(c.out, ',')
		}
		if err := c.value(as); err != nil {
			return inElement(int(n), err)
		}
	}
	c.out = append(c.out, ']')
	c.depth--
	return nil
}

// object writes a map as an object, behind its head h.
func (c *cborToJSON) object(h cborHead, as uint64) error {
	if err := c.down(); err != nil {
		return err
	}
	c.out = append(c.out, '{')
	for n := uint64(0); ; n++ {
		more, err := c.more(h, n)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if n > 0 {
			c.out = append(c.out, ',')
		}
		name := len(c.out)
		if err := c.key(); err != nil {
			return err
		}
		end := len(c.out)
		c.out = append(c.out, ':')
		if err := c.value(as); err != nil {
			if _, ok := err.(*FieldError); ok {
				// The name as JSON has it, without the quotes. No name of the API has an escape.
				err = in(string(c.out[name+1:end-1]), err)
			}
			return err
		}
	}
	c.out = append(c.out, '}')
	c.depth--
	return nil
}

// key writes the key of a member.
func (c *cborToJSON) key() error {
	start := c.pos
	h, err := c.head()
	if err != nil {
		return err
	}
	if h.major != cborBytes && h.major != cborText {
		err = c.invalid(errCBORKey)
	} else {
		err = c.str(h, plainText)
	}
	if _, invalid := err.(*FieldError); !invalid || !c.lenient {
		return err
	}
	// A null is no key: it stands in quotes.
	c.out = append(c.out, '"')
	err = c.written(start, err)
	c.out = append(c.out, '"')
	return err
}
