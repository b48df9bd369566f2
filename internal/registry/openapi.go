package registry

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A document is a piece of an OpenAPI document.
type document = map[string]any

// OpenAPI returns the schema of the Kind's objects, as a member of an OpenAPI document of version
// 3: what the fields of the Go type are called, their types, and which lists merge by which keys.
func (k *Kind) OpenAPI() map[string]any {
	if k.schema != nil {
		return maps.Clone(k.schema.root)
	}
	if k.Type == nil || k.Type.opaque {
		return document{"type": "object", preserves: true}
	}
	out := openAPI(k.Type.elem, nil)
	for _, name := range []string{"kind", "apiVersion"} {
		out["properties"].(document)[name] = document{"type": "string"}
	}
	return out
}

// openAPI returns the schema of a type. within are the structs that it is in, so that one that has
// itself is described once.
func openAPI(t reflect.Type, within []reflect.Type) document {
	anything := document{preserves: true}
	switch {
	case t.Kind() == reflect.Pointer:
		return openAPI(t.Elem(), within)
	case marshals(t):
		return described(t, anything)
	}
	switch t.Kind() {
	case reflect.String:
		return document{"type": "string"}
	case reflect.Bool:
		return document{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return document{"type": "number"}
	case reflect.Map:
		return document{"type": "object", "additionalProperties": openAPI(t.Elem(), within)}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return document{"type": "string", "format": "byte"}
		}
		return document{"type": "array", "items": openAPI(t.Elem(), within)}
	case reflect.Struct:
		if slices.Contains(within, t) {
			return document{"type": "object", preserves: true}
		}
		properties := document{}
		eachField(t, func(name string, f *reflect.StructField) {
			if properties[name] == nil {
				properties[name] = patched(openAPI(f.Type, append(slices.Clone(within), t)), f.Tag)
			}
		})
		out := document{"type": "object", "properties": properties}
		if properties["containerPort"] != nil || properties["port"] != nil {
			if protocol, ok := properties["protocol"].(document); ok {
				protocol["default"] = "TCP"
			}
		}
		if strings.HasPrefix(t.PkgPath(), "k8s.io/") && slices.Contains(wholes, t.Name()) {
			out["x-kubernetes-map-type"] = "atomic"
		}
		return out
	case reflect.Interface, reflect.Chan, reflect.Func:
		return anything
	}
	return document{"type": "integer"}
}

// wholes are the types of Kubernetes whose values have one manager, not one for each field. What
// says so is a comment of the type.
var wholes = strings.Fields(`OwnerReference LabelSelector ObjectReference LocalObjectReference TypedLocalObjectReference SecretReference
	ConfigMapKeySelector SecretKeySelector FileKeySelector ObjectFieldSelector ResourceFieldSelector NodeSelector NodeSelectorTerm
	TopologySelectorTerm ScopeSelector EndpointAddress EndpointPort RoleRef Subject CrossVersionObjectReference`)

// secondKey has the second key of lists of Kubernetes' own types that have two: their tags have one
// alone.
var secondKey = map[string]string{"containerPort": "protocol", "port": "protocol", "topologyKey": "whenUnsatisfiable"}

var marshaler = reflect.TypeFor[json.Marshaler]()

func marshals(t reflect.Type) bool {
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
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

// described returns the schema that a type that encodes itself gives, as those of apimachinery do.
func described(t reflect.Type, otherwise document) document {
	value, ok := reflect.New(t).Interface().(interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	})
	if !ok || len(value.OpenAPISchemaType()) != 1 {
		return otherwise
	}
	out := document{"type": value.OpenAPISchemaType()[0]}
	if either, ok := value.(interface{ OpenAPIV3OneOfTypes() []string }); ok {
		var types []document
		for _, t := range either.OpenAPIV3OneOfTypes() {
			types = append(types, document{"type": t})
		}
		out = document{"oneOf": types}
	}
	if format := value.OpenAPISchemaFormat(); format != "" {
		out["format"] = format
	}
	return out
}

// patched returns the schema of a field, with what its tags say about patches of its list.
func patched(schema document, tag reflect.StructTag) document {
	strategy := tag.Get("patchStrategy")
	if strategy == "" {
		return schema
	}
	schema = maps.Clone(schema)
	schema["x-kubernetes-patch-strategy"] = strategy
	if !strings.Contains(strategy, "merge") || schema["type"] != "array" {
		return schema
	}
	schema["x-kubernetes-list-type"] = "set"
	if key := tag.Get("patchMergeKey"); key != "" {
		keys := []string{key}
		items, _ := schema["items"].(document)
		if fields, _ := items["properties"].(document); fields[secondKey[key]] != nil {
			keys = append(keys, secondKey[key])
		}
		schema["x-kubernetes-patch-merge-key"], schema["x-kubernetes-list-type"], schema["x-kubernetes-list-map-keys"] = key, "map", keys
	}
	return schema
}
