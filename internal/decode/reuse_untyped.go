package decode

import (
	"hash/maphash"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// An untyped object has the same parts as a typed one: the large members of its metadata, and those
// of the object itself. The latter have other names in each kind, so their notes are in the order
// in which they come, and their sums are of the name, too. Of a name that comes twice the last
// value wins; then nothing is noted.

// metaParts are the members of the metadata that are parts, with the numbers of their notes.
var metaParts = map[string]int{"labels": 0, "annotations": 1, "ownerReferences": 2, "finalizers": 3, "managedFields": 4}

// newUntypedLayout returns the layout of untyped objects of struct t.
func newUntypedLayout(t reflect.Type) *partLayout {
	if t.Kind() != reflect.Struct {
		return nil
	}
	l := &partLayout{}
	l.addNotes(t, maxParts)
	return l
}

// An untypedParts is the state of an untyped object's decoding.
type untypedParts struct {
	// old is the content of the last version, oldMeta its metadata; both are nil if there is none.
	old, oldMeta map[string]any
	// members is how many members of the object have been parts.
	members int
	// unsure says that a name came twice.
	unsure bool
}

// decodeContent consumes an object that is a map with all of its members.
func (d *Decoder) decodeContent() (map[string]any, error) {
	l := d.root.layout
	if l == nil || d.lend == nil {
		content, _, err := d.decodeAnyMap(d.root.keep, nil)
		return content, err
	}
	parts := untypedParts{}
	content, twice, err := d.decodeAnyMap(d.root.keep, func(name string, keep mask) (any, error) {
		switch {
		case name == "metadata" && d.p.next() == '{':
			return d.decodeMetadata(&parts, keep)
		case len(metaParts)+parts.members >= maxParts:
			return d.decodeMember(name, nil, keep)
		}
		return d.decodePart(name, &parts, len(metaParts)+parts.members, maphash.String(nameSeed, name), keep, func() any {
			return parts.old[name]
		}, func() { parts.members++ })
	})
	if twice || parts.unsure {
		for i := range maxParts {
			*l.size(d.last.object, i) = 0
		}
	}
	return content, err
}

// decodeMetadata consumes the metadata.
func (d *Decoder) decodeMetadata(parts *untypedParts, keep mask) (any, error) {
	if !d.last.looked {
		pos, depth := d.p.pos, d.p.depth
		if empty, err := d.p.open('}'); err == nil && !empty {
			d.findAhead()
		}
		d.p.pos, d.p.depth = pos, depth
		if old, ok := d.last.value.(runtime.Unstructured); ok {
			parts.old = old.UnstructuredContent()
			parts.oldMeta, _ = parts.old["metadata"].(map[string]any)
		}
	}
	m, twice, err := d.decodeAnyMap(keep, func(name string, keep mask) (any, error) {
		i, ok := metaParts[name]
		if !ok {
			return d.decodeMember(name, nil, keep)
		}
		return d.decodePart(name, parts, i, 0, keep, func() any { return parts.oldMeta[name] }, func() {})
	})
	parts.unsure = parts.unsure || twice
	return m, err
}

// decodePart consumes member name, whose notes are number i, if it is an object or an array, and calls
// noted then. old returns the value that the last version has.
func (d *Decoder) decodePart(name string, parts *untypedParts, i int, salt uint64, keep mask, old func() any, noted func()) (any, error) {
	if c := d.p.next(); c != '{' && c != '[' {
		return d.decodeAny(keep)
	}
	noted()
	l, start := d.root.layout, d.p.pos
	if n := l.same(d, i, d.p.data[start:], salt); n > 0 {
		d.p.pos += n
		return old(), nil
	}
	v, err := d.decodeMember(name, old(), keep)
	if err == nil {
		raw := d.p.data[start:d.p.pos]
		l.note(d, i, raw, maphash.Bytes(seed, raw)^salt)
	}
	return v, err
}

// unchangedContent is unchanged for an untyped object. To compare what both versions share takes no
// time.
func (d *Decoder) unchangedContent() bool {
	now := d.last.object.value(d.root.elem).Addr().Interface().(runtime.Unstructured)
	old := d.last.value.(runtime.Unstructured)
	return reflect.DeepEqual(old.UnstructuredContent(), now.UnstructuredContent())
}
