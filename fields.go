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

// Union returns paths that keep what f keeps and what g keeps, sorted. It leaves out those of which
// another keeps all, as [Fields.Keeps] knows it.
func (f Fields) Union(g Fields) Fields {
	if f == nil || g == nil {
		return nil
	}
	all := slices.Concat(f, g)
	slices.Sort(all)
	all = slices.Compact(all)
	// What stands before a "*".
	begins := map[string]bool{}
	for _, path := range all {
		if p := parsePath(path); p.many {
			begins[p.name] = true
		}
	}
	union := Fields{}
	for _, path := range all {
		if !keptByOther(path, all, begins) {
			union = append(union, path)
		}
	}
	return union
}

// keptByOther reports whether one of all, which are sorted, keeps path and is not path. It looks for
// the few that could, since a program may have thousands of paths.
func keptByOther(path string, all []string, begins map[string]bool) bool {
	p := parsePath(path)
	has := func(kept string) bool {
		_, found := slices.BinarySearch(all, kept)
		return found && kept != path && parsePath(kept).keeps(p)
	}
	// What is around the others, in the object and in its metadata, and the same without a "?".
	around, rest, _ := strings.Cut(p.name, ".")
	inner, _, _ := strings.Cut(rest, ".")
	if has(around) || has(around+"."+inner) || has(p.name) {
		return true
	}
	for n := 0; n <= len(p.name) && len(begins) > 0; n++ {
		if begin := p.name[:n]; begins[begin] && (has(begin+"*") || has(begin+"*?")) {
			return true
		}
	}
	return false
}

// Keeps reports whether all of path, which may end as those of f, is kept, whatever the type of the
// objects. "data.app" and "data.app.yaml" may be two keys of one map. So what is below a path is known
// to be kept only if that is a field of the object itself or of its metadata, such as "spec" or
// "metadata.labels".
func (f Fields) Keeps(path string) bool {
	p := parsePath(path)
	fits := func(kept string) bool { return parsePath(kept).keeps(p) }
	return f == nil || slices.ContainsFunc(f, fits) || slices.ContainsFunc(alwaysKept, fits)
}

// A fieldPath is a path of Fields in its parts.
type fieldPath struct {
	name  string
	many  bool // a "*": all keys that begin with the last part of name
	count bool // a "?"
}

func parsePath(path string) (p fieldPath) {
	p.name, p.count = strings.CutSuffix(path, "?")
	p.name, p.many = strings.CutSuffix(p.name, "*")
	return p
}

// keeps reports whether kept keeps all that p keeps, in objects of any type.
func (kept fieldPath) keeps(p fieldPath) bool {
	rest, begins := strings.CutPrefix(p.name, kept.name)
	switch {
	case !begins || kept.count && !p.count:
		return false
	case kept.many:
		// Of an object the "?" keeps nothing that is in it.
		return !kept.count || !strings.Contains(rest, ".") || ofStrings(kept.name)
	case rest == "":
		return !p.many
	}
	return !kept.count && rest[0] == '.' && isField(kept.name)
}

// isField reports whether path is surely that of a field, and of no key of a map: of one of the
// object, or of its metadata.
func isField(path string) bool { return !strings.Contains(strings.TrimPrefix(path, "metadata."), ".") }

// ofStrings reports whether path is surely that of a key of a map of strings.
func ofStrings(path string) bool {
	return strings.HasPrefix(path, "metadata.labels.") || strings.HasPrefix(path, "metadata.annotations.")
}
