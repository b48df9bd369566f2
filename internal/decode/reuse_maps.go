package decode

import (
	"hash/maphash"
	"strings"
)

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

// rateOf returns the hit rate of the values of member name, or nil if they are not shared.
func (s *mapShare) rateOf(name string) *hitRate {
	rate := s.rates[name]
	switch {
	case rate == nil && (len(s.rates) >= maxRates || len(name) > maxIntern || name == "metadata"):
		return nil
	case rate == nil:
		if s.rates == nil {
			s.rates = map[string]*hitRate{}
		}
		rate = &hitRate{}
		s.rates[strings.Clone(name)] = rate
	case rate.gaveUp:
		return nil
	}
	return rate
}

// find returns what raw, the value of a member with that rate, decodes to, if that is kept, and the
// hash of raw.
func (s *mapShare) find(raw []byte, rate *hitRate) (v any, hash uint64, ok bool) {
	hash = maphash.Bytes(seed, raw)
	kept, ok := s.kept[hash]
	ok = ok && kept.raw == string(raw)
	rate.count(ok)
	return kept.value, hash, ok
}

// note keeps v, which raw with that hash decodes to, if raw has come before.
func (s *mapShare) note(raw []byte, hash uint64, v any) {
	if s.seen == nil {
		s.seen = make([]uint64, sharedMaps)
	}
	if once := &s.seen[hash%sharedMaps]; *once != hash {
		*once = hash
		return
	}
	// Beyond the limits all values go at once. Those that still come are soon kept again.
	if s.size += len(raw); s.kept == nil || len(s.kept) >= sharedMaps || s.size > sharedMapBytes {
		s.kept, s.size = map[uint64]sharedMap{}, len(raw)
	}
	s.kept[hash] = sharedMap{string(raw), v}
}

// decodeMember consumes the value of member name, and returns what decodeNear does.
//
// With Share, an object or an array is looked up by its bytes before it is decoded, or behind it if
// there is one in the last version, which it mostly equals.
func (d *Decoder) decodeMember(name string, old any, keep mask) (v any, same bool, err error) {
	if !d.opts.Share || !keep.all() {
		return d.decodeNear(old, keep)
	}
	if c := d.p.next(); c != '{' && c != '[' {
		return d.decodeNear(old, mask{})
	}
	rate := d.maps.rateOf(name)
	if rate == nil {
		return d.decodeNear(old, mask{})
	}
	start := d.p.pos
	if old == nil {
		raw, ok := d.p.rawWithin(maxShare)
		d.p.pos = start
		// It is too long, or it nests too deep, which the same bytes elsewhere need not do.
		if !ok || len(raw) < minShare {
			return d.decodeNear(nil, mask{})
		}
		v, hash, ok := d.maps.find(raw, rate)
		if ok {
			d.p.pos += len(raw)
			return v, false, nil
		}
		if v, _, err = d.decodeNear(nil, mask{}); err == nil {
			d.maps.note(raw, hash, v)
		}
		return v, false, err
	}
	v, same, err = d.decodeNear(old, mask{})
	raw := d.p.data[start:d.p.pos]
	if err != nil || same || len(raw) < minShare || len(raw) > maxShare {
		return v, same, err
	}
	kept, hash, ok := d.maps.find(raw, rate)
	if ok {
		return kept, false, nil
	}
	d.maps.note(raw, hash, v)
	return v, false, nil
}
