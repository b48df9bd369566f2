package decode

import "hash/maphash"

// mapShare is what Share does for objects without a Go type: equal objects and arrays in them are
// one map or slice, such as the managed fields of all objects that one manager has written. As in a
// shareField, a value is looked up by its bytes and kept when it comes for the second time, and a
// name whose values hardly ever repeat is given up.
//
// Only the values of members are shared, and those not where something below them is left out: the
// same bytes mean the same value then, whatever its name is. The metadata is never shared, since it
// never repeats but in a list of what is known already.
type mapShare struct {
	// rates has the hit rates by the names of members, of which there are maxRates at most. Values
	// of further names are not shared.
	rates map[string]*hitRate
	// seen, kept and size are as in a shareField.
	seen []uint64
	kept map[uint64]sharedMap
	size int
}

// A sharedMap is the bytes of an object or array, and what they decode to.
type sharedMap struct {
	raw   string
	value any
}

const (
	maxRates = 256
	// All names together have one mapShare. So it keeps more than a shareField.
	sharedMaps     = 4 * sharedValues
	sharedMapBytes = 2 * sharedBytes
)

// A lookup is what find has found out about a value that is not kept, for note.
type lookup struct {
	hash  uint64
	start int
	wants bool // whether note may keep the value
}

// find consumes the object or array that is next, the value of member name, if an equal one is kept,
// and returns that. Otherwise it consumes nothing. The caller passes at to note when it has decoded
// the value.
func (s *mapShare) find(p *parser, name string) (v any, ok bool, at lookup) {
	rate := s.rates[name]
	switch {
	case rate == nil && (len(s.rates) >= maxRates || len(name) > maxIntern || name == "metadata"):
		return nil, false, at
	case rate == nil:
		if s.rates == nil {
			s.rates = map[string]*hitRate{}
		}
		rate = &hitRate{}
		s.rates[name] = rate
	case rate.gaveUp:
		return nil, false, at
	}
	at.start = p.pos
	// This fails also if the value nests too deep, which the same bytes elsewhere need not do.
	raw, ok := p.rawWithin(maxShare)
	if !ok {
		return nil, false, at
	}
	if len(raw) >= minShare {
		at.hash, at.wants = maphash.Bytes(seed, raw), true
		kept, ok := s.kept[at.hash]
		ok = ok && kept.raw == string(raw)
		if rate.count(ok); ok {
			return kept.value, true, at
		}
	}
	p.pos = at.start
	return nil, false, at
}

// note keeps v, which raw decodes to, if raw has come before.
func (s *mapShare) note(at lookup, raw []byte, v any) {
	if !at.wants {
		return
	}
	if s.seen == nil {
		s.seen = make([]uint64, sharedMaps)
	}
	if once := &s.seen[at.hash%sharedMaps]; *once != at.hash {
		*once = at.hash
		return
	}
	// Beyond the limits all values go at once. Those that still come are soon kept again.
	if s.size += len(raw); s.kept == nil || len(s.kept) >= sharedMaps || s.size > sharedMapBytes {
		s.kept, s.size = map[uint64]sharedMap{}, len(raw)
	}
	s.kept[at.hash] = sharedMap{string(raw), v}
}

// decodeMember consumes the value of member name. If it is an object or an array, near is the value
// that it may be compared with; see decodeNear.
func (d *Decoder) decodeMember(name string, near any, keep mask) (any, error) {
	if !d.opts.Share || !keep.all() {
		return d.decodeNear(near, keep)
	}
	if c := d.p.next(); c != '{' && c != '[' {
		return d.decodeAny(mask{})
	}
	v, ok, at := d.maps.find(&d.p, name)
	if ok {
		return v, nil
	}
	v, err := d.decodeNear(near, mask{})
	if err == nil {
		d.maps.note(at, d.p.data[at.start:d.p.pos], v)
	}
	return v, err
}
