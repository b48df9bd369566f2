// Package shape compares objects by what their schemas say of them: it sorts the lists whose order
// means nothing, and leaves out what differs from one run to the next.
package shape

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Shape is what a schema says of a value, as far as a comparison needs it. A nil Shape says nothing.
type Shape struct {
	Fields map[string]*Shape // of an object
	Elem   *Shape            // of the items of a list, and of the members of an object that Fields lack
	Set    bool              // the list has no order
	Keys   []string          // of a list without an order whose items are known by these members
	Time   bool              // the value is a point in time
}

// Normalize returns the object as it is compared: without versions, UIDs, times and the managers of
// fields, and with the lists that have no order sorted. It leaves obj as it is.
func (s *Shape) Normalize(obj map[string]any) map[string]any {
	out, _ := s.value(obj).(map[string]any)
	if meta, ok := out["metadata"].(map[string]any); ok {
		for _, name := range dropped {
			delete(meta, name)
		}
		if _, marked := meta["deletionTimestamp"]; marked {
			meta["deletionTimestamp"] = "set" // when does not matter, whether does
		}
		for _, name := range []string{"finalizers", "ownerReferences"} {
			if list, ok := meta[name].([]any); ok {
				meta[name] = sorted(list, nil)
			}
		}
		if owners, ok := meta["ownerReferences"].([]any); ok {
			for i := range owners {
				if owner, ok := owners[i].(map[string]any); ok {
					delete(owner, "uid")
				}
			}
			meta["ownerReferences"] = sorted(owners, nil)
		}
	}
	return out
}

// dropped are the members of the metadata that only the server sets.
var dropped = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionGracePeriodSeconds"}

func (s *Shape) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			inner := s.member(name)
			if inner != nil && inner.Time {
				continue
			}
			out[name] = inner.value(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.member("").value(v[i])
		}
		if s != nil && s.Set {
			return sorted(out, s.Keys)
		}
		return out
	}
	return v
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

// sorted sorts a list by the keys of its items, and by all of them where those are equal.
func sorted(list []any, keys []string) []any {
	type item struct {
		key   string
		value any
	}
	items := make([]item, len(list))
	for i, v := range list {
		var b strings.Builder
		if m, ok := v.(map[string]any); ok {
			for _, key := range keys {
				b.Write(encoded(m[key]))
				b.WriteByte(0)
			}
		}
		b.Write(encoded(v))
		items[i] = item{b.String(), v}
	}
	slices.SortStableFunc(items, func(a, b item) int { return strings.Compare(a.key, b.key) })
	out := make([]any, len(list))
	for i := range items {
		out[i] = items[i].value
	}
	return out
}

// encoded returns the JSON of a value that came from JSON.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Of returns the Shape of a Go type by its tags: lists that a strategic merge patch merges have no
// order. The tags are those of the types of k8s.io/api.
func Of(t reflect.Type) *Shape { return of(t, nil) }

var times = []reflect.Type{reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]()}

// of returns the Shape of a type within others, so that one that has itself is known once.
func of(t reflect.Type, within []reflect.Type) *Shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case slices.Contains(times, t):
		return &Shape{Time: true}
	case slices.Contains(within, t):
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
		if name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct {
			s.fields(f.Type, within)
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
