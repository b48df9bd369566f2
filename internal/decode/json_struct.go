package decode

import (
	"encoding/binary"
	"errors"
	"reflect"
)

// A structType is the compiled form of a struct. Its decode matches the names of a JSON object to
// the fields.
//
// It tries three ways, the cheapest first. An object mostly has the same members in the same order
// as the one before, so each member remembers which one followed it. If the guess is wrong, the
// name is looked for in the next few fields: servers write members in the order in which Go
// declares the fields, and leave out some. Only then it is looked up in a map. The first two
// compare the quoted name with the input as it is, which a name with an escape or with white space
// before its colon fails; then the map has it.
type structType struct {
	members []member
	byName  map[string]int
	// first is the member with which the last object began.
	first int
	// unknown counts the members that are no fields; see learnName.
	unknown int
}

// A member is a field of a structType.
type member struct {
	name string
	// quoted is the name as servers write it, with its quotes and the colon.
	quoted string
	// head has the first eight bytes of quoted, and mask says which of those bytes quoted has. One
	// comparison of a word tells nearly all names apart.
	head, mask uint64
	// successor is the member that followed this one in the last object.
	successor int
	offset    uintptr
	// The value is at offset in the last struct of steps; mostly there are no steps, and it is in
	// the struct itself.
	steps []step
	// dec decodes the value. It is nil for what is skipped: a field that is left out, or a name that
	// is no field. Then skipped is what the last such value looked like.
	dec     decoder
	skipped *skipPattern
	// strField is that of dec, where dec decodes a string in the struct itself, as most do. It lets
	// decode try the string's guess without a call through dec.
	strField *stringField
	// leaf is what templates know of the value; nil: they look into it.
	leaf *leaf
}

// lookAhead is how many fields an object may leave out before its next name is looked up in the
// map.
const lookAhead = 6

// matches reports whether rest begins with the member's quoted name. head is the first eight bytes
// of rest.
func (m *member) matches(rest []byte, head uint64) bool {
	n := len(m.quoted)
	return (head^m.head)&m.mask == 0 && (n <= 8 || len(rest) >= n && string(rest[8:n]) == m.quoted[8:])
}

// next consumes a name and its colon, and returns the number of its member, or -1 if there is none.
// The number is expected to be guess, or else at, or one of the next few behind at.
func (s *structType) next(p *parser, guess, at int) (int, error) {
	// The last bytes of data have no word of eight, and are left to the map.
	if p.next() == '"' && len(p.data)-p.pos >= 8 {
		rest := p.data[p.pos:]
		head := binary.LittleEndian.Uint64(rest)
		if guess < len(s.members) && s.members[guess].matches(rest, head) {
			p.pos += len(s.members[guess].quoted)
			return guess, nil
		}
		for i := at; i < len(s.members) && i <= at+lookAhead; i++ {
			if s.members[i].matches(rest, head) {
				p.pos += len(s.members[i].quoted)
				return i, nil
			}
		}
	}
	// The names are case-sensitive, as in apimachinery's decoder and unlike encoding/json.
	name, err := p.key()
	if err != nil {
		return -1, err
	}
	if i, ok := s.byName[string(name)]; ok {
		return i, nil
	}
	if p.plain {
		return s.learnName(name), nil
	}
	return -1, nil
}

// maxUnknown and maxUnknownName limit what a structType remembers of names that are no fields: how
// many, and of what length.
const (
	maxUnknown     = 64
	maxUnknownName = 64
)

// learnName makes name a member that is skipped, and returns its number, or -1 if there are too
// many. An unknown name is normal: T may have only some of the fields, and the server's version may
// be newer than T. It is then found as quickly as a field, and its values are skipped as quickly as
// those of a field that is left out.
func (s *structType) learnName(name []byte) int {
	if s.unknown == maxUnknown || len(name) > maxUnknownName {
		return -1
	}
	s.unknown++
	i := len(s.members)
	m := member{name: string(name)}
	m.index(i)
	s.members = append(s.members, m)
	s.byName[m.name] = i
	return i
}

// decode decodes an object into the struct at p. A null leaves the struct as it is. Members that
// have no field are skipped. A name that comes twice is decoded twice, the second time into the
// result of the first.
func (s *structType) decode(d *Decoder, p pointer) error {
	if d.p.next() != '{' {
		if null, err := d.p.null(); null {
			return err
		}
		return d.wrongType("an object")
	}
	if d.rec != nil {
		return s.record(d, p)
	}
	empty, err := d.p.open('}')
	// guess points to where the guess is kept, so that a wrong one is put right there: first, or
	// the successor of the member before.
	at, guess := 0, &s.first
	for more := !empty; more && err == nil; {
		var i int
		if i, err = s.next(&d.p, *guess, at); err != nil {
			return err
		}
		if i < 0 {
			err = d.p.skip()
		} else {
			m := &s.members[i]
			*guess, guess, at = i, &m.successor, i+1
			// The shortcut for strings: if the guess is right, the value costs one comparison.
			if m.strField != nil {
				if s, ok := m.strField.guess(&d.p); ok {
					*as[string](p.field(m.offset)) = s
					more, err = d.p.more('}')
					continue
				}
			}
			err = m.decode(d, p)
		}
		if err == nil {
			more, err = d.p.more('}')
		}
	}
	return err
}

