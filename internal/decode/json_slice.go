package decode

import "reflect"

// A sliceType decodes slices. How many elements there are is known only at their end: they are decoded into memory for as many as
// the last slice had, and copied into memory of the right size if they are fewer.
type sliceType struct {
	typ        reflect.Type
	elem       decoder
	merge      decoder // for a slice that already has elements, which a duplicate name merges into
	empty      reflect.Value
	last       int // how many elements the last slice had
	maxReserve int // for how many there is memory in advance
	elems      *allocator
	scratch    *allocator // whose slice is of zero values; nil while in use: a type may contain itself
	view       *allocator // whose slice is what is copied
}

// maxRoom is the most elements that a sliceType has memory for in advance.
const maxRoom = 1024

func (c *compiler) slice(t reflect.Type, drop drops) (decoder, error) {
	elem, err := c.compile(t.Elem(), drop)
	if err != nil {
		return nil, err
	}
	s := &sliceType{typ: t, elem: elem, last: 1, elems: c.allocators.of(t.Elem(), c.share), view: newAllocator(t.Elem()), merge: fallback(t), empty: reflect.MakeSlice(t, 0, 0)}
	s.maxReserve = max(1, min(maxRoom, maxKeptElements/max(1, int(t.Elem().Size()))))
	if len(drop) > 0 {
		s.merge = nil
	}
	if t == reflect.TypeFor[[]string]() {
		return s.decodeStrings, nil
	}
	return s.decode, nil
}

// begin consumes the opening bracket, and reports whether elements follow.
func (s *sliceType) begin(d *Decoder, p pointer) (bool, error) {
	if d.p.next() != '[' {
		if null, err := d.p.null(); null {
			if err == nil {
				p.value(s.typ).SetZero()
			}
			return false, err
		}
		return false, d.wrongType("an array")
	}
	if !p.isNil() {
		if s.merge != nil {
			return false, s.merge(d, p)
		}
		p.value(s.typ).SetZero()
	}
	empty, err := d.p.open(']')
	if empty {
		p.value(s.typ).Set(s.empty)
	}
	return !empty && err == nil, err
}

func (s *sliceType) decode(d *Decoder, p pointer) error {
	more, err := s.begin(d, p)
	if !more {
		return err
	}
	room := s.elems.takeSpare(d)
	n := 0
	for more && n < room.len {
		if more, err = s.element(d, pointer{room.data}, n); err != nil {
			return err
		}
		n++
	}
	if more {
		return s.decodeRest(d, p, room, n)
	}
	*as[sliceHeader](p) = sliceHeader{room.data, n, n}
	s.elems.giveBack(room, n)
	return nil
}

// element decodes element n of those at first, and reports whether another follows.
func (s *sliceType) element(d *Decoder, first pointer, n int) (bool, error) {
	if err := d.p.tick(); err != nil {
		return false, err
	}
	if err := s.elem(d, first.index(n, s.elems.size)); err != nil {
		return false, inElement(n, err)
	}
	return d.p.more(']')
}

// decodeRest is decode from element n on, for which there is no room. Those before are in room.
func (s *sliceType) decodeRest(d *Decoder, p pointer, room sliceHeader, n int) error {
	w := s.scratch
	s.scratch = nil
	if w == nil {
		w = newAllocator(s.typ.Elem())
	}
	if w.slice.Len() <= n {
		w.reserve(max(n+1, s.last))
	}
	if n > 0 {
		*s.view.head = sliceHeader{room.data, n, n}
		reflect.Copy(w.slice, s.view.slice)
		s.view.slice.Clear()
		*s.view.head = sliceHeader{}
	}
	s.elems.giveBack(room, 0)
	var err error
	for more := true; more && err == nil; n++ {
		if n == w.slice.Len() {
			w.reserve(max(2*n, w.slice.Cap()))
		}
		more, err = s.element(d, pointer{w.head.data}, n)
	}
	have := w.slice.Len()
	w.slice.SetLen(n)
	s.last = min(n, s.maxReserve)
	switch {
	case err != nil:
	case n == have:
		*as[sliceHeader](p) = *w.head
		*w.head = sliceHeader{}
		have = 0
		s.elems.used += n
	default:
		*as[sliceHeader](p) = s.elems.take(d, n)
		*s.view.head = *as[sliceHeader](p)
		reflect.Copy(s.view.slice, w.slice)
		*s.view.head = sliceHeader{}
	}
	w.slice.Clear()
	if have <= s.maxReserve {
		w.slice.SetLen(have)
		s.scratch = w
	}
	return err
}

func (s *sliceType) decodeStrings(d *Decoder, p pointer) error {
	more, err := s.begin(d, p)
	if !more {
		return err
	}
	base := len(d.stringStack)
	for more && err == nil {
		if err = d.p.tick(); err != nil {
			break
		}
		d.stringStack = append(d.stringStack, "")
		if err = s.elem(d, pointerTo(&d.stringStack[len(d.stringStack)-1])); err != nil {
			err = inElement(len(d.stringStack)-1-base, err)
			break
		}
		more, err = d.p.more(']')
	}
	switch n := len(d.stringStack) - base; {
	case err != nil:
	case s.elems.batch:
		*as[sliceHeader](p) = s.elems.take(d, n)
		copy(*as[[]string](p), d.stringStack[base:])
	default:
		*as[[]string](p) = append(make([]string, 0, n), d.stringStack[base:]...)
	}
	clear(d.stringStack[base:])
	d.stringStack = d.stringStack[:base]
	return err
}
