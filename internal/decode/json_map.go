package decode

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A mapType decodes objects into maps with string keys. Maps of strings and of quantities, which
// most maps are, have decoders without reflection. Other elements are decoded into one working
// value, and copied from there.
type mapType struct {
	typ  reflect.Type
	elem decoder
	// key makes the names; they repeat from object to object in the same order.
	key stringField
	// drop has the names to leave out. They are compared with each name, since a map has no fields
	// to compile.
	drop drops
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
func (c *compiler) mapping(t reflect.Type, drop drops) (decoder, error) {
	key := t.Key()
	if key.Kind() != reflect.String || reflect.PointerTo(key).Implements(unmarshalerText) {
		if len(drop) > 0 {
			return nil, fmt.Errorf("keys of %v cannot be dropped", t)
		}
		return fallback(t), nil
	}
	// A path to drop ends at a name of the map, so the elements have none.
	elem, err := c.compile(t.Elem(), nil)
	if err != nil {
		return nil, err
	}
	m := &mapType{typ: t, elem: elem, drop: drop}
	switch {
	case t == reflect.TypeFor[map[string]string]():
		return m.decodeStrings, nil
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		return m.decodeQuantities, nil
	}
	return m.decode, nil
}

// begin consumes the opening brace, and reports whether members follow. If none do, it has set the
// map: to nil for a null, to an empty map for {}. A map that is already there is kept, and members
// are added to it.
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
	if empty && p.isNil() {
		p.value(m.typ).Set(reflect.MakeMap(m.typ))
	}
	return !empty && err == nil, err
}

// name consumes the next name and its colon, and reports whether its value is to be decoded. It has
// consumed the value of a name that is dropped.
func (m *mapType) name(d *Decoder) (string, bool, error) {
	if d.p.next() != '"' {
		return "", false, d.p.unexpected("a name")
	}
	name, err := m.key.read(d)
	if err == nil {
		err = d.p.colon()
	}
	if err == nil {
		err = d.p.tick()
	}
	if err != nil {
		return "", false, err
	}
	if len(m.drop) > 0 {
		if _, whole := m.drop.under(name); whole {
			return "", false, d.p.skip()
		}
	}
	return name, true, nil
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
	w.begin(p, 0)
	for more && err == nil {
		var name string
		var wanted bool
		if name, wanted, err = m.name(d); err != nil {
			return err
		}
		if wanted {
			if err = m.elem(d, w.elemAt); err != nil {
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
	if more && *to == nil {
		*to = map[string]resource.Quantity{}
	}
	for more && err == nil {
		var name string
		var wanted bool
		if name, wanted, err = m.name(d); err != nil {
			return err
		}
		if wanted {
			m.quantity = resource.Quantity{}
			if err = decodeQuantity(d, pointerTo(&m.quantity)); err != nil {
				return in(name, err)
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
		var wanted bool
		if name, wanted, err = m.name(d); err != nil {
			break
		}
		if wanted {
			d.stringStack = append(d.stringStack, name, "")
			if err = m.elem(d, pointerTo(&d.stringStack[len(d.stringStack)-1])); err != nil {
				err = in(name, err)
				break
			}
		}
		more, err = d.p.more('}')
	}
	if err == nil {
		to := as[map[string]string](p)
		if *to == nil {
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
