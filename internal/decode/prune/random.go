package prune

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
)

// Random returns some random paths of type t for the tests of what takes paths: whole fields, parts
// of them, those that end in "?", and keys of maps. keys are such that the maps may have.
func Random(rng *rand.Rand, t reflect.Type, keys ...string) []string {
	all := Paths(t)
	out := []string{}
	for range rng.IntN(8) {
		path := all[rng.IntN(len(all))]
		if of, ok := strings.CutSuffix(path, ".*"); ok {
			key := keys[rng.IntN(len(keys))]
			switch rng.IntN(4) {
			case 0:
				path = of
			case 1:
				path = of + "." + key[:rng.IntN(len(key)+1)] + "*"
			default:
				path = of + "." + key
			}
		}
		if rng.IntN(4) == 0 {
			path += "?"
		}
		out = append(out, path)
	}
	return out
}

// Leaves returns those of Paths that have no other one below them. Together they keep everything.
func Leaves(t reflect.Type) []string {
	all := slices.DeleteFunc(Paths(t), func(path string) bool { return strings.HasSuffix(path, ".*") })
	return slices.DeleteFunc(slices.Clone(all), func(path string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, path+".") })
	})
}

// Paths returns the paths of the fields of type t, and for each map one that ends in ".*". A type
// within itself is followed once.
func Paths(t reflect.Type) []string {
	var out []string
	var walk func(t reflect.Type, prefix string, open []reflect.Type)
	walk = func(t reflect.Type, prefix string, open []reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && !own(t) {
			t = t.Elem()
		}
		switch {
		case own(t):
		case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !own(t.Key()):
			out = append(out, prefix+"*")
		case t.Kind() == reflect.Struct && !slices.Contains(open, t):
			open = append(slices.Clone(open), t)
			for i := range t.NumField() {
				sf := t.Field(i)
				name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
				switch {
				case name == "" && sf.Anonymous && (sf.IsExported() || sf.Type.Kind() == reflect.Struct):
					walk(sf.Type, prefix, open)
				case !sf.IsExported() || name == "-":
				default:
					if name == "" {
						name = sf.Name
					}
					out = append(out, prefix+name)
					walk(sf.Type, prefix+name+".", open)
				}
			}
		}
	}
	walk(t, "", nil)
	return out
}
