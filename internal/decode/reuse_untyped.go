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

// decodeContent consumes an object that is a map with all of its members. The map is always a new
// one: the metadata, which says what the last version is, comes behind other members.
func (d *Decoder) decodeContent() (map[string]any, error) {
	l := d.root.layout
	if l == nil || d.lend == nil {
		content, _, _, err := d.decodeAnyMap(d.root.keep, nil, nil)
		return content, err
	}
	parts := untypedParts{}
	content, _, twice, err := d.decodeAnyMap(d.root.keep, nil, func(name string, _ any, keep mask) (any, bool, error) {
		i, c := len(metaParts)+parts.members, d.p.next()
		switch old := parts.old[name]; {
		case name == "metadata" && c == '{':
			return d.decodeMetadata(&parts, keep)
		case c != '{' && c != '[', i >= maxParts:
			return d.decodeMember(name, old, keep)
		default:
			parts.members++
			return d.decodePart(i, maphash.String(nameSeed, name), name, old, keep)
		}
	})
	if twice || parts.unsure {
		for i := range maxParts {
			l.set(d.last.object, i, 0, 0)
		}
	}
	return content, err
}

// decodeMetadata consumes the metadata.
func (d *Decoder) decodeMetadata(parts *untypedParts, keep mask) (any, bool, error) {
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
	m, same, twice, err := d.decodeAnyMap(keep, parts.oldMeta, func(name string, old any, keep mask) (any, bool, error) {
		if i, ok := metaParts[name]; ok {
			if c := d.p.next(); c == '{' || c == '[' {
				return d.decodePart(i, 0, name, old, keep)
			}
		}
		return d.decodeMember(name, old, keep)
	})
	parts.unsure = parts.unsure || twice
	return m, same, err
}

// decodePart consumes the object or array that is next, the value of member name, whose notes are
// number i. It returns what decodeNear does.
func (d *Decoder) decodePart(i int, salt uint64, name string, old any, keep mask) (any, bool, error) {
	l, start := d.root.layout, d.p.pos
	if n := l.same(d, i, d.p.data[start:], salt); n > 0 {
		d.p.pos += n
		return old, true, nil
	}
	v, same, err := d.decodeMember(name, old, keep)
	if err == nil {
		raw := d.p.data[start:d.p.pos]
		l.note(d, i, raw, maphash.Bytes(seed, raw)^salt)
	}
	return v, same, err
}

// unchangedContent is unchanged for an untyped object. To compare what both versions share takes no
// time.
func (d *Decoder) unchangedContent() bool {
	now := d.last.object.value(d.root.elem).Addr().Interface().(runtime.Unstructured)
	old := d.last.value.(runtime.Unstructured)
	return reflect.DeepEqual(old.UnstructuredContent(), now.UnstructuredContent())
}
