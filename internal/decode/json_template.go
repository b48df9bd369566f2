package decode

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// leafOf returns what templates know of values of type t, which dec decodes; nil: they look into
// them. quoted is that of a field.
func leafOf(t reflect.Type, dec decoder, quoted bool) *leaf {
	l := &leaf{typ: t, dec: dec, fresh: true}
	switch {
	case quoted:
	case t == reflect.TypeFor[metav1.Time](), t == reflect.TypeFor[intstr.IntOrString]():
		l.fresh = false
	case specialDecoder(t) != nil:
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return nil
	default:
		l.fresh = !isScalar(t)
	}
	return l
}

// isScalar reports whether values of type t have no memory but that of strings.
func isScalar(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() >= reflect.Bool && t.Kind() <= reflect.Float64
}

// matchJSON compares the value that is next with the template, and returns its end. It sets
// d.changes to the leaves to decode. As skipPattern does it, it accepts nothing that is no JSON: up
// to the first difference the bytes are those of a right value, and behind a leaf in which the two
// differ, both are in the same place of the grammar again.
func (t *template) matchJSON(d *Decoder) (end int, ok bool) {
	p, data := &d.p, d.p.data
	d.changes = d.changes[:0]
	// a is how far the template is, and b how far the value in data is. next is the first leaf that
	// has not been passed.
	a, b, next := 0, p.pos, 0
	for {
		n := commonPrefix(t.raw[a:], data[b:])
		a, b = a+n, b+n
		whole := a == len(t.raw)
		for ; next < len(t.leaves) && (whole || int(t.leaves[next].end) < a); next++ {
			if l := &t.leaves[next]; l.fresh {
				d.changes = append(d.changes, change{next, b - a + int(l.start), b - a + int(l.end)})
			}
		}
		if whole {
			return b, true
		}
		if next == len(t.leaves) || int(t.leaves[next].start) > a {
			return 0, false
		}
		// They differ in this leaf, or right behind it, where a number may be longer than the
		// template's. The bytes before that are the same, so it begins at the same distance.
		l := &t.leaves[next]
		start := b - a + int(l.start)
		if b = t.endOf(d, l, start); b < 0 {
			return 0, false
		}
		d.changes = append(d.changes, change{next, start, b})
		a, next = int(l.end), next+1
	}
}

// endOf returns the end of the value that begins at start, in the place of l. It is -1 if the value
// is wrong or of another sort. A null is of another sort: a pointer to the value would be nil.
func (t *template) endOf(d *Decoder, l *templateLeaf, start int) int {
	p := &d.p
	if start >= len(p.data) {
		return -1
	}
	switch was, is := t.raw[l.start], p.data[start]; {
	case is == 'n' && was != 'n':
		return -1
	case !l.fresh && was == '"':
		return stringEnd(p.data, start)
	case !l.fresh:
		return p.scalarEnd(start)
	}
	pos, depth, src := p.pos, p.depth, p.src
	// A value that nests too deep is found as it is decoded.
	p.pos, p.src = start, nil
	defer func() { p.pos, p.depth, p.src = pos, depth, src }()
	if l.inner == nil && t.fits >= patternFrom {
		t.makeInner(d, l)
	}
	if (l.inner == nil || !l.inner.match(p)) && p.skip() != nil {
		return -1
	}
	return p.pos
}

// patternFrom is how often a template fits before it makes patterns of its fresh leaves.
const patternFrom = 4

// makeInner makes the pattern of l.
func (t *template) makeInner(d *Decoder, l *templateLeaf) {
	raw := t.raw[l.start:l.end]
	d.spans = d.spans[:0]
	l.inner = &skipPattern{}
	if p := (parser{data: raw}); p.skipCompact(&d.spans) {
		*l.inner = skipPattern{raw: raw, spans: slices.Clone(d.spans)}
	}
}

// decodeJSON decodes the changed leaf c, in the part at depth, into the value at p.
func (l *templateLeaf) decodeJSON(d *Decoder, c change, depth int, p pointer) bool {
	d.p.pos, d.p.depth = c.start, depth+int(l.depth)
	d.p.known.start, d.p.known.end = c.start, c.end
	err := l.dec(d, p)
	d.p.known.end = 0
	return err == nil && d.p.pos == c.end
}

// decodeLeaf decodes the value that is next into p, and notes it. A value that is none, because l
// is nil, notes its leaves itself.
func (r *recorder) decodeLeaf(d *Decoder, dec decoder, l *leaf, p pointer) error {
	if l == nil {
		return dec(d, p)
	}
	d.p.next()
	start, depth := d.p.pos, d.p.depth
	d.rec = nil
	err := dec(d, p)
	d.rec = r
	r.leaf(l, start, d.p.pos, p, depth-r.depth)
	return err
}

// record is decode while a template is made. A name that comes twice makes none.
func (s *structType) record(d *Decoder, p pointer) error {
	r := d.rec
	var seen [4]uint64
	empty, err := d.p.open('}')
	at, guess := 0, &s.first
	for more := !empty; more && err == nil; {
		var i int
		if i, err = s.next(&d.p, *guess, at); err != nil {
			return err
		}
		if i < 0 || i >= 64*len(seen) || seen[i/64]&(1<<(i%64)) != 0 || s.members[i].dec == nil {
			r.fail()
			return errNoTemplate
		}
		seen[i/64] |= 1 << (i % 64)
		m := &s.members[i]
		*guess, guess, at = i, &m.successor, i+1
		start := d.p.pos
		if m.strField != nil {
			if s, ok := m.strField.guess(&d.p); ok {
				*as[string](p.field(m.offset)) = s
				r.leaf(m.leaf, start, d.p.pos, p.field(m.offset), d.p.depth-r.depth)
				more, err = d.p.more('}')
				continue
			}
		}
		if err = m.decode(d, p); err == nil {
			if err = r.err(); err == nil {
				more, err = d.p.more('}')
			}
		}
	}
	return err
}

// record is decode while a template is made. The opening bracket has been consumed, and the array
// is not empty. The elements are decoded into the rest of the template's array. If that has no room
// for all, they are counted.
func (s *sliceType) record(d *Decoder, p pointer) error {
	r := d.rec
	i := r.arrayOf(s.elems)
	if r.failed || r.t.arrays[i].open {
		r.fail()
		return errNoTemplate
	}
	a := r.t.arrays[i]
	r.t.arrays[i].open = true
	first, room := pointer{}, a.content.slice.Len()-a.n
	if room > 0 {
		first = pointer{a.content.head.data}.index(a.n, a.content.size)
	}
	n := 0
	for more := true; more; n++ {
		var err error
		if n < room {
			more, err = s.element(d, first, n)
		} else if err = d.p.skip(); err == nil {
			more, err = d.p.more(']')
		}
		if err != nil {
			return err
		}
	}
	r.t.arrays[i].open = false
	r.t.arrays[i].n += n
	if n > room {
		r.small = true
		return nil
	}
	*as[sliceHeader](p) = sliceHeader{first.addr, n, n}
	r.link(i, a.n, n, p, true)
	return nil
}
