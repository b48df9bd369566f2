package why

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

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
// that is not there, or has no JSON, has none. more says that there are others.
//
// It compares the JSON, which has the names that people know and one form of each value. Package
// mutation compares what is in memory.
func Fields(old, new any) (fields []Field, more bool) {
	if old == nil || new == nil {
		return nil, false
	}
	was, err := json.Marshal(old)
	if err != nil {
		return nil, false
	}
	now, err := json.Marshal(new)
	if err != nil {
		return nil, false
	}
	var d difference
	d.compare(nil, was, now)
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

// A difference is the walk that makes Fields. It decodes nothing but what leads to a difference.
type difference struct {
	fields []Field
	paths  [][]step
	more   bool
}

func (d *difference) differ(path []step, was, now json.RawMessage) {
	if len(d.fields) == MostFields {
		d.more = true
		return
	}
	d.fields = append(d.fields, Field{was: hashOf(was), now: hashOf(now)})
	d.paths = append(d.paths, slices.Clone(path))
}

// hashOf returns a hash of what v holds, 0 if nothing.
func hashOf(v json.RawMessage) uint64 {
	if nothing(v) {
		return 0
	}
	return equal.Hash(string(v))
}

// nothing reports whether v is absent, or empty, which is the same to Kubernetes.
func nothing(v json.RawMessage) bool {
	return len(v) == 0 || slices.Contains([]string{"null", "{}", "[]"}, string(v))
}

// compare notes what differs between two values, of which one may be absent. An element of a list
// that comes or goes is one difference, and so is a list; of an object that does, each field is
// one.
func (d *difference) compare(path []step, was, now json.RawMessage) {
	gone, absent := nothing(now), nothing(was)
	if d.more || gone && absent || bytes.Equal(was, now) || len(path) <= 2 && slices.Contains(skipped, pathText(path)) {
		return
	}
	element := len(path) > 0 && path[len(path)-1].list
	var before, after map[string]json.RawMessage
	var list, list2 []json.RawMessage
	switch {
	case element && (gone || absent):
		d.differ(path, was, now)
	case (absent || json.Unmarshal(was, &before) == nil) && (gone || json.Unmarshal(now, &after) == nil):
		for _, name := range either(before, after) {
			d.compare(append(path, step{name: name}), before[name], after[name])
		}
	case !absent && !gone && json.Unmarshal(was, &list) == nil && json.Unmarshal(now, &list2) == nil:
		d.lists(path, was, now, list, list2)
	default:
		d.differ(path, was, now)
	}
}

// either returns the names that are in a or in b.
func either(a, b map[string]json.RawMessage) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// lists compares elements that have a name or a type by that, else by their place. Of lists whose
// elements have none, and that differ in length, only the list is named.
func (d *difference) lists(path []step, was, now json.RawMessage, before, after []json.RawMessage) {
	for _, by := range []string{"type", "name", "key", "uid"} {
		a, b := elements(before, by), elements(after, by)
		if a == nil || b == nil {
			continue
		}
		for _, name := range either(a, b) {
			d.compare(append(path, step{name: name, list: true, by: by}), a[name], b[name])
		}
		return
	}
	if len(before) != len(after) {
		d.differ(path, was, now)
		return
	}
	for i := range before {
		d.compare(append(path, step{name: strconv.Itoa(i), list: true}), before[i], after[i])
	}
}

// elements returns the elements of list by their member called by; nil if one has none, or two have
// the same.
func elements(list []json.RawMessage, by string) map[string]json.RawMessage {
	of := map[string]json.RawMessage{}
	for _, e := range list {
		var members map[string]json.RawMessage
		var name string
		if json.Unmarshal(e, &members) != nil || json.Unmarshal(members[by], &name) != nil || name == "" {
			return nil
		}
		if _, twice := of[name]; twice {
			return nil
		}
		of[name] = e
	}
	return of
}
