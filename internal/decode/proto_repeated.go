package decode

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// repeated returns the decoder of slices of type t. Each field with tag is one more element.
// Numbers may also come packed, many in one field; a decoder must take both, and both mixed.
func (c *wireCompiler) repeated(t reflect.Type, tag, format string, keep mask) (wireDecoder, error) {
	elem, err := c.value(t.Elem(), format, keep.elements())
	if err != nil {
		return nil, err
	}
	alloc := c.allocators.of(t.Elem(), c.share)
	if each, ok := packed(t.Elem()); ok {
		num, _ := binary.Uvarint([]byte(tag))
		single := fieldTag(int(num>>3), each)
		return func(d *Decoder, w *wire, typ int, p pointer) error {
			if typ != wireBytes {
				room := 1
				if s := as[sliceHeader](p); s.len == s.cap && typ == each {
					room += w.countNumbers(single, typ)
				}
				return elem(d, w, typ, alloc.append(d, p, room))
			}
			b, err := w.bytes()
			if err != nil {
				return err
			}
			// Packed numbers are values without tags, one behind another, to the end of the bytes.
			all := d.wires.open(b)
			defer d.wires.close(all)
			for !all.done() && err == nil {
				err = elem(d, all, each, alloc.append(d, p, 1))
			}
			return err
		}, nil
	}
	var l lazyLeaf
	return func(d *Decoder, w *wire, typ int, p pointer) error {
		if err := d.p.tick(); err != nil {
			return err
		}
		if d.rec != nil {
			return d.rec.repeated(d, w, typ, &l, alloc, elem, tag, p)
		}
		room := 1
		// The slice is full, and mostly has no memory yet: look ahead for how many elements follow.
		if s := as[sliceHeader](p); s.len == s.cap && typ == wireBytes {
			n, _ := w.countRepeats(tag)
			room += n
		}
		return elem(d, w, typ, alloc.append(d, p, room))
	}, nil
}

// A wireMap decodes maps with string keys. Each entry is a field with tag: a message of a key,
// field 1, and a value, field 2. Either may be missing, and is zero then. As in mapType, maps of
// strings and of quantities do without reflection.
type wireMap struct {
	typ reflect.Type
	tag string
	// key makes the keys.
	key stringField
	// elems are the decoders of the values, by what is kept of them. Where nothing is left out there
	// is only the last one.
	elems [keyClasses]wireDecoder
	// zero is what the value of an entry is before it is decoded.
	zero reflect.Value
	// keep says which keys to leave out, and masked that it may leave out some.
	keep   mask
	masked bool
	// scratch is nil while it is in use, since a type may contain itself.
	scratch *mapScratch

	// The last value of a map of strings, and of one of quantities. A variable would be allocated
	// for each.
	str      string
	quantity resource.Quantity
}

// mapping returns the decoder of maps of type t. Keys of other types, which no API has, are
// refused.
func (c *wireCompiler) mapping(t reflect.Type, tag string, keep mask) (wireDecoder, error) {
	if t.Key().Kind() != reflect.String {
		return nil, fmt.Errorf("keys of %v are not supported", t)
	}
	// The tag of a map's field says only that it has entries: the format of the value is not in it.
	// The API has maps of strings, bytes, quantities and messages, all of which are bytes.
	m := &wireMap{typ: t, tag: tag, keep: keep, masked: !keep.all(), zero: reflect.Zero(t.Elem())}
	for class := range keyClasses {
		if class != keyWhole && !keep.chosen {
			continue
		}
		var err error
		if m.elems[class], err = c.value(t.Elem(), "bytes", class.mask()); err != nil {
			return nil, err
		}
	}
	if t.Elem().Kind() == reflect.Slice {
		// As in generated code: a missing value that is a slice is empty, not nil.
		m.zero = reflect.MakeSlice(t.Elem(), 0, 0)
	}
	switch {
	case t == reflect.TypeFor[map[string]string]():
		return m.decodeStrings, nil
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		return m.decodeQuantities, nil
	}
	return m.decode, nil
}