// decode decodes the member's value into the struct at p.
func (m *member) decode(d *Decoder, p pointer) error {
	if m.dec == nil {
		if m.skipped == nil {
			m.skipped = &skipPattern{}
		}
		return d.skipLike(m.skipped)
	}
	// Make the embedded structs that are still missing.
	for _, s := range m.steps {
		p = s.elem.pointee(d, p.field(s.offset))
	}
	var err error
	if d.rec != nil {
		err = d.rec.decodeLeaf(d, m.dec, m.leaf, p.field(m.offset))
	} else {
		err = m.dec(d, p.field(m.offset))
	}
	if err != nil {
		return in(m.name, err)
	}
	return nil
}

// buildIndex sets what next looks at, once all members are there. Until there has been an object,
// each member is expected to be followed by the next one.
func (s *structType) buildIndex() *structType {
	s.byName = make(map[string]int, len(s.members))
	for i := range s.members {
		m := &s.members[i]
		s.byName[m.name] = i
		m.index(i)
	}
	return s
}

// index sets what next looks at in member i.
func (m *member) index(i int) {
	m.quoted = `"` + m.name + `":`
	m.head, m.mask = 0, 0
	// The first byte is the lowest, as LittleEndian reads it from the input.
	for i := range min(len(m.quoted), 8) {
		m.head |= uint64(m.quoted[i]) << (8 * i)
		m.mask |= 0xff << (8 * i)
	}
	m.successor = i + 1
}

// structure returns the decoder of struct t. If nothing is left out it is one for the whole
// compiler, because a type may contain itself, and because what it learns from one field is of use
// in the others.
func (c *compiler) structure(t reflect.Type, keep mask) decoder {
	switch {
	case keep.noFields():
		return skippedValue()
	case !keep.all():
		return c.structType(t, keep).decode
	}
	if late := c.done[t]; late != nil {
		if late.decoder != nil {
			return late.decoder
		}
		// It is still being compiled, further up in the stack.
		return func(d *Decoder, p pointer) error { return late.decoder(d, p) }
	}
	late := &forwardDecoder{}
	c.done[t] = late
	late.decoder = c.structType(t, keep).decode
	return late.decoder
}

// errUnexported is what encoding/json says of such a field, in other words.
var errUnexported = errors.New("an embedded pointer to an unexported struct cannot be set")

// structType compiles struct t without what keep leaves out.
func (c *compiler) structType(t reflect.Type, keep mask) *structType {
	s := &structType{}
	for _, f := range fieldsOf(t) {
		m := member{name: f.name}
		rest, skip := keep.under(f.name)
		var reachable bool
		m.steps, m.offset, reachable = route(t, f.index)
		switch {
		// The member has no decoder, and is skipped. It still makes the embedded structs in which
		// other fields are kept, so that their pointers are nil as in the whole object.
		case skip && len(m.steps) > 0:
			if m.steps = m.steps[:sharedSteps(t, f, keep)]; len(m.steps) > 0 && reachable {
				m.dec, m.offset = skippedMember(), 0
				s.members = append(s.members, m)
				continue
			}
		case skip:
		// It is an error only for an object that has the member.
		case !reachable:
			m.steps, m.offset = nil, 0
			m.dec = func(d *Decoder, _ pointer) error {
				if err := d.p.skip(); err != nil {
					return err
				}
				return d.mismatch(errUnexported)
			}
		case f.quoted:
			m.dec = quoted(f.typ)
		// A plain string in the struct itself.
		case f.typ.Kind() == reflect.String && specialDecoder(f.typ) == nil && m.steps == nil:
			m.strField = &stringField{}
			m.dec = m.strField.decode
		default:
			if m.dec = c.compile(f.typ, rest); c.share {
				m.dec = shared(f.typ, m.dec)
			}
		}
		m.leaf = leafOf(f.typ, m.dec, f.quoted)
		s.members = append(s.members, m)
	}
	return s.buildIndex()
}

// sharedSteps returns how many of the embedded pointers on the way to field f of struct t are also
// on the way to a field of which keep keeps something.
func sharedSteps(t reflect.Type, f field, keep mask) int {
	shared := 0
	for _, other := range fieldsOf(t) {
		if _, skip := keep.under(other.name); skip {
			continue
		}
		n := 0
		for n < min(len(f.index), len(other.index))-1 && f.index[n] == other.index[n] {
			n++
		}
		steps, _, _ := route(t, f.index[:n+1])
		shared = max(shared, len(steps))
	}
	return shared
}

// skippedMember is skippedValue for a member, of which a template knows nothing.
func skippedMember() decoder {
	skip := skippedValue()
	return func(d *Decoder, p pointer) error {
		if d.rec != nil {
			d.rec.fail()
		}
		return skip(d, p)
	}
}
