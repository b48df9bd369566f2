package decode

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A template is a value of a part that came before, such as the spec of a pod: its bytes, and what
// they were decoded to. The part of the next object mostly has the same names and brackets, and
// other strings and numbers here and there. Then it is a copy of the template's memory in which
// only what differs is decoded. That takes a fraction of the time, and the memory of the part is one
// piece or two.
//
// The result is what the part's decoder makes of the bytes, because:
//
//   - The bytes are compared as a skipPattern does it, which accepts nothing that is no JSON. All
//     names are equal, and all values but those of leaves, each of which is of the same sort.
//   - A leaf has memory of its own, and its decoder looks at nothing but its bytes. No name comes
//     twice in a template, and nothing is skipped in it: see recorder.
//   - Objects share no memory but that of strings. What a decoder makes beside the template's
//     memory, such as a map, is made for each object.
//
// An error is left to the part's decoder, which then begins anew.
type template struct {
	raw    []byte
	leaves []templateLeaf
	// root is the part, and blocks are what it points to. links are the pointers and slices in
	// them, which are nil there.
	root   reflect.Value
	blocks []memoryBlock
	links  []link
	size   int // its part of Decoder.templateBytes
}

// A leaf is what a template knows of a type of values that it does not look into, and their decoder.
type leaf struct {
	typ reflect.Type
	dec decoder
	// fresh says that the values have memory beside that of strings, so that they are decoded for
	// each object.
	fresh bool
}

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
		l.fresh = t.Kind() != reflect.String && (t.Kind() < reflect.Bool || t.Kind() > reflect.Float64)
	}
	return l
}

// A templateLeaf is a leaf of a template: where its bytes and its memory are, and the number of
// arrays and objects around it.
type templateLeaf struct {
	*leaf
	span
	at    place
	depth int
	// inner is the bytes of a fresh leaf, which mostly has the names of the template's, too.
	inner skipPattern
}

// A place is an offset in a region of a part's memory: 0 is the part itself, and the others are its
// blocks.
type place struct {
	region int
	offset uintptr
}

// A link is a pointer in a part, or a slice of n elements.
type link struct {
	from, to place
	slice    bool
	n        int
}

// A memoryBlock is a struct of arrays, with the values that a part points to. It makes copies of
// itself.
type memoryBlock struct {
	content *allocator // its own slice has one element
	copies  *allocator
}

// copy returns a copy of the block.
func (b *memoryBlock) copy() pointer {
	h := b.copies.allocate(1)
	*b.copies.head = h
	reflect.Copy(b.copies.slice, b.content.slice)
	*b.copies.head = sliceHeader{}
	return pointer{h.data}
}

// A change is a leaf that is decoded, and where its bytes are in the input.
type change struct{ leaf, start, end int }

// match compares the value that is next with the template, and returns its end. It sets d.changes to
// the leaves to decode.
func (t *template) match(d *Decoder) (end int, ok bool) {
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
		if b = t.endOf(p, l, start); b < 0 {
			return 0, false
		}
		d.changes = append(d.changes, change{next, start, b})
		a, next = int(l.end), next+1
	}
}

// endOf returns the end of the value that begins at start, in the place of l. It is -1 if the value
// is wrong or of another sort. A null is of another sort: a pointer to the value would be nil.
func (t *template) endOf(p *parser, l *templateLeaf, start int) int {
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
	if !l.inner.match(p) && p.skip() != nil {
		return -1
	}
	return p.pos
}

// build makes the part at p, which is zero, as the template is but for d.changes, and consumes it
// up to end. If a leaf does not fit its type, p is zero again and nothing is consumed.
func (t *template) build(d *Decoder, p pointer, end int) bool {
	part := p.value(t.root.Type())
	part.Set(t.root)
	regions := [1 + maxBlocks]pointer{p}
	for i := range t.blocks {
		regions[1+i] = t.blocks[i].copy()
	}
	for i := range t.links {
		l := &t.links[i]
		regions[l.from.region].field(l.from.offset).link(regions[l.to.region].field(l.to.offset), l.slice, l.n)
	}
	pos, depth := d.p.pos, d.p.depth
	for _, c := range d.changes {
		l := &t.leaves[c.leaf]
		d.p.pos, d.p.depth = c.start, depth+l.depth
		d.p.known.start, d.p.known.end = c.start, c.end
		err := l.dec(d, regions[l.at.region].field(l.at.offset))
		if d.p.known.end = 0; err != nil || d.p.pos != c.end {
			d.p.pos, d.p.depth = pos, depth
			part.SetZero()
			return false
		}
	}
	d.p.pos, d.p.depth = end, depth
	return true
}

// templates are those of one part, the last one that fitted first.
type templates struct {
	all []*template
	// made counts the templates that were made. credit is how many more objects were decoded by
	// templates than the making of further ones has cost.
	made, credit int
	// score and pauses are as in a skipPattern.
	score, pauses int
}

const (
	// templatesFrom is how many objects a Decoder decodes before it makes templates, which a short
	// list does not need.
	templatesFrom = 16
	// maxTemplates is how many values a part remembers. The objects of a list are of a few sorts.
	maxTemplates = 4
	// templateCost is how many objects a template must save the time of that it takes to make one.
	templateCost = 32
	// maxTemplateBytes is how many bytes all templates of a Decoder have.
	maxTemplateBytes = 128 << 10
)

// templatesOf returns the templates of part i, or nil if too few objects have come for any.
func (d *Decoder) templatesOf(i int) *templates {
	if d.templates == nil {
		if d.objects < templatesFrom {
			return nil
		}
		d.templates = new([maxParts]templates)
	}
	return &d.templates[i]
}

// decode decodes the value that is next into the part at p, which is zero, if it fits a template.
// Otherwise it consumes nothing and reports false.
func (ts *templates) decode(d *Decoder, p pointer) bool {
	if ts.pauses > 0 {
		ts.pauses--
		return false
	}
	for i, t := range ts.all {
		end, ok := t.match(d)
		if !ok {
			continue
		}
		if !t.build(d, p, end) {
			return false
		}
		ts.all[0], ts.all[i] = t, ts.all[0]
		ts.score, ts.credit = min(ts.score+1, maxScore), min(ts.credit+1, maxTemplates*templateCost)
		return true
	}
	// A value that is cut off says nothing about the templates.
	if len(ts.all) > 0 && d.p.src == nil {
		if ts.score--; ts.score < 0 {
			ts.score, ts.pauses = 0, patternPause
		}
	}
	return false
}
