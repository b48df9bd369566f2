package crd

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"github.com/go-lw/lw/simulate/internal/shape"
)

// shapeOf returns what a schema says of lists and times; nil: nothing.
func shapeOf(s *structural.Structural) *shape.Shape {
	if s == nil {
		return nil
	}
	out := &shape.Shape{}
	if v := s.ValueValidation; v != nil && s.Type == "string" && v.Format == "date-time" {
		out.Time = true
		return out
	}
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
	}
	if !known && out.Elem == nil {
		return nil
	}
	return out
}
