// Package prune cuts objects to some of their fields, as the decoder does with the paths of Drop
// and Only. It knows nothing of the decoder: it goes over the Go values and their JSON tags. So the
// tests of the decoder compare the two.
package prune

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Object leaves of obj, a pointer to an API's type or to a struct like one, what only keeps and
// drop does not leave out. nil in the place of only keeps all. What identifies obj is kept in any
// case. A path to nothing is ignored. The parts of obj must be its own: they are changed in place.
func Object(obj any, drop, only []string) {
	w := wanted{drop: drop, all: only == nil}
	if only != nil {
		identity := []string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}
		w.paths = append(identity, only...)
	}
	if u, ok := obj.(runtime.Unstructured); ok {
		content, _ := untyped(u.UnstructuredContent(), w)
		u.SetUnstructuredContent(content.(map[string]any))
		return
	}
	value(reflect.ValueOf(obj).Elem(), w)
}

// wanted says what is kept of a value.
type wanted struct {
	all   bool     // all but what drop has
	count bool     // the number of elements
	paths []string // what is below these
	drop  []string // what is left out
}

func (w wanted) everything() bool { return w.all && len(w.drop) == 0 }

func (w wanted) nothing() bool { return !w.all && !w.count && len(w.paths) == 0 }

// child returns what is kept of the member name, and whether it is there at all. mapped says that
// name may be a key of a map.
func (w wanted) child(name string, mapped bool) (c wanted, ok bool) {
	for _, d := range w.drop {
		if d == name {
			return wanted{}, false
		}
		if rest, found := strings.CutPrefix(d, name+"."); found {
			c.drop = append(c.drop, rest)
		}
	}
	if w.all {
		c.all = true
		return c, true
	}
	for _, path := range w.paths {
		whole := strings.TrimSuffix(path, "?")
		begin, many := strings.CutSuffix(whole, "*")
		if whole == name || mapped && many && strings.HasPrefix(name, begin) {
			if whole == path {
				return wanted{all: true, drop: c.drop}, true
			}
			c.count, ok = true, true
		} else if rest, found := strings.CutPrefix(path, name+"."); found {
			c.paths, ok = append(c.paths, rest), true
		}
	}
	return c, ok
}

// value leaves in v what w keeps.
func value(v reflect.Value, w wanted) {
	if w.everything() {
		return
	}
	if own(v.Type()) {
		leaf(v, w)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			value(v.Elem(), w)
		}
	case reflect.Struct:
		structure(v, w)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || w.nothing() {
			leaf(v, w)
			return
		}
		w.count = false
		for i := range v.Len() {
			value(v.Index(i), w)
		}
	case reflect.Map:
		mapping(v, w)
	case reflect.Interface:
		if v.NumMethod() == 0 && !v.IsNil() {
			content, _ := untyped(v.Interface(), w)
			v.Set(reflect.ValueOf(content))
		}
	default:
		leaf(v, w)
	}
}

// leaf leaves v, which has no fields, as it is, or makes it empty.
func leaf(v reflect.Value, w wanted) {
	if !w.all && !w.count {
		v.SetZero()
	}
}

// own reports whether values of type t have a JSON of their own.
func own(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer || t.Name() == "" {
		return false
	}
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || t == reflect.TypeFor[json.Number]()
}

// structure leaves in the struct v the fields that w keeps. An embedded pointer that no kept field
// is reached through is nil.
func structure(v reflect.Value, w wanted) {
	fields, pointers := fieldsOf(v.Type())
	kept := make([]bool, len(pointers))
	for _, f := range fields {
		c, ok := wanted{}, false
		if f.name != "" {
			c, ok = w.child(f.name, false)
		}
		for i, index := range pointers {
			kept[i] = kept[i] || ok && len(index) < len(f.index) && slices.Equal(index, f.index[:len(index)])
		}
		field, err := v.FieldByIndexErr(f.index)
		switch {
		case err != nil: // within a nil pointer
		case ok:
			value(field, c)
		default:
			field.SetZero()
		}
	}
	for i, index := range pointers {
		if field, err := v.FieldByIndexErr(index); err == nil && !kept[i] && field.CanSet() {
			field.SetZero()
		}
	}
}

