package decode

import (
	"reflect"
	"unsafe"
)

// This is the only file that imports package unsafe. A compiled decoder writes through addresses:
// it knows at compile time the offset and the type of what it writes. A reflect.Value for each
// field and element would cost a third of the time of a whole decode.
//
// What makes it safe:
//
//   - An address is made only from a pointer to a value of the compiled type, by adding offsets
//     that reflect reports for that type. It never leaves the piece of memory that the pointer is
//     into, not even to its end: the collector takes an address behind a piece for one in the next
//     piece, which may be free, and ends the process.
//   - The notes behind an object are reached from a pointer to the object, because both are in one
//     piece of memory. Only objects that a Decoder has made so are given back to one: see
//     Decoder.ReuseFrom.
//   - An address is kept in an unsafe.Pointer, never in a uintptr, so the garbage collector sees
//     it.
//   - Memory with pointers in it comes from reflect, which knows its type. The collector so finds
//     the pointers in it.
//   - A write of a pointer is a typed write, so that it has its write barrier: see sliceHeader.
//   - Memory that is handed out again is zero, and nothing else points to it: the rest of a batch
//     (allocator.giveBack), a scratch slice (sliceType.decodeRest), the object of a list that is as
//     it was (Decoder.result), and what is fresh in a template (templates.learn).
//
// A template is memory that is copied as a whole, and these rules are all that its code needs:
//
//   - It has no addresses but those of its regions: of the part and of the memory of its arrays.
//     All else is a place, an offset in a region. recorder.placeOf makes one only of an address
//     that it finds in a region, with all the bytes of the value there.
//   - A copy has the part, and of each array the values that are used. Before a template is used,
//     isSound checks that each place is in these. Nothing changes the places, the regions or the
//     number of values until reset, which forgets all of them.
//   - template.copy makes the regions of a copy: by copyOf, or from a block and the offsets that
//     reflect reports for it. The offsets belong to the block, and go with it. An array without
//     values has no region in a copy, and no place is in it.
//   - All pointers in a copy are links to the copy, or to strings, which never change: the leaves
//     that have other memory are fresh, and are zero in the template.

// A pointer is the address of a value. Only the code that has it knows the type of the value.
type pointer struct{ addr unsafe.Pointer }

// pointerOf returns the address in v, which is a Go pointer.
func pointerOf(v reflect.Value) pointer { return pointer{v.UnsafePointer()} }

// pointerTo returns the address of *v.
func pointerTo[X any](v *X) pointer { return pointer{unsafe.Pointer(v)} }

// field returns the address of the field at offset in the struct at p. The offset is less than the
// size of the struct, or the field is the last one and has no size.
func (p pointer) field(offset uintptr) pointer { return pointer{unsafe.Add(p.addr, offset)} }

// as returns p as a Go pointer to X. The value at p must be an X, or a named type with the same
// layout.
func as[X any](p pointer) *X { return (*X)(p.addr) }

// value returns the value at p, which is a t, as a reflect.Value that can be set.
func (p pointer) value(t reflect.Type) reflect.Value { return reflect.NewAt(t, p.addr).Elem() }

// isNil reports whether the pointer or map at p is nil, or the slice at p has no memory.
func (p pointer) isNil() bool { return *(*unsafe.Pointer)(p.addr) == nil }

// A sliceHeader has the layout of any slice. Its first word has the layout of any pointer and any
// map, so one type can hold all three. data is an unsafe.Pointer, so a write of a sliceHeader has a
// write barrier.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

// header returns the slice, pointer or map at p, which is a t.
func (p pointer) header(t reflect.Type) sliceHeader {
	if t.Kind() == reflect.Slice {
		return *as[sliceHeader](p)
	}
	return sliceHeader{data: *as[unsafe.Pointer](p)}
}

// set writes h to p, which is a t: a slice, a pointer or a map. Of the last two only the first word
// is written: there is no more memory.
func (p pointer) set(t reflect.Type, h sliceHeader) {
	if t.Kind() == reflect.Slice {
		*as[sliceHeader](p) = h
	} else {
		*as[unsafe.Pointer](p) = h.data
	}
}

// pointee returns the address that the pointer at p holds. A nil pointer is first set to a new zero
// value. JSON and protobuf both merge into a value that is already there.
func (a *allocator) pointee(d *Decoder, p pointer) pointer {
	to := as[unsafe.Pointer](p)
	if *to == nil {
		if d.rec != nil {
			*to = d.rec.take(a, p).addr
		} else {
			*to = a.take(d, 1).data
		}
	}
	return pointer{*to}
}

// link sets the pointer at p, or the slice of n elements, to what is at to: n values.
func (p pointer) link(to pointer, slice bool, n int) {
	if slice {
		*as[sliceHeader](p) = sliceHeader{to.addr, n, n}
	} else {
		*as[unsafe.Pointer](p) = to.addr
	}
}

// within returns the offset of the n bytes at p in the size bytes at base, and reports whether all
// of them are there.
func (p pointer) within(base pointer, size, n uintptr) (offset uintptr, ok bool) {
	offset = uintptr(p.addr) - uintptr(base.addr)
	return offset, offset < size && n <= size-offset
}

// index returns the address of element i, of size bytes, of the slice or array whose first element
// is at p. It has more than i elements.
func (p pointer) index(i int, size uintptr) pointer {
	return pointer{unsafe.Add(p.addr, uintptr(i)*size)}
}

// unsafeString returns b as a string without a copy. It is valid until b changes, so it may only be
// passed to functions that do not keep it.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unsafeBytes returns the bytes of s without a copy. They must not be changed.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
