package why

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/internal/equal"
)

// MostFields is how many fields of a change are named.
const MostFields = 8

// A Field is one that differs.
type Field struct {
	Path    string // dotted, as in "spec.containers[web].image"
	Manager string // who has written it; "": not known
	// was and now are hashes of its values; 0: it is not there.
	was, now uint64
	before   string // the manager of was
}

// skipped are the fields that differ between any two versions; the last is that of lw.Meta.
var skipped = []string{"metadata.resourceVersion", "metadata.managedFields", "metadata.generation", "resourceVersion"}

// Fields returns the first fields that differ between two versions of an object, sorted. An object
// that is not there has none. more says that there are others.
func Fields(old, new any) (fields []Field, more bool) {
	if old == nil || new == nil {
		return nil, false
	}
	d := difference{seen: map[[2]uintptr]bool{}}
	d.compare(nil, content(old), content(new))
	if len(d.fields) == 0 {
		return nil, d.more
	}
	before, after := entriesOf(old), entriesOf(new)
	for i := range d.fields {
		f := &d.fields[i]
		f.Path = pathText(d.paths[i])
		f.Manager, f.before = after.writer(d.paths[i], before), before.writer(d.paths[i], nil)
	}
	slices.SortFunc(d.fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return d.fields, d.more
}

// content returns what is compared of an object.
func content(obj any) reflect.Value {
	if u, ok := obj.(runtime.Unstructured); ok {
		return reflect.ValueOf(u.UnstructuredContent())
	}
	return reflect.ValueOf(obj)
}

// A step leads from a value to a part of it.
type step struct {
	name string
	list bool // an element: name is its number, or the value of the member that by names
	by   string
}

// pathText writes path with dots.
func pathText(path []step) string {
	var b strings.Builder
	for _, s := range path {
		switch {
		case s.list:
			b.WriteString("[" + s.name + "]")
		case b.Len() > 0:
			b.WriteString("." + s.name)
		default:
			b.WriteString(s.name)
		}
	}
	return b.String()
}

// A difference is the walk that makes Fields. Two values that are one piece of memory are equal, as
// most parts of two versions are that lw decodes.
type difference struct {
	fields []Field
	paths  [][]step
	more   bool
	seen   map[[2]uintptr]bool // the pairs that were compared; else a ring would not end
}

func (d *difference) differ(path []step, was, now reflect.Value) {
	if len(d.fields) == MostFields {
		d.more = true
		return
	}
	d.fields = append(d.fields, Field{was: hashOf(was), now: hashOf(now)})
	d.paths = append(d.paths, slices.Clone(path))
}

// hashOf returns a hash of what v holds, 0 if nothing.
func hashOf(v reflect.Value) uint64 {
	if nothing(v) || !v.CanInterface() {
		return 0
	}
	return equal.Hash(v.Interface())
}

// nothing reports whether v would be left out of JSON: nil, and what is empty, are the same there.
func nothing(v reflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	}
	return false
}

func (d *difference) compare(path []step, was, now reflect.Value) {
	for was.IsValid() && was.Kind() == reflect.Interface {
		was = was.Elem()
	}
	for now.IsValid() && now.Kind() == reflect.Interface {
		now = now.Elem()
	}
	gone, absent := nothing(now), nothing(was)
	switch {
	case d.more || gone && absent || len(path) <= 2 && slices.Contains(skipped, pathText(path)):
		return
	case gone && isObject(was), absent && isObject(now):
		d.maps(path, was, now)
		return
	case gone || absent || was.Type() != now.Type():
		d.differ(path, was, now)
		return
	}
	if text, ok := jsonOf(was); ok && len(path) > 0 {
		if other, _ := jsonOf(now); text != other {
			d.differ(path, was, now)
		}
		return
	}
	switch was.Kind() {
	case reflect.Pointer:
		if d.news(was, now) {
			d.compare(path, was.Elem(), now.Elem())
		}
	case reflect.Struct:
		d.structs(path, was, now)
	case reflect.Map:
		if d.news(was, now) {
			d.maps(path, was, now)
		}
	case reflect.Slice, reflect.Array:
		d.lists(path, was, now)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
	default:
		if !was.Equal(now) {
			d.differ(path, was, now)
		}
	}
}

