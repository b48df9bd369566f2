package decode

import "reflect"

// A maker makes memory for values of a type. It grows a slice, since reflect.New and reflect.NewAt look the type of the pointer
// up in a table of all types each time.
//
// The values of one type that belong to one object are mostly as many as in the object before: the maker of a batch makes them in
// one piece, of which the object takes parts. They live and die together. What the last two objects both had is made, so that
// what differs between objects does not leave memory unused; where it does all the same, the maker gives up for a while.
type allocator struct {
	slice reflect.Value
	head  *sliceHeader // of slice
	size  uintptr

	batch            bool
	object           uint64      // the object that what follows is of
	spare            sliceHeader // memory that it has not taken yet, which is zero
	used, usedBefore int         // how many values it took so far, and the one before

	objects, taken, wasted int // what the objects that a trial counts needed and did not
	pause                  int // so many objects have no batch
}

const (
	// maxBatch is the most bytes that a maker makes in advance.
	maxBatch = 8 << 10
	// A maker of which more than one value of maxUnused is not used gives up for so many objects.
	wasteDivisor = 16
	longPause    = 16 * trialLength
)

func newAllocator(elem reflect.Type) *allocator {
	v := reflect.New(reflect.SliceOf(elem))
	return &allocator{slice: v.Elem(), head: (*sliceHeader)(v.UnsafePointer()), size: elem.Size()}
}

// batchOf returns a maker of values that are made in one piece for each object.
func newBatchAllocator(elem reflect.Type) *allocator {
	a := newAllocator(elem)
	a.batch = elem.Size() > 0
	return a
}

// make returns memory for n values, which are zero.
func (a *allocator) allocate(n int) sliceHeader {
	a.slice.Grow(n)
	h := sliceHeader{a.head.data, n, n}
	*a.head = sliceHeader{}
	return h
}

// reserve makes the maker's slice n values long. Those that it did not have are zero.
func (a *allocator) reserve(n int) {
	a.slice.Grow(n - a.slice.Len())
	a.slice.SetLen(n)
}

// begin makes what the object that is being decoded will need.
func (a *allocator) beginObject(d *Decoder) {
	a.object = d.objects
	expected := min(a.used, a.usedBefore, maxBatch/int(a.size))
	a.objects++
	a.taken += a.used
	a.wasted += a.spare.len
	a.used, a.usedBefore, a.spare = 0, a.used, sliceHeader{}
	if a.objects == trialLength {
		if a.wasted > a.taken/wasteDivisor {
			a.pause = longPause
		}
		a.objects, a.taken, a.wasted = 0, 0, 0
	}
	switch {
	case a.pause > 0:
		a.pause--
	case expected > 1:
		a.spare = a.allocate(expected)
	}
}

// take returns memory for n values, which are zero.
func (a *allocator) take(d *Decoder, n int) sliceHeader {
	if a.batch {
		if a.object != d.objects {
			a.beginObject(d)
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

// all returns the memory that is left for the object that is being decoded; nothing is until rest returns what was not used.
func (a *allocator) takeSpare(d *Decoder) sliceHeader {
	if a.batch && a.object != d.objects {
		a.beginObject(d)
	}
	h := a.spare
	a.spare = sliceHeader{}
	return h
}

// rest gives back what all returned but for the first n values, which have been used.
func (a *allocator) giveBack(h sliceHeader, n int) {
	a.used += n
	a.spare = h.after(n, a.size)
}

// behind returns the memory behind n values of h.
func (h sliceHeader) after(n int, size uintptr) sliceHeader {
	if n == h.len {
		return sliceHeader{} // an address behind the memory is that of something else
	}
	return sliceHeader{pointer{h.data}.index(n, size).addr, h.len - n, h.len - n}
}

// append makes the slice at p longer by one and returns the place of its new element, which is zero. If its memory has to grow it
// gets room for n more.
func (a *allocator) append(d *Decoder, p pointer, n int) pointer {
	s := as[sliceHeader](p)
	switch {
	case s.len < s.cap:
	case s.cap == 0:
		*s = a.take(d, n)
		s.len = 0
	default:
		*a.head = *s
		a.slice.Grow(n)
		*s = *a.head
		*a.head = sliceHeader{}
	}
	s.len++
	return pointer{s.data}.index(s.len-1, a.size)
}

// makers are one for each type of values, of which an object has its memory in one piece. Values that objects share have memory of
// their own: they would keep that of the first object alive.
type allocators map[reflect.Type]*allocator

func (all allocators) of(t reflect.Type, share bool) *allocator {
	if share {
		return newAllocator(t)
	}
	if all[t] == nil {
		all[t] = newBatchAllocator(t)
	}
	return all[t]
}
