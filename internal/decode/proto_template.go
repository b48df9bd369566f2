package decode

import (
	"math"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A wireToken is what may differ between a message and its template: a leaf, or the length of a
// message within it. parent is the token of the message around it; -1: none.
type wireToken struct {
	span
	parent int32
	leaf   int32 // -1: it is a length
	length int32 // of a message
}

// wireLeafOf returns what templates know of values of type t, which dec decodes; nil: they look
// into them. tag is that of a field, without its wire type.
func wireLeafOf(t reflect.Type, dec wireDecoder, num int) *leaf {
	l := &leaf{typ: t, wireDec: dec, fresh: true}
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		l.fresh = false
	case hasOwnUnmarshal(t):
	case t.Kind() == reflect.Map:
		l.tag = bytesTag(num)
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Pointer:
		return nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		typ, ok := packed(t.Elem())
		if !ok {
			return nil
		}
		l.tag = fieldTag(num, typ)
	default:
		l.fresh = !isScalar(t)
	}
	return l
}

// A lazyLeaf is what templates know of the values of a pointer or a slice, from the first template
// on.
type lazyLeaf struct {
	known bool
	*leaf
}

// matchWire compares the value that is next in w with the template, and returns its end. It sets
// d.changes to the leaves to decode. Leaves say where they end; all other bytes are those of the
// template, but for the lengths of messages, each of which has to be as much greater than the
// template's as what is in the message.
func (t *template) matchWire(d *Decoder, w *wire) (end int, ok bool) {
	data := w.data
	d.changes = d.changes[:0]
	if len(d.grown) < len(t.tokens) {
		d.grown = make([]int32, len(t.tokens))
	}
	// unequal is how many lengths do not fit.
	unequal := 0
	grow := func(message, by int32) {
		was := d.grown[message]
		d.grown[message] += by
		switch {
		case was == 0:
			unequal++
		case was+by == 0:
			unequal--
		}
	}
	defer func() {
		if unequal > 0 {
			clear(d.grown)
		}
	}()
	// a is how far the template is, and b how far the value in data is. next is the first token that
	// has not been passed.
	a, b, next := 0, w.pos, 0
	for {
		n := commonPrefix(t.raw[a:], data[b:])
		a, b = a+n, b+n
		for ; next < len(t.tokens) && int(t.tokens[next].end) <= a; next++ {
			k := &t.tokens[next]
			if k.leaf < 0 || !t.leaves[k.leaf].fresh {
				continue
			}
			// The map may have more entries.
			if tag := t.leaves[k.leaf].tag; tag != "" && int(k.end) == a && hasTag(data[b:], tag) {
				break
			}
			d.changes = append(d.changes, change{int(k.leaf), b - a + int(k.start), b - a + int(k.end)})
		}
		if next == len(t.tokens) && a == len(t.raw) {
			return b, unequal == 0
		}
		if next == len(t.tokens) || int(t.tokens[next].start) > a {
			return 0, false
		}
		// They differ in this token. The bytes before it are the same.
		k := &t.tokens[next]
		start := b - a + int(k.start)
		in := wire{data: data, pos: start}
		if k.leaf < 0 {
			length, err := in.varint()
			if err != nil || length > uint64(len(data)) || length > math.MaxInt32/2 {
				return 0, false
			}
			if by := int32(length) - k.length; by != 0 {
				grow(int32(next), by)
			}
		} else {
			if !t.leaves[k.leaf].skipWire(&in) {
				return 0, false
			}
			d.changes = append(d.changes, change{int(k.leaf), start, in.pos})
		}
		if by := int32(in.pos-start) - int32(k.end-k.start); by != 0 {
			for up := k.parent; up >= 0; up = t.tokens[up].parent {
				grow(up, -by)
			}
		}
		a, b = int(k.end), in.pos
		next++
	}
}

// skipWire consumes a value in the place of the leaf.
func (l *templateLeaf) skipWire(w *wire) bool {
	for {
		if w.skip(int(l.wireType)) != nil {
			return false
		}
		if l.tag == "" || !hasTag(w.data[w.pos:], l.tag) {
			return true
		}
		w.pos += len(l.tag)
	}
}

// decodeWire decodes the changed leaf c of data, in a part at depth, into the value at p.
func (l *templateLeaf) decodeWire(d *Decoder, data []byte, c change, depth int, p pointer) bool {
	d.depth = depth + int(l.depth)
	w := d.wires.open(data[:c.end])
	defer d.wires.close(w)
	w.pos = c.start
	return l.leaf.decodeAll(d, w, int(l.wireType), p) == nil && w.pos == c.end
}

