package table

import (
	"math"
	"reflect"
	"sync/atomic"
	"unsafe"
)

// A value is an object as a [Table] holds it: one word that readers load while a writer stores it. This file is the only one
// that knows what the word is, and what a name is, and the only one with unsafe.
//
// If T is a pointer type it is the object itself, else a pointer to a copy that nobody changes; nil is no object. An
// atomic.Pointer would do the same if Go could name the type that T points to, and an atomic.Value is twice the size and,
// when it is first stored, several times slower.
//
// What makes it safe: a word is only ever read as the T that it was made of, since a Table belongs to one Store of one T;
// a pointer of any type has the size and layout of an unsafe.Pointer, and is seen by the garbage collector as such; and every
// access that can meet another is atomic.
type value struct{ p unsafe.Pointer }

func (v *value) load() value { return value{atomic.LoadPointer(&v.p)} }

func (v *value) store(w value) { atomic.StorePointer(&v.p, w.p) }

// isBoxed reports whether T's values are pointers to copies.
func isBoxed[T any]() bool { return reflect.TypeFor[T]().Kind() != reflect.Pointer }

// box returns the value of obj, where boxed is isBoxed[T]().
func box[T comparable](obj T, boxed bool) value {
	if !boxed {
		return value{*(*unsafe.Pointer)(unsafe.Pointer(&obj))}
	}
	var none T
	if obj == none {
		return value{}
	}
	copied := obj
	return value{unsafe.Pointer(&copied)}
}

// unbox returns what box was called with.
func unbox[T comparable](v value, boxed bool) (obj T) {
	switch {
	case !boxed:
		return *(*T)(unsafe.Pointer(&v.p))
	case v.p != nil:
		return *(*T)(v.p)
	}
	return obj
}

// A name is a string that is never changed once it has been made, in one word: who has one knows its length, up to longName.
// From there on the word points to the string as a whole.
type name struct{ p unsafe.Pointer }

const longName = math.MaxUint16

// shortLength is the length of a name of s, or longName.
func shortLength(s string) uint64 { return uint64(min(len(s), longName)) }

func nameOf(s string) name {
	if len(s) >= longName {
		long := s // in here, or every name would be moved to the heap
		return name{unsafe.Pointer(&long)}
	}
	return name{unsafe.Pointer(unsafe.StringData(s))}
}

func (n name) string(short uint64) string {
	if short == longName {
		return *(*string)(n.p)
	}
	return unsafe.String((*byte)(n.p), short)
}
