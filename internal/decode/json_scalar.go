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

// isNumber reports whether the value that is next looks like a number.
func (d *Decoder) nextIsNumber() bool {
	c := d.p.next()
	return c == '-' || '0' <= c && c <= '9'
}

// aNumber consumes a number and returns its bytes, which are nil for a null.
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

func (d *Decoder) overflow(number []byte, t reflect.Type) error {
	return d.mismatch(fmt.Errorf("%.40s does not fit %v", number, t))
}

func decodeInt(t reflect.Type) decoder {
	size := t.Bits()
	return func(d *Decoder, p pointer) error {
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

// decodeBytes decodes slices of bytes, which stand as base64 or as arrays of numbers.
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
		b := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
		n, err := base64.StdEncoding.Decode(b, s)
		if err != nil {
			return d.mismatch(err)
		}
		*as[[]byte](p) = b[:n]
		return nil
	}
}

// decodeTime does what (*metav1.Time).UnmarshalJSON does.
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

// utc returns the time of b, if it is of the form that servers write: 2006-01-02T15:04:05Z.
func utc(b []byte) (time.Time, bool) {
	if len(b) != len("2006-01-02T15:04:05Z") || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[19] != 'Z' {
		return time.Time{}, false
	}
	ok := true
	two := func(at, least, most int) int {
		tens, units := int(b[at])-'0', int(b[at+1])-'0'
		n := 10*tens + units
		ok = ok && uint(tens) <= 9 && uint(units) <= 9 && least <= n && n <= most
		return n
	}
	year, month, day := 100*two(0, 0, 99)+two(2, 0, 99), two(5, 1, 12), two(8, 1, 31)
	hour, minute, second := two(11, 0, 23), two(14, 0, 59), two(17, 0, 59)
	at := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	return at.Local(), ok && at.Day() == day
}

// decodeIntOrString does what (*intstr.IntOrString).UnmarshalJSON does.
func decodeIntOrString() decoder {
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
