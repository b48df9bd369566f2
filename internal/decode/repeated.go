package decode

import (
	"fmt"
	"reflect"
)

// repeated returns the decoder of one more element of slices of type t. Numbers may come packed, many in one field.
func (c *wireCompiler) repeated(t reflect.Type, format string, drop drops) (wireDecoder, error) {
	elem, err := c.value(t.Elem(), format, drop)
	if err != nil {
		return nil, err
	}
	size := t.Elem().Size()
	next := func(p place, atLeast int) place {
		s := p.value(t)
		n := s.Len()
		if n == s.Cap() {
			s.Grow(atLeast)
		}
		s.SetLen(n + 1)
		return place{s.UnsafePointer()}.index(n, size)
	}
	if each, ok := packed(t.Elem()); ok {
		return func(d *Decoder, w *wire, typ int, p place) error {
			if typ != wireBytes {
				return elem(d, w, typ, next(p, 1))
			}
			b, err := w.bytes()
			if err != nil {
				return err
			}
			for all := (wire{data: b}); !all.done() && err == nil; {
				err = elem(d, &all, each, next(p, 1))
			}
			return err
		}, nil
	}
	return func(d *Decoder, w *wire, typ int, p place) error {
		return elem(d, w, typ, next(p, 1+w.alike()))
	}, nil
}

// mapping returns the decoder of one more entry of maps of type t: a message of a key, 1, and a value, 2.
func (c *wireCompiler) mapping(t reflect.Type, drop drops) (wireDecoder, error) {
	if t.Key().Kind() != reflect.String {
		return nil, fmt.Errorf("keys of %v are not supported", t)
	}
	key := &stringField{}
	elem, err := c.value(t.Elem(), "bytes", nil)
	if err != nil {
		return nil, err
	}
	return func(d *Decoder, w *wire, typ int, p place) error {
		entry, err := w.message(typ)
		if err != nil {
			return err
		}
		name := ""
		value := reflect.New(t.Elem())
		if t.Elem().Kind() == reflect.Slice {
			value.Elem().Set(reflect.MakeSlice(t.Elem(), 0, 0)) // as generated code begins, where that of any other field is nil
		}
		err = each(entry, func(w *wire, num, typ int) (bool, error) {
			switch num {
			case 1:
				b, err := w.message(typ)
				name = key.make(d, b)
				return true, err
			case 2:
				return true, elem(d, w, typ, placeOf(value))
			}
			return false, nil
		})
		if err != nil {
			return err
		}
		if _, whole := drop.under(name); whole {
			return nil
		}
		to := p.value(t)
		if to.IsNil() {
			to.Set(reflect.MakeMap(t))
		}
		k := reflect.New(t.Key()).Elem()
		k.SetString(name)
		to.SetMapIndex(k, value.Elem())
		return nil
	}, nil
}
