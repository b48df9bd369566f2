package decode

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"unsafe"
)

// learn decodes the value that is next into the memory of a template, in place of the one that
// fitted the longest time ago, and copies it to the part at p. If it makes no template, it consumes
// nothing and reports false.
func (ts *templates) learn(d *Decoder, w *wire, part *partDecoder, p pointer) bool {
	var t *template
	if n := len(ts.all); n == maxTemplates {
		t = ts.all[n-1]
		ts.all = ts.all[:n-1]
	} else {
		v := reflect.New(part.typ)
		t = &template{root: v.Elem(), part: pointerOf(v), partSize: part.typ.Size()}
	}
	d.templateBytes -= t.size
	if !t.record(d, w, part) {
		return false
	}
	var to regions
	t.copy(p, &to)
	// What is fresh belongs to the object now.
	for i := range t.leaves {
		if l := &t.leaves[i]; l.fresh {
			t.region(l.at.region).field(uintptr(l.at.offset)).value(l.typ).SetZero()
		}
	}
	if t.size = t.bytes(); d.templateBytes+t.size <= maxTemplateBytes {
		d.templateBytes += t.size
		ts.all = slices.Insert(ts.all, 0, t)
		ts.score = maxScore
	}
	return true
}

// bytes returns about how much memory the template has.
func (t *template) bytes() int {
	n := cap(t.raw) + cap(t.leaves)*int(unsafe.Sizeof(templateLeaf{})) + cap(t.tokens)*int(unsafe.Sizeof(wireToken{})) +
		cap(t.links)*int(unsafe.Sizeof(link{})) + int(t.root.Type().Size())
	for i := range t.arrays {
		a := &t.arrays[i]
		n += a.content.slice.Len()*int(a.content.size) + int(unsafe.Sizeof(*a))
	}
	return n
}

// errNoTemplate ends the decoding of a value that makes no template.
var errNoTemplate error = abort{errors.New("no template")}

// recordTries is how often a value is decoded until the arrays have room for it. Each try finds at
// least one that is too small, and makes it twice as large.
const recordTries = 12

// record makes t the template of the value that is next, and consumes it. If that fails, it
// consumes nothing and reports false.
func (t *template) record(d *Decoder, w *wire, part *partDecoder) bool {
	r := &recorder{t: t}
	defer func() { d.rec = nil }()
	pos, depth, outer, in := d.p.pos, d.p.depth, d.depth, wire{}
	if w != nil {
		in = *w
	}
	t.wire, r.base, r.depth = w != nil, pos, depth
	if w != nil {
		r.base, r.depth = in.pos, outer
	}
	for range recordTries {
		t.reset()
		r.parent, r.small = -1, false
		d.rec = r
		err := part.decode(d, w, t.part)
		d.rec = nil
		if err == nil && !r.failed && !r.small {
			if w != nil {
				t.raw = append(t.raw[:0], w.data[in.pos:w.pos]...)
			} else {
				t.raw = append(t.raw[:0], d.p.data[pos:d.p.pos]...)
			}
			if n := len(t.raw); n >= minPattern && n <= maxPattern && t.isSound() {
				return true
			}
			r.failed = true
		}
		if d.p.pos, d.p.depth, d.depth = pos, depth, outer; w != nil {
			*w = in
		}
		if err != nil || r.failed || !t.grow() {
			break
		}
	}
	t.reset()
	return false
}

// isSound reports whether each place is in the memory that a copy has too: in the part, or in the
// values of an array that are used.
func (t *template) isSound() bool {
	used := func(p place, size uintptr) bool {
		n := t.partSize
		if p.region > 0 {
			a := &t.arrays[p.region-1]
			n = uintptr(a.n) * a.content.size
		}
		return uintptr(p.offset)+size <= n
	}
	for i := range t.leaves {
		if l := &t.leaves[i]; !used(l.at, l.typ.Size()) {
			return false
		}
	}
	for i := range t.links {
		l := &t.links[i]
		if !used(l.from, linkSize(l.slice)) || !used(l.to, uintptr(l.n)*t.arrays[l.to.region-1].content.size) {
			return false
		}
	}
	return true
}

