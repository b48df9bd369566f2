// Package mutation names what differs between an object and the copy of it.
package mutation

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// most is the most differences of one object that are named. More do not help to find the
	// code that made them.
	most = 10
	// maxValue is the most bytes of a value that are shown.
	maxValue = 60
)

// Paths returns the differences between was and now, each as "Spec.Replicas: 3 is now 4",
// and the number of differences that it does not name.
//
// No diff library does this, because such a library looks up methods by their names through
// reflection. That keeps the linker from removing unused methods in the whole program, which makes
// the program megabytes larger. The walk here compares times and quantities by value, and
// everything else as it is in memory.
func Paths(was, now any) (paths []string, more int) {
	w := pathWalk{seen: map[[2]uintptr]bool{}}
	w.compare("", reflect.ValueOf(was), reflect.ValueOf(now))
	return w.paths, w.more
}

// A pathWalk is the state of one Paths.
type pathWalk struct {
	paths []string
	more  int
	// seen has the pairs of pointers or maps that were compared. Without it the walk would not end
	// in an object that leads back to itself.
	seen map[[2]uintptr]bool
}

// differ notes a difference at path.
func (w *pathWalk) differ(path, was, now string) {
	if len(w.paths) == most {
		w.more++
		return
	}
	if path == "" {
		path = "the object"
	}
	w.paths = append(w.paths, fmt.Sprintf("%s: %s is now %s", path, was, now))
}

// compare notes the differences between was and now, which are at path. A value that is not valid
// stands for an element that one of two maps lacks.
func (w *pathWalk) compare(path string, was, now reflect.Value) {
	if !was.IsValid() || !now.IsValid() || was.Type() != now.Type() {
		if was.IsValid() || now.IsValid() {
			w.differ(path, show(was), show(now))
		}
		return
	}
	if equal, known := equalValues(was, now); known {
		if !equal {
			w.differ(path, show(was), show(now))
		}
		return
	}
	switch was.Kind() {
	case reflect.Pointer, reflect.Interface:
		switch {
		case was.IsNil() && now.IsNil():
		case was.IsNil() || now.IsNil():
			w.differ(path, show(was), show(now))
		case was.Kind() == reflect.Interface || w.first(was, now):
			w.compare(path, was.Elem(), now.Elem())
		}
	case reflect.Struct:
		for i := range was.NumField() {
			field := was.Type().Field(i)
			name := path
			if !field.Anonymous {
				name = join(path, field.Name)
			}
			w.compare(name, was.Field(i), now.Field(i))
		}
	case reflect.Slice, reflect.Array:
		w.compareElements(path, was, now)
	case reflect.Map:
		if was.IsNil() != now.IsNil() {
			w.differ(path, show(was), show(now))
		} else if w.first(was, now) {
			w.compareMaps(path, was, now)
		}
	case reflect.Func:
		if was.IsNil() != now.IsNil() {
			w.differ(path, show(was), show(now))
		}
	case reflect.Float32, reflect.Float64:
		// Two NaNs count as equal here: a NaN that stays a NaN is no change.
		if a, b := was.Float(), now.Float(); a != b && (a == a || b == b) {
			w.differ(path, show(was), show(now))
		}
	default:
		if !was.Equal(now) {
			w.differ(path, show(was), show(now))
		}
	}
}

// compareElements compares two slices or arrays. Slices of different lengths are one difference: if
// an element was inserted, a comparison one by one would name all elements after it.
func (w *pathWalk) compareElements(path string, was, now reflect.Value) {
	if was.Kind() == reflect.Slice && was.IsNil() != now.IsNil() || was.Len() != now.Len() {
		w.differ(path, show(was), show(now))
		return
	}
	for i := range was.Len() {
		w.compare(path+"["+strconv.Itoa(i)+"]", was.Index(i), now.Index(i))
	}
}

// compareMaps compares two maps key by key, in the order of their keys, so that the report is the
// same each time.
func (w *pathWalk) compareMaps(path string, was, now reflect.Value) {
	keys := was.MapKeys()
	for _, key := range now.MapKeys() {
		if !was.MapIndex(key).IsValid() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(show(a), show(b)) })
	// A map from strings to interfaces is an object of decoded JSON, so its keys are shown as
	// fields.
	fields := was.Type().Key().Kind() == reflect.String && was.Type().Elem().Kind() == reflect.Interface
	for _, key := range keys {
		name := path + "[" + show(key) + "]"
		if fields {
			name = join(path, key.String())
		}
		w.compare(name, was.MapIndex(key), now.MapIndex(key))
	}
}

// first reports whether it is called for the first time with this pair of pointers or maps.
func (w *pathWalk) first(was, now reflect.Value) bool {
	pair := [2]uintptr{was.Pointer(), now.Pointer()}
	if w.seen[pair] {
		return false
	}
	w.seen[pair] = true
	return true
}

// equalValues compares values of types that have several forms in memory for one value. known is
// false for all other types.
func equalValues(was, now reflect.Value) (equal, known bool) {
	if was.Kind() != reflect.Struct || !was.CanInterface() {
		return false, false
	}
	switch was := was.Interface().(type) {
	case time.Time:
		return was.Equal(now.Interface().(time.Time)), true
	case resource.Quantity:
		return was.Cmp(now.Interface().(resource.Quantity)) == 0, true
	}
	return false, false
}

// join appends the name of a field to path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// show returns v for a person to read. A text of more than maxValue bytes is cut at the end of a
// character and gets an ellipsis.
func show(v reflect.Value) string {
	if !v.IsValid() {
		return "absent"
	}
	var text string
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return show(v.Elem())
	case reflect.Map, reflect.Slice:
		if v.IsNil() {
			return "nil"
		}
		text = fmt.Sprintf("%v (%d)", v, v.Len())
	case reflect.Func:
		if v.IsNil() {
			return "nil"
		}
		return "a function"
	case reflect.String:
		if text = v.String(); v.Type() != reflect.TypeFor[json.Number]() {
			text = strconv.Quote(text)
		}
	default:
		text = fmt.Sprintf("%v", v)
	}
	if len(text) <= maxValue {
		return text
	}
	cut := maxValue
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
