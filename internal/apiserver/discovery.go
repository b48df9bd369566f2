package apiserver

import (
	"strings"

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
			Verbs: []string{"create", "delete", "get", "list", "update", "watch"},
		}
		out = append(out, r)
		if c.Resource.Status {
			r.Name, r.Singular, r.Verbs = r.Name+"/"+statusSubresource, "", []string{"get", "update"}
			out = append(out, r)
		}
	}
	return out
}
