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
			Verbs:  []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			Schema: c.kind.OpenAPI, Patches: c.kind.PatchTypes(),
		}
		var subs []string
		for _, sub := range []string{registry.SubStatus, registry.SubScale, eviction} {
			if c.Resource.hasSub(sub) {
				subs = append(subs, sub)
			}
		}
		out = append(out, r.With(subs...)...)
	}
	return out
}
