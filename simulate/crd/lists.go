package crd

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"github.com/go-lw/lw/simulate/internal/shape"
)

// shapeOf returns what a schema says of lists; nil: nothing.
func shapeOf(s *structural.Structural) *shape.Shape {
	if s == nil {
		return nil
	}
	out := &shape.Shape{}
	known := false
	for name, p := range s.Properties {
		if inner := shapeOf(&p); inner != nil {
			if out.Fields == nil {
				out.Fields = map[string]*shape.Shape{}
			}
			out.Fields[name], known = inner, true
		}
	}
	if s.Items != nil {
		out.Elem = shapeOf(s.Items)
	} else if s.AdditionalProperties != nil {
		out.Elem = shapeOf(s.AdditionalProperties.Structural)
	}
	if t := s.XListType; t != nil && (*t == "set" || *t == "map") {
		out.Set, out.Keys, known = true, s.XListMapKeys, true
	} else if t == nil && conditions(s.Items) {
		out.Set, out.Keys, known = true, []string{"type"}, true
	}
	if !known && out.Elem == nil {
		return nil
	}
	return out
}

// conditions reports whether these are the items of a list of conditions: the conventions of the
// API make it a map, also where a schema is older than list types.
func conditions(s *structural.Structural) bool {
	if s == nil {
		return false
	}
	_, kind := s.Properties["type"]
	_, status := s.Properties["status"]
	_, since := s.Properties["lastTransitionTime"]
	return kind && status && since
}