// A field is one of a struct, or of one that is embedded in it. It has no name if another one hides
// it: then no JSON has it.
type field struct {
	name  string
	index []int
	rank  int // of two fields of one name the lower one hides the other
}

// fieldsOf returns the fields of t as JSON has them, and the indexes of the embedded pointers.
func fieldsOf(t reflect.Type) (fields []field, pointers [][]int) {
	var walk func(t reflect.Type, at []int, open []reflect.Type)
	walk = func(t reflect.Type, at []int, open []reflect.Type) {
		if slices.Contains(open, t) {
			return
		}
		open = append(slices.Clone(open), t)
		for i := range t.NumField() {
			sf, index := t.Field(i), append(slices.Clone(at), i)
			tag := sf.Tag.Get("json")
			name, _, _ := strings.Cut(tag, ",")
			inlined := sf.Type
			if sf.Anonymous && inlined.Kind() == reflect.Pointer {
				inlined = inlined.Elem()
			}
			switch embedded := sf.Anonymous && name == "" && inlined.Kind() == reflect.Struct; {
			case tag == "-", !sf.IsExported() && !embedded:
			case embedded && inlined == sf.Type:
				walk(inlined, index, open)
			case embedded:
				pointers = append(pointers, index)
				if sf.IsExported() {
					walk(inlined, index, open)
				}
			case name == "":
				fields = append(fields, field{sf.Name, index, 2*len(index) + 1})
			default:
				fields = append(fields, field{name, index, 2 * len(index)})
			}
		}
	}
	walk(t, nil, nil)
	hide(fields)
	return fields, pointers
}

// hide takes the names of fields that others hide. Of one name the field that is embedded least deep
// counts, then the one with a tag; of several such ones none does.
func hide(fields []field) {
	lowest, level := map[string]int{}, map[string]int{}
	for _, f := range fields {
		switch rank, ok := lowest[f.name]; {
		case !ok || f.rank < rank:
			lowest[f.name], level[f.name] = f.rank, 1
		case f.rank == rank:
			level[f.name]++
		}
	}
	for i, f := range fields {
		if f.rank != lowest[f.name] || level[f.name] > 1 {
			fields[i].name = ""
		}
	}
}

// mapping leaves in the map v the keys that w keeps. A map without any is nil.
func mapping(v reflect.Value, w wanted) {
	t := v.Type()
	if t.Key().Kind() != reflect.String || own(t.Key()) || w.nothing() {
		leaf(v, w)
		return
	}
	if v.IsNil() {
		return
	}
	kept := reflect.MakeMap(t)
	for it := v.MapRange(); it.Next(); {
		name := it.Key().String()
		c, ok := w.child(name, true)
		switch {
		// A path does not go on below a key.
		case ok && (c.all || c.count):
			c.paths, c.drop = nil, nil
		case w.count && !dropped(w.drop, name):
			c = wanted{}
		default:
			continue
		}
		elem := reflect.New(t.Elem()).Elem()
		elem.Set(it.Value())
		value(elem, c)
		kept.SetMapIndex(it.Key(), elem)
	}
	if kept.Len() > 0 || w.count {
		v.Set(kept)
	} else {
		v.SetZero()
	}
}

func dropped(drop []string, name string) bool {
	for _, d := range drop {
		if d == name {
			return true
		}
	}
	return false
}

// untyped returns what w keeps of v, a value as apimachinery decodes it, and whether that is
// anything. A scalar of which nothing is kept is an empty one.
func untyped(v any, w wanted) (kept any, ok bool) {
	if w.everything() {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			if c, ok := w.child(name, true); ok {
				if kept, ok := untyped(member, c); ok {
					out[name] = kept
				}
			}
		}
		return out, true
	case []any:
		out := make([]any, len(v))
		w.count = false
		for i := range v {
			out[i], _ = untyped(v[i], w)
		}
		return out, true
	}
	if w.all || w.count {
		return v, true
	}
	if v == nil {
		return nil, false
	}
	return reflect.Zero(reflect.TypeOf(v)).Interface(), false
}
