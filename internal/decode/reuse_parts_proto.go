package decode

import (
	"hash/maphash"
	"reflect"
)

// saltMessage tells the sums of protobuf from those of JSON. An object may come in either.
const saltMessage = 1

// messagePart returns the decoder of part i in protobuf. inner decodes it. tag has the bytes of the
// field's tag. A part that is a slice or a map is a run of fields with that tag; any other part is
// one field. share says that it shares memory.
func (l *partLayout) messagePart(i int, tag string, inner wireDecoder, share bool) wireDecoder {
	run := l.parts[i].typ.Kind() != reflect.Struct
	part := &partDecoder{typ: l.parts[i].typ, decode: func(d *Decoder, w *wire, p pointer) error { return inner(d, w, wireBytes, p) }}
	// A run is decoded as quickly as it is compared.
	copies := !share && !run
	return func(d *Decoder, w *wire, typ int, p pointer) error {
		if d.lend == nil {
			return inner(d, w, typ, p)
		}
		// Numbers that are not packed come one by one, and are not noted. Packed ones may be among
		// them.
		if typ != wireBytes && !l.isNoted(d, i) {
			return inner(d, w, typ, p)
		}
		if l.came(d, i, p) {
			return errMerge
		}
		// The length of the first field stands before it, and is a part of what is compared.
		start := w.pos
		rest := w.data[start:]
		n := l.take(d, i, rest, saltMessage, p)
		switch {
		case n > 0 && run && hasTag(rest[n:], tag):
			// The run goes on, so it is another one. What was taken belongs to the last version.
			l.untake(d, i, p)
		case n > 0:
			w.pos += n
			return nil
		}
		var ts *templates
		if copies {
			ts = d.templatesOf(i)
		}
		if ts == nil || !ts.decode(d, w, part, p) {
			// A decoder that shares equal parts consumes the run at once, any other one field after the
			// other.
			for {
				if err := inner(d, w, typ, p); err != nil {
					return err
				}
				if !run || !hasTag(w.data[w.pos:], tag) {
					break
				}
				w.pos += len(tag)
			}
		}
		raw := w.data[start:w.pos]
		l.note(d, i, raw, maphash.Bytes(seed, raw)^saltMessage)
		return nil
	}
}

// hasTag reports whether data begins with tag.
func hasTag(data []byte, tag string) bool {
	return len(data) >= len(tag) && string(data[:len(tag)]) == tag
}

// untake makes part i, which is at p, empty again.
func (l *partLayout) untake(d *Decoder, i int, p pointer) {
	p.value(l.parts[i].typ).SetZero()
	l.set(d.last.object, i, 0, 0)
}
