package decode

import (
	"bytes"
	"maps"
	"math"
	"strconv"
	"strings"
)

// An anyField decodes values of type any. As in apimachinery, objects become map[string]any, arrays
// []any, whole numbers int64 and other numbers float64.
type anyField struct{ keep mask }

// decode decodes a value of any sort, and replaces what is at p.
func (f *anyField) decode(d *Decoder, p pointer) error {
	v, err := d.decodeAny(f.keep)
	if err == nil {
		*as[any](p) = v
	}
	return err
}

// decodeAny consumes a value of any sort and returns it without what keep leaves out.
func (d *Decoder) decodeAny(keep mask) (any, error) {
	v, _, err := d.decodeNear(nil, keep)
	return v, err
}

// emptyOf returns the empty value of the sort of v.
func emptyOf(v any) any {
	switch v.(type) {
	case string:
		return ""
	case bool:
		return false
	case int64:
		return int64(0)
	case float64:
		return 0.0
	}
	return nil
}

// decodeAnyScalar consumes a value that begins with c and is no object and no array. same reports
// that it is old, which then needs no memory again.
func (d *Decoder) decodeAnyScalar(c byte, old any) (v any, same bool, err error) {
	switch c {
	case '"':
		b, err := d.p.str()
		if err != nil {
			return nil, false, err
		}
		if s, ok := old.(string); ok && s == string(b) {
			return old, true, nil
		}
		// A string in an interface is one more allocation than a string. The same ones come again
		// and again.
		return d.boxed.get(b), false, nil
	case 't':
		return true, old == true, d.p.literal("true")
	case 'f':
		return false, old == false, d.p.literal("false")
	case 'n':
		return nil, old == nil, d.p.literal("null")
	}
	// A number without a fraction is an int64 if it fits one. ParseInt refuses an exponent, which
	// makes it a float64.
	number, err := d.p.number()
	if err != nil {
		return nil, false, err
	}
	if bytes.IndexByte(number, '.') < 0 {
		if n, err := strconv.ParseInt(unsafeString(number), 10, 64); err == nil {
			if last, ok := old.(int64); ok && last == n {
				return old, true, nil
			}
			return n, false, nil
		}
	}
	// A large integer is a float64 too, as for apimachinery.
	n, err := strconv.ParseFloat(unsafeString(number), 64)
	last, ok := old.(float64)
	return n, ok && math.Float64bits(last) == math.Float64bits(n), d.mismatch(err)
}

// A pair is a member of an object, or an element of an array with no name, that waits on the
// Decoder's stack.
type pair struct {
	// name is a part of the parser's bytes if the last version has a member of that name.
	name  string
	value any
	// same says that the last version has the same value in this place.
	same bool
	// gone says that there is no value, and that one before it is none.
	gone bool
}

// mayHave reports whether a pair has the name, or there are too many to look at all of them.
func mayHave(pairs []pair, name []byte) bool {
	if len(pairs) > 64 {
		return true
	}
	for i := range pairs {
		if pairs[i].name == string(name) {
			return true
		}
	}
	return false
}

// A memberDecoder consumes the value of member name, of which old is the value in the last version,
// and returns what decodeNear does. It must not keep name.
type memberDecoder func(name string, old any, keep mask) (v any, same bool, err error)

