package decode

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// A mask says what is left out of a value, from that value on. The compilers follow it into the
// fields, so that the decoder of a struct has no mask to look at: a field that is left out has no
// decoder, and its bytes are only gone over. Maps and values of any type are the exception, because
// their names are known only when they come.
//
// The zero mask leaves out nothing.
type mask struct {
	// drop are the paths of what is left out.
	drop []string
	// chosen says that nothing is kept but what follows.
	chosen bool
	// only are the paths of what is kept, if chosen is set. In a map, and in an object without a
	// type, a path that ends in "*" is that of all names that begin so.
	only []string
	// present says that it is kept how many elements the value has: a list has empty ones, a map
	// has all keys. A value without elements or fields is kept as it is.
	present bool
	// known are the masks of the members that have some paths below them. It saves an untyped
	// object the memory of these; nil: they are not kept.
	known map[string]mask
}

// all reports whether nothing is left out.
func (m mask) all() bool { return !m.chosen && len(m.drop) == 0 }

// value reports whether a value without fields and elements is kept.
func (m mask) value() bool { return !m.chosen || m.present }

// nothing reports whether not even the number of elements is kept.
func (m mask) nothing() bool { return m.chosen && !m.present && len(m.only) == 0 }

// noFields reports whether no field of a struct is kept.
func (m mask) noFields() bool { return m.chosen && len(m.only) == 0 }

// elements returns the mask of the elements of a list.
func (m mask) elements() mask {
	m.present = false
	return m
}

// remembering returns m for an untyped value.
func (m mask) remembering() mask {
	if !m.all() {
		m.known = map[string]mask{}
	}
	return m
}

// below cuts the name, and the dot behind it, off path.
func below(path, name string) (tail string, ok bool) {
	if len(path) > len(name) && path[len(name)] == '.' && path[:len(name)] == name {
		return path[len(name)+1:], true
	}
	return "", false
}

// under returns the mask of the field name of a struct, and whether all of the field is left out.
func (m mask) under(name string) (rest mask, skip bool) { return m.step(name, false) }

// keepsAny reports whether anything is kept of the fields of struct t, which is embedded.
func (m mask) keepsAny(t reflect.Type) bool {
	return m.all() || slices.ContainsFunc(fieldsOf(t), func(f field) bool {
		_, skip := m.under(f.name)
		return !skip
	})
}

// member is under for a member of an object without a type. Its names may have dots in them, since
// it may be a map: then a path has all of the name, or goes on behind a part of the name.
func (m mask) member(name string) (rest mask, skip bool) {
	if rest, ok := m.known[name]; ok {
		return rest, false
	}
	rest, skip = m.step(name, true)
	if m.known != nil && len(rest.drop)+len(rest.only) > 0 {
		// There is one for each dot of a path at most.
		rest.known = map[string]mask{}
		m.known[strings.Clone(name)] = rest
	}
	return rest, skip
}

func (m mask) step(name string, prefixes bool) (rest mask, skip bool) {
	for _, path := range m.drop {
		if path == name {
			return mask{}, true
		}
		if tail, ok := below(path, name); ok {
			rest.drop = append(rest.drop, tail)
		}
	}
	if !m.chosen {
		return rest, false
	}
	rest.chosen, skip = true, true
	for _, path := range m.only {
		if tail, ok := below(path, name); ok {
			rest.only, skip = append(rest.only, tail), false
			continue
		}
		switch fits, present := matches(path, name, prefixes); {
		case fits && present:
			rest.present, skip = true, false
		case fits:
			return mask{drop: rest.drop}, false
		}
	}
	if skip {
		return mask{}, true
	}
	return rest, false
}

// matches reports whether path ends at name, and whether it asks for the presence alone.
func matches(path, name string, prefixes bool) (fits, present bool) {
	path, present = strings.CutSuffix(path, "?")
	if prefix, ok := strings.CutSuffix(path, "*"); ok && prefixes && strings.HasPrefix(name, prefix) {
		return true, present
	}
	return path == name, present
}

// A keyClass says what is kept of the value under a key of a map.
type keyClass int

const (
	keyLeftOut keyClass = iota
	keyEmpty            // the key alone, with an empty value
	keyPresent          // as mask.present says
	keyWhole
	keyClasses
)

