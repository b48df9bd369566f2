package decode

import (
	"reflect"
	"unsafe"
)

// This file is the only one that uses unsafe. A decoder is compiled for a type once and then writes through addresses, because a
// reflect.Value for each field and element costs a third of the time of a whole decode.

// A place is the address of a value whose type its user knows.
type place struct{ at unsafe.Pointer }

// placeOf returns the place that v, a pointer, points to.
func placeOf(v reflect.Value) place { return place{v.UnsafePointer()} }

// addressOf returns the place of *v.
func addressOf[X any](v *X) place { return place{unsafe.Pointer(v)} }

// field returns the place of a field at offset in the struct at p.
func (p place) field(offset uintptr) place { return place{unsafe.Add(p.at, offset)} }

// as returns p as a pointer to X, which must have the memory layout of what stands there.
func as[X any](p place) *X { return (*X)(p.at) }

// value returns what stands at p, which is a t, to read and set.
func (p place) value(t reflect.Type) reflect.Value { return reflect.NewAt(t, p.at).Elem() }

// isNil reports whether the pointer or map at p is nil, or the slice has no memory.
func (p place) isNil() bool { return *(*unsafe.Pointer)(p.at) == nil }

// A header is the memory layout of a slice; a pointer and a map are its first word.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

// header returns what stands at p, which is a t: a slice, a pointer or a map.
func (p place) header(t reflect.Type) header {
	if t.Kind() == reflect.Slice {
		return *as[header](p)
	}
	return header{data: *as[unsafe.Pointer](p)}
}

// set makes what stands at p, which is a t, the slice, pointer or map in h.
func (p place) set(t reflect.Type, h header) {
	if t.Kind() == reflect.Slice {
		*as[header](p) = h
	} else {
		*as[unsafe.Pointer](p) = h.data
	}
}

// target returns the place that the pointer at p points to, and makes it point to a zero value if it is nil.
func (m *maker) target(d *Decoder, p place) place {
	to := as[unsafe.Pointer](p)
	if *to == nil {
		*to = m.take(d, 1).data
	}
	return place{*to}
}

// index returns the place of element i of the slice or array whose first element stands at p.
func (p place) index(i int, size uintptr) place { return place{unsafe.Add(p.at, uintptr(i)*size)} }

// text returns b as a string for as long as b does not change.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