// decodeAnyMap consumes an object. value decodes the value of each member; nil: decodeMember does.
// The members are collected on the Decoder's stack first, so that the map is made of the right
// size. Of a name that comes twice the last value wins; twice reports that there is one. old is the
// object in the last version; nil: there is none. The map is old itself if same is true.
func (d *Decoder) decodeAnyMap(keep mask, old map[string]any, value memberDecoder) (m map[string]any, same, twice bool, err error) {
	empty, err := d.p.open('}')
	base := len(d.pairStack)
	// near says that old has all names so far, and that they came in order: then none came twice.
	near, last := old != nil, ""
	for more := !empty; more && err == nil; {
		// Members and elements may be any number, so each of them counts as a tick.
		if err = d.p.tick(); err != nil {
			break
		}
		var b []byte
		if b, err = d.p.key(); err != nil {
			break
		}
		var rest mask
		var skip bool
		if !keep.all() {
			var replaced bool
			rest, skip, replaced = d.keepMember(keep, b, base)
			near = near && !replaced
		}
		if skip {
			err = d.p.skip()
		} else {
			m := pair{}
			var was any
			known := false
			if old != nil {
				was, known = old[string(b)]
			}
			// A name that old has is mostly needed no longer than the bytes. mapOf keeps the others.
			if known && d.p.plain {
				m.name = unsafeString(b)
			} else {
				m.name, _, _ = d.strings.get(b)
			}
			near = near && known && (len(d.pairStack) == base || last < m.name)
			last = m.name
			if value != nil {
				m.value, m.same, err = value(m.name, was, rest)
			} else {
				m.value, m.same, err = d.decodeMember(m.name, was, rest)
			}
			if err != nil {
				err = in(strings.Clone(m.name), err)
			}
			m.same = known && m.same
			d.pairStack = append(d.pairStack, m)
		}
		if err == nil {
			more, err = d.p.more('}')
		}
	}
	if err == nil {
		m, same, twice = d.mapOf(d.pairStack[base:], old, near)
	}
	// Give up the places, and clear them so that they keep no value alive.
	clear(d.pairStack[base:])
	d.pairStack = d.pairStack[:base]
	return m, same, twice, err
}

// keepMember returns what keep keeps below member name, whose value comes next, and whether that is
// skipped. A scalar has nothing below it. It takes the place of a value of its name that came before
// in the object, of which the members are on the stack from base on: replaced reports that.
func (d *Decoder) keepMember(keep mask, name []byte, base int) (rest mask, skip, replaced bool) {
	rest, skip = keep.member(unsafeString(name))
	if c := d.p.next(); skip || rest.value() || c == '{' || c == '[' {
		return rest, skip, false
	}
	if replaced = mayHave(d.pairStack[base:], name); replaced {
		name, _, _ := d.strings.get(name)
		d.pairStack = append(d.pairStack, pair{name: name, gone: true})
	}
	return rest, true, replaced
}

// mapOf returns the map of members, and the rest of what decodeAnyMap says. near says that old has
// all their names, each of which came once. A map with the names of old is a copy of that with the
// values that are new: it takes less time than to put in each member.
func (d *Decoder) mapOf(members []pair, old map[string]any, near bool) (m map[string]any, same, twice bool) {
	if old == nil {
		m = make(map[string]any, len(members))
		for i := range members {
			if p := &members[i]; p.gone {
				delete(m, p.name)
			} else {
				m[p.name] = p.value
			}
		}
		return m, false, len(m) < len(members)
	}
	same = len(members) == len(old)
	near = near && same
	for i := range members {
		same = same && members[i].same
	}
	switch {
	case !near:
		m = make(map[string]any, len(members))
	case same:
		return old, true, false
	default:
		m = maps.Clone(old)
	}
	for i := range members {
		if p := &members[i]; p.gone {
			delete(m, p.name)
		} else if !near || !p.same {
			name, _, _ := d.strings.get(unsafeBytes(p.name))
			m[name] = p.value
		}
	}
	if twice = len(m) < len(members); same && !twice {
		return old, true, false
	}
	return m, false, twice
}

// decodeAnySlice consumes an array. The paths of keep hold for each element. old is the array in
// the last version. The slice is old itself if same is true.
func (d *Decoder) decodeAnySlice(keep mask, old []any) (s []any, same bool, err error) {
	empty, err := d.p.open(']')
	keep = keep.elements()
	base := len(d.pairStack)
	same = old != nil
	for more := !empty; more && err == nil; {
		if err = d.p.tick(); err != nil {
			break
		}
		// An element has no name.
		m, n := pair{}, len(d.pairStack)-base
		if n < len(old) {
			m.value, m.same, err = d.decodeNear(old[n], keep)
		} else {
			m.value, err = d.decodeAny(keep)
		}
		if err != nil {
			err = inElement(n, err)
			break
		}
		same = same && m.same
		d.pairStack = append(d.pairStack, m)
		more, err = d.p.more(']')
	}
	elements := d.pairStack[base:]
	if same = same && err == nil && len(elements) == len(old); same {
		s = old
	} else {
		// Of exactly the right size, since it lives as long as the object. [] is not nil.
		s = make([]any, len(elements))
		for i := range elements {
			s[i] = elements[i].value
		}
	}
	clear(elements)
	d.pairStack = d.pairStack[:base]
	return s, same, err
}
