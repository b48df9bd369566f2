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
	typ   reflect.Type
	inner decoder
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

// shared returns a decoder of values of type t which lets equal ones share memory, or inner where they have none to share.
func shared(t reflect.Type, inner decoder) decoder {
	switch {
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map, t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		f := &shareField{typ: t, inner: inner}
		return f.decode
	}
	return inner
}

func (f *shareField) decode(d *Decoder, p place) error {
	// A duplicate name merges into what the first one set, which may be shared.
	if !p.isNil() {
		p.value(f.typ).SetZero()
	}
	if f.off {
		return f.inner(d, p)
	}
	d.p.next()
	start, depth := d.p.pos, d.p.depth
	raw, err := d.p.raw()
	if err != nil {
		return err
	}
	if len(raw) < minShare || len(raw) > maxShare {
		d.p.pos = start
		return f.inner(d, p)
	}
	hash := maphash.Bytes(seed, raw)
	v, ok := f.kept[hash]
	if ok && v.raw == string(raw) {
		f.count(true)
		p.value(f.typ).Set(v.value)
		return nil
	}
	f.count(false)
	d.p.pos, d.p.depth = start, depth
	if err := f.inner(d, p); err != nil {
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
