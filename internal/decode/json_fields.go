package decode

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A field is a struct's field as encoding/json sees it: one of the struct's own, or one that is
// promoted from an embedded struct.
type field struct {
	// name is the name in JSON.
	name string
	// index is the way to the field, as for reflect.Type.FieldByIndex.
	index []int
	// tagged says that the name is from a tag.
	tagged bool
	// quoted says that the value stands in a string: `json:",string"`.
	quoted bool
	typ    reflect.Type
}

// fieldsOf returns the fields of struct t, in the order of their declaration. Where several have
// the same name, the rules of encoding/json choose one: the one that is embedded least deep; among
// those, the only one that has the name from a tag; else none of them.
func fieldsOf(t reflect.Type) []field {
	var all []field
	type level struct {
		typ   reflect.Type
		index []int
	}
	// The levels of embedding, breadth first. A type that has been seen at a higher level hides
	// itself below.
	seen := map[reflect.Type]bool{}
	for next := []level{{typ: t}}; len(next) > 0; {
		current := next
		next = nil
		// How often each type is embedded at this level.
		count := map[reflect.Type]int{}
		for _, l := range current {
			count[l.typ]++
		}
		for _, l := range current {
			if seen[l.typ] {
				continue
			}
			seen[l.typ] = true
			for i := range l.typ.NumField() {
				f, embedded := oneField(l.typ.Field(i))
				f.index = append(slices.Clone(l.index), i)
				switch {
				case embedded != nil:
					next = append(next, level{embedded, f.index})
				case f.name != "":
					all = append(all, f)
					if count[l.typ] > 1 {
						// A struct that is embedded twice at one depth has each field twice. Two of
						// them are enough for the rule below to choose none.
						all = append(all, f)
					}
				}
			}
		}
	}
	// Sort the fields of one name so that the first wins, if it is not level with the second.
	slices.SortStableFunc(all, func(a, b field) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(len(a.index), len(b.index)), -compareBool(a.tagged, b.tagged))
	})
	var out []field
	for len(all) > 0 {
		first, n := all[0], 1
		for n < len(all) && all[n].name == first.name {
			n++
		}
		// The first one wins if it is the only one, is less deep than the second, or is tagged and
		// the second is not.
		if n == 1 || len(all[1].index) > len(first.index) || all[1].tagged != first.tagged {
			out = append(out, first)
		}
		all = all[n:]
	}
	// Back in the order of declaration, which is the order in which servers write.
	slices.SortFunc(out, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return out
}

// compareBool compares false as less than true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// oneField returns what encoding/json makes of a struct field. It is a field, or a struct whose
// fields are promoted, or nothing: then the name is empty and embedded is nil.
func oneField(sf reflect.StructField) (f field, embedded reflect.Type) {
	t := sf.Type
	if sf.Anonymous && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	// An embedded struct that is not exported still promotes its exported fields.
	tag := sf.Tag.Get("json")
	if tag == "-" || !sf.IsExported() && !(sf.Anonymous && t.Kind() == reflect.Struct) {
		return f, nil
	}
	// A tag is a name and options behind commas. Without a name, that of the Go field is the name.
	name, options, _ := strings.Cut(tag, ",")
	if !validName(name) {
		name = ""
	}
	if name == "" && sf.Anonymous && t.Kind() == reflect.Struct {
		return f, t
	}
	f = field{name: name, tagged: name != "", typ: sf.Type}
	if name == "" {
		f.name = sf.Name
	}
	// The option "string" only holds for booleans, numbers and strings, and pointers to them.
	if slices.Contains(strings.Split(options, ","), "string") {
		q := sf.Type
		if q.Name() == "" && q.Kind() == reflect.Pointer {
			q = q.Elem()
		}
		switch q.Kind() {
		case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32,
			reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
			f.quoted = true
		}
	}
	return f, nil
}

// validName reports whether encoding/json takes name from a tag. It ignores a tag with other
// characters.
func validName(name string) bool {
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) {
			return false
		}
	}
	return true
}

// A step is an embedded pointer on the way to a promoted field: the offset at which it is, and an
// allocator for the struct that it points to.
type step struct {
	offset uintptr
	elem   *allocator
}

// route returns how to get from a struct of type t to its field at index: through the embedded
// pointers in steps, and then by an offset in the last struct. It reports false if an embedded
// pointer is to an unexported struct: encoding/json cannot set it from outside its package, and
// makes an error of it.
func route(t reflect.Type, index []int) (steps []step, offset uintptr, ok bool) {
	for i, n := range index {
		if i > 0 && t.Kind() == reflect.Pointer {
			steps = append(steps, step{offset, newAllocator(t.Elem())})
			t, offset = t.Elem(), 0
		}
		sf := t.Field(n)
		if i < len(index)-1 && sf.Type.Kind() == reflect.Pointer && !sf.IsExported() {
			return nil, 0, false
		}
		// A struct that is embedded as a value is part of the one around it, so its offset is
		// added.
		offset += sf.Offset
		t = sf.Type
	}
	return steps, offset, true
}
