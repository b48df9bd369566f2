package decode

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The decoders of this file are those of single values: strings, booleans, numbers, bytes and
// times. Each looks at the first byte of the value. If that is the byte of its own sort, it decodes
// the value and sets the Go value at p. A null leaves that as it is, except where a comment says
// otherwise. Any other sort of value is a FieldError.

// decode decodes a string.
func (f *stringField) decode(d *Decoder, p pointer) error {
	if d.p.next() != '"' {
		if null, err := d.p.null(); null {
			return err
		}
		return d.wrongType("a string")
	}
	s, err := f.read(d)
	if err == nil {
		*as[string](p) = s
	}
	return err
}

// decodeBool decodes a boolean. The first byte says which literal it can only be, and literal
// checks the rest.
func decodeBool(d *Decoder, p pointer) error {
	switch d.p.next() {
	case 't':
		if err := d.p.literal("true"); err != nil {
			return err
		}
		*as[bool](p) = true
	case 'f':
		if err := d.p.literal("false"); err != nil {
			return err
		}
		*as[bool](p) = false
	case 'n':
		return d.p.literal("null")
	default:
		return d.wrongType("a boolean")
	}
	return nil
}

// nextIsNumber reports whether the value that is next begins like a number.
func (d *Decoder) nextIsNumber() bool {
	c := d.p.next()
	return c == '-' || '0' <= c && c <= '9'
}

// readNumber consumes a number and returns its bytes, or nil for a null. The error for another
// value is a FieldError, that for what is no value a SyntaxError.
func (d *Decoder) readNumber() ([]byte, error) {
	if d.nextIsNumber() {
		return d.p.number()
	}
	if null, err := d.p.null(); null {
		return nil, err
	}
	if c := d.p.next(); c == '{' || c == '[' || c == '"' || c == 't' || c == 'f' {
		return nil, d.wrongType("a number")
	}
	return d.p.number()
}

// overflow returns the error for a number that a t cannot hold. For an integer type, 1.5 and 1e3
// are such numbers too.
func (d *Decoder) overflow(number []byte, t reflect.Type) error {
	return d.mismatch(fmt.Errorf("%.40s does not fit %v", number, t))
}

// decodeInt returns the decoder of integers of type t. The shortcut for short numbers is only for
// types that hold all of them.
func decodeInt(t reflect.Type) decoder {
	size := t.Bits()
	return func(d *Decoder, p pointer) error {
		// The result of shortInt fits both types, so it needs no check.
		if size >= 32 {
			if n, ok := d.p.shortInt(); ok {
				if size == 32 {
					*as[int32](p) = n
				} else {
					*as[int64](p) = int64(n)
				}
				return nil
			}
		}
		number, err := d.readNumber()
		if number == nil {
			return err
		}
		// ParseInt checks the range, and that the number has neither a fraction nor an exponent. It
		// keeps no string.
		n, err := strconv.ParseInt(unsafeString(number), 10, size)
		if err != nil {
			return d.overflow(number, t)
		}
		switch size {
		case 8:
			*as[int8](p) = int8(n)
		case 16:
			*as[int16](p) = int16(n)
		case 32:
			*as[int32](p) = int32(n)
		default:
			*as[int64](p) = n
		}
		return nil
	}
}

// decodeUint returns the decoder of unsigned integers of type t. A minus is an error, even before a
// 0.
func decodeUint(t reflect.Type) decoder {
	size := t.Bits()
	return func(d *Decoder, p pointer) error {
		number, err := d.readNumber()
		if number == nil {
			return err
		}
		n, err := strconv.ParseUint(unsafeString(number), 10, size)
		if err != nil {
			return d.overflow(number, t)
		}
		switch size {
		case 8:
			*as[uint8](p) = uint8(n)
		case 16:
			*as[uint16](p) = uint16(n)
		case 32:
			*as[uint32](p) = uint32(n)
		default:
			*as[uint64](p) = n
		}
		return nil
	}
}

