package lw

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
	// maxPaths is how many differences of one object are named. More do not help to find who makes them.
	maxPaths = 10
	// maxValue is how many bytes of a value are shown.
	maxValue = 60
)

// changedPaths returns where now differs from was, as "Spec.Replicas: 3 is now 4", and how many differences it does not name.
//
// A general library for differences calls methods by their names. That keeps the linker from removing unused methods in the whole
// program, so this walk calls none: only times and quantities are compared by their values, all else as it is in memory.
func changedPaths(was, now any) (paths []string, more int) {
	w := pathWalk{seen: map[[2]uintptr]bool{}}
	w.compare("", reflect.ValueOf(was), reflect.ValueOf(now))
	return w.paths, w.more
}

type pathWalk struct {
	paths []string
	more  int
	seen  map[[2]uintptr]bool // pairs of pointers that are compared already: objects may have cycles
}

func (w *pathWalk) differ(path, was, now string) {
	if len(w.paths) == maxPaths {
		w.more++
		return
	}
	if path == "" {
		path = "the object"
	}
	w.paths = append(w.paths, fmt.Sprintf("%s: %s is now %s", path, was, now))
}

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
		if a, b := was.Float(), now.Float(); a != b && (a == a || b == b) { // a NaN is as it was
			w.differ(path, show(was), show(now))
		}
	default:
		if !was.Equal(now) {
			w.differ(path, show(was), show(now))
		}
	}
}

func (w *pathWalk) compareElements(path string, was, now reflect.Value) {
	if was.Kind() == reflect.Slice && was.IsNil() != now.IsNil() || was.Len() != now.Len() {
		w.differ(path, show(was), show(now))
		return
	}
	for i := range was.Len() {
		w.compare(path+"["+strconv.Itoa(i)+"]", was.Index(i), now.Index(i))
	}
}

func (w *pathWalk) compareMaps(path string, was, now reflect.Value) {
	keys := was.MapKeys()
	for _, key := range now.MapKeys() {
		if !was.MapIndex(key).IsValid() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(show(a), show(b)) })
	// The maps of decoded JSON stand for structs.
	fields := was.Type().Key().Kind() == reflect.String && was.Type().Elem().Kind() == reflect.Interface
	for _, key := range keys {
		name := path + "[" + show(key) + "]"
		if fields {
			name = join(path, key.String())
		}
		w.compare(name, was.MapIndex(key), now.MapIndex(key))
	}
}

// first reports whether the walk has not been at this pair of pointers or maps.
func (w *pathWalk) first(was, now reflect.Value) bool {
	pair := [2]uintptr{was.Pointer(), now.Pointer()}
	if w.seen[pair] {
		return false
	}
	w.seen[pair] = true
	return true
}

// equalValues compares values of which one has several forms in memory. Known is false for all others.
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

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// show returns v for a person, in at most maxValue bytes and a mark that there are more.
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
