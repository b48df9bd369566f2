package decode

import "reflect"

// Versions of an object, and objects with Share, have slices in common, and so would have the room
// behind them: an append to the slice of one would write where an append to that of the other has
// written. So no slice of an object has room. Most are made of the right size; this is for those
// that other code has made.

// slicesIn returns the offsets of the slices in a value of type t, which is at offset at: of itself,
// or of the fields that an append can reach.
func slicesIn(t reflect.Type, at uintptr) (offsets []uintptr) {
	switch t.Kind() {
	case reflect.Slice:
		return []uintptr{at}
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() || f.Anonymous {
				offsets = append(offsets, slicesIn(f.Type, at+f.Offset)...)
			}
		}
	}
	return offsets
}

// fill cuts the capacities of slices that are in the value at p, at these offsets.
func fill(p pointer, slices []uintptr) {
	for _, at := range slices {
		s := as[sliceHeader](p.field(at))
		s.cap = s.len
	}
}

// fillAll cuts the capacities of all slices in v, which apimachinery has decoded.
func fillAll(v reflect.Value) {
	t := v.Type()
	switch kind := t.Kind(); {
	case kind != reflect.Struct && kind != reflect.Pointer && !v.CanSet():
		return // an embedded type that is not exported
	case v.CanSet() && specialDecoder(t) != nil:
		fill(pointerOf(v.Addr()), slicesIn(t, 0)) // what it points to may be shared, and must not be written
		return
	case (kind == reflect.Slice || kind == reflect.Map) && isScalar(t.Elem()):
		if kind == reflect.Slice {
			v.SetCap(v.Len())
		}
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		v.SetCap(v.Len())
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fillAll(v.Index(i))
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			if f.IsExported() || f.Anonymous {
				fillAll(field)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fillAll(v.Elem())
		}
	case reflect.Map:
		for key, elem := range v.Seq2() {
			full := reflect.New(elem.Type()).Elem()
			full.Set(elem)
			fillAll(full)
			v.SetMapIndex(key, full)
		}
	case reflect.Interface:
		if !v.IsNil() {
			full := reflect.New(v.Elem().Type()).Elem()
			full.Set(v.Elem())
			fillAll(full)
			v.Set(full)
		}
	}
}
