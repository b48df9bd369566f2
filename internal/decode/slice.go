package decode

import "reflect"

// A sliceType decodes slices. How many elements there are is known only at their end: they are decoded into memory for as many as
// the last slice had, and copied into memory of the right size if they are fewer.
type sliceType struct {
	typ   reflect.Type
	elem  decoder
	again decoder // for a slice that already has elements, which a duplicate name merges into
	empty reflect.Value
	last  int    // how many elements the last slice had
	exact *maker // of what is copied
	work  *maker // whose slice is of zero values; nil while in use: a type may contain itself
}

// maxRoom is the most elements that a sliceType has memory for in advance.
const maxRoom = 1024

func (c *compiler) slice(t reflect.Type, drop drops) (decoder, error) {
	elem, err := c.compile(t.Elem(), drop)
	if err != nil {
		return nil, err
	}
	s := &sliceType{typ: t, elem: elem, last: 1, exact: makerOf(t.Elem()), again: fallback(t), empty: reflect.MakeSlice(t, 0, 0)}
	if len(drop) > 0 {
		s.again = nil
	}
	if t == reflect.TypeFor[[]string]() {
		return s.decodeStrings, nil
	}
	return s.decode, nil
}

// begin consumes the opening bracket, and reports whether elements follow.
func (s *sliceType) begin(d *Decoder, p place) (bool, error) {
	if d.p.next() != '[' {
		if null, err := d.p.null(); null {
			if err == nil {
				p.value(s.typ).SetZero()
			}
			return false, err
		}
		return false, d.wrong("an array")
	}
	if !p.isNil() {
		if s.again != nil {
			return false, s.again(d, p)
		}
		p.value(s.typ).SetZero()
	}
	empty, err := d.p.open(']')
	if empty {
		p.value(s.typ).Set(s.empty)
	}
	return !empty && err == nil, err
}

func (s *sliceType) decode(d *Decoder, p place) error {
	more, err := s.begin(d, p)
	if !more {
		return err
	}
	w := s.work
	s.work = nil
	if w == nil {
		w = makerOf(s.typ.Elem())
	}
	if w.slice.Len() == 0 {
		w.slice.Grow(s.last)
		w.slice.SetLen(s.last)
	}
	n := 0
	for more && err == nil {
		if n == w.slice.Len() {
			w.slice.Grow(n)
			w.slice.SetLen(w.slice.Cap())
		}
		if err = s.elem(d, place{w.head.data}.index(n, w.size)); err != nil {
			err = inElement(n, err)
			n++
			break
		}
		n++
		more, err = d.p.more(']')
	}
	room := w.slice.Len()
	w.slice.SetLen(n)
	s.last = min(n, maxRoom)
	switch {
	case err != nil:
	case n == room:
		*as[header](p) = *w.head
		*w.head = header{}
		room = 0
	default:
		to := s.exact
		to.slice.Grow(n)
		to.slice.SetLen(n)
		reflect.Copy(to.slice, w.slice)
		*as[header](p) = *to.head
		*to.head = header{}
	}
	w.slice.Clear()
	if room <= maxRoom {
		w.slice.SetLen(room)
		s.work = w
	}
	return err
}

func (s *sliceType) decodeStrings(d *Decoder, p place) error {
	more, err := s.begin(d, p)
	if !more {
		return err
	}
	base := len(d.words)
	for more && err == nil {
		d.words = append(d.words, "")
		if err = s.elem(d, addressOf(&d.words[len(d.words)-1])); err != nil {
			err = inElement(len(d.words)-1-base, err)
			break
		}
		more, err = d.p.more(']')
	}
	if err == nil {
		*as[[]string](p) = append(make([]string, 0, len(d.words)-base), d.words[base:]...)
	}
	clear(d.words[base:])
	d.words = d.words[:base]
	return err
}