// mask returns the mask of the values of class c.
func (c keyClass) mask() mask { return mask{chosen: c < keyWhole, present: c == keyPresent} }

// key returns what is kept of the value under name in a map. All of a path is the key.
func (m mask) key(name string) keyClass {
	for _, path := range m.drop {
		if path == name {
			return keyLeftOut
		}
	}
	if !m.chosen {
		return keyWhole
	}
	class := keyLeftOut
	if m.present {
		class = keyEmpty
	}
	for _, path := range m.only {
		switch fits, present := matches(path, name, true); {
		case fits && present:
			class = keyPresent
		case fits:
			return keyWhole
		}
	}
	return class
}

// leavesNil reports whether a map of which no key is kept is nil.
func (m mask) leavesNil() bool { return !m.all() && !m.present }

// A PathError says that a path of an option cannot be followed.
type PathError struct {
	// Option is the name of the option: Drop or Only.
	Option string
	err    error
}

func (e *PathError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *PathError) Unwrap() error { return e.err }

// identityPaths are kept of every object, as far as its type has them.
var identityPaths = []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "apiVersion", "kind"}

// newMask returns the mask of objects of type t. An error is a PathError.
func newMask(t reflect.Type, untyped bool, opts Options) (mask, error) {
	m := mask{drop: opts.Drop, chosen: opts.Only != nil}
	if untyped {
		// No path is wrong.
		if m.chosen {
			m.only = append(append(m.only, identityPaths...), opts.Only...)
		}
		return m.remembering(), nil
	}
	for _, path := range m.drop {
		if err := follow(t, path, "drop"); err != nil {
			return m, &PathError{"Drop", err}
		}
	}
	if m.chosen && specialDecoder(t) != nil {
		return m, &PathError{"Only", fmt.Errorf("%v decodes itself: all of it is kept", t)}
	}
	for _, path := range opts.Only {
		if err := follow(t, strings.TrimSuffix(path, "?"), "keep"); err != nil {
			return m, &PathError{"Only", err}
		}
		m.only = append(m.only, path)
	}
	for _, path := range identityPaths {
		if m.chosen && follow(t, path, "keep") == nil {
			m.only = append(m.only, path)
		}
	}
	// The metadata may be of a type that decodes itself.
	if m.chosen && follow(t, "metadata.name", "keep") != nil {
		m.only = append(m.only, "metadata")
	}
	return m, nil
}

// CheckPaths returns a PathError if a path in drop or only names no field of objects of type typ, a
// pointer.
func CheckPaths(typ reflect.Type, drop, only []string) error {
	_, err := newMask(typ.Elem(), typ.Implements(reflect.TypeFor[runtime.Unstructured]()), Options{Drop: drop, Only: only})
	return err
}

// follow returns an error unless path, which is to be dropped or kept as verb says, leads from a
// value of type t to a field, to a key of a map, or into a value of any type.
func follow(t reflect.Type, path, verb string) error {
	if specialDecoder(t) != nil {
		return fmt.Errorf("%v decodes itself: it has no %q to %s", t, path, verb)
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return follow(t.Elem(), path, verb)
	case reflect.Struct:
		var wrong error
		for _, f := range fieldsOf(t) {
			if f.name == path {
				return nil
			}
			if tail, ok := below(path, f.name); ok {
				err := follow(f.typ, tail, verb)
				if err == nil {
					return nil
				}
				wrong = fmt.Errorf("%s: %w", f.name, err)
			}
		}
		if wrong != nil {
			return wrong
		}
	case reflect.Map:
		if !hasNames(t) {
			return fmt.Errorf("keys of %v are no names: it has no %q to %s", t, path, verb)
		}
		if path != "" {
			return nil
		}
	case reflect.Interface:
		if isAny(t) {
			return nil
		}
	}
	return fmt.Errorf("%v has no %q to %s", t, path, verb)
}

// hasNames reports whether the keys of maps of type t are the names of JSON as they are.
func hasNames(t reflect.Type) bool {
	return t.Key().Kind() == reflect.String && !reflect.PointerTo(t.Key()).Implements(unmarshalerText)
}
