package decode

import "reflect"

// An allocator makes memory for values of one type, which is zero. It grows a reflected slice,
// since reflect.New and reflect.NewAt look up the pointer type in a table of all types each time.
//
// A batch allocator makes the values of one object in one piece, and hands them out one after
// another. They live and die together, and one allocation of ten values is much cheaper than ten.
// The number is not known in advance. The allocator guesses it from the last two objects: as many
// as both of them had. So an object that has many more than its neighbours does not make the next
// one waste memory. If too much is wasted all the same, batches pause for some thousand objects.
//
// A sibling of the object before (see Decoder.isSibling) has what that has. So its batch has as
// many values as that took, also during a pause.
type allocator struct {
	slice reflect.Value
	// head points to the header of slice. Memory is taken out of slice by reading head and clearing
	// it.
	head *sliceHeader
	size uintptr

	// batch is true for a batch allocator. The fields below are used only then.
	batch bool
	// object is the number of the object that the fields below are about.
	object uint64
	// spare is the part of the batch that has not been handed out.
	spare sliceHeader
	// used is how many values the object has taken so far; usedBefore is how many the one before
	// took.
	used, usedBefore int

	// Sums over the objects of the current trial: their number, the values that they took, and the
	// values that were made for them in vain.
	objects, taken, wasted int
	// pause is for how many more objects no batch is made.
	pause int
}

const (
	// maxBatch is the most bytes of a batch.
	maxBatch = 8 << 10
	// If more than one value in wasteDivisor is made in vain during a trial of trialLength objects,
	// no batch is made for longPause objects.
	wasteDivisor = 16
	longPause    = 16 * trialLength
)

// newAllocator returns an allocator of values of type elem that makes each when it is needed.
func newAllocator(elem reflect.Type) *allocator {
	v := reflect.New(reflect.SliceOf(elem))
	return &allocator{slice: v.Elem(), head: (*sliceHeader)(v.UnsafePointer()), size: elem.Size()}
}

// newBatchAllocator returns an allocator that makes the values of an object in one piece. Values
// without a size need no memory.
func newBatchAllocator(elem reflect.Type) *allocator {
	a := newAllocator(elem)
	a.batch = elem.Size() > 0
	return a
}

// allocate returns new memory for n values, all zero. The capacity is n, even if there is more
// memory: an append to one slice must not write into the next one.
func (a *allocator) allocate(n int) sliceHeader {
	a.slice.Grow(n)
	h := sliceHeader{a.head.data, n, n}
	*a.head = sliceHeader{}
	return h
}

// reserve makes the allocator's own slice n values long, for a caller that uses it as working
// memory. The values that it did not have are zero.
func (a *allocator) reserve(n int) {
	a.slice.Grow(n - a.slice.Len())
	a.slice.SetLen(n)
}

// startBatch makes the batch of the object that is being decoded. Its caller needs the first value
// of the object, so an object without such values costs nothing.
func (a *allocator) startBatch(d *Decoder) {
	sibling := a.object == d.objects-1 && d.isSibling()
	n := min(a.used, maxBatch/int(a.size))
	if !sibling {
		n = min(n, a.usedBefore)
	}
	a.endBatch()
	a.object = d.objects
	switch {
	case a.pause > 0 && !sibling:
		a.pause--
	case n > 1:
		a.spare = a.allocate(n)
	}
}

// endBatch adds the last object to the trial. At the end of a trial it decides whether batches
// pause.
func (a *allocator) endBatch() {
	a.objects++
	a.taken += a.used
	a.wasted += a.spare.len
	a.used, a.usedBefore, a.spare = 0, a.used, sliceHeader{}
	if a.objects < trialLength {
		return
	}
	if a.wasted > a.taken/wasteDivisor {
		a.pause = longPause
	}
	a.objects, a.taken, a.wasted = 0, 0, 0
}

// take returns memory for n values, all zero: from the batch if it has as many, else new memory.
func (a *allocator) take(d *Decoder, n int) sliceHeader {
	if a.batch {
		if a.object != d.objects {
			a.startBatch(d)
		}
		a.used += n
		if a.spare.len >= n {
			h := sliceHeader{a.spare.data, n, n}
			a.spare = a.spare.after(n, a.size)
			return h
		}
	}
	return a.allocate(n)
}

// takeSpare returns all memory that is left of the batch, for a slice whose length is not known
// yet. The caller must give back what it does not use, by giveBack. Until then nested values of the
// same type get new memory.
func (a *allocator) takeSpare(d *Decoder) sliceHeader {
	if a.batch && a.object != d.objects {
		a.startBatch(d)
	}
	h := a.spare
	a.spare = sliceHeader{}
	return h
}

