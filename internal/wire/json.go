package wire

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// ErrNotObject says that bytes are not a JSON object.
var ErrNotObject = errors.New("not a JSON object")

// Members calls member for each member of the JSON object that begins at data[at], which may have
// spaces before it, with the name as it stands between its quotes and the place of the value. It
// ends when member returns false. It checks no more of the JSON than it needs to find its way.
func Members(data []byte, at int, member func(name []byte, from, to int) bool) error {
	return Walk(data, at, func(name []byte, from int) int {
		to := SkipValue(data, from)
		if to >= 0 && !member(name, from, to) {
			return Stop
		}
		return to
	})
}

// Stop is what ends a Walk.
const Stop = -2

// Walk is Members for who finds the end of a value himself: member returns the index after it, -1
// if it has none, or Stop.
func Walk(data []byte, at int, member func(name []byte, from int) (to int)) error {
	at = SkipSpace(data, at)
	if at == len(data) || data[at] != '{' {
		return ErrNotObject
	}
	at = SkipSpace(data, at+1)
	if at < len(data) && data[at] == '}' {
		return nil
	}
	for at < len(data) {
		if data[at] != '"' {
			return ErrNotObject
		}
		end := SkipString(data, at)
		if end < 0 {
			return ErrNotObject
		}
		name := data[at+1 : end-1]
		at = SkipSpace(data, end)
		if at == len(data) || data[at] != ':' {
			return ErrNotObject
		}
		to := member(name, SkipSpace(data, at+1))
		if to == Stop {
			return nil
		}
		if to < 0 {
			return ErrNotObject
		}
		at = SkipSpace(data, to)
		if at == len(data) {
			return ErrNotObject
		}
		if data[at] == '}' {
			return nil
		}
		if data[at] != ',' {
			return ErrNotObject
		}
		at = SkipSpace(data, at+1)
	}
	return ErrNotObject
}

// SkipSpace returns the index of the first byte from data[at] on that is no white space.
func SkipSpace(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\n' || data[at] == '\t' || data[at] == '\r') {
		at++
	}
	return at
}

// SkipString returns the index after the string that begins at data[at], or -1.
func SkipString(data []byte, at int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for at++; at < len(data); {
		if at+8 <= len(data) {
			// The lowest high bit that is set is that of the first byte which is a quote or a backslash.
			w := binary.LittleEndian.Uint64(data[at:])
			quote, slash := w^ones*'"', w^ones*'\\'
			special := ((quote-ones)&^quote | (slash-ones)&^slash) & highs
			if special == 0 {
				at += 8
				continue
			}
			at += bits.TrailingZeros64(special) / 8
		}
		switch data[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
		at++
	}
	return -1
}

// SkipValue returns the index after the value that begins at data[at], or -1.
func SkipValue(data []byte, at int) int {
	start, depth := at, 0
	for at < len(data) {
		switch data[at] {
		case '"':
			if at = SkipString(data, at); at < 0 {
				return -1
			}
			if depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return after(start, at)
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return after(start, at)
			}
		}
		at++
	}
	return -1
}

// after returns end, the index after a number or literal that begins at start, or -1 if it is
// empty.
func after(start, end int) int {
	if start == end {
		return -1
	}
	return end
}

// FindMember returns the place of a member's value in the JSON object at data[at]. from is 0 if
// there is none.
func FindMember(data []byte, at int, name string) (from, to int, err error) {
	err = Members(data, at, func(n []byte, f, t int) bool {
		if string(n) == name {
			from, to = f, t
		}
		return from == 0
	})
	return from, to, err
}
