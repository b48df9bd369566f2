package decode

import "reflect"

// A sliceType decodes arrays into slices. The length of an array is known only at its end, and a
// slice that grows as append does it would be copied several times and keep too much memory.
//
// So the elements are decoded into the rest of the object's batch first (see allocator), and stay
// there if they fit, which they mostly do. Otherwise the field's scratch slice takes them, which
// has room for as many as the last array had. At the end they are copied into memory of their exact
// size, or the scratch slice itself becomes the result if it is exactly full.
type sliceType struct {
	typ  reflect.Type
	elem decoder
	// leaf is what templates know of the elements; nil: they look into them.
	leaf *leaf
	// merge is for a slice that already has elements, because its name has come twice:
	// encoding/json then decodes into the old elements. It is apimachinery's decoder, or nil where
	// something is left out, of which that one does not know.
	merge decoder
	// empty is a slice of no elements that is not nil, as [] is decoded.
	empty reflect.Value
	// last is the length of the last array, up to maxReserve, which is the most elements to have
	// room for in advance.
	last       int
	maxReserve int
	elems      *allocator
	// scratch has the working slice. Its elements are zero while nobody uses it. It is nil while it
	// is in use, since a type may contain itself: the inner array then makes one of its own.
	scratch *allocator
	// view is a reflected slice without memory of its own. Its header is pointed at memory that is
	// to be copied from or to, so that reflect.Copy can do that with the right write barriers.
	view *allocator
}

// maxRoom is the greatest maxReserve. Large elements have a smaller one: see maxKeptElements.
const maxRoom = 1024

// slice returns the decoder of slices of type t. Slices of strings have one without reflection.
func (c *compiler) slice(t reflect.Type, keep mask) decoder {
	elem := c.compile(t.Elem(), keep.elements())
	s := &sliceType{typ: t, elem: elem, leaf: leafOf(t.Elem(), elem, false), last: 1, elems: c.allocators.of(t.Elem(), c.share), view: newAllocator(t.Elem()), merge: fallback(t), empty: reflect.MakeSlice(t, 0, 0)}
	s.maxReserve = max(1, min(maxRoom, maxKeptElements/max(1, int(t.Elem().Size()))))
	if !keep.all() {
		s.merge = nil
	}
	if t == reflect.TypeFor[[]string]() {
		return s.decodeStrings
	}
	return s.decode
}

// begin consumes the opening bracket, and reports whether elements follow. If none do, it has set
// the slice: to nil for a null, to an empty one for [].
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
		d.rec.fail()
		if s.merge != nil {
			return false, s.merge(d, p)
		}
		return false, s.decodeInto(d, p)
	}
	empty, err := d.p.open(']')
	if empty {
		p.value(s.typ).Set(s.empty)
	}
	return !empty && err == nil, err
}

// decodeInto decodes an array into the elements that the slice at p has, and behind them.
func (s *sliceType) decodeInto(d *Decoder, p pointer) error {
	v := p.value(s.typ)
	empty, err := d.p.open(']')
	n := 0
	for more := !empty; more && err == nil; n++ {
		if n == v.Cap() {
			v.Grow(1)
		}
		if n == v.Len() {
			v.SetLen(n + 1)
		}
		more, err = s.element(d, pointer{as[sliceHeader](p).data}, n)
	}
	// Behind n are elements that a further array of that name would be decoded into.
	d.grew = true
	if v.SetLen(n); n == 0 {
		v.Set(s.empty)
	}
	return err
}

// decode decodes an array into the slice at p. Its first elements go into what is left of the
// object's batch.
func (s *sliceType) decode(d *Decoder, p pointer) error {
	more, err := s.begin(d, p)
	if !more {
		return err
	}
	if d.rec != nil {
		return s.record(d, p)
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

// element decodes the next element into place n of those that begin at first. It reports whether
// another follows.
func (s *sliceType) element(d *Decoder, first pointer, n int) (bool, error) {
	if err := d.p.tick(); err != nil {
		return false, err
	}
	if err := s.value(d, first.index(n, s.elems.size)); err != nil {
		return false, inElement(n, err)
	}
	return d.p.more(']')
}

// value decodes an element.
func (s *sliceType) value(d *Decoder, p pointer) error {
	if d.rec != nil {
		return d.rec.decodeLeaf(d, s.elem, s.leaf, p)
	}
	return s.elem(d, p)
}

// decodeRest goes on at element n, for which the batch has no room. It moves the n elements before,
// which are in room, to the scratch slice.
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
		// Move them, and clear what they leave: the batch must be zero where it is given back.
		*s.view.head = sliceHeader{room.data, n, n}
		reflect.Copy(w.slice, s.view.slice)
		s.view.slice.Clear()
		*s.view.head = sliceHeader{}
	}
	s.elems.giveBack(room, 0)
	var err error
	for more := true; more && err == nil; n++ {
		// Twice the length each time, so that all copies together are linear.
		if n == w.slice.Len() {
			w.reserve(max(2*n, w.slice.Cap()))
		}
		more, err = s.element(d, pointer{w.head.data}, n)
	}
	// Now n is the number of elements, and have the length of the scratch slice.
	have := w.slice.Len()
	w.slice.SetLen(n)
	s.last = min(n, s.maxReserve)
	switch {
	case err != nil:
	// Exactly full: hand out the scratch slice itself. used counts these elements, so that the next
	// object's batch has room for them.
	case n == have:
		*as[sliceHeader](p) = sliceHeader{w.head.data, n, n}
		*w.head = sliceHeader{}
		have = 0
		s.elems.used += n
	default:
		*as[sliceHeader](p) = s.elems.take(d, n)
		*s.view.head = *as[sliceHeader](p)
		reflect.Copy(s.view.slice, w.slice)
		*s.view.head = sliceHeader{}
	}
	// Keep the scratch slice, all zero, unless it has grown beyond the limit.
	w.slice.Clear()
	if have <= s.maxReserve {
		w.slice.SetLen(have)
		s.scratch = w
	}
	return err
}

// decodeStrings is decode for []string. The Decoder's stack takes the elements, which nested values
// may use above them.
func (s *sliceType) decodeStrings(d *Decoder, p pointer) error {
	more, err := s.begin(d, p)
	if !more {
		return err
	}
	if d.rec != nil {
		return s.record(d, p)
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
