package why

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// entries are the managed fields of an object.
type entries []metav1.ManagedFieldsEntry

func entriesOf(obj any) entries {
	if m, ok := obj.(interface {
		GetManagedFields() []metav1.ManagedFieldsEntry
	}); ok {
		return m.GetManagedFields()
	}
	return nil
}

// writer returns the manager that has written what is at path: of those that manage it the last
// one, and rather one whose entry is not in before. Nobody manages a field that is gone: that is
// then the last of those whose entries are new.
func (es entries) writer(path []step, before entries) string {
	var best, gone *metav1.ManagedFieldsEntry
	later := func(e, than *metav1.ManagedFieldsEntry) bool {
		return than == nil || timeOf(e).After(timeOf(than))
	}
	bestNew := false
	for i := range es {
		e := &es[i]
		isNew := before != nil && !slices.ContainsFunc(before, func(other metav1.ManagedFieldsEntry) bool { return reflect.DeepEqual(*e, other) })
		if isNew && later(e, gone) {
			gone = e
		}
		if covers(e, path) && (isNew && !bestNew || isNew == bestNew && later(e, best)) {
			best, bestNew = e, isNew
		}
	}
	switch {
	case best != nil:
		return best.Manager
	case gone != nil:
		return gone.Manager
	}
	return ""
}

func timeOf(e *metav1.ManagedFieldsEntry) (t time.Time) {
	if e.Time != nil {
		t = e.Time.Time
	}
	return t
}

// covers reports whether e manages what is at path, or something in it.
func covers(e *metav1.ManagedFieldsEntry, path []step) bool {
	if e.FieldsV1 == nil {
		return false
	}
	var node map[string]json.RawMessage
	if json.Unmarshal(e.FieldsV1.GetRawBytes(), &node) != nil {
		return false
	}
	for _, s := range path {
		if len(node) == 0 || len(node) == 1 && node["."] != nil {
			return true // a value that is managed whole
		}
		child, ok := node["f:"+s.name]
		if s.list {
			child, ok = nil, false
			for key, c := range node {
				if s.is(key) {
					child, ok = c, true
				}
			}
		}
		if !ok {
			return false
		}
		node = nil
		if json.Unmarshal(child, &node) != nil {
			return false
		}
	}
	return true
}

// is reports whether key, of the managed fields, is that of the element that s leads to.
func (s step) is(key string) bool {
	if number, ok := strings.CutPrefix(key, "i:"); ok {
		return s.by == "" && number == s.name
	}
	fields, ok := strings.CutPrefix(key, "k:")
	if !ok || s.by == "" {
		return false
	}
	var members map[string]any
	if json.Unmarshal([]byte(fields), &members) != nil {
		return false
	}
	name, _ := members[s.by].(string)
	return name == s.name
}
