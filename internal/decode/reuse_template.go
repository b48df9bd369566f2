package decode

import "reflect"

// A template is a value of a part that came before, such as the spec of a pod: its bytes, and what
// they were decoded to. The part of the next object mostly has the same names and brackets, and
// other strings and numbers here and there. Then it is a copy of the template's memory in which
// only what differs is decoded. That takes a fraction of the time, and the values of one type are
// one piece of memory.
//
// The result is what the part's decoder makes of the bytes, because:
//
//   - All bytes are equal but those of leaves, each of which is of the same sort, and in protobuf
//     the lengths of the messages around them, which fit the lengths of the leaves. So the input
//     has the grammar of the template: see matchJSON and matchWire.
//   - A leaf has memory of its own, and its decoder looks at nothing but its bytes. No field comes
//     twice in a template, and nothing is skipped in it: see recorder.
//   - Objects share no memory but that of strings. What a decoder makes beside the template's
//     memory, such as a map, is made for each object.
//
// An error is left to the part's decoder, which then begins anew.
//
// A value that fits no template becomes one as it is decoded: it is decoded into the memory of a
// template, by the part's decoder, and the object gets a copy. That costs hardly more than to
// decode it, since the memory of templates is used again. So the second of three pods of a workload
// fits, whatever the pods around them are.
type template struct {
	wire   bool // of protobuf, not JSON
	raw    []byte
	leaves []templateLeaf
	tokens []wireToken // of protobuf
	// root is the part, and arrays are what it points to, by type. links are the pointers and slices
	// in them.
	root     reflect.Value
	part     pointer // to root
	partSize uintptr
	arrays   []templateArray
	links    []link
	// blocks have the arrays that have values, once the template has fitted often; see makeBlocks.
	blocks []memoryBlock
	fits   int
	size   int // its part of Decoder.templateBytes
}

// A leaf is what a template knows of a type of values that it does not look into, and their
// decoder.
type leaf struct {
	typ reflect.Type
	// dec decodes them from JSON, and wireDec from protobuf.
	dec     decoder
	wireDec wireDecoder
	// tag is that of the fields of a map in protobuf, which follow each other; "": it is one field.
	tag string
	// fresh says that the values have memory beside that of strings, so that they are decoded for
	// each object.
	fresh bool
}

// A templateLeaf is a leaf of a template: where its bytes and its memory are, and the number of
// values around it.
type templateLeaf struct {
	*leaf
	span
	at       place
	depth    int32
	wireType uint8 // of protobuf
	// inner is the bytes of a fresh leaf of JSON, of which the next has mostly the names, too; nil:
	// there is no pattern yet.
	inner *skipPattern
}

// A templateArray is the memory of a template for the values of one allocator, of which n are used.
type templateArray struct {
	of      *allocator
	content *allocator // its slice is the memory
	n       int
	open    bool // a slice is being decoded into it
}

// A place is an offset in a region of a part's memory: 0 is the part itself, and region 1+i the
// array i. A place that a template has is in its memory: recorder.placeOf has found it there.
type place struct {
	region int32
	offset uint32
}

// A link is a pointer in a part, or a slice of n elements.
type link struct {
	from, to place
	slice    bool
	n        int32
}

// regions are the addresses of a part and of its arrays. That of an array without values is nil,
// and no place is in it.
type regions [1 + maxArrays]pointer

func (r *regions) at(p place) pointer { return r[p.region].field(uintptr(p.offset)) }

// A change is a leaf that is decoded, and where its bytes are in the input.
type change struct{ leaf, start, end int }

// copy makes a copy of the template's memory, of which the part is at p, and returns where it is.
func (t *template) copy(p pointer, to *regions) {
	p.value(t.root.Type()).Set(t.root)
	to[0] = p
	if t.blocks != nil {
		for i := range t.blocks {
			t.blocks[i].copy(to)
		}
	} else {
		for i := range t.arrays {
			if a := &t.arrays[i]; a.n > 0 {
				to[1+i] = a.of.copyOf(a.content, a.n)
			}
		}
	}
	for i := range t.links {
		l := &t.links[i]
		to.at(l.from).link(to.at(l.to), l.slice, int(l.n))
	}
}

