package decode

import "strings"

// drops are the paths of the fields to leave out of a value, from that value on. The compiler
// follows them into the fields, so that a decoder has no paths to look at: a field that is dropped
// has no decoder, and its bytes are only gone over. Maps are the exception, because their names are
// known only when they come.
type drops []string

// under returns the paths to leave out of the member name, and whether all of the member is left
// out. A map's key may have dots in it, so the whole path is compared with the name first.
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
