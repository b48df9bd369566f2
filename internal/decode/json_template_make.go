package decode

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// learn makes a template of raw, which dec has decoded as a value of type typ, unless templates cost
// more than they save.
func (ts *templates) learn(d *Decoder, typ reflect.Type, raw []byte, dec decoder) {
	switch {
	case d.rotated, d.p.src != nil, ts.pauses > 0, len(raw) < minPattern, len(raw) > maxPattern:
		return
	case ts.made < maxTemplates:
	case ts.credit < templateCost:
		return
	default:
		ts.credit -= templateCost
	}
	ts.made++
	t := d.newTemplate(typ, bytes.Clone(raw), dec)
	if t == nil {
		return
	}
	if last := len(ts.all) - 1; len(ts.all) == maxTemplates {
		d.templateBytes -= ts.all[last].size
		ts.all = slices.Delete(ts.all, last, last+1)
	}
	if d.templateBytes+t.size <= maxTemplateBytes {
		d.templateBytes += t.size
		ts.all = slices.Insert(ts.all, 0, t)
		ts.score = maxScore
	}
}

// newTemplate returns a template of raw, a value of type typ that dec decodes. It is nil if raw is
// not as servers write it, or if a recorder fails.
func (d *Decoder) newTemplate(typ reflect.Type, raw []byte, dec decoder) *template {
	p := d.p
	defer func() { d.p, d.rec = p, nil }()
	d.p = parser{data: raw}
	if !d.p.skipCompact(nil) || d.p.pos != len(raw) {
		return nil
	}
	r, root := &recorder{}, reflect.New(typ)
	d.p.pos, d.rec = 0, r
	if err := dec(d, pointerOf(root)); err != nil || r.failed {
		return nil
	}
	t := &template{raw: raw, root: root.Elem(), size: 2*len(raw) + int(typ.Size())}
	if !t.makeBlocks(r) || !t.setPlaces(r) {
		return nil
	}
	for i := range t.leaves {
		l := &t.leaves[i]
		if d.p.pos = int(l.start); l.fresh {
			d.spans = d.spans[:0]
			if d.p.skipCompact(&d.spans) {
				l.inner = skipPattern{raw: raw[l.start:l.end], spans: slices.Clone(d.spans)}
			}
		}
	}
	return t
}

// A recorder notes, while a value is decoded, what leaves it has and what memory it takes. A nil
// recorder notes nothing.
//
// It fails where a template would not decode all that comes, or decode into what came before: if
// something is skipped, or an array comes twice. Other names that come twice are found as they are
// given places.
type recorder struct {
	failed bool
	leaves []recordedLeaf
	taken  []taken
}

// A recordedLeaf is a leaf whose value is at an address.
type recordedLeaf struct {
	*leaf
	span
	at    pointer
	depth int
}

// A taken is memory for values of type typ, and the pointer or slice that has it.
type taken struct {
	typ    reflect.Type
	memory sliceHeader
	from   pointer
	slice  bool
	at     place // in the template
}

func (r *recorder) fail() {
	if r != nil {
		r.failed = true
	}
}

// take notes memory of the pointer or slice at from.
func (r *recorder) take(a *allocator, memory sliceHeader, from pointer, slice bool) {
	r.taken = append(r.taken, taken{typ: a.slice.Type().Elem(), memory: memory, from: from, slice: slice})
}

// decodeLeaf decodes the value that is next into p, and notes it. A value that is none, because l is
// nil, notes its leaves itself.
func (r *recorder) decodeLeaf(d *Decoder, dec decoder, l *leaf, p pointer) error {
	if l == nil {
		return dec(d, p)
	}
	start, depth := d.p.pos, d.p.depth
	d.rec = nil
	err := dec(d, p)
	d.rec = r
	r.leaves = append(r.leaves, recordedLeaf{l, span{uint32(start), uint32(d.p.pos)}, p, depth})
	return err
}

// record is decode while a template is made: the elements get memory of their own, so it must be
// known how many come. The opening bracket has been consumed, and the array is not empty.
func (s *sliceType) record(d *Decoder, p pointer) error {
	pos, depth := d.p.pos, d.p.depth
	n := 0
	for more := true; more; n++ {
		err := d.p.skip()
		if err == nil {
			more, err = d.p.more(']')
		}
		if err != nil {
			return err
		}
	}
	d.p.pos, d.p.depth = pos, depth
	memory := s.elems.allocate(n)
	*as[sliceHeader](p) = memory
	d.rec.take(s.elems, memory, p, true)
	for i := range n {
		if _, err := s.element(d, pointer{memory.data}, i); err != nil {
			return err
		}
	}
	return nil
}

const (
	// maxBlocks is how many blocks a part has at most. A second one saves memory: see split.
	maxBlocks = 2
	// maxBlockBytes is how much memory all blocks of a part have at most.
	maxBlockBytes = 16 << 10
)