// decodeFloat returns the decoder of floating-point numbers of type t. A number that is too large
// is an error. One that is too small is 0, and one with too many digits is rounded.
func decodeFloat(t reflect.Type) decoder {
	size := t.Bits()
	return func(d *Decoder, p pointer) error {
		number, err := d.readNumber()
		if number == nil {
			return err
		}
		n, err := strconv.ParseFloat(unsafeString(number), size)
		if err != nil {
			return d.overflow(number, t)
		}
		if size == 32 {
			*as[float32](p) = float32(n)
		} else {
			*as[float64](p) = n
		}
		return nil
	}
}

// decodeBytes returns the decoder of slices of bytes: a string in base64, as Go writes them, or an
// array of numbers, which encoding/json also reads.
func decodeBytes(t reflect.Type) decoder {
	other := fallback(t)
	return func(d *Decoder, p pointer) error {
		if d.p.next() != '"' {
			return other(d, p)
		}
		s, err := d.p.str()
		if err != nil {
			return err
		}
		// The result is new memory, since the input is overwritten by what comes next.
		b := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
		n, err := base64.StdEncoding.Decode(b, s)
		if err != nil {
			return d.mismatch(err)
		}
		*as[[]byte](p) = b[:n:n]
		return nil
	}
}

// decodeTime decodes a time as (*metav1.Time).UnmarshalJSON does: a null is the zero time, a string
// is RFC 3339, and the result is in local time.
func decodeTime(d *Decoder, p pointer) error {
	to := as[metav1.Time](p)
	if d.p.next() != '"' {
		null, err := d.p.null()
		if null {
			if err == nil {
				to.Time = time.Time{}
			}
			return err
		}
		return d.wrongType("a time")
	}
	b, err := d.p.str()
	if err != nil {
		return err
	}
	// Nearly all times are in UTC and in whole seconds.
	if at, ok := utc(b); ok {
		to.Time = at
		return nil
	}
	t, err := time.Parse(time.RFC3339, unsafeString(b))
	if err != nil {
		return d.mismatch(err)
	}
	to.Time = t.Local()
	return nil
}

// utc returns the time of b, in local time, if b has the form that servers write:
// 2006-01-02T15:04:05Z. It reports false for other forms, and for days that the month does not
// have; time.Parse decides on those. It takes a fraction of the time of time.Parse, and an object
// has some ten times.
func utc(b []byte) (time.Time, bool) {
	if len(b) != len("2006-01-02T15:04:05Z") || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[19] != 'Z' {
		return time.Time{}, false
	}
	ok := true
	// two returns the number of the two digits at at, which must be from least to most.
	two := func(at, least, most int) int {
		tens, units := int(b[at])-'0', int(b[at+1])-'0'
		n := 10*tens + units
		ok = ok && uint(tens) <= 9 && uint(units) <= 9 && least <= n && n <= most
		return n
	}
	year, month, day := 100*two(0, 0, 99)+two(2, 0, 99), two(5, 1, 12), two(8, 1, 31)
	hour, minute, second := two(11, 0, 23), two(14, 0, 59), two(17, 0, 59)
	// time.Date takes February 30 for March 1 or 2, so a wrong day shows in the result.
	at := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	return at.Local(), ok && at.Day() == day
}

// decodeIntOrString returns a decoder that does what (*intstr.IntOrString).UnmarshalJSON does. Only
// the field of the type that came is set.
func decodeIntOrString() decoder {
	// A decoder for each of the two, which the first byte chooses between.
	str, num := new(stringField), decodeInt(reflect.TypeFor[int32]())
	return func(d *Decoder, p pointer) error {
		to := as[intstr.IntOrString](p)
		if d.p.next() == '"' {
			to.Type = intstr.String
			return str.decode(d, pointerTo(&to.StrVal))
		}
		to.Type = intstr.Int
		return num(d, pointerTo(&to.IntVal))
	}
}
