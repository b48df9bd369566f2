package table

import (
	"math"
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/go-lw/lw/internal/equal"
)

// A value is an object as a [Table] holds it: one word, so that readers can load it atomically
// while a writer stores another one. This file is the only one that knows what a value and a name
// consist of, and the only one with unsafe.
//
// If T is a pointer type, the word is the object itself. Otherwise it points to a copy of the
// object that nobody changes. nil means that there is no object.
//
// An atomic.Pointer would do if Go had a name for the type that T points to. An atomic.Value is
// twice the size, and its first store is several times slower.
//
// It is safe for three reasons. A Table belongs to one Store of one T, so a word is always read as
// the T that it was made from. A pointer of any type has the size and layout of an unsafe.Pointer,
// and the garbage collector sees it as a pointer. And each access that another goroutine may make
// at the same time is atomic.
type value struct{ p unsafe.Pointer }

func (v *value) load() value { return value{atomic.LoadPointer(&v.p)} }

func (v *value) store(w value) { atomic.StorePointer(&v.p, w.p) }

// isBoxed reports whether values of T are pointers to copies.
func isBoxed[T any]() bool { return reflect.TypeFor[T]().Kind() != reflect.Pointer }

// box returns the value of obj. boxed must be isBoxed[T]().
func box[T any](obj T, boxed bool) value {
	if !boxed {
		return value{*(*unsafe.Pointer)(unsafe.Pointer(&obj))}
	}
	if equal.IsZero(obj) {
		return value{}
	}
	copied := obj
	return value{unsafe.Pointer(&copied)}
}

// unbox returns the object that v was made from by box. boxed must be isBoxed[T]().
func unbox[T any](v value, boxed bool) (obj T) {
	switch {
	case !boxed:
		return *(*T)(unsafe.Pointer(&v.p))
	case v.p != nil:
		return *(*T)(v.p)
	}
	return obj
}

// A name is an immutable string in one word: a pointer to its bytes. Its length is in the tag of
// the entry, up to longName. Longer strings are rare; for them the word points to a string header,
// which has the length.
type name struct{ p unsafe.Pointer }

// longName is the length from which a name's tag does not have the exact length.
const longName = math.MaxUint16

// shortLength returns the length that the tag of a key named s has: len(s), but at most longName.
func shortLength(s string) uint64 { return uint64(min(len(s), longName)) }

// nameOf returns s as a name. A short name points to the bytes of s itself, and keeps them alive.
func nameOf(s string) name {
	if len(s) >= longName {
		long := s // declared here: the address of s itself would move every s to the heap
		return name{unsafe.Pointer(&long)}
	}
	return name{unsafe.Pointer(unsafe.StringData(s))}
}

// string returns the name as a string. short is the shortLength of that string.
func (n name) string(short uint64) string {
	if short == longName {
		return *(*string)(n.p)
	}
	return unsafe.String((*byte)(n.p), short)
}