// linkSize returns the size of a slice or a pointer.
func linkSize(slice bool) uintptr {
	if slice {
		return unsafe.Sizeof(sliceHeader{})
	}
	return unsafe.Sizeof(pointer{})
}

// reset makes the template's memory zero, for another value.
func (t *template) reset() {
	t.leaves, t.tokens, t.links, t.blocks, t.fits = t.leaves[:0], t.tokens[:0], t.links[:0], nil, 0
	t.root.SetZero()
	for i := range t.arrays {
		a := &t.arrays[i]
		a.content.slice.Clear()
		a.n, a.open = 0, false
	}
}

// grow makes room for all that the arrays should have had. It reports false if that is too much.
func (t *template) grow() bool {
	total := 0
	for i := range t.arrays {
		a := &t.arrays[i]
		total += a.n * int(a.content.size)
	}
	if total > maxBlockBytes {
		return false
	}
	for i := range t.arrays {
		if a := &t.arrays[i]; a.n > a.content.slice.Len() {
			a.content.reserve(a.n)
		}
	}
	return true
}

// A recorder notes, while a value is decoded, what leaves it has, and gives it memory of its
// template. A nil recorder notes nothing.
//
// It fails where a template would not decode all that comes, or decode into what came before: if
// something is skipped, or a field comes twice.
type recorder struct {
	t *template
	// base is where the value begins, and depth the number of values around it.
	base, depth int
	failed      bool
	// small says that an array has no room.
	small bool
	// last is the region of the last place.
	last int32
	// parent is the token of the message of protobuf that is being decoded.
	parent int
}

func (r *recorder) fail() {
	if r != nil {
		r.failed = true
	}
}

// err returns the error that ends the decoding after a failure.
func (r *recorder) err() error {
	if r.failed {
		return errNoTemplate
	}
	return nil
}

// leaf notes a leaf with the bytes from start to end, whose value is at p.
func (r *recorder) leaf(l *leaf, start, end int, p pointer, depth int) {
	at := r.placeOf(p, l.typ.Size())
	r.t.leaves = append(r.t.leaves, templateLeaf{leaf: l, span: r.span(start, end), at: at, depth: int32(depth)})
}

// placeOf returns the place of the size bytes at p. What is not in the template's memory makes no
// template: it is in memory that an array should have had, or a decoder has made memory of its own.
func (r *recorder) placeOf(p pointer, size uintptr) place {
	for i := -1; i < 1+len(r.t.arrays); i++ {
		region := int32(i)
		if i < 0 {
			region = r.last // where it mostly is
		}
		if offset, ok := p.within(r.t.region(region), r.t.regionSize(region), size); ok {
			r.last = region
			return place{region, uint32(offset)}
		}
	}
	r.failed = r.failed || !r.small
	return place{}
}

// region returns the address of a region of the template's memory, and regionSize its size.
func (t *template) region(i int32) pointer {
	if i == 0 {
		return t.part
	}
	return pointer{t.arrays[i-1].content.head.data}
}

func (t *template) regionSize(i int32) uintptr {
	if i == 0 {
		return t.partSize
	}
	c := t.arrays[i-1].content
	return uintptr(c.head.len) * c.size
}

func (r *recorder) span(start, end int) span {
	return span{uint32(start - r.base), uint32(end - r.base)}
}

// arrayOf returns the number of the array for the values of an allocator.
func (r *recorder) arrayOf(of *allocator) int {
	all := r.t.arrays
	for i := range all {
		if all[i].of == of {
			return i
		}
	}
	if len(all) == maxArrays || of.size == 0 {
		r.failed = true
		return 0
	}
	a := templateArray{of: of, content: newAllocator(of.slice.Type().Elem())}
	a.content.reserve(int(max(1, min(8, firstArray/of.size))))
	r.t.arrays = append(all, a)
	return len(all)
}

// take returns memory for one value, for the pointer at from.
func (r *recorder) take(of *allocator, from pointer) pointer {
	return r.takeAll(of, 1, from, false)
}

