// Package equal compares the objects of generic code without the constraint comparable.
//
// The compiler makes one copy of generic code for all pointer types if the type parameter's
// constraint has methods alone. The constraint comparable makes it generate a copy for each of them:
// about 300 KB of program for each type that an informer follows.
package equal

import "unsafe"

// Same reports whether a and b are one object. For pointers and interfaces that is a == b. T must be
// a type with ==: for any other one Same panics.
func Same[T any](a, b T) bool {
	if isWord[T]() {
		return word(a) == word(b)
	}
	return any(a) == any(b)
}

// IsZero reports whether obj is the zero T, which stands for no object. T must be a type with ==.
func IsZero[T any](obj T) bool {
	if isWord[T]() {
		return word(obj) == 0
	}
	var zero T
	return any(obj) == any(zero)
}

// isWord reports whether a T is one machine word, as a pointer is. Words are compared as they are:
// the comparison of interfaces is a call, which a loop over all objects of a store would feel. The
// compiler knows the answer for each copy of the code.
func isWord[T any]() bool {
	var obj T
	return unsafe.Sizeof(obj) == unsafe.Sizeof(uintptr(0))
}

// word returns the bits of obj. isWord must report true for T.
func word[T any](obj T) uintptr { return *(*uintptr)(unsafe.Pointer(&obj)) }
