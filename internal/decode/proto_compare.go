package decode

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Compare returns where struct p, a projection, does not agree with struct api, the API's type: the
// fields that api does not have, has under another number, or has with a type that is encoded
// otherwise. Each begins with the path of the field. The formats in the tags are not compared,
// since a field's type says more. Without protobuf tags in p or in api it compares names and types
// alone.
func Compare(p, api reflect.Type) []string {
	c := comparison{numbers: hasOwnTag(p) && hasOwnTag(api), seen: map[[2]reflect.Type]bool{}}
	c.structs("", p, api)
	return c.differences
}

// A comparison is a run of Compare.
type comparison struct {
	numbers     bool
	seen        map[[2]reflect.Type]bool
	differences []string
}

func (c *comparison) differ(path, format string, args ...any) {
	c.differences = append(c.differences, path+": "+fmt.Sprintf(format, args...))
}

// types compares the types of the field at path.
func (c *comparison) types(path string, p, api reflect.Type) {
	p, api = pointee(p), pointee(api)
	switch {
	case p == api:
	case decodesItself(p) || decodesItself(api) || p.Kind() != api.Kind():
		c.differ(path, "the type is %v, the API's is %v", p, api)
	case p.Kind() == reflect.Struct:
		c.structs(path+".", p, api)
	case p.Kind() == reflect.Map && p.Key().Kind() != api.Key().Kind():
		c.differ(path, "the type is %v, the API's is %v", p, api)
	case p.Kind() == reflect.Map, p.Kind() == reflect.Slice:
		c.types(path, p.Elem(), api.Elem())
	}
}

// pointee returns what t points to. A field that is not there leaves a pointer nil, and any other
// value zero, in both encodings.
func pointee(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// decodesItself reports whether the fields of t say nothing of its encoding.
func decodesItself(t reflect.Type) bool { return specialDecoder(t) != nil || hasOwnUnmarshal(t) }

// structs compares the fields of struct p with those of struct api. prefix is put before their
// names.
func (c *comparison) structs(prefix string, p, api reflect.Type) {
	if c.seen[[2]reflect.Type{p, api}] {
		return
	}
	c.seen[[2]reflect.Type{p, api}] = true
	known := map[string]placedField{}
	names := map[string]string{} // by their numbers
	for _, f := range placedFields(api) {
		known[f.name] = f
		names[f.number] = f.name
	}
	for _, f := range placedFields(p) {
		path := prefix + f.name
		of, ok := known[f.name]
		switch {
		case !ok && c.numbers && names[f.number] != "":
			c.differ(path, "the API has no such field, and calls number %s %s", f.number, names[f.number])
			continue
		case !ok:
			c.differ(path, "the API has no such field")
			continue
		case !c.numbers || f.number == of.number:
		case f.number == "":
			c.differ(path, "no number, the API's is %s", of.number)
		case of.number == "":
			c.differ(path, "number %s, and the API has none", f.number)
		case strings.Contains(of.number, "."):
			c.differ(path, "number %s, the API's is %s, the last of which is in an embedded struct", f.number, of.number)
		default:
			c.differ(path, "number %s, the API's is %s", f.number, of.number)
		}
		c.types(path, f.typ, of.typ)
	}
}

// A placedField is a field as JSON sees it, and where it is in protobuf.
type placedField struct {
	field
	// number is its number, or "". Before that of a field of an embedded struct which is a message
	// of its own comes the number of that message and a dot.
	number string
}

// placedFields returns the fields of struct t but for those of an embedded TypeMeta.
func placedFields(t reflect.Type) (out []placedField) {
next:
	for _, f := range fieldsOf(t) {
		var numbers []string
		in := t
		for i, n := range f.index {
			sf := pointee(in).Field(n)
			in = sf.Type
			last := i == len(f.index)-1
			if !last && in == reflect.TypeFor[metav1.TypeMeta]() {
				continue next
			}
			if tag, err := parseTag(sf.Tag.Get("protobuf")); err == nil {
				numbers = append(numbers, strconv.Itoa(tag.num))
			} else if last {
				numbers = nil
			}
		}
		out = append(out, placedField{f, strings.Join(numbers, ".")})
	}
	return out
}
