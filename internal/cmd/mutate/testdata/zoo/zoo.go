// Package zoo is what the tests of mutate change.
package zoo

// Clamp is n, but at most most: where they are equal both are right.
func Clamp(n, most int) int {
	if n > most {
		return most
	}
	return n
}

// Count is generic, and its loop ends in a way of its own.
func Count[T comparable](list []T, v T) (n uint8) {
	for i := 0; ; {
		if i == len(list) {
			break
		}
		if list[i] == v && len(list) > 0 {
			n++
		}
		i++
	}
	return n
}

// Forgotten is what no test calls.
func Forgotten(ok bool) bool { return ok }

const wide = 255

// Edge is a result whose double does not fit.
func Edge() byte { return wide }

// Bit returns the word with the nth bit. Its constant has the type of the result.
func Bit(n int) uint64 { return 1 << (n % 64) }
