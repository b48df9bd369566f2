// Package equal compares the objects of generic code without the constraint comparable.
//
// The compiler makes one copy of generic code for all pointer types if the type parameter's
// constraint has methods alone. The constraint comparable makes it generate a copy for each of
// them: about 300 KB of program for each type that an informer follows.
package equal

import "unsafe"

// Same reports whether a and b are one object. For pointers and interfaces that is a == b. T must
// be a type with ==: for any other one Same panics.
func Same[T any](a, b T) bool {
	if unsafe.Sizeof(a) == wordSize {
		return word(a) == word(b)
	}
	return any(a) == any(b)
}

// IsZero reports whether obj is the zero T, which stands for no object. T must be a type with ==.
func IsZero[T any](obj T) bool {
	if unsafe.Sizeof(obj) == wordSize {
		return *(*uintptr)(unsafe.Pointer(&obj)) == 0
	}
	return isZero(obj)
}

func isZero[T any](obj T) bool {
	var zero T
	return any(obj) == any(zero)
}

// wordSize is the size of a machine word, such as a pointer. Words are compared as they are: the
// comparison of interfaces is a call, which a loop over all objects of a store would feel. The
// compiler knows the size of a T for each copy of the code, and inlines such a loop into that of a
// caller only if its body is small.
const wordSize = unsafe.Sizeof(uintptr(0))

// word returns the bits of obj, whose size is wordSize.
func word[T any](obj T) uintptr { return *(*uintptr)(unsafe.Pointer(&obj)) }