// entry consumes an entry, decodes its value into the value at elem, and returns its key. It
// reports what is kept of the entry. As in messageType.field, the same wire reads the entry's
// message.
func (m *wireMap) entry(d *Decoder, w *wire, typ int, elem pointer) (name string, class keyClass, err error) {
	data, err := w.message(typ)
	if err == nil {
		err = d.p.tick()
	}
	if err == nil && m.masked {
		class, err = m.class(data)
	} else {
		class = keyWhole
	}
	if err != nil || class == keyLeftOut {
		return "", keyLeftOut, err
	}
	// End the wire at the end of the entry, and go back to its start.
	all := w.data
	w.data = all[:w.pos]
	w.pos -= len(data)
	// again is true behind the first value of the entry.
	again := false
	for !w.done() {
		num, typ, err := w.field()
		switch {
		case err != nil:
		case num == 1:
			var b []byte
			b, err = w.message(typ)
			name = m.key.intern(d, b)
		case num == 2:
			if again { // the last one wins: they are not merged
				elem.value(m.typ.Elem()).Set(m.zero)
			}
			again = true
			err = m.elems[class](d, w, typ, elem)
		default:
			err = w.skip(typ)
		}
		if err != nil {
			return "", keyLeftOut, err
		}
	}
	w.data = all
	return name, class, nil
}

// class returns what is kept of the entry in data. The value of one that is left out is not
// decoded, and may be large.
func (m *wireMap) class(data []byte) (keyClass, error) {
	var name []byte
	for w := (wire{data: data}); !w.done(); {
		num, typ, err := w.field()
		switch {
		case err != nil:
		case num == 1:
			name, err = w.message(typ)
		default:
			err = w.skip(typ)
		}
		if err != nil {
			return keyLeftOut, err
		}
	}
	return m.keep.key(unsafeString(name)), nil
}

// decode decodes an entry into the map at p, by reflection.
func (m *wireMap) decode(d *Decoder, w *wire, typ int, p pointer) error {
	// Only the first entry looks ahead, to make the map of the right size.
	room := 0
	if p.isNil() {
		room, _ = w.countRepeats(m.tag)
	}
	scratch := m.scratch
	m.scratch = nil
	if scratch == nil {
		scratch = newMapScratch(m.typ)
	}
	scratch.elem.Set(m.zero)
	name, class, err := m.entry(d, w, typ, scratch.elemAt)
	if class == keyEmpty {
		scratch.elem.SetZero()
	}
	if class != keyLeftOut {
		scratch.insert(p, name, 1+room)
	}
	// The map has a copy of the element. What it points to belongs to the object now.
	scratch.elem.SetZero()
	m.scratch = scratch
	return err
}

// decodeStrings is decode for map[string]string. For the first entry it looks ahead, to make the
// map of the right size.
func (m *wireMap) decodeStrings(d *Decoder, w *wire, typ int, p pointer) error {
	to := as[map[string]string](p)
	room := 0
	if *to == nil {
		room, _ = w.countRepeats(m.tag)
	}
	name, class, err := m.entry(d, w, typ, pointerTo(&m.str))
	if class != keyLeftOut {
		if *to == nil {
			*to = make(map[string]string, 1+room)
		}
		(*to)[name] = m.str
	}
	m.str = ""
	return err
}

// decodeQuantities is decode without reflection. As in mapType, the type of the keys may have
// another name.
func (m *wireMap) decodeQuantities(d *Decoder, w *wire, typ int, p pointer) error {
	m.quantity = resource.Quantity{}
	name, class, err := m.entry(d, w, typ, pointerTo(&m.quantity))
	if class != keyLeftOut {
		to := as[map[string]resource.Quantity](p)
		if *to == nil {
			*to = map[string]resource.Quantity{}
		}
		(*to)[name] = m.quantity
	}
	return err
}
