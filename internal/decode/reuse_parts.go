package decode

import (
	"hash/maphash"
	"math"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A new version of an object differs from the last one in a few of its parts, such as the status. A
// part whose bytes are the same as those of the last version is taken from the last version, and is
// not decoded. Versions of one object so share the memory of what did not change.
//
// The parts are the maps and slices of the ObjectMeta, and the other fields of the object that have
// memory of their own or are structs, such as spec and status. Of each part the decoder notes how
// many bytes it had, and a hash of them. It notes that behind the object, in the same allocation,
// so the notes live exactly as long as the object and take no lookup. A part keeps alive the batch
// of each allocator that it was made in. So an object may hold some values of older versions, at
// most those of one version for each of its parts.
//
// A hash of 64 bits with a secret seed stands for the bytes: see seed. What is not certain is
// decoded. That is so for a null and for a number, whose ends are not in their own bytes. A part
// that comes twice in an object would be merged into memory that the last version has too, so the
// whole object is decoded again without the last version: see errMerge.

// maxParts bounds the notes of an object: 12 bytes a part at most.
const maxParts = 8

// A partLayout says where the parts of the objects of one type are, and where the notes are.
type partLayout struct {
	// noted is a struct of an object and the notes of its parts. sums and sizes are the offsets of
	// the notes in it.
	noted       reflect.Type
	sums, sizes uintptr
	// short says that a size has 16 bits, not 32, and most is the greatest that is noted. A larger
	// part is noted as one of that size, and never taken.
	short bool
	most  uint32
	parts []partField
	// rest are the fields of the object and its metadata that are no parts.
	rest []partField
	// meta says that the objects have an ObjectMeta.
	meta bool
	// name, namespace, uid, version and generateName are the offsets of these fields of the
	// ObjectMeta.
	name, namespace, uid, version, generateName uintptr
}

// A partField is a field of an object, or of its ObjectMeta if meta is true.
type partField struct {
	name   string // in JSON
	typ    reflect.Type
	offset uintptr
	meta   bool
}

// newPartLayout returns the layout of objects of struct t, or nil if t has no ObjectMeta named
// metadata, or no parts. What keep leaves out is no part.
//
// A struct of a projection is no part unless it has memory of its own, beside that of strings.
// There is nothing to take from one with a few strings, and the notes may be as large as the
// fields. Where only a few fields of an API type are kept, the notes are small beside the type:
// then such a struct is a part all the same, since to hash its bytes costs less than to pass over
// what is left out. The sizes are short there, which keeps a pod of a few fields in 1,280 bytes.
func newPartLayout(t reflect.Type, keep mask, projection bool) *partLayout {
	l := partLayout{short: keep.chosen}
	add := func(f partField, keep mask) {
		rest, skip := keep.under(f.name)
		l.add(f, skip || projection && f.typ.Kind() == reflect.Struct && !hasMemory(f.typ, rest))
	}
	names := map[int]string{} // in JSON, of the fields of t
	for _, f := range fieldsOf(t) {
		if len(f.index) == 1 {
			names[f.index[0]] = f.name
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Type == reflect.TypeFor[metav1.ObjectMeta]() && names[i] == "metadata":
			rest, skip := keep.under("metadata")
			if skip {
				return nil // the name would not be known
			}
			l.addMeta(f.Offset, func(f partField) { add(f, rest) })
		// The decoder leaves kind and API version empty; see compiler.root.
		case f.Anonymous && f.Type == reflect.TypeFor[metav1.TypeMeta]():
		default:
			add(partField{names[i], f.Type, f.Offset, false}, keep)
		}
	}
	if !l.meta || len(l.parts) == 0 {
		return nil
	}
	l.addNotes(t, len(l.parts))
	return &l
}

// hasMemory reports whether values of struct t have slices, maps or pointers of which keep leaves
// something. A pointer to a scalar, where only some fields are kept, is as good as the scalar.
func hasMemory(t reflect.Type, keep mask) bool {
	for _, f := range fieldsOf(t) {
		rest, skip := keep.under(f.name)
		if skip {
			continue
		}
		switch steps, _, _ := route(t, f.index); f.typ.Kind() {
		case reflect.Struct:
			if specialDecoder(f.typ) == nil && hasMemory(f.typ, rest) {
				return true
			}
		case reflect.Pointer:
			if !keep.chosen || f.typ.Elem().Kind() == reflect.Struct {
				return true
			}
		case reflect.Map, reflect.Slice, reflect.Interface:
			return true
		default:
			if len(steps) > 0 {
				return true
			}
		}
	}
	return false
}

// addMeta adds the fields of the ObjectMeta at offset by add.
func (l *partLayout) addMeta(offset uintptr, add func(partField)) {
	l.meta = true
	t := reflect.TypeFor[metav1.ObjectMeta]()
	for _, f := range fieldsOf(t) {
		at := offset + t.FieldByIndex(f.index).Offset
		add(partField{f.name, f.typ, at, true})
		switch f.name {
		case "name":
			l.name = at
		case "namespace":
			l.namespace = at
		case "uid":
			l.uid = at
		case "resourceVersion":
			l.version = at
		case "generateName":
			l.generateName = at
		}
	}
}

// add makes f a part, or adds it to the rest. A field without a name in JSON is no part.
func (l *partLayout) add(f partField, useless bool) {
	part := false
	switch f.typ.Kind() {
	case reflect.Map, reflect.Slice:
		part = f.name != ""
	case reflect.Struct:
		part = f.name != "" && !f.meta && specialDecoder(f.typ) == nil
	}
	if part && !useless && len(l.parts) < maxParts {
		l.parts = append(l.parts, f)
	} else {
		l.rest = append(l.rest, f)
	}
}

// addNotes sets where the notes of n parts are, behind an object of type t.
func (l *partLayout) addNotes(t reflect.Type, n int) {
	size := reflect.TypeFor[uint32]()
	if l.most = math.MaxUint32; l.short {
		size, l.most = reflect.TypeFor[uint16](), math.MaxUint16
	}
	l.noted = reflect.StructOf([]reflect.StructField{
		{Name: "Object", Type: t},
		{Name: "Sums", Type: reflect.ArrayOf(n, reflect.TypeFor[uint64]())},
		{Name: "Sizes", Type: reflect.ArrayOf(n, size)},
	})
	l.sums, l.sizes = l.noted.Field(1).Offset, l.noted.Field(2).Offset
}

// sum returns the sum of part i of the object at p.
func (l *partLayout) sum(p pointer, i int) *uint64 {
	return as[uint64](p.field(l.sums).index(i, 8))
}

// size returns the size that is noted of part i of the object at p, up to l.most; 0: none is noted.
func (l *partLayout) size(p pointer, i int) uint32 {
	if l.short {
		return uint32(*as[uint16](p.field(l.sizes).index(i, 2)))
	}
	return *as[uint32](p.field(l.sizes).index(i, 4))
}

// set notes a sum and a size of part i of the object at p.
func (l *partLayout) set(p pointer, i int, sum uint64, size uint32) {
	*l.sum(p, i) = sum
	if l.short {
		*as[uint16](p.field(l.sizes).index(i, 2)) = uint16(size)
	} else {
		*as[uint32](p.field(l.sizes).index(i, 4)) = size
	}
}

// note notes what part i of the new object was decoded from.
func (l *partLayout) note(d *Decoder, i int, raw []byte, sum uint64) {
	l.set(d.last.object, i, sum, uint32(min(uint64(len(raw)), uint64(l.most))))
}

// same reports whether rest begins with the bytes of part i of the last version, and notes them for
// the new object if so. n is how many these are, or 0.
func (l *partLayout) same(d *Decoder, i int, rest []byte, salt uint64) (n int) {
	old := d.last.old
	if old.addr == nil {
		return 0
	}
	size := l.size(old, i)
	if n = int(size); n == 0 || n > len(rest) || size == l.most {
		return 0
	}
	sum := maphash.Bytes(seed, rest[:n]) ^ salt
	if sum != *l.sum(old, i) {
		return 0
	}
	l.note(d, i, rest[:n], sum)
	return n
}

// take sets part i of the new object, which is at p, to that of the last version if rest begins
// with the bytes of that, and returns how many these are. It returns 0 if not.
func (l *partLayout) take(d *Decoder, i int, rest []byte, salt uint64, p pointer) int {
	d.findNamed()
	n := l.same(d, i, rest, salt)
	if n == 0 {
		return 0
	}
	f, old := &l.parts[i], d.last.old
	if from := old.field(f.offset); f.typ.Kind() == reflect.Struct {
		p.value(f.typ).Set(from.value(f.typ))
	} else {
		value := from.header(f.typ)
		// An append to the slice of one version must not write into that of the other.
		value.cap = value.len
		p.set(f.typ, value)
	}
	return n
}

// came reports whether part i of the new object, which is at p, has come before: it is noted, or it
// is there and could not be noted. A null is not noted, and leaves a struct as it was.
func (l *partLayout) came(d *Decoder, i int, p pointer) bool {
	return l.isNoted(d, i) || l.parts[i].typ.Kind() != reflect.Struct && !p.isNil()
}

// isNoted reports whether part i of the new object is noted.
func (l *partLayout) isNoted(d *Decoder, i int) bool { return l.size(d.last.object, i) != 0 }
