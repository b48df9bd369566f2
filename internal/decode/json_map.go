package decode

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A mapType decodes objects into maps with string keys. Maps of strings and of quantities, which
// most maps are, have decoders without reflection. Other elements are decoded into one working
// value, and copied from there.
type mapType struct {
	typ reflect.Type
	// elems are the decoders of the elements, by what is kept of them. Where nothing is left out
	// there is only the last one.
	elems [keyClasses]decoder
	// key makes the names; they repeat from object to object in the same order.
	key stringField
	// keep says which names to leave out. It looks at each name, since a map has no fields to
	// compile. masked says that it may leave out some, and leavesNil is that of keep.
	keep              mask
	masked, leavesNil bool
	// scratch is nil while it is in use, since a type may contain itself.
	scratch *mapScratch

	// quantity is where the elements of a map of quantities are decoded: a variable would be
	// allocated for each.
	quantity resource.Quantity
}

// A mapScratch puts elements into maps by reflection, without allocating for each. Its element is
// zero while nobody decodes into it.
type mapScratch struct {
	typ reflect.Type
	// Variables of the types of the key, the element and the map.
	key, elem, all reflect.Value
	// The addresses of elem and all.
	elemAt, allAt pointer
}

// newMapScratch returns a mapScratch for maps of type t.
func newMapScratch(t reflect.Type) *mapScratch {
	elem, all := reflect.New(t.Elem()), reflect.New(t)
	return &mapScratch{t, reflect.New(t.Key()).Elem(), elem.Elem(), all.Elem(), pointerOf(elem), pointerOf(all)}
}

// begin makes the map at p, with room for n elements, if it is nil.
func (s *mapScratch) begin(p pointer, n int) {
	if p.isNil() {
		s.all.Set(reflect.MakeMapWithSize(s.typ, n))
		p.set(s.typ, s.allAt.header(s.typ))
	}
}

// insert sets the element under name in the map at p to elem. The map is made with room for n
// elements if it is nil. An element that was there is replaced.
func (s *mapScratch) insert(p pointer, name string, n int) {
	s.begin(p, n)
	s.allAt.set(s.typ, p.header(s.typ))
	s.key.SetString(name)
	s.all.SetMapIndex(s.key, s.elem)
	s.all.SetZero()
}

// mapping returns the decoder of maps of type t. Maps whose keys are no strings, or decode
// themselves, are left to apimachinery.
func (c *compiler) mapping(t reflect.Type, keep mask) decoder {
	if !hasNames(t) {
		return fallback(t)
	}
	m := &mapType{typ: t, keep: keep, masked: !keep.all(), leavesNil: keep.leavesNil()}
	// A path ends at a name of the map, so the elements have none.
	m.elems[keyWhole] = c.compile(t.Elem(), mask{})
	if keep.chosen {
		m.elems[keyEmpty] = c.compile(t.Elem(), keyEmpty.mask())
		m.elems[keyPresent] = c.compile(t.Elem(), keyPresent.mask())
	}
	switch {
	case t == reflect.TypeFor[map[string]string]():
		return m.decodeStrings
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		return m.decodeQuantities
	}
	return m.decode
}

// begin consumes the opening brace, and reports whether members follow. If none do, it has set the
// map: to nil for a null, to an empty map for {}, unless one without keys is to be nil. A map that
// is already there is kept, and members are added to it.
func (m *mapType) begin(d *Decoder, p pointer) (bool, error) {
	if d.p.next() != '{' {
		if null, err := d.p.null(); null {
			if err == nil {
				p.value(m.typ).SetZero()
			}
			return false, err
		}
		return false, d.wrongType("an object")
	}
	empty, err := d.p.open('}')
	if empty && p.isNil() && !m.leavesNil {
		p.value(m.typ).Set(reflect.MakeMap(m.typ))
	}
	return !empty && err == nil, err
}

// name consumes the next name and its colon, and returns the decoder of its value. That is nil for
// a name that is left out, whose value has been consumed.
func (m *mapType) name(d *Decoder) (string, decoder, error) {
	if d.p.next() != '"' {
		return "", nil, d.p.unexpected("a name")
	}
	name, err := m.key.read(d)
	if err == nil {
		err = d.p.colon()
	}
	if err == nil {
		err = d.p.tick()
	}
	if err != nil {
		return "", nil, err
	}
	class := keyWhole
	if m.masked {
		if class = m.keep.key(name); class == keyLeftOut {
			return "", nil, d.p.skip()
		}
	}
	return name, m.elems[class], nil
}

// decode decodes an object into the map at p, element by element. After an error the scratch is not
// kept, since its element may not be zero.
func (m *mapType) decode(d *Decoder, p pointer) error {
	more, err := m.begin(d, p)
	if !more {
		return err
	}
	w := m.scratch
	m.scratch = nil
	if w == nil {
		w = newMapScratch(m.typ)
	}
	if !m.leavesNil {
		w.begin(p, 0)
	}
	for more && err == nil {
		var name string
		var elem decoder
		if name, elem, err = m.name(d); err != nil {
			return err
		}
		if elem != nil {
			if err = elem(d, w.elemAt); err != nil {
				return in(name, err)
			}
			w.insert(p, name, 0)
			w.elem.SetZero()
		}
		more, err = d.p.more('}')
	}
	m.scratch = w
	return err
}

// decodeQuantities is decode without reflection. It takes the map for a map[string]Quantity,
// although the type of its keys may have another name: the memory of a map is the same for both.
func (m *mapType) decodeQuantities(d *Decoder, p pointer) error {
	more, err := m.begin(d, p)
	to := as[map[string]resource.Quantity](p)
	if more && *to == nil && !m.leavesNil {
		*to = map[string]resource.Quantity{}
	}
	for more && err == nil {
		var name string
		var elem decoder
		if name, elem, err = m.name(d); err != nil {
			return err
		}
		if elem != nil {
			m.quantity = resource.Quantity{}
			if err = elem(d, pointerTo(&m.quantity)); err != nil {
				return in(name, err)
			}
			if *to == nil {
				*to = map[string]resource.Quantity{}
			}
			(*to)[name] = m.quantity
		}
		more, err = d.p.more('}')
	}
	return err
}

// decodeStrings is decode for map[string]string. Names and values are collected on the Decoder's
// stack, so that the map is made of the right size.
func (m *mapType) decodeStrings(d *Decoder, p pointer) error {
	more, err := m.begin(d, p)
	if !more {
		return err
	}
	base := len(d.stringStack)
	for more && err == nil {
		var name string
		var elem decoder
		if name, elem, err = m.name(d); err != nil {
			break
		}
		if elem != nil {
			d.stringStack = append(d.stringStack, name, "")
			if err = elem(d, pointerTo(&d.stringStack[len(d.stringStack)-1])); err != nil {
				err = in(name, err)
				break
			}
		}
		more, err = d.p.more('}')
	}
	if err == nil {
		to := as[map[string]string](p)
		if *to == nil && !(m.leavesNil && len(d.stringStack) == base) {
			*to = make(map[string]string, (len(d.stringStack)-base)/2)
		}
		for i := base; i < len(d.stringStack); i += 2 {
			(*to)[d.stringStack[i]] = d.stringStack[i+1]
		}
	}
	// Give up the places, and clear them so that they keep no string alive.
	clear(d.stringStack[base:])
	d.stringStack = d.stringStack[:base]
	return err
}
