package decode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
)

// A structType is what a struct's decoder knows. The next name is looked for first where it was the last time, since most objects
// have the fields that the one before had, and then behind the last one, since servers write members in the order in which Go
// declares the fields.
type structType struct {
	members []member
	byName  map[string]int
	first   int // the member that the last object began with
}

// A member is a field in a structType.
type member struct {
	name       string
	quoted     string // the name as servers write it, with quotes and colon
	head, mask uint64 // the first eight bytes of quoted, and which of them it has
	successor  int    // the member that followed the last time
	offset     uintptr
	steps      []step
	dec        decoder      // nil: dropped
	strField   *stringField // of dec, where it decodes a string in the struct itself: most do
}

// lookAhead is how many fields an object may leave out for its next name to be found without the map.
const lookAhead = 6

// begins reports whether rest, of which head is the first eight bytes, begins with the member's name.
func (m *member) matches(rest []byte, head uint64) bool {
	n := len(m.quoted)
	return (head^m.head)&m.mask == 0 && (n <= 8 || len(rest) >= n && string(rest[8:n]) == m.quoted[8:])
}

// next consumes a name and its colon, and returns the number of the member of that name, which is expected to be guess, or else at
// or soon behind it; -1 if there is none.
func (s *structType) next(p *parser, guess, at int) (int, error) {
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
	name, err := p.key()
	if err != nil {
		return -1, err
	}
	if i, ok := s.byName[string(name)]; ok {
		return i, nil
	}
	return -1, nil
}

func (s *structType) decode(d *Decoder, p pointer) error {
	if d.p.next() != '{' {
		if null, err := d.p.null(); null {
			return err
		}
		return d.wrongType("an object")
	}
	empty, err := d.p.open('}')
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
		return d.p.skip()
	}
	for _, s := range m.steps {
		p = s.elem.pointee(d, p.field(s.offset))
	}
	if err := m.dec(d, p.field(m.offset)); err != nil {
		return in(m.name, err)
	}
	return nil
}

func (s *structType) buildIndex() *structType {
	s.byName = make(map[string]int, len(s.members))
	for i := range s.members {
		m := &s.members[i]
		s.byName[m.name] = i
		m.quoted = `"` + m.name + `":`
		for i := range min(len(m.quoted), 8) {
			m.head |= uint64(m.quoted[i]) << (8 * i)
			m.mask |= 0xff << (8 * i)
		}
		m.successor = i + 1
	}
	return s
}

func (c *compiler) structure(t reflect.Type, drop drops) (decoder, error) {
	if len(drop) > 0 {
		s, err := c.structType(t, drop)
		if err != nil {
			return nil, err
		}
		return s.decode, nil
	}
	if late := c.done[t]; late != nil {
		if late.decoder != nil {
			return late.decoder, nil
		}
		return func(d *Decoder, p pointer) error { return late.decoder(d, p) }, nil
	}
	late := &forwardDecoder{}
	c.done[t] = late
	s, err := c.structType(t, nil)
	if err != nil {
		return nil, err
	}
	late.decoder = s.decode
	return late.decoder, nil
}

var errUnexported = errors.New("an embedded pointer to an unexported struct cannot be set")

func (c *compiler) structType(t reflect.Type, drop drops) (*structType, error) {
	s := &structType{}
	left := map[string]bool{} // paths that name no field
	for _, path := range drop {
		left[path] = true
	}
	for _, f := range fieldsOf(t) {
		m := member{name: f.name}
		rest, whole := drop.under(f.name)
		for _, path := range rest {
			delete(left, f.name+"."+path)
		}
		var reachable bool
		m.steps, m.offset, reachable = route(t, f.index)
		var err error
		switch {
		case whole:
			delete(left, f.name)
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
		case f.typ.Kind() == reflect.String && specialDecoder(f.typ) == nil && m.steps == nil && len(rest) == 0:
			m.strField = &stringField{}
			m.dec = m.strField.decode
		default:
			if m.dec, err = c.compile(f.typ, rest); err == nil && c.share {
				m.dec = shared(f.typ, m.dec)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		s.members = append(s.members, m)
	}
	for path := range left {
		return nil, fmt.Errorf("%v has no %q to drop", t, path)
	}
	return s.buildIndex(), nil
}
