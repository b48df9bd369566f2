package decode

import "reflect"

// A sliceType decodes slices. How many elements there are is known only at their end: they are decoded into memory for as many as
// the last slice had, and copied into memory of the right size if they are fewer.
type sliceType struct {
	typ    reflect.Type
	elem   decoder
	again  decoder // for a slice that already has elements, which a duplicate name merges into
	empty  reflect.Value
	last   int // how many elements the last slice had
	room   int // for how many there is memory in advance
	elems  *maker
	work   *maker // whose slice is of zero values; nil while in use: a type may contain itself
	copied *maker // whose slice is what is copied
}

// maxRoom is the most elements that a sliceType has memory for in advance.
const maxRoom = 1024

func (c *compiler) slice(t reflect.Type, drop drops) (decoder, error) {
	elem, err := c.compile(t.Elem(), drop)
	if err != nil {
		return nil, err
	}
	s := &sliceType{typ: t, elem: elem, last: 1, elems: c.makers.of(t.Elem(), c.share), copied: makerOf(t.Elem()), again: fallback(t), empty: reflect.MakeSlice(t, 0, 0)}
	s.room = max(1, min(maxRoom, keepElements/max(1, int(t.Elem().Size()))))
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
	room := s.elems.all(d)
	n := 0
	for more && n < room.len {
		if more, err = s.element(d, place{room.data}, n); err != nil {
			return err
		}
		n++
	}
	if more {
		return s.decodeRest(d, p, room, n)
	}
	*as[header](p) = header{room.data, n, n}
	s.elems.rest(room, n)
	return nil
}

// element decodes element n of those at first, and reports whether another follows.
func (s *sliceType) element(d *Decoder, first place, n int) (bool, error) {
	if err := d.p.tick(); err != nil {
		return false, err
	}
	if err := s.elem(d, first.index(n, s.elems.size)); err != nil {
		return false, inElement(n, err)
	}
	return d.p.more(']')
}

// decodeRest is decode from element n on, for which there is no room. Those before are in room.
func (s *sliceType) decodeRest(d *Decoder, p place, room header, n int) error {
	w := s.work
	s.work = nil
	if w == nil {
		w = makerOf(s.typ.Elem())
	}
	if w.slice.Len() <= n {
		w.reserve(max(n+1, s.last))
	}
	if n > 0 {
		*s.copied.head = header{room.data, n, n}
		reflect.Copy(w.slice, s.copied.slice)
		s.copied.slice.Clear()
		*s.copied.head = header{}
	}
	s.elems.rest(room, 0)
	var err error
	for more := true; more && err == nil; n++ {
		if n == w.slice.Len() {
			w.reserve(max(2*n, w.slice.Cap()))
		}
		more, err = s.element(d, place{w.head.data}, n)
	}
	have := w.slice.Len()
	w.slice.SetLen(n)
	s.last = min(n, s.room)
	switch {
	case err != nil:
	case n == have:
		*as[header](p) = *w.head
		*w.head = header{}
		have = 0
		s.elems.used += n
	default:
		*as[header](p) = s.elems.take(d, n)
		*s.copied.head = *as[header](p)
		reflect.Copy(s.copied.slice, w.slice)
		*s.copied.head = header{}
	}
	w.slice.Clear()
	if have <= s.room {
		w.slice.SetLen(have)
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
		if err = d.p.tick(); err != nil {
			break
		}
		d.words = append(d.words, "")
		if err = s.elem(d, addressOf(&d.words[len(d.words)-1])); err != nil {
			err = inElement(len(d.words)-1-base, err)
			break
		}
		more, err = d.p.more(']')
	}
	switch n := len(d.words) - base; {
	case err != nil:
	case s.elems.batch:
		*as[header](p) = s.elems.take(d, n)
		copy(*as[[]string](p), d.words[base:])
	default:
		*as[[]string](p) = append(make([]string, 0, n), d.words[base:]...)
	}
	clear(d.words[base:])
	d.words = d.words[:base]
	return err
}
