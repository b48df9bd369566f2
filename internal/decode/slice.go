package decode

import "reflect"

// A sliceType decodes slices. Elements are decoded into a workspace and copied into memory of the right size at the end, since
// how many there are is known only then.
type sliceType struct {
	typ   reflect.Type
	size  uintptr
	elem  decoder
	again decoder // for a slice that already has elements, which a duplicate name merges into
	empty reflect.Value
	work  *workspace // nil while in use: a type may contain itself
}

// A workspace is a slice of zero values.
type workspace struct{ slice reflect.Value }

func (c *compiler) slice(t reflect.Type, drop drops) (decoder, error) {
	elem, err := c.compile(t.Elem(), drop)
	if err != nil {
		return nil, err
	}
	s := &sliceType{typ: t, size: t.Elem().Size(), elem: elem, again: fallback(t), empty: reflect.MakeSlice(t, 0, 0)}
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
		w = &workspace{reflect.New(s.typ).Elem()}
	}
	n := 0
	first := place{w.slice.UnsafePointer()}
	for more && err == nil {
		if n == w.slice.Len() {
			w.slice.Grow(max(n, 4))
			w.slice.SetLen(w.slice.Cap())
			first = place{w.slice.UnsafePointer()}
		}
		if err = s.elem(d, first.index(n, s.size)); err != nil {
			err = inElement(n, err)
			n++
			break
		}
		n++
		more, err = d.p.more(']')
	}
	room := w.slice.Len()
	w.slice.SetLen(n)
	if err == nil {
		to := p.value(s.typ)
		to.Grow(n)
		to.SetLen(n)
		reflect.Copy(to, w.slice)
	}
	w.slice.Clear()
	if room <= 1024 {
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
