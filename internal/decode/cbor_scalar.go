package decode

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// Tags with a meaning (RFC 8949, section 3.4), beside those of base64 and its like. Tag 0 is before
// a time as text, which JSON has too.
const (
	tagEpoch          = 1
	tagBignum         = 2
	tagNegativeBignum = 3
)

// negative writes the number -1-n.
func (c *cborToJSON) negative(n uint64) {
	if n == math.MaxUint64 {
		c.out = append(c.out, "-18446744073709551616"...)
		return
	}
	c.out = strconv.AppendUint(append(c.out, '-'), n+1, 10)
}

// simple writes false, true, null or a floating-point number.
func (c *cborToJSON) simple(h cborHead) error {
	switch h.info {
	case 20:
		c.out = append(c.out, "false"...)
	case 21:
		c.out = append(c.out, "true"...)
	case 22:
		c.out = append(c.out, "null"...)
	case 23:
		return c.invalid("undefined")
	case 25, 26, 27:
		return c.float(floatOf(h))
	case cborIndefinite:
		return c.malformed(c.pos-1, errStrayBreak)
	default:
		return c.invalid("simple value %d", h.arg)
	}
	return nil
}

// floatOf returns the number in h, which has 16, 32 or 64 bits.
func floatOf(h cborHead) float64 {
	switch h.info {
	case 26:
		return float64(math.Float32frombits(uint32(h.arg)))
	case 27:
		return math.Float64frombits(h.arg)
	}
	// One bit of sign, five of exponent and ten of fraction.
	sign, exp, frac := h.arg>>15, int(h.arg>>10&31), float64(h.arg&1023)
	var f float64
	switch exp {
	case 0:
		f = math.Ldexp(frac, -24)
	case 31:
		f = math.Inf(1)
		if frac != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(1024+frac, exp-25)
	}
	if sign == 1 {
		f = -f
	}
	return f
}

// float writes f as encoding/json does, so that 1.0 is the number 1 in an object without a type.
// Servers write JSON so.
func (c *cborToJSON) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return c.invalid("the number %v", f)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	c.out = strconv.AppendFloat(c.out, f, format, -1, 64)
	return nil
}

// str writes a string, behind its head h. The bytes of a byte string are its text, as apimachinery
// writes all strings, or are written in the encoding as.
func (c *cborToJSON) str(h cborHead, as uint64) error {
	s, err := c.piece(h)
	if err != nil {
		return err
	}
	switch {
	case h.major == cborText || as == plainText:
		c.text(s)
	case as == toBase16:
		c.out = append(hex.AppendEncode(append(c.out, '"'), s), '"')
	case as == toBase64URL:
		c.out = append(base64.RawURLEncoding.AppendEncode(append(c.out, '"'), s), '"')
	default:
		c.out = append(base64.StdEncoding.AppendEncode(append(c.out, '"'), s), '"')
	}
	return nil
}

// piece consumes the bytes of a string, behind its head h. They are a part of data, unless the
// string came in pieces.
func (c *cborToJSON) piece(h cborHead) ([]byte, error) {
	if h.indefinite() {
		var all []byte
		for {
			if more, err := c.more(h, 0); !more {
				return all, err
			}
			next, err := c.head()
			if err == nil && (next.major != h.major || next.indefinite()) {
				err = c.malformed(c.pos-next.size, errStringPiece)
			}
			if err != nil {
				return nil, err
			}
			s, err := c.piece(next)
			if err != nil {
				return nil, err
			}
			all = append(all, s...)
		}
	}
	if h.arg > uint64(len(c.data)-c.pos) {
		return nil, io.ErrUnexpectedEOF
	}
	s := c.data[c.pos : c.pos+int(h.arg)]
	c.pos += len(s)
	if h.major == cborText && !utf8.Valid(s) {
		return nil, c.invalid("text that is no UTF-8")
	}
	return s, nil
}

// text writes s in quotes. Bytes that are no UTF-8 are left to JSON's decoder.
func (c *cborToJSON) text(s []byte) {
	const hexDigits = "0123456789abcdef"
	out := append(c.out, '"')
	for {
		n := plainPrefix(s)
		out = append(out, s[:n]...)
		if n == len(s) {
			break
		}
		switch b := s[n]; {
		case b == '"' || b == '\\':
			out = append(out, '\\', b)
		case b < ' ':
			out = append(out, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		default:
			out = append(out, b)
		}
		s = s[n+1:]
	}
	c.out = append(out, '"')
}

// epoch writes a time that comes as its seconds since 1970, as apimachinery does: as text.
func (c *cborToJSON) epoch() error {
	h, err := c.head()
	if err != nil {
		return err
	}
	var at time.Time
	switch {
	case h.major == cborUint && h.arg <= math.MaxInt64:
		at = time.Unix(int64(h.arg), 0)
	case h.major == cborNegative && h.arg <= math.MaxInt64:
		at = time.Unix(-1-int64(h.arg), 0)
	case h.major == cborSimple && h.info >= 25 && h.info <= 27:
		whole, frac := math.Modf(floatOf(h))
		if math.IsNaN(frac) || math.Abs(whole) > math.MaxInt32*1000 {
			return c.invalid("no time")
		}
		at = time.Unix(int64(whole), int64(frac*1e9))
	default:
		return c.invalid("no time")
	}
	if year := at.UTC().Year(); year < 0 || year > 9999 {
		return c.invalid("a time in the year %d", year)
	}
	c.out = strconv.AppendQuote(c.out, at.UTC().Format(time.RFC3339Nano))
	return nil
}