// build copies the template to the part at p, which is zero, and decodes d.changes into the copy. w
// is the input in protobuf; nil: it is JSON. If a leaf does not fit its type, build reports false,
// and p is zero again.
func (t *template) build(d *Decoder, w *wire, p pointer) bool {
	var to regions
	t.copy(p, &to)
	var ok bool
	if w == nil {
		ok = t.changeJSON(d, &to)
	} else {
		ok = t.changeWire(d, w, &to)
	}
	if !ok {
		p.value(t.root.Type()).SetZero()
	}
	return ok
}

// changeJSON decodes d.changes into the copy at to. The decoders of leaves move the position and
// the depth, so changeJSON puts both back.
func (t *template) changeJSON(d *Decoder, to *regions) bool {
	pos, depth, ok := d.p.pos, d.p.depth, true
	for i := 0; ok && i < len(d.changes); i++ {
		l := &t.leaves[d.changes[i].leaf]
		ok = l.decodeJSON(d, d.changes[i], depth, to.at(l.at))
	}
	d.p.pos, d.p.depth = pos, depth
	return ok
}

// changeWire is changeJSON for protobuf, where w keeps its position.
func (t *template) changeWire(d *Decoder, w *wire, to *regions) bool {
	depth, ok := d.depth, true
	for i := 0; ok && i < len(d.changes); i++ {
		l := &t.leaves[d.changes[i].leaf]
		ok = l.decodeWire(d, w.data, d.changes[i], depth, to.at(l.at))
	}
	d.depth = depth
	return ok
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
	// maxTemplateBytes is how many bytes all templates of a Decoder have.
	maxTemplateBytes = 256 << 10
	// templateCost is how many objects a template must save the time of that it takes to make one.
	templateCost = 32
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

// A partDecoder decodes a part of type typ by templates.
type partDecoder struct {
	typ reflect.Type
	// decode decodes the part without templates, from w or from JSON.
	decode func(d *Decoder, w *wire, p pointer) error
}

// decode decodes the value that is next into the part at p, which is zero, if it fits a template or
// becomes one. Otherwise it consumes nothing and reports false. w is the input in protobuf; nil: it
// is JSON.
func (ts *templates) decode(d *Decoder, w *wire, part *partDecoder, p pointer) bool {
	if ts.pauses > 0 {
		ts.pauses--
		return false
	}
	for i, t := range ts.all {
		end, ok := 0, t.wire == (w != nil)
		switch {
		case !ok:
		case w == nil:
			end, ok = t.matchJSON(d)
		default:
			end, ok = t.matchWire(d, w)
		}
		if !ok {
			continue
		}
		if !t.build(d, w, p) {
			return false
		}
		if w == nil {
			d.p.pos = end
		} else {
			w.pos = end
		}
		copy(ts.all[1:i+1], ts.all[:i])
		ts.all[0] = t
		ts.score, ts.credit = min(ts.score+1, maxScore), min(ts.credit+1, maxTemplates*templateCost)
		if t.fits++; t.fits == blocksFrom {
			t.makeBlocks(d)
		}
		return true
	}
	// A value that is cut off says nothing about the templates.
	if w == nil && (d.p.src != nil || d.rotated) {
		return false
	}
	if len(ts.all) > 0 {
		if ts.score--; ts.score < 0 {
			ts.score, ts.pauses = 0, patternPause
			return false
		}
	}
	switch {
	case ts.made < maxTemplates:
	case ts.credit < templateCost:
		return false
	default:
		ts.credit -= templateCost
	}
	ts.made++
	return ts.learn(d, w, part, p)
}