// jsonOf returns the JSON of a value that makes it itself, as times and quantities do.
func jsonOf(v reflect.Value) (text string, ok bool) {
	if v.Kind() != reflect.Struct || !v.CanInterface() {
		return "", false
	}
	m, ok := v.Interface().(json.Marshaler)
	if !ok {
		return "", false
	}
	data, err := m.MarshalJSON()
	return string(data), err == nil
}

// isObject reports whether v is a map whose keys are names.
func isObject(v reflect.Value) bool {
	return v.IsValid() && v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String
}

// news reports whether the two are not the same, and are compared for the first time.
func (d *difference) news(was, now reflect.Value) bool {
	pair := [2]uintptr{was.Pointer(), now.Pointer()}
	if pair[0] == pair[1] || d.seen[pair] {
		return false
	}
	d.seen[pair] = true
	return true
}

func (d *difference) structs(path []step, was, now reflect.Value) {
	for i := range was.NumField() {
		f := was.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous || name == "-" && options == "":
			continue
		case f.Anonymous && name == "" || strings.Contains(options, "inline"):
			d.compare(path, was.Field(i), now.Field(i))
			continue
		case name == "":
			name = f.Name
		}
		d.compare(append(path, step{name: name}), was.Field(i), now.Field(i))
	}
}

func (d *difference) maps(path []step, was, now reflect.Value) {
	if !isObject(was) && !isObject(now) {
		if !reflect.DeepEqual(was.Interface(), now.Interface()) {
			d.differ(path, was, now)
		}
		return
	}
	names := map[string]reflect.Value{}
	for _, m := range []reflect.Value{was, now} {
		if nothing(m) {
			continue
		}
		for _, key := range m.MapKeys() {
			names[key.String()] = key
		}
	}
	of := func(m, key reflect.Value) (v reflect.Value) {
		if !nothing(m) {
			v = m.MapIndex(key)
		}
		return v
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.compare(append(path, step{name: name}), of(was, names[name]), of(now, names[name]))
	}
}

// lists compares elements that have a name or a type by that, else by their place. Of lists whose
// elements have none, and that differ in length, only the list is named.
func (d *difference) lists(path []step, was, now reflect.Value) {
	if was.Len() == now.Len() && (was.Len() == 0 || was.Kind() == reflect.Slice && was.Pointer() == now.Pointer()) {
		return
	}
	for _, by := range []string{"type", "name", "key", "uid"} {
		before, names := elements(was, by)
		after, names2 := elements(now, by)
		if before == nil || after == nil {
			continue
		}
		for _, name := range append(names, slices.DeleteFunc(names2, func(n string) bool { _, both := before[n]; return both })...) {
			d.compare(append(path, step{name: name, list: true, by: by}), before[name], after[name])
		}
		return
	}
	if was.Len() != now.Len() {
		d.differ(path, was, now)
		return
	}
	for i := range was.Len() {
		d.compare(append(path, step{name: strconv.Itoa(i), list: true}), was.Index(i), now.Index(i))
	}
}

// elements returns the elements of list by their member called by, in order; nil if one has none, or
// two have the same.
func elements(list reflect.Value, by string) (of map[string]reflect.Value, names []string) {
	of = map[string]reflect.Value{}
	for i := range list.Len() {
		e := list.Index(i)
		for e.IsValid() && (e.Kind() == reflect.Interface || e.Kind() == reflect.Pointer) {
			e = e.Elem()
		}
		name := memberOf(e, by)
		if _, twice := of[name]; twice || name == "" {
			return nil, nil
		}
		of[name], names = list.Index(i), append(names, name)
	}
	return of, names
}

// memberOf returns the text of e's member called name, "" if it has none.
func memberOf(e reflect.Value, name string) string {
	if !e.IsValid() {
		return ""
	}
	switch e.Kind() {
	case reflect.Map:
		if e.Type().Key().Kind() == reflect.String {
			m := e.MapIndex(reflect.ValueOf(name).Convert(e.Type().Key()))
			if m.IsValid() && m.Kind() == reflect.Interface {
				m = m.Elem()
			}
			if m.IsValid() && m.Kind() == reflect.String {
				return m.String()
			}
		}
	case reflect.Struct:
		for i := range e.NumField() {
			f := e.Type().Field(i)
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && f.Type.Kind() == reflect.String {
				return e.Field(i).String()
			}
		}
	}
	return ""
}
