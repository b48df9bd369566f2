package decode

import (
	"bytes"
	"strconv"
)

// An anyField decodes values of type any: objects are map[string]any, arrays []any, whole numbers int64.
type anyField struct{ drop drops }

func (f *anyField) decode(d *Decoder, p pointer) error {
	v, err := d.decodeAny(f.drop)
	if err == nil {
		*as[any](p) = v
	}
	return err
}

func (d *Decoder) decodeAny(drop drops) (any, error) {
	switch c := d.p.next(); c {
	case '{':
		return d.decodeAnyMap(drop)
	case '[':
		return d.decodeAnySlice(drop)
	case '"':
		b, err := d.p.str()
		if err != nil {
			return nil, err
		}
		return d.boxed.get(b), nil
	case 't':
		return true, d.p.literal("true")
	case 'f':
		return false, d.p.literal("false")
	case 'n':
		return nil, d.p.literal("null")
	}
	number, err := d.p.number()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(number, '.') < 0 {
		if n, err := strconv.ParseInt(unsafeString(number), 10, 64); err == nil {
			return n, nil
		}
	}
	n, err := strconv.ParseFloat(unsafeString(number), 64)
	return n, d.mismatch(err)
}

// A pair is a member of a map that is not yet made.
type pair struct {
	name  string
	value any
}

func (d *Decoder) decodeAnyMap(drop drops) (map[string]any, error) {
	empty, err := d.p.open('}')
	base := len(d.pairStack)
	for more := !empty; more && err == nil; {
		if err = d.p.tick(); err != nil {
			break
		}
		var b []byte
		if b, err = d.p.key(); err != nil {
			break
		}
		var rest drops
		var whole bool
		if len(drop) > 0 {
			rest, whole = drop.under(string(b))
		}
		if whole {
			err = d.p.skip()
		} else {
			m := pair{}
			m.name, _, _ = d.strings.get(b)
			if m.value, err = d.decodeAny(rest); err != nil {
				err = in(m.name, err)
			}
			d.pairStack = append(d.pairStack, m)
		}
		if err == nil {
			more, err = d.p.more('}')
		}
	}
	m := make(map[string]any, len(d.pairStack)-base)
	for _, p := range d.pairStack[base:] {
		m[p.name] = p.value
	}
	clear(d.pairStack[base:])
	d.pairStack = d.pairStack[:base]
	return m, err
}

func (d *Decoder) decodeAnySlice(drop drops) ([]any, error) {
	empty, err := d.p.open(']')
	base := len(d.pairStack)
	for more := !empty; more && err == nil; {
		m := pair{}
		if err = d.p.tick(); err != nil {
			break
		}
		if m.value, err = d.decodeAny(drop); err != nil {
			err = inElement(len(d.pairStack)-base, err)
			break
		}
		d.pairStack = append(d.pairStack, m)
		more, err = d.p.more(']')
	}
	s := make([]any, 0, len(d.pairStack)-base)
	for _, p := range d.pairStack[base:] {
		s = append(s, p.value)
	}
	clear(d.pairStack[base:])
	d.pairStack = d.pairStack[:base]
	return s, err
}
