package lw

import (
	"slices"
	"strings"
)

// Fields are paths of an API's type, for [HTTP].Only: what a program reads of its objects, as the
// tool lwfields finds it. nil is all. Any other keeps name, namespace, UID and version as well.
//
// A path keeps all that is below it, and goes through lists, such as "status.conditions.type".
// Behind a map the rest is one key, dots included, or with a "*" at its end all that begin so. A "?"
// at the end keeps whether the field is there and how many elements it has. docs/memory.md says more.
//
// Objects that lack fields must not be written back: an Update would delete these on the server.
type Fields []string

// alwaysKept are the fields that all Fields keep.
var alwaysKept = Fields{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.resourceVersion", "metadata.uid"}

// Union returns the fields of f and of g, sorted, each once.
func (f Fields) Union(g Fields) Fields {
	if f == nil || g == nil {
		return nil
	}
	all := slices.Concat(f, g)
	slices.Sort(all)
	all = slices.Compact(all)
	union := Fields{}
	for _, path := range all {
		if !slices.ContainsFunc(all, func(other string) bool { return other != path && keeps(other, path) }) {
			union = append(union, path)
		}
	}
	return union
}

// Keeps reports whether all of path, which may end as those of f, is kept.
func (f Fields) Keeps(path string) bool {
	fits := func(kept string) bool { return keeps(kept, path) }
	return f == nil || slices.ContainsFunc(f, fits) || slices.ContainsFunc(alwaysKept, fits)
}

// keeps reports whether what path keeps is kept by the path kept.
func keeps(kept, path string) bool {
	kept, presence := strings.CutSuffix(kept, "?")
	path, asked := strings.CutSuffix(path, "?")
	begin, prefix := strings.CutSuffix(kept, "*")
	tail, below := strings.CutPrefix(path, kept)
	switch {
	case presence && !asked:
		return false
	case prefix:
		return strings.HasPrefix(path, begin)
	case presence:
		return path == kept
	}
	return below && (tail == "" || tail[0] == '.')
}
