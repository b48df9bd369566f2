package decode

import "reflect"

// A lastVersion is what is known of the object that is being decoded. It is the zero value between
// two objects, so that it keeps neither version alive.
type lastVersion struct {
	// object is the object that is being decoded. old points to its last version, which value keeps
	// alive; it has no address if there is none. Both have notes.
	object, old pointer
	value       any
	looked      bool // lend was asked for it
}

// isSibling reports whether the object that is being decoded has the generateName of the one
// before. The pods of a ReplicaSet have one generateName, and are next to each other in a list.
func (d *Decoder) isSibling() bool {
	if d.generateName == "" || d.last.object.addr == nil {
		return false
	}
	return *as[string](d.last.object.field(d.root.layout.generateName)) == d.generateName
}

// noteSibling notes the object that has been decoded for isSibling.
func (d *Decoder) noteSibling() {
	if l := d.root.layout; l != nil && l.meta && d.last.object.addr != nil {
		d.generateName = *as[string](d.last.object.field(l.generateName))
	}
}

// ReuseFrom makes the decoding take what has not changed from the last version of an object, which
// lend returns; nil means that there is none, or that it may not be used. All objects that lend
// returns must come from a Decoder of the same type for which ReuseFrom was called, and must not
// have been changed. Decoding goroutines call lend concurrently. It applies to all streams until
// the next call of ReuseFrom; nil means never.
func (d *Decoder) ReuseFrom(lend func(namespace, name string) any) { d.lend = lend }

// newObject returns a new object for the decoder to decode into, as a pointer to it.
func (d *Decoder) newObject() reflect.Value {
	l := d.root.layout
	if l == nil || d.lend == nil {
		return reflect.New(d.root.elem)
	}
	p := d.spare
	if d.spare = (pointer{}); p.addr == nil {
		p = pointerOf(reflect.New(l.noted))
	}
	d.last.object = p
	return p.value(d.root.elem).Addr()
}

// findNamed looks for the last version of the object that is being decoded, once its name has been
// decoded.
func (d *Decoder) findNamed() {
	v, l := &d.last, d.root.layout
	if v.looked {
		return
	}
	if name := *as[string](v.object.field(l.name)); name != "" {
		d.findLast(*as[string](v.object.field(l.namespace)), name)
	}
}

// findLast asks for the last version of the object of that name.
func (d *Decoder) findLast(namespace, name string) {
	d.last.looked = true
	if old := d.lend(namespace, name); old != nil && reflect.TypeOf(old) == d.root.typ {
		d.last.value, d.last.old = old, pointerOf(reflect.ValueOf(old))
	}
}

// result returns v, the object that was decoded, or its last version if that is equal. A list
// brings most objects as they were. Then the store keeps the ones it has, and a list of many
// objects takes no memory for them, and the memory of v, which nobody else has, is for the next
// object. An event always brings a new object.
func (d *Decoder) result(v reflect.Value) any {
	if d.grew {
		d.grew = false
		fillAll(v.Elem())
	}
	if d.listing && d.unchanged() {
		d.spare = d.last.object
		d.spare.value(d.root.layout.noted).SetZero()
		return d.last.value
	}
	return v.Interface()
}

// unchanged reports whether the object that was decoded equals its last version: in every field,
// and in the bytes of every part.
func (d *Decoder) unchanged() bool {
	v, l := &d.last, d.root.layout
	if v.old.addr == nil {
		return false
	}
	if d.root.untyped {
		return d.unchangedContent()
	}
	for _, offset := range []uintptr{l.version, l.uid} {
		if s := *as[string](v.object.field(offset)); s == "" || s != *as[string](v.old.field(offset)) {
			return false
		}
	}
	for i := range l.parts {
		switch size := l.size(v.object, i); {
		case size != l.size(v.old, i), *l.sum(v.object, i) != *l.sum(v.old, i):
			return false
		case size == 0 && !l.parts[i].equal(v.object, v.old):
			return false
		}
	}
	for i := range l.rest {
		if !l.rest[i].equal(v.object, v.old) {
			return false
		}
	}
	return true
}

// equal reports whether the field is equal in the objects at p and q.
func (f *partField) equal(p, q pointer) bool {
	p, q = p.field(f.offset), q.field(f.offset)
	if f.typ.Kind() == reflect.String {
		return *as[string](p) == *as[string](q)
	}
	return reflect.DeepEqual(p.value(f.typ).Addr().Interface(), q.value(f.typ).Addr().Interface())
}