// makeBlocks gives all memory that was taken a place in a block. It reports false if that is too
// much memory.
func (t *template) makeBlocks(r *recorder) bool {
	// The values of one type are one array.
	var arrays []blockArray
	of := map[reflect.Type]int{}
	total := 0
	for _, m := range r.taken {
		i, ok := of[m.typ]
		if !ok {
			i = len(arrays)
			of[m.typ] = i
			arrays = append(arrays, blockArray{typ: m.typ})
		}
		arrays[i].n += m.memory.len
		if total += m.memory.len * int(m.typ.Size()); total > maxBlockBytes || m.typ.Size() == 0 {
			return false
		}
	}
	// The largest alignment first, so that there are no gaps.
	slices.SortStableFunc(arrays, func(a, b blockArray) int { return cmp.Compare(b.typ.Align(), a.typ.Align()) })
	for i, a := range arrays {
		of[a.typ] = i
	}
	n := split(arrays)
	for _, part := range [][]blockArray{arrays[:n], arrays[n:]} {
		if len(part) == 0 {
			continue
		}
		shape := shapeOf(part)
		if shape == nil {
			return false
		}
		t.size += int(shape.Size())
		b := memoryBlock{newAllocator(shape), newAllocator(shape)}
		b.content.reserve(1)
		t.blocks = append(t.blocks, b)
		for i := range part {
			part[i].next = place{len(t.blocks), shape.Field(i).Offset}
		}
	}
	for i := range r.taken {
		m := &r.taken[i]
		a := &arrays[of[m.typ]]
		m.at = a.next
		a.next.offset += uintptr(m.memory.len) * m.typ.Size()
	}
	return true
}

// setPlaces moves what was taken to the blocks, and sets the template's links and leaves. It reports
// false if two of them have the same place, or if a link has another value by now: then a name came
// twice.
func (t *template) setPlaces(r *recorder) bool {
	regions := []pointer{pointerOf(t.root.Addr())}
	for _, b := range t.blocks {
		regions = append(regions, pointer{b.content.head.data})
	}
	known := map[place]bool{}
	// find returns the place of what is at p, and whether it is the first one there.
	find := func(p pointer) (at place, ok bool) {
		if offset, ok := p.within(regions[0], t.root.Type().Size()); ok {
			at = place{0, offset}
		}
		for _, m := range r.taken {
			if offset, ok := p.within(pointer{m.memory.data}, uintptr(m.memory.len)*m.typ.Size()); ok {
				at = place{m.at.region, m.at.offset + offset}
			}
		}
		ok = !known[at]
		known[at] = true
		return at, ok
	}
	for _, m := range r.taken {
		from, ok := find(m.from)
		if !ok || m.from.target() != (pointer{m.memory.data}) {
			return false
		}
		t.links = append(t.links, link{from, m.at, m.slice, m.memory.len})
	}
	for _, l := range r.leaves {
		at, ok := find(l.at)
		if !ok {
			return false
		}
		if l.fresh {
			l.at.value(l.typ).SetZero()
		}
		t.leaves = append(t.leaves, templateLeaf{leaf: l.leaf, span: l.span, at: at, depth: l.depth})
	}
	for _, m := range r.taken {
		m.from.link(pointer{}, m.slice, 0)
	}
	for _, m := range r.taken {
		array := reflect.ArrayOf(m.memory.len, m.typ)
		regions[m.at.region].field(m.at.offset).value(array).Set(pointer{m.memory.data}.value(array))
	}
	return true
}

// A blockArray is an array in a block: n values of a type. The next of them to be given away is at
// next.
type blockArray struct {
	typ  reflect.Type
	n    int
	next place
}

// split returns how many of arrays are in the first of two blocks. The allocator has few sizes of
// memory, and rounds up to them: two blocks may have much less than one.
func split(arrays []blockArray) (n int) {
	size := func(arrays []blockArray) (bytes int) {
		for _, a := range arrays {
			bytes += a.n * int(a.typ.Size())
		}
		return roundedUp(bytes)
	}
	least := size(arrays) * 15 / 16
	for i := range arrays {
		if bytes := size(arrays[:i]) + size(arrays[i:]); bytes < least {
			n, least = i, bytes
		}
	}
	return n
}

// roundedUp returns the size of the memory that is allocated for n bytes with pointers in them.
func roundedUp(n int) int {
	if n > 512 {
		n += 8 // its type stands before it
	}
	return cap(append([]byte(nil), make([]byte, n)...))
}

// maxShapes is how many types of blocks a program makes, since it keeps them for ever.
const maxShapes = 1024

var (
	shapesMu sync.Mutex
	shapes   = map[string]reflect.Type{}
)

// shapeOf returns the type of a block with arrays, or nil if there are too many types.
func shapeOf(arrays []blockArray) reflect.Type {
	var key []byte
	for _, a := range arrays {
		key = fmt.Appendf(key, "%x:%d ", reflect.ValueOf(a.typ).Pointer(), a.n)
	}
	shapesMu.Lock()
	defer shapesMu.Unlock()
	shape := shapes[string(key)]
	if shape == nil && len(shapes) < maxShapes {
		var fields []reflect.StructField
		for i, a := range arrays {
			fields = append(fields, reflect.StructField{Name: fmt.Sprint("Array", i), Type: reflect.ArrayOf(a.n, a.typ)})
		}
		shape = reflect.StructOf(fields)
		shapes[string(key)] = shape
	}
	return shape
}
