package serve

import (
	"reflect"
	"sync"
)

// sizeOf estimates how many bytes an object keeps in memory, so that a history can be bounded by
// what it holds. What came as bytes is measured by them, and a message of protobuf by what it would
// have. All else is gone over as encoding/json would: it reads exported fields alone, because
// others may be guarded by a lock.
func sizeOf(obj any) int64 {
	switch o := obj.(type) {
	case nil:
		return 0
	case *Object:
		n := int64(len(o.data))
		for name, value := range o.Labels {
			n += int64(len(name) + len(value))
		}
		return n
	case interface {
		Size() int
		Marshal() ([]byte, error)
	}:
		return int64(o.Size())
	}
	// The struct itself is as large for each object, and a history bounds the number of events.
	v := reflect.ValueOf(obj)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return 0
		}
		v = v.Elem()
	}
	var m measure
	m.parts(v)
	return m.bytes
}

// A measure adds up what it is shown. What it has come to before counts once.
type measure struct {
	bytes int64
	seen  map[part]bool
}

// A part is something that several values may point to.
type part struct {
	at uintptr
	of reflect.Type
}

// again reports whether v, which points to something, points to what was counted.
func (m *measure) again(v reflect.Value) bool {
	p := part{v.Pointer(), v.Type()}
	if m.seen[p] {
		return true
	}
	if m.seen == nil {
		m.seen = map[part]bool{}
	}
	m.seen[p] = true
	return false
}

// any adds a value in an interface. Most values of an untyped object need no reflection.
func (m *measure) any(value any) {
	switch v := value.(type) {
	case nil, bool, int64, float64:
		m.bytes += 8
	case string:
		m.bytes += 16 + int64(len(v))
	default:
		m.bytes += int64(reflect.TypeOf(value).Size())
		m.parts(reflect.ValueOf(value))
	}
}

// parts adds what v points to. Its own bytes are counted already.
func (m *measure) parts(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		m.bytes += int64(v.Len())
	case reflect.Interface:
		if !v.IsNil() && v.CanInterface() {
			m.any(v.Elem().Interface())
		}
	case reflect.Pointer:
		if !v.IsNil() && !m.again(v) {
			m.bytes += int64(v.Type().Elem().Size())
			m.parts(v.Elem())
		}
	case reflect.Slice:
		if v.Len() == 0 || m.again(v) {
			return
		}
		m.bytes += int64(v.Len()) * int64(v.Type().Elem().Size())
		m.elements(v)
	case reflect.Array:
		m.elements(v)
	case reflect.Map:
		if v.Len() == 0 || m.again(v) {
			return
		}
		m.bytes += int64(v.Len()) * int64(v.Type().Key().Size()+v.Type().Elem().Size())
		for entries := v.MapRange(); entries.Next(); {
			m.parts(entries.Key())
			m.parts(entries.Value())
		}
	case reflect.Struct:
		for _, i := range pointing(v.Type()) {
			m.parts(v.Field(i))
		}
	}
}

// elements adds what the elements of v point to.
func (m *measure) elements(v reflect.Value) {
	if !points(v.Type().Elem()) {
		return
	}
	for i := range v.Len() {
		m.parts(v.Index(i))
	}
}

// pointers are the results of pointing. A type is looked at once, because that allocates.
var pointers sync.Map // from reflect.Type to []int

// pointing returns the fields of a struct that may point to something, and that encoding/json
// reads.
func pointing(t reflect.Type) []int {
	if known, ok := pointers.Load(t); ok {
		return known.([]int)
	}
	var all []int
	for i := range t.NumField() {
		f := t.Field(i)
		read := f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct
		if read && f.Tag.Get("json") != "-" && points(f.Type) {
			all = append(all, i)
		}
	}
	pointers.Store(t, all)
	return all
}

// points reports whether a value of a type may point to something.
func points(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Interface, reflect.Pointer, reflect.Slice, reflect.Map:
		return true
	case reflect.Array:
		return points(t.Elem())
	case reflect.Struct:
		return len(pointing(t)) > 0
	}
	return false
}
