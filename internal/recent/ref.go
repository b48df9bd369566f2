// Package recent has what was used of late: weak references to objects that somebody may still
// have, a ring that keeps some of them, and the pace of the collector that lets go of the others.
package recent

import (
	"reflect"
	"sync/atomic"
	"unsafe"
	"weak"
)

// This is the only file of the package that imports package unsafe. A weak.Pointer needs the type of
// what it points to, and of a type parameter that is a pointer there is no such type. What makes it
// safe:
//
//   - The weak pointer is to the first byte of the object, and a Go pointer in every way: an address
//     is made from a pointer to the object, and never becomes a uintptr. So the collector sees it, and
//     the object lives as long as anybody has what Load has returned.
//   - Load makes a T of it only with the Kind that Make got, whose type is that of the object.
//   - Nobody looks into a weak.Pointer: it is kept as it is, behind an atomic pointer.

// A Kind says what a T is: a pointer, or an interface that has a pointer of one type.
type Kind[T any] struct {
	elem reflect.Type // what the interface's pointer points to; nil: T is a pointer
}

// KindOf returns the Kind of a T, which has pointers of the type t if T is an interface.
func KindOf[T any](t reflect.Type) (k Kind[T]) {
	if reflect.TypeFor[T]().Kind() == reflect.Interface {
		k.elem = t.Elem()
	}
	return k
}

// object returns the object at p as a T.
func (k Kind[T]) object(p *byte) (obj T) {
	if k.elem == nil {
		return *(*T)(unsafe.Pointer(&p))
	}
	return reflect.NewAt(k.elem, unsafe.Pointer(p)).Interface().(T)
}

// address returns the address of the object.
func (k Kind[T]) address(obj T) *byte {
	if k.elem == nil {
		return *(**byte)(unsafe.Pointer(&obj))
	}
	return (*byte)(reflect.ValueOf(obj).UnsafePointer())
}

// A Ref refers to an object without keeping it. The zero value refers to none. It is safe for
// concurrent use, and must not be copied.
type Ref[T any] struct {
	to atomic.Pointer[weak.Pointer[byte]]
}

// Load returns the object, if anybody has it.
func (r *Ref[T]) Load(k Kind[T]) (obj T, ok bool) {
	if w := r.to.Load(); w != nil {
		if p := w.Value(); p != nil {
			return k.object(p), true
		}
	}
	return obj, false
}

// Make makes r refer to obj, unless it refers to one that somebody has. It returns the one that r
// refers to then. again reports whether it has referred to one before.
func (r *Ref[T]) Make(k Kind[T], obj T) (now T, again bool) {
	w := weak.Make(k.address(obj))
	for {
		was := r.to.Load()
		if was != nil {
			if p := was.Value(); p != nil {
				return k.object(p), true
			}
		}
		if r.to.CompareAndSwap(was, &w) {
			return obj, was != nil
		}
	}
}