// giveBack returns the part of h behind its first n values to the batch. h is from takeSpare, and
// the first n values have been used.
func (a *allocator) giveBack(h sliceHeader, n int) {
	a.used += n
	a.spare = h.after(n, a.size)
}

// after returns the memory behind the first n values of h, which have size bytes each.
func (h sliceHeader) after(n int, size uintptr) sliceHeader {
	if n == h.len {
		return sliceHeader{}
	}
	return sliceHeader{pointer{h.data}.index(n, size).addr, h.len - n, h.len - n}
}

// append makes the slice at p longer by one, and returns the address of its new element, which is
// zero. If there is no room left, the slice gets room for n more.
func (a *allocator) append(d *Decoder, p pointer, n int) pointer {
	s := as[sliceHeader](p)
	switch {
	case s.len < s.cap:
	case s.cap == 0:
		*s = a.take(d, n)
		s.len = 0
	default:
		// The slice has memory of its own and is full, since its elements are apart: it grows as append
		// does it.
		d.grew = true
		*a.head = *s
		a.slice.Grow(n)
		*s = *a.head
		*a.head = sliceHeader{}
	}
	s.len++
	return pointer{s.data}.index(s.len-1, a.size)
}

// allocators has one allocator for each type of values. All fields of a type share it, so one batch
// serves them all. Values that objects may share get memory of their own, one by one: a batch would
// be kept alive as a whole by one shared value in it.
type allocators map[reflect.Type]*allocator

// of returns the allocator of values of type t.
func (all allocators) of(t reflect.Type, share bool) *allocator {
	if share {
		return newAllocator(t)
	}
	if all[t] == nil {
		all[t] = newBatchAllocator(t)
	}
	return all[t]
}

// Versions of an object, and objects with Share, have slices in common, and so would have the room
// behind them: an append to the slice of one would write where an append to that of the other has
// written. So no slice of an object has room. Most are made of the right size; this is for those
// that other code has made.

// slicesIn returns the offsets of the slices in a value of type t, which is at offset at: of itself,
// or of the fields that an append can reach.
func slicesIn(t reflect.Type, at uintptr) (offsets []uintptr) {
	switch t.Kind() {
	case reflect.Slice:
		return []uintptr{at}
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() || f.Anonymous {
				offsets = append(offsets, slicesIn(f.Type, at+f.Offset)...)
			}
		}
	}
	return offsets
}

// fill cuts the capacities of slices that are in the value at p, at these offsets, and reports
// whether one had room.
func fill(p pointer, slices []uintptr) (changed bool) {
	for _, at := range slices {
		if s := as[sliceHeader](p.field(at)); s.cap > s.len {
			s.cap = s.len
			changed = true
		}
	}
	return changed
}

// fillAll cuts the capacities of all slices in v, and reports whether it has changed v itself. It
// writes nothing where no slice has room: other objects may have that, too.
func fillAll(v reflect.Value) (changed bool) {
	t := v.Type()
	kind := t.Kind()
	switch {
	case kind != reflect.Struct && kind != reflect.Pointer && !v.CanSet():
		return false // an embedded type that is not exported
	case v.CanSet() && specialDecoder(t) != nil:
		// What it points to may be shared by all values of the type.
		return fill(pointerOf(v.Addr()), slicesIn(t, 0))
	case kind == reflect.Slice && v.Cap() > v.Len():
		v.SetCap(v.Len())
		changed = true
	}
	return fillParts(v) || changed
}

// fillParts does what fillAll does in the parts of v.
func fillParts(v reflect.Value) (changed bool) {
	t, kind := v.Type(), v.Kind()
	switch kind {
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && !isScalar(t.Elem()); i++ {
			changed = fillAll(v.Index(i)) && kind == reflect.Array || changed
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			if f.IsExported() || f.Anonymous {
				changed = fillAll(field) || changed
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fillAll(v.Elem())
		}
	case reflect.Map:
		if isScalar(t.Elem()) {
			return false
		}
		for key, elem := range v.Seq2() {
			if full, ok := filled(elem); ok {
				v.SetMapIndex(key, full)
			}
		}
	case reflect.Interface:
		if v.IsNil() {
			return false
		}
		var full reflect.Value
		if full, changed = filled(v.Elem()); changed {
			v.Set(full)
		}
	}
	return changed
}

// filled returns a copy of v that fillAll has changed, and whether it has.
func filled(v reflect.Value) (full reflect.Value, changed bool) {
	full = reflect.New(v.Type()).Elem()
	full.Set(v)
	return full, fillAll(full)
}
