package registry

import (
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
		return document{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
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
	anything := document{"x-kubernetes-preserve-unknown-fields": true}
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
			return document{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		}
		properties := document{}
		eachField(t, func(name string, f *reflect.StructField) {
			if properties[name] == nil {
				properties[name] = patched(openAPI(f.Type, append(slices.Clone(within), t)), f.Tag)
			}
		})
		return document{"type": "object", "properties": properties}
	case reflect.Interface, reflect.Chan, reflect.Func:
		return anything
	}
	return document{"type": "integer"}
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
		schema["x-kubernetes-patch-merge-key"], schema["x-kubernetes-list-type"], schema["x-kubernetes-list-map-keys"] = key, "map", []string{key}
	}
	return schema
}
