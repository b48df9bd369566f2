package decode

import "strconv"

// A part of an untyped object that has changed has mostly changed in one place: one condition of
// many, or what one manager says of its fields. So its elements, and the members of its own, are
// compared with those of the last version, and taken from there if they are equal. That needs no
// notes, and less time than the maps that it saves.

// decodeNear consumes a value that is near old, the value in the last version; nil: there is none.
func (d *Decoder) decodeNear(old any, keep mask) (any, error) {
	switch c := d.p.next(); old := old.(type) {
	case map[string]any:
		if c == '{' {
			m, _, err := d.decodeAnyMap(keep, func(name string, keep mask) (any, error) { return d.decodeOr(name, old[name], keep) })
			return m, err
		}
	case []any:
		if c == '[' {
			return d.decodeAnySlice(keep, old)
		}
	}
	return d.decodeAny(keep)
}

// decodeOr consumes the value of member name, or of an element if name is "". If it is an object or
// an array that equals old, decodeOr returns old.
func (d *Decoder) decodeOr(name string, old any, keep mask) (any, error) {
	if c := d.p.next(); (c == '{' || c == '[') && old != nil && keep.all() {
		pos, depth := d.p.pos, d.p.depth
		if d.p.equals(old) {
			return old, nil
		}
		d.p.pos, d.p.depth = pos, depth
	}
	if name == "" {
		return d.decodeAny(keep)
	}
	return d.decodeMember(name, nil, keep)
}

// equals consumes a value and reports whether it is surely what decodeAny would return as v. If
// not, the parser stands anywhere. The members of an object must be in the order of their names, as
// servers write maps: then no name comes twice.
func (p *parser) equals(v any) bool {
	switch p.next() {
	case '{':
		old, ok := v.(map[string]any)
		empty, err := p.open('}')
		n, last := 0, ""
		for more := !empty; more; n++ {
			if !ok || err != nil {
				return false
			}
			name, err := p.key()
			if err != nil || !p.plain || n > 0 && string(name) <= last {
				return false
			}
			last = unsafeString(name) // a part of data, since the name is plain
			value, ok := old[last]
			if !ok || !p.equals(value) {
				return false
			}
			if more, err = p.more('}'); err != nil {
				return false
			}
		}
		return ok && err == nil && n == len(old)
	case '[':
		old, ok := v.([]any)
		empty, err := p.open(']')
		n := 0
		for more := !empty; more; n++ {
			if !ok || err != nil || n == len(old) || !p.equals(old[n]) {
				return false
			}
			if more, err = p.more(']'); err != nil {
				return false
			}
		}
		return ok && err == nil && n == len(old)
	case '"':
		old, ok := v.(string)
		b, err := p.str()
		return ok && err == nil && string(b) == old
	case 't':
		return v == true && p.literal("true") == nil
	case 'f':
		return v == false && p.literal("false") == nil
	case 'n':
		return v == nil && p.literal("null") == nil
	}
	// Numbers with a fraction are rare, and decoded.
	old, ok := v.(int64)
	number, err := p.number()
	if !ok || err != nil {
		return false
	}
	n, err := strconv.ParseInt(unsafeString(number), 10, 64)
	return err == nil && n == old
}
