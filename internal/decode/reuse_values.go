package decode

import (
	"errors"
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
	hitRate
	seen []uint64 // hashes of what was seen once
	kept map[uint64]*sharedValue
	size int          // of raw in kept
	last *sharedValue // that was used; nil if none in kept was
}

// A sharedValue is what raw decodes to.
type sharedValue struct {
	raw       string
	value     sliceHeader
	depth     int          // at which raw has been found valid; at a greater one it may nest too deep
	successor *sharedValue // what followed the last time
}

// guess returns the value that is expected to be next, if rest begins with it. What is kept of JSON is objects, arrays and strings,
// which end where their bytes say, whatever follows.
func (f *shareField) guess(rest []byte, depth int) *sharedValue {
	if f.last == nil {
		return nil
	}
	v := f.last.successor
	if n := len(v.raw); depth > v.depth || len(rest) < n || string(rest[:n]) != v.raw {
		return nil
	}
	f.last = v
	f.count(true)
	if f.gaveUp {
		f.forget()
	}
	return v
}

func (f *shareField) forget() { f.seen, f.kept, f.last = nil, nil, nil }

// use notes that v, which was found at depth, has been used.
func (f *shareField) use(v *sharedValue, depth int) {
	v.depth = max(v.depth, depth)
	if f.last != nil {
		f.last.successor = v
	}
	f.last = v
}

// decode sets the value at p to what raw, which was found at depth, decodes to; inner decodes it if it is not known.
func (f *shareField) decode(raw []byte, depth int, p pointer, inner func() error) error {
	if f.last != nil && len(f.last.successor.raw) == len(raw) {
		if v := f.guess(raw, depth); v != nil {
			p.set(f.typ, v.value)
			return nil
		}
	}
	hash := maphash.Bytes(seed, raw)
	v, ok := f.kept[hash]
	ok = ok && v.raw == string(raw)
	f.count(ok)
	if ok {
		f.use(v, depth)
		p.set(f.typ, v.value)
		return nil
	}
	if f.gaveUp {
		f.forget()
	}
	if err := inner(); err != nil || f.gaveUp {
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
		f.kept, f.size, f.last = map[uint64]*sharedValue{}, len(raw), nil
	}
	value := p.header(f.typ)
	value.cap = value.len // so that nobody appends to memory which others have too
	p.set(f.typ, value)
	v = &sharedValue{raw: string(raw), value: value}
	v.successor = v
	f.kept[hash] = v
	f.use(v, depth)
	return nil
}

// wants reports whether values of size bytes are worth it.
func (f *shareField) wants(size int) bool { return !f.gaveUp && size >= minShare && size <= maxShare }

// errMerge ends the decoding of an object in which a shared value comes twice. The second one would be merged into the memory of
// others, so all of the object is decoded again, sharing nothing: no server writes such objects.
var errMerge error = abort{errors.New("a value comes twice")}

// shared returns a decoder of values of type t which lets equal ones share memory, or inner where they have none to share.
func shared(t reflect.Type, inner decoder) decoder {
	switch {
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map, t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
	default:
		return inner
	}
	f := &shareField{typ: t}
	return func(d *Decoder, p pointer) error {
		if !p.isNil() {
			return errMerge
		}
		if f.gaveUp {
			return inner(d, p)
		}
		// Where a number ends is told by what follows, so the bytes of one may begin another.
		if c := d.p.next(); c != '{' && c != '[' && c != '"' {
			return inner(d, p)
		}
		start, depth := d.p.pos, d.p.depth
		if v := f.guess(d.p.data[start:], depth); v != nil {
			d.p.pos += len(v.raw)
			p.set(t, v.value)
			return nil
		}
		raw, ok := d.p.rawWithin(maxShare)
		if !ok {
			return inner(d, p)
		}
		again := func() error {
			d.p.pos, d.p.depth = start, depth
			return inner(d, p)
		}
		if !f.wants(len(raw)) {
			return again()
		}
		return f.decode(raw, depth, p, again)
	}
}

// sharedMessage is shared for pointers of type t to messages.
func sharedMessage(t reflect.Type, inner wireDecoder) wireDecoder {
	f := &shareField{typ: t}
	return func(d *Decoder, w *wire, typ int, p pointer) error {
		if !p.isNil() {
			return errMerge
		}
		start := *w
		raw, err := w.message(typ)
		if err != nil {
			return err
		}
		again := func() error {
			*w = start
			return inner(d, w, typ, p)
		}
		if !f.wants(len(raw)) {
			return again()
		}
		return f.decode(raw, 0, p, again)
	}
}

// sharedRun is shared for slices and maps of type t whose elements are fields with tag, if they follow each other.
func sharedRun(t reflect.Type, tag string, inner wireDecoder) wireDecoder {
	f := &shareField{typ: t}
	return func(d *Decoder, w *wire, typ int, p pointer) error {
		if typ != wireBytes {
			return inner(d, w, typ, p) // a number, of which each is a field
		}
		if !p.isNil() {
			return errMerge
		}
		n, end := w.countRepeats(tag)
		each := func() error {
			for i := range n + 1 {
				if i > 0 {
					w.pos += len(tag)
				}
				if err := inner(d, w, typ, p); err != nil {
					return err
				}
			}
			return nil
		}
		if !f.wants(end - w.pos) {
			return each()
		}
		err := f.decode(w.data[w.pos:end], 0, p, each)
		if err == nil {
			w.pos = end
		}
		return err
	}
}
