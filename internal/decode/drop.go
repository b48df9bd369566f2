package decode

import "strings"

// drops are the paths of what is to be left out of a value, from that value on.
type drops []string

// under returns what is to be left out of the member name, and whether it is the whole of it.
func (d drops) under(name string) (rest drops, whole bool) {
	for _, path := range d {
		if path == name {
			return nil, true
		}
		if tail, ok := strings.CutPrefix(path, name+"."); ok {
			rest = append(rest, tail)
		}
	}
	return rest, false
}
