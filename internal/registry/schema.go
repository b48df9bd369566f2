package registry

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// lists is the TypeConverter of a Go type whose lists merge as its tags for strategic merge patches
// say: by a key, or as sets.
type lists struct{ typed.ParseableType }

func (l lists) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return l.FromUnstructured(obj.(*unstructured.Unstructured).Object, opts...)
}

func (lists) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	content, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("registry: %T is no object", v.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// listsOf returns the converter of a struct.
func listsOf(t reflect.Type) lists {
	s := schemaOf{types: map[reflect.Type]string{}}
	root := s.structOf(t)
	for _, def := range s.defs {
		if def.Name == root {
			// Each object has these two, also one whose Go type has not.
			add(def.Map, "kind", scalar(schema.String))
			add(def.Map, "apiVersion", scalar(schema.String))
		}
	}
	parser := typed.Parser{Schema: schema.Schema{Types: append(s.defs, anything...)}}
	return lists{parser.Type(root)}
}

type schemaOf struct {
	types map[reflect.Type]string
	defs  []schema.TypeDef
}

// anything are the definitions of a value of any shape, whose maps merge.
var anything = func() []schema.TypeDef {
	name, untyped := "any", schema.Untyped
	ref := schema.TypeRef{NamedType: &name}
	return []schema.TypeDef{{Name: name, Atom: schema.Atom{
		Scalar: &untyped, List: &schema.List{ElementType: ref, ElementRelationship: schema.Atomic}, Map: &schema.Map{ElementType: ref, ElementRelationship: schema.Separable},
	}}}
}()

func scalar(s schema.Scalar) schema.TypeRef { return schema.TypeRef{Inlined: schema.Atom{Scalar: &s}} }

// structOf defines a struct, once, and returns its name.
func (s *schemaOf) structOf(t reflect.Type) string {
	if name, ok := s.types[t]; ok {
		return name
	}
	name := fmt.Sprint(len(s.types), t)
	s.types[t] = name
	m := &schema.Map{ElementRelationship: schema.Separable}
	s.fields(m, t)
	s.defs = append(s.defs, schema.TypeDef{Name: name, Atom: schema.Atom{Map: m}})
	return name
}

func (s *schemaOf) fields(m *schema.Map, t reflect.Type) {
	eachField(t, func(name string, f *reflect.StructField) { add(m, name, s.ref(f.Type, f.Tag)) })
	for i := range m.Fields {
		if f := &m.Fields[i]; f.Name == "protocol" && (s.has(t, "containerPort") || s.has(t, "port")) {
			f.Default = "TCP"
		}
	}
}

// eachField calls do for each field of a struct that its JSON has, those that it embeds included.
func eachField(t reflect.Type, do func(name string, f *reflect.StructField)) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case name == "" && f.Anonymous && inner.Kind() == reflect.Struct:
			eachField(inner, do)
		default:
			if name == "" {
				name = f.Name
			}
			do(name, &f)
		}
	}
}

// add adds a field to a struct, unless a field of the name is there.
func add(m *schema.Map, name string, ref schema.TypeRef) {
	if !slices.ContainsFunc(m.Fields, func(f schema.StructField) bool { return f.Name == name }) {
		m.Fields = append(m.Fields, schema.StructField{Name: name, Type: ref})
	}
}

// secondKey has the second key of lists of Kubernetes' own types that have two: their tags have one
// alone.
var secondKey = map[string]string{"containerPort": "protocol", "port": "protocol", "topologyKey": "whenUnsatisfiable"}

// has reports whether a struct has a field.
func (s *schemaOf) has(t reflect.Type, name string) (found bool) {
	if t.Kind() == reflect.Struct && name != "" {
		eachField(t, func(field string, _ *reflect.StructField) { found = found || field == name })
	}
	return found
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func marshals(t reflect.Type) bool {
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

// ref returns the type of a field with a tag.
func (s *schemaOf) ref(t reflect.Type, tag reflect.StructTag) schema.TypeRef {
	if marshals(t) {
		return schema.TypeRef{NamedType: &anything[0].Name}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.ref(t.Elem(), tag)
	case reflect.String:
		return scalar(schema.String)
	case reflect.Bool:
		return scalar(schema.Boolean)
	case reflect.Struct:
		name := s.structOf(t)
		return schema.TypeRef{NamedType: &name}
	case reflect.Map:
		return schema.TypeRef{Inlined: schema.Atom{Map: &schema.Map{ElementType: s.ref(t.Elem(), ""), ElementRelationship: schema.Separable}}}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return scalar(schema.String)
		}
		list := &schema.List{ElementType: s.ref(t.Elem(), ""), ElementRelationship: schema.Atomic}
		if strategy := tag.Get("patchStrategy"); strings.Contains(strategy, "merge") {
			list.ElementRelationship = schema.Associative
			if key := tag.Get("patchMergeKey"); key != "" {
				list.Keys = []string{key}
				if more := secondKey[key]; s.has(t.Elem(), more) {
					list.Keys = append(list.Keys, more)
				}
			}
		}
		return schema.TypeRef{Inlined: schema.Atom{List: list}}
	case reflect.Interface, reflect.Chan, reflect.Func:
		return schema.TypeRef{NamedType: &anything[0].Name}
	}
	return scalar(schema.Numeric)
}