// decodeAll decodes a value from w into the one at p: of a map, all entries.
func (l *leaf) decodeAll(d *Decoder, w *wire, typ int, p pointer) error {
	for {
		if err := l.wireDec(d, w, typ, p); err != nil || l.tag == "" || !hasTag(w.data[w.pos:], l.tag) {
			return err
		}
		w.pos += len(l.tag)
	}
}

// wireLeaf decodes a leaf from w into the value at p, and notes it.
func (r *recorder) wireLeaf(d *Decoder, w *wire, typ int, l *leaf, p pointer) error {
	// Numbers may be packed, which is another type than that of the tag.
	if l.tag != "" && int(l.tag[0]&7) != typ {
		return errNoTemplate
	}
	start := w.pos
	d.rec = nil
	err := l.decodeAll(d, w, typ, p)
	d.rec = r
	r.t.tokens = append(r.t.tokens, wireToken{span: r.span(start, w.pos), parent: int32(r.parent), leaf: int32(len(r.t.leaves))})
	r.leaf(l, start, w.pos, p, d.depth-r.depth)
	r.t.leaves[len(r.t.leaves)-1].wireType = uint8(typ)
	return err
}

// wireValue decodes an element or what a pointer points to, for which dec is the decoder.
func (r *recorder) wireValue(d *Decoder, w *wire, typ int, l *lazyLeaf, t reflect.Type, dec wireDecoder, p pointer) error {
	if !l.known {
		*l = lazyLeaf{true, wireLeafOf(t, dec, 0)}
	}
	if l.leaf != nil {
		return r.wireLeaf(d, w, typ, l.leaf, p)
	}
	return dec(d, w, typ, p)
}

// repeated decodes the elements of a slice, each of which is a field with tag.
func (r *recorder) repeated(d *Decoder, w *wire, typ int, l *lazyLeaf, of *allocator, elem wireDecoder, tag string, p pointer) error {
	if typ != wireBytes || !p.isNil() {
		return errNoTemplate
	}
	n, _ := w.countRepeats(tag)
	n++
	first := r.takeAll(of, n, p, true)
	*as[sliceHeader](p) = sliceHeader{first.addr, n, n}
	for i := range n {
		if err := r.err(); err != nil {
			return err
		}
		if i > 0 {
			w.pos += len(tag)
		}
		if err := r.wireValue(d, w, typ, l, of.slice.Type().Elem(), elem, first.index(i, of.size)); err != nil {
			return err
		}
	}
	return nil
}

// record is rest while a template is made. A field that comes twice makes none, nor does one that
// is skipped.
func (m *messageType) record(d *Decoder, w *wire, p pointer) error {
	r := d.rec
	if m.leaves == nil {
		m.findLeaves()
	}
	var seen [4]uint64
	for !w.done() {
		num, typ, err := w.field()
		if err != nil {
			return err
		}
		if num >= len(m.fields) || num >= 64*len(seen) || seen[num/64]&(1<<(num%64)) != 0 || m.fields[num].dec == nil || m.fields[num].index < 0 {
			return errNoTemplate
		}
		seen[num/64] |= 1 << (num % 64)
		f := &m.fields[num]
		if l := m.leaves[num]; l != nil {
			err = r.wireLeaf(d, w, typ, l, p.field(uintptr(f.offset)))
		} else {
			err = f.dec(d, w, typ, p.field(uintptr(f.offset)))
		}
		if err == nil {
			err = r.err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findLeaves sets what templates know of the fields.
func (m *messageType) findLeaves() {
	m.leaves = make([]*leaf, len(m.fields))
	for num, f := range m.fields {
		if f.dec != nil && f.index >= 0 {
			m.leaves[num] = wireLeafOf(m.typ.Field(int(f.index)).Type, f.dec, num)
		}
	}
}

// beginMessage notes the length of a message of n bytes, which stands from start to end, and
// returns what endMessage needs.
func (r *recorder) beginMessage(start, end, n int) (outer int) {
	if r == nil {
		return 0
	}
	outer = r.parent
	r.parent = len(r.t.tokens)
	r.t.tokens = append(r.t.tokens, wireToken{span: r.span(start, end), parent: int32(outer), leaf: -1, length: int32(n)})
	return outer
}

// endMessage ends the message that beginMessage began.
func (r *recorder) endMessage(outer int) {
	if r != nil {
		r.parent = outer
	}
}