// takeAll returns memory for n values, for the pointer or the slice at from.
func (r *recorder) takeAll(of *allocator, n int, from pointer, slice bool) pointer {
	i := r.arrayOf(of)
	if r.failed || r.t.arrays[i].open {
		r.failed = true
		return pointer{of.allocate(n).data}
	}
	a := &r.t.arrays[i]
	at := a.n
	a.n += n
	if a.n > a.content.slice.Len() {
		r.small = true
		return pointer{of.allocate(n).data}
	}
	r.link(i, at, n, from, slice)
	return pointer{a.content.head.data}.index(at, a.content.size)
}

// link notes that the pointer or slice at from has the n values from number at on of array i.
func (r *recorder) link(i, at, n int, from pointer, slice bool) {
	to := place{int32(1 + i), uint32(at) * uint32(r.t.arrays[i].content.size)}
	r.t.links = append(r.t.links, link{r.placeOf(from, linkSize(slice)), to, slice, int32(n)})
}

const (
	// maxArrays is how many types of values a template points to at most.
	maxArrays = 64
	// firstArray is about how many bytes an array has at first.
	firstArray = 64
	// blocksFrom is how often a template fits before its arrays are put into blocks, for which the
	// program makes a type.
	blocksFrom = 8
	// maxBlockBytes is how much memory all arrays of a part have at most.
	maxBlockBytes = 16 << 10
)

// A memoryBlock is a struct of arrays, with the values that a part points to. It makes copies of
// itself.
type memoryBlock struct {
	content *allocator // its own slice has one element
	copies  *allocator
	arrays  []blockArray
}

// copy makes a copy of the block, and sets the addresses of the arrays in it.
func (b *memoryBlock) copy(to *regions) {
	p := b.copies.copyOf(b.content, 1)
	for i := range b.arrays {
		to[1+b.arrays[i].array] = p.field(b.arrays[i].offset)
	}
}

// copyOf returns a copy of the first n values of from's own slice.
func (a *allocator) copyOf(from *allocator, n int) pointer {
	h := a.allocate(n)
	*a.head = h
	reflect.Copy(a.slice, from.slice)
	*a.head = sliceHeader{}
	return pointer{h.data}
}

// makeBlocks puts the arrays into blocks, so that a part is two or three pieces of memory.
func (t *template) makeBlocks(d *Decoder) {
	var arrays []blockArray
	for i := range t.arrays {
		if a := &t.arrays[i]; a.n > 0 {
			arrays = append(arrays, blockArray{typ: a.content.slice.Type().Elem(), n: a.n, array: i})
		}
	}
	if len(arrays) < 2 {
		return
	}
	// The largest alignment first, so that there are no gaps.
	slices.SortStableFunc(arrays, func(a, b blockArray) int { return cmp.Compare(b.typ.Align(), a.typ.Align()) })
	n := split(arrays)
	var blocks []memoryBlock
	size := 0
	for _, part := range [][]blockArray{arrays[:n], arrays[n:]} {
		if len(part) == 0 {
			continue
		}
		shape := shapeOf(part)
		if shape == nil {
			return
		}
		b := memoryBlock{newAllocator(shape), newAllocator(shape), part}
		b.content.reserve(1)
		for i := range part {
			part[i].offset = shape.Field(i).Offset
			reflect.Copy(b.content.slice.Index(0).Field(i), t.arrays[part[i].array].content.slice)
		}
		blocks = append(blocks, b)
		size += int(shape.Size())
	}
	if d.templateBytes+size <= maxTemplateBytes {
		t.blocks, t.size, d.templateBytes = blocks, t.size+size, d.templateBytes+size
	}
}

// A blockArray is an array in a block: n values of a type, those of an array of a template. offset
// is where it is in the block.
type blockArray struct {
	typ    reflect.Type
	n      int
	array  int
	offset uintptr
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
	const pointer = 32 << (^uint(0) >> 63) / 8 // bytes
	if n > pointer*pointer*8 {
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
