package decode

import (
	"hash/maphash"
	"reflect"
)

const (
	// Values of fewer bytes than minShare cost less to decode than to look up, those of more than maxShare fill the memory.
	minShare = 24
	maxShare = 16 << 10
	// A field remembers so many values, and so many bytes of their JSON.
	sharedValues = 256
	sharedBytes  = 256 << 10
)

// A shareField gives equal values of one field the same memory. A value is kept when it is seen for the second time: most of
// what is seen once never returns.
type shareField struct {
	typ reflect.Type
	meter
	seen []uint64 // hashes of what was seen once
	kept map[uint64]sharedValue
	size int // of raw in kept
}

// A sharedValue is what raw decodes to.
type sharedValue struct {
	raw   string
	value reflect.Value
}

// decode sets the value at p to what raw decodes to, which inner decodes if it is not known.
func (f *shareField) decode(raw []byte, p place, inner func() error) error {
	hash := maphash.Bytes(seed, raw)
	v, ok := f.kept[hash]
	ok = ok && v.raw == string(raw)
	f.count(ok)
	if ok {
		p.value(f.typ).Set(v.value)
		return nil
	}
	if f.off {
		f.seen, f.kept = nil, nil
	}
	if err := inner(); err != nil || f.off {
		return err
	}
	if f.seen == nil {
		f.seen = make([]uint64, sharedValues)
	}
	once := &f.seen[hash%sharedValues]
	if *once != hash {
		*once = hash
		return nil
	}
	if f.size += len(raw); f.kept == nil || len(f.kept) >= sharedValues || f.size > sharedBytes {
		f.kept, f.size = map[uint64]sharedValue{}, len(raw)
	}
	kept := reflect.New(f.typ).Elem()
	kept.Set(p.value(f.typ))
	f.kept[hash] = sharedValue{string(raw), kept}
	return nil
}

// wants reports whether values of size bytes are worth it.
func (f *shareField) wants(size int) bool { return !f.off && size >= minShare && size <= maxShare }

// shared returns a decoder of values of type t which lets equal ones share memory, or inner where they have none to share.
func shared(t reflect.Type, inner decoder) decoder {
	switch {
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map, t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
	default:
		return inner
	}
	f := &shareField{typ: t}
	return func(d *Decoder, p place) error {
		// What a duplicate name would merge into may be shared already.
		if !p.isNil() {
			p.value(t).SetZero()
		}
		if f.off {
			return inner(d, p)
		}
		d.p.next()
		start, depth := d.p.pos, d.p.depth
		raw, err := d.p.raw()
		if err != nil {
			return err
		}
		again := func() error {
			d.p.pos, d.p.depth = start, depth
			return inner(d, p)
		}
		if !f.wants(len(raw)) {
			return again()
		}
		return f.decode(raw, p, again)
	}
}

// sharedMessage is shared for pointers of type t to messages.
func sharedMessage(t reflect.Type, inner wireDecoder) wireDecoder {
	f := &shareField{typ: t}
	elem := t.Elem()
	return func(d *Decoder, w *wire, typ int, p place) error {
		if !p.isNil() {
			p.value(t).SetZero()
		}
		start := *w
		raw, err := w.message(typ)
		if err != nil {
			return err
		}
		again := func() error {
			*w = start
			return inner(d, w, typ, p.target(elem))
		}
		if !f.wants(len(raw)) {
			return again()
		}
		return f.decode(raw, p, again)
	}
}
