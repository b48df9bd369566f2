// Package shape compares objects by what their schemas say of them: an item of a list whose order
// means nothing goes by its keys, and what differs from one run to the next is left out.
package shape

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A Shape is what a schema says of a value, as far as a comparison needs it. A nil Shape says
// nothing.
type Shape struct {
	Fields map[string]*Shape // of an object
	Elem   *Shape            // of the items of a list, and of the members of an object that Fields lack
	Set    bool              // the list has no order
	Keys   []string          // of a list without an order whose items are known by these members
}

// Flatten returns the fields of an object by their paths, without those that only the server sets.
// text returns what counts of a value.
func (s *Shape) Flatten(obj map[string]any, text func(path, value string) string) map[string]string {
	out := fields{text: text, of: map[string]string{}}
	for name, v := range obj {
		if m, ok := v.(map[string]any); ok && name == "metadata" {
			m = maps.Clone(m)
			for _, drop := range dropped {
				delete(m, drop)
			}
			out.add(metadata, name, m)
			continue
		}
		out.add(s.member(name), name, v)
	}
	return out.of
}

// dropped are the members of the metadata that only the server sets, and those that it makes names
// of.
var dropped = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionGracePeriodSeconds", "generateName"}

// metadata differs from its schema: the UIDs by which that knows owners are never those of another
// run.
var metadata = &Shape{Fields: map[string]*Shape{
	"finalizers":      {Set: true},
	"ownerReferences": {Set: true, Keys: []string{"kind", "name"}},
}}

// fields gathers those of an object.
type fields struct {
	text func(path, value string) string
	of   map[string]string
}

func (f *fields) add(s *Shape, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			f.of[path] = "{}"
		}
		for name, member := range v {
			f.add(s.member(name), path+"."+name, member)
		}
	case []any:
		if len(v) == 0 {
			f.of[path] = "[]"
		}
		if s != nil && s.Set {
			f.set(s, path, v)
			return
		}
		for i, item := range v {
			f.add(s.member(""), fmt.Sprintf("%s[%d]", path, i), item)
		}
	default:
		f.of[path] = f.text(path, fmt.Sprint(v))
	}
}

// set adds a list without an order. Items of one key go by what else they are.
func (f *fields) set(s *Shape, path string, list []any) {
	type item struct {
		key, all string
		value    any
	}
	items := make([]item, len(list))
	for i, v := range list {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // it came from JSON
		}
		all := f.text(path, string(b))
		key := all
		if m, ok := v.(map[string]any); ok && len(s.Keys) > 0 {
			key = ""
			for _, name := range s.Keys {
				key += " " + f.text(path, fmt.Sprint(m[name]))
			}
		} else if value, ok := v.(string); ok {
			key = f.text(path, value)
		}
		items[i] = item{strings.TrimPrefix(key, " "), all, v}
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.all, b.all)) })
	for i, item := range items {
		at := path + "[" + item.key + "]"
		if i > 0 && items[i-1].key == item.key {
			at += fmt.Sprint("#", i)
		}
		f.add(s.member(""), at, item.value)
	}
}

func (s *Shape) member(name string) *Shape {
	if s == nil {
		return nil
	}
	if f := s.Fields[name]; f != nil {
		return f
	}
	return s.Elem
}

// Of returns the Shape of a Go type by its tags: lists that a strategic merge patch merges have no
// order. The tags are those of the types of k8s.io/api.
func Of(t reflect.Type) *Shape { return of(t, nil) }

// of returns the Shape of a type within others, so that one that has itself is known once.
func of(t reflect.Type, within []reflect.Type) *Shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if slices.Contains(within, t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		if elem := of(t.Elem(), within); elem != nil {
			return &Shape{Elem: elem}
		}
	case reflect.Struct:
		s := &Shape{Fields: map[string]*Shape{}}
		s.fields(t, append(slices.Clone(within), t))
		if len(s.Fields) > 0 {
			return s
		}
	}
	return nil
}

func (s *Shape) fields(t reflect.Type, within []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			base := f.Type
			if base.Kind() == reflect.Pointer {
				base = base.Elem()
			}
			if base.Kind() == reflect.Struct && !slices.Contains(within, base) {
				s.fields(base, append(slices.Clone(within), base))
			}
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		inner := of(f.Type, within)
		if f.Type.Kind() == reflect.Slice && strings.Contains(f.Tag.Get("patchStrategy"), "merge") {
			if inner == nil {
				inner = &Shape{}
			}
			inner.Set = true
			if key := f.Tag.Get("patchMergeKey"); key != "" {
				inner.Keys = []string{key}
			}
		}
		if inner != nil {
			s.Fields[name] = inner
		}
	}
}
