package decode

import (
	"bytes"
	"strconv"
)

// An anyField decodes values of type any. As in apimachinery, objects become map[string]any, arrays
// []any, whole numbers int64 and other numbers float64.
type anyField struct{ keep mask }

// decode decodes a value of any sort, and replaces what is at p.
func (f *anyField) decode(d *Decoder, p pointer) error {
	v, err := d.decodeAny(f.keep)
	if err == nil {
		*as[any](p) = v
	}
	return err
}

// decodeAny consumes a value of any sort and returns it without what keep leaves out.
func (d *Decoder) decodeAny(keep mask) (any, error) {
	c := d.p.next()
	switch c {
	case '{':
		m, _, err := d.decodeAnyMap(keep, nil)
		return m, err
	case '[':
		return d.decodeAnySlice(keep, nil)
	}
	v, err := d.decodeAnyScalar(c)
	if err == nil && !keep.value() {
		v = emptyOf(v)
	}
	return v, err
}

// emptyOf returns the empty value of the sort of v.
func emptyOf(v any) any {
	switch v.(type) {
	case string:
		return ""
	case bool:
		return false
	case int64:
		return int64(0)
	case float64:
		return 0.0
	}
	return nil
}

// decodeAnyScalar consumes a value that begins with c and is no object and no array.
func (d *Decoder) decodeAnyScalar(c byte) (any, error) {
	switch c {
	case '"':
		b, err := d.p.str()
		if err != nil {
			return nil, err
		}
		// A string in an interface is one more allocation than a string. The same ones come again
		// and again.
		return d.boxed.get(b), nil
	case 't':
		return true, d.p.literal("true")
	case 'f':
		return false, d.p.literal("false")
	case 'n':
		return nil, d.p.literal("null")
	}
	// A number without a fraction is an int64 if it fits one. ParseInt refuses an exponent, which
	// makes it a float64.
	number, err := d.p.number()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(number, '.') < 0 {
		if n, err := strconv.ParseInt(unsafeString(number), 10, 64); err == nil {
			return n, nil
		}
	}
	// A large integer is a float64 too, as for apimachinery.
	n, err := strconv.ParseFloat(unsafeString(number), 64)
	return n, d.mismatch(err)
}

// A pair is a member of an object, or an element of an array with no name, that waits on the
// Decoder's stack.
type pair struct {
	name  string
	value any
}

// decodeAnyMap consumes an object. value decodes the value of each member; nil: decodeMember does. The
// members are collected on the Decoder's stack first, so that the map is made of the right size. Of
// a name that comes twice the last value wins; twice reports that there is one.
func (d *Decoder) decodeAnyMap(keep mask, value func(name string, keep mask) (any, error)) (_ map[string]any, twice bool, err error) {
	empty, err := d.p.open('}')
	base := len(d.pairStack)
	for more := !empty; more && err == nil; {
		// Members and elements may be any number, so each of them counts as a tick.
		if err = d.p.tick(); err != nil {
			break
		}
		var b []byte
		if b, err = d.p.key(); err != nil {
			break
		}
		var rest mask
		var skip bool
		if !keep.all() {
			rest, skip = keep.member(unsafeString(b))
			// What is kept is below the value, where a scalar has nothing.
			if c := d.p.next(); !rest.value() && c != '{' && c != '[' {
				skip = true
			}
		}
		if skip {
			err = d.p.skip()
		} else {
			m := pair{}
			m.name, _, _ = d.strings.get(b)
			if value != nil {
				m.value, err = value(m.name, rest)
			} else {
				m.value, err = d.decodeMember(m.name, nil, rest)
			}
			if err != nil {
				err = in(m.name, err)
			}
			d.pairStack = append(d.pairStack, m)
		}
		if err == nil {
			more, err = d.p.more('}')
		}
	}
	// After an error the map has what came before it. The caller does not use it.
	m := make(map[string]any, len(d.pairStack)-base)
	for _, p := range d.pairStack[base:] {
		m[p.name] = p.value
	}
	twice = len(m) < len(d.pairStack)-base
	// Give up the places, and clear them so that they keep no value alive.
	clear(d.pairStack[base:])
	d.pairStack = d.pairStack[:base]
	return m, twice, err
}

// decodeAnySlice consumes an array. The paths of keep hold for each element. An element that is as
// in old is taken from there.
func (d *Decoder) decodeAnySlice(keep mask, old []any) ([]any, error) {
	empty, err := d.p.open(']')
	keep = keep.elements()
	base := len(d.pairStack)
	for more := !empty; more && err == nil; {
		// An element has no name.
		m := pair{}
		if err = d.p.tick(); err != nil {
			break
		}
		if i := len(d.pairStack) - base; i < len(old) {
			m.value, err = d.decodeOr("", old[i], keep)
		} else {
			m.value, err = d.decodeAny(keep)
		}
		if err != nil {
			err = inElement(len(d.pairStack)-base, err)
			break
		}
		d.pairStack = append(d.pairStack, m)
		more, err = d.p.more(']')
	}
	// Of exactly the right size, since it lives as long as the object. [] is an empty slice, not
	// nil.
	s := make([]any, 0, len(d.pairStack)-base)
	for _, p := range d.pairStack[base:] {
		s = append(s, p.value)
	}
	clear(d.pairStack[base:])
	d.pairStack = d.pairStack[:base]
	return s, err
}
