package apiserver

import (
	"strings"

	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

// discovered returns what the server serves, for discovery.
func (s *Server) discovered() []wire.Resource {
	var out []wire.Resource
	for _, c := range s.collections {
		if !c.served.Load() {
			continue
		}
		r := wire.Resource{
			Group: c.Resource.Group, Version: c.Resource.Version, Name: c.Resource.Resource,
			Singular: strings.ToLower(c.Resource.Kind), Kind: c.Resource.Kind, Namespaced: !c.Resource.Cluster,
			Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}
		out = append(out, r)
		name := r.Name
		r.Singular, r.Verbs = "", []string{"get", "patch", "update"}
		if c.Resource.Status {
			r.Name = name + "/" + registry.SubStatus
			out = append(out, r)
		}
		if c.Resource.Scale != nil {
			r.Name, r.Kind = name+"/"+registry.SubScale, "Scale"
			out = append(out, r)
		}
	}
	return out
}
