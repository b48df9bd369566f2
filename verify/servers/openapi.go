package main

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// definitions returns the schema of each kind and its list, as managed fields need them. Each has
// two names: the namer asks for the Go name, the type converter for the name that the namer makes
// from it.
func definitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := map[string]common.OpenAPIDefinition{}
	for _, r := range resources {
		kind := reflect.TypeOf(r.object()).Elem()
		for name, schema := range map[string]spec.Schema{kind.Name(): schemaOf(kind), kind.Name() +
			"List": {SchemaProps: spec.SchemaProps{Type: []string{"object"}}}} {
			def := common.OpenAPIDefinition{Schema: schema}
			all["k8s.io/api/core/v1."+name] = def
			all["io.k8s.api.core.v1."+name] = def
		}
	}
	return all
}

// schemaOf returns the schema of a Go type without its documentation. A type that has its own form
// in JSON, such as a quantity, may be anything.
func schemaOf(t reflect.Type) (s spec.Schema) {
	if _, ok := reflect.New(t).Interface().(json.Unmarshaler); ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		s.Typed("object", "")
		addFields(t, &s)
	case reflect.Map:
		elem := schemaOf(t.Elem())
		s.Typed("object", "").AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &elem}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return *s.Typed("string", "byte")
		}
		elem := schemaOf(t.Elem())
		s.Typed("array", "").Items = &spec.SchemaOrArray{Schema: &elem}
		s.AddExtension("x-kubernetes-list-type", "atomic")
	case reflect.String:
		s.Typed("string", "")
	case reflect.Bool:
		s.Typed("boolean", "")
	case reflect.Float32, reflect.Float64:
		s.Typed("number", "")
	default:
		s.Typed("integer", "")
	}
	return s
}

// addFields adds the fields of a struct, and those of what it embeds. A list that a strategic merge
// patch merges is one that apply merges.
func addFields(t reflect.Type, s *spec.Schema) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			addFields(f.Type, s)
			continue
		}
		of := schemaOf(f.Type)
		key := f.Tag.Get("patchMergeKey")
		switch {
		case !strings.Contains(f.Tag.Get("patchStrategy"), "merge") || f.Type.Kind() != reflect.Slice:
		case key != "":
			of.AddExtension("x-kubernetes-list-type", "map")
			of.AddExtension("x-kubernetes-list-map-keys", []any{key})
		default:
			of.AddExtension("x-kubernetes-list-type", "set")
		}
		s.SetProperty(name, of)
	}
}
