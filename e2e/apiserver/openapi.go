package main

import (
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// freeForm returns a schema without structure for each kind and its list. Managed fields need that
// at least. Each schema has two names: the namer asks for the Go name, the type converter for the
// name that the namer makes from it.
func freeForm(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := map[string]common.OpenAPIDefinition{}
	for _, kind := range []string{"ConfigMap", "Pod", "Secret", "Node", "Namespace"} {
		for _, name := range []string{kind, kind + "List"} {
			def := common.OpenAPIDefinition{Schema: spec.Schema{
				SchemaProps:      spec.SchemaProps{Type: []string{"object"}},
				VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}},
			}}
			all["k8s.io/api/core/v1."+name] = def
			all["io.k8s.api.core.v1."+name] = def
		}
	}
	return all
}
