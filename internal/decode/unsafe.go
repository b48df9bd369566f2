package decode

import (
	"reflect"
	"unsafe"
)

// This file is the only one that uses unsafe. A decoder is compiled for a type once and then writes through addresses, because a
// reflect.Value for each field and element costs a third of the time of a whole decode.

// A place is the address of a value whose type its user knows.
type pointer struct{ addr unsafe.Pointer }

// placeOf returns the place that v, a pointer, points to.
func pointerOf(v reflect.Value) pointer { return pointer{v.UnsafePointer()} }

// addressOf returns the place of *v.
func pointerTo[X any](v *X) pointer { return pointer{unsafe.Pointer(v)} }

// field returns the place of a field at offset in the struct at p.
func (p pointer) field(offset uintptr) pointer { return pointer{unsafe.Add(p.addr, offset)} }

// as returns p as a pointer to X, which must have the memory layout of what stands there.
func as[X any](p pointer) *X { return (*X)(p.addr) }

// value returns what stands at p, which is a t, to read and set.
func (p pointer) value(t reflect.Type) reflect.Value { return reflect.NewAt(t, p.addr).Elem() }

// isNil reports whether the pointer or map at p is nil, or the slice has no memory.
func (p pointer) isNil() bool { return *(*unsafe.Pointer)(p.addr) == nil }

// A header is the memory layout of a slice; a pointer and a map are its first word.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

// header returns what stands at p, which is a t: a slice, a pointer or a map.
func (p pointer) header(t reflect.Type) sliceHeader {
	if t.Kind() == reflect.Slice {
		return *as[sliceHeader](p)
	}
	return sliceHeader{data: *as[unsafe.Pointer](p)}
}

// set makes what stands at p, which is a t, the slice, pointer or map in h.
func (p pointer) set(t reflect.Type, h sliceHeader) {
	if t.Kind() == reflect.Slice {
		*as[sliceHeader](p) = h
	} else {
		*as[unsafe.Pointer](p) = h.data
	}
}

// target returns the place that the pointer at p points to, and makes it point to a zero value if it is nil.
func (a *allocator) pointee(d *Decoder, p pointer) pointer {
	to := as[unsafe.Pointer](p)
	if *to == nil {
		*to = a.take(d, 1).data
	}
	return pointer{*to}
}

// index returns the place of element i of the slice or array whose first element stands at p.
func (p pointer) index(i int, size uintptr) pointer {
	return pointer{unsafe.Add(p.addr, uintptr(i)*size)}
}

// text returns b as a string for as long as b does not change.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
