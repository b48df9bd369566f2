package decode

import (
	"hash/maphash"
	"reflect"
)

// jsonPart returns the decoder of part i in JSON. inner decodes it. share says that it shares
// memory.
func (l *partLayout) jsonPart(i int, inner decoder, share bool) decoder {
	meta := l.parts[i].meta
	part := &partDecoder{typ: l.parts[i].typ, decode: func(d *Decoder, _ *wire, p pointer) error { return inner(d, p) }}
	// All of a map would be decoded in each of its copies.
	copies := !share && part.typ.Kind() != reflect.Map
	return func(d *Decoder, p pointer) error {
		if d.lend == nil {
			return inner(d, p)
		}
		// Whatever comes now, and be it a null, changes what is noted of the first value.
		if l.came(d, i, p) {
			return errMerge
		}
		// What follows a number says where it ends. A null has nothing to take.
		if c := d.p.next(); c != '{' && c != '[' && c != '"' {
			return inner(d, p)
		}
		if meta && !d.last.looked && *as[string](d.last.object.field(l.name)) == "" {
			d.readAhead()
		}
		start := d.p.pos
		if n := l.take(d, i, d.p.data[start:], 0, p); n > 0 {
			d.p.pos += n
			return nil
		}
		var ts *templates
		if copies {
			ts = d.templatesOf(i)
		}
		if ts == nil || !ts.decode(d, nil, part, p) {
			if err := inner(d, p); err != nil {
				return err
			}
		}
		raw := d.p.data[start:d.p.pos]
		l.note(d, i, raw, maphash.Bytes(seed, raw))
		return nil
	}
}

// readAhead looks for the last version of an object whose metadata has a part before the name: the
// value of the part is next. Servers so write the objects of custom resources, with all names in
// alphabetical order. An error is found again when the values are decoded.
func (d *Decoder) readAhead() {
	pos, depth := d.p.pos, d.p.depth
	defer func() { d.p.pos, d.p.depth = pos, depth }()
	if d.skipLike(&d.ahead[0]) != nil {
		return
	}
	if more, err := d.p.more('}'); err == nil && more {
		d.findAhead()
	}
}

// findAhead looks for the last version of an object by the names in the metadata. The name of a
// member is next. It leaves the parser anywhere.
func (d *Decoder) findAhead() {
	var name, namespace string
	for more := true; more && (name == "" || namespace == ""); {
		key, err := d.p.key()
		if err != nil {
			return
		}
		to := &name
		switch string(key) {
		case "name":
		case "namespace":
			to = &namespace
		case "managedFields":
			// Most of the metadata, and most alike from one object to the next.
			to, err = nil, d.skipLike(&d.ahead[1])
		default:
			to, err = nil, d.p.skip()
		}
		if to != nil && d.p.next() != '"' {
			err = d.p.skip()
		} else if to != nil {
			var value []byte
			// No name of an object has an escape.
			if value, err = d.p.str(); err == nil && d.p.plain {
				*to = unsafeString(value) // findLast does not keep it
			}
		}
		if err == nil {
			more, err = d.p.more('}')
		}
		if err != nil {
			return
		}
	}
	if name != "" {
		d.findLast(namespace, name)
	}
}
