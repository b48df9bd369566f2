package decode

import (
	"errors"
	"hash/maphash"
	"reflect"
)

const (
	// A value of fewer bytes than minShare costs less to decode than to look up. One of more than
	// maxShare is not worth the memory for its key.
	minShare = 24
	maxShare = 16 << 10
	// One field remembers at most so many values, of at most so many bytes in all. Where either is
	// too much, it starts again with nothing.
	sharedValues = 256
	sharedBytes  = 256 << 10
)

// A shareField gives equal values of one field the same memory: the labels, probes and tolerations
// of the pods of one Deployment are equal. It looks a value up by its bytes,
// before it is decoded, so a hit saves the decoding as well.
//
// A value is kept when it comes for the second time. Most of what comes once never comes again,
// such as the status of a pod, and to keep it would displace what does.
//
// Shared values are safe because nothing writes to them: the user has promised that, and the
// decoder ends an object that would merge into one (see errMerge).
type shareField struct {
	typ reflect.Type
	hitRate
	// seen has hashes of values that came once, each at a place by its hash.
	seen []uint64
	kept map[uint64]*sharedValue
	// size is the sum of the bytes of raw in kept.
	size int
	// last is the value that was used last; nil before the first.
	last *sharedValue
}

// A sharedValue is a value's bytes and the slice, map or pointer that they decode to.
type sharedValue struct {
	raw   string
	value sliceHeader
	// depth is the greatest depth at which raw has been found valid JSON. At a greater one it might
	// nest too deep, and would have to be an error.
	depth int
	// successor is the value that came after this one the last time, this one itself at first.
	successor *sharedValue
}

// guess returns the value that is expected next, if rest begins with its bytes; else nil. It does
// not need to know where the value in rest ends. Only objects, arrays and strings are kept of JSON,
// and the end of one is in its own bytes, whatever follows. (A number is not: 12 also begins 123.)
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

// forget drops all values, when the field has given up.
func (f *shareField) forget() { f.seen, f.kept, f.last = nil, nil, nil }

// use notes that v has been used at depth, and that it came after the last one.
func (f *shareField) use(v *sharedValue, depth int) {
	v.depth = max(v.depth, depth)
	if f.last != nil {
		f.last.successor = v
	}
	f.last = v
}

// decode sets the value at p to what raw decodes to. raw was found at depth. If its value is not
// kept, inner decodes it into p.
func (f *shareField) decode(raw []byte, depth int, p pointer, inner func() error) error {
	if f.last != nil && len(f.last.successor.raw) == len(raw) {
		if v := f.guess(raw, depth); v != nil {
			p.set(f.typ, v.value)
			return nil
		}
	}
	// First the guess, which only needs a comparison, then the table.
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
	// Not kept. Note the hash if it is new. If it is there already, the value has come twice: keep
	// it.
	once := &f.seen[hash%sharedValues]
	if *once != hash {
		*once = hash
		return nil
	}
	// Beyond the limits all values go at once. Those that still come are soon kept again.
	if f.size += len(raw); f.kept == nil || len(f.kept) >= sharedValues || f.size > sharedBytes {
		f.kept, f.size, f.last = map[uint64]*sharedValue{}, len(raw), nil
	}
	value := p.header(f.typ)
	// Cut the capacity: an append to one object's slice must not write into memory that others
	// share.
	value.cap = value.len
	p.set(f.typ, value)
	// The copy of the bytes is the key; raw itself is a part of the buffer.
	v = &sharedValue{raw: string(raw), value: value}
	v.successor = v
	f.kept[hash] = v
	f.use(v, depth)
	return nil
}

// wants reports whether to look up a value of size bytes.
func (f *shareField) wants(size int) bool { return !f.gaveUp && size >= minShare && size <= maxShare }

// errMerge ends the decoding of an object in which a value that may be shared comes twice. By the
// rules of JSON and protobuf the second one is merged into the first: into memory that other
// objects have too. So the whole object is decoded again, by a decoder that shares nothing. No
// server writes such objects, so it does not matter that this is slow.
var errMerge error = abort{errors.New("a value comes twice")}

// shared returns a decoder of values of type t that lets equal ones share memory. It is inner
// itself for types without memory of their own.
func shared(t reflect.Type, inner decoder) decoder {
	switch {
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map, t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
	default:
		return inner
	}
	f := &shareField{typ: t}
	return func(d *Decoder, p pointer) error {
		// Something is there already: the name has come before in this object.
		if !p.isNil() {
			return errMerge
		}
		if f.gaveUp {
			return inner(d, p)
		}
		// What follows a number says where it ends, so its bytes may begin another number. See
		// guess.
		if c := d.p.next(); c != '{' && c != '[' && c != '"' {
			return inner(d, p)
		}
		start, depth := d.p.pos, d.p.depth
		if v := f.guess(d.p.data[start:], depth); v != nil {
			d.p.pos += len(v.raw)
			p.set(t, v.value)
			return nil
		}
		// The end of the value is needed to look it up. A value that is larger than any that is
		// kept is not gone over to its end: it may contain further ones, which would be gone over
		// again and again.
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

// sharedMessage is shared for protobuf fields that are messages, with pointers of type t to them.
// The length before a message says where it ends, so no guess is needed.
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

// sharedRun is shared for slices and maps of type t in protobuf. Each element is a field with tag.
// The fields of one slice mostly follow each other without a gap, and then the bytes of all of them
// are the key. If more come later in the message, p is not nil any more, and the object is decoded
// again.
func sharedRun(t reflect.Type, tag string, inner wireDecoder) wireDecoder {
	f := &shareField{typ: t}
	return func(d *Decoder, w *wire, typ int, p pointer) error {
		if typ != wireBytes {
			// Numbers that are not packed are one field each: too small to share.
			return inner(d, w, typ, p)
		}
		if !p.isNil() {
			return errMerge
		}
		n, end := w.countRepeats(tag)
		// The tag of the first element has been consumed; those of the others are a part of the
		// run.
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
