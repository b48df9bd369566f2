package equal

import "slices"

// Distinct removes from values, in place, each that is equal to one before, and each that is not
// equal to itself (NaN), which no map would find again. If K is an interface, and the type in it
// cannot be compared, Distinct panics.
func Distinct[K comparable](values []K) []K {
	const many = 16 // from here a map is faster than looking through the list
	var seen map[K]struct{}
	if len(values) > many {
		seen = make(map[K]struct{}, len(values))
	}
	n := 0
	for _, value := range values {
		if value != value {
			continue
		}
		if seen != nil {
			if _, dup := seen[value]; dup {
				continue
			}
			seen[value] = struct{}{}
		} else if slices.Contains(values[:n], value) {
			continue
		}
		values[n] = value
		n++
	}
	clear(values[n:])
	return values[:n]
}
