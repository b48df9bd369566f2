package apiserver

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discovery returns the answer to a request for what the server serves, or nil if path is no such
// request. /api and /apis name the groups and versions, /apis/<group> those of one group, and
// /api/<version> and /apis/<group>/<version> the resources of one version. A RESTMapper needs them.
//
// The answers are those of a server without aggregated discovery. Every client understands them.
func (s *Server) discovery(path string) any {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var group, version string
	switch {
	case path == "/api" || path == "/api/":
		versions := s.groups()[""]
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: versions}
	case path == "/apis" || path == "/apis/":
		return s.groupList()
	case len(parts) == 2 && parts[0] == "apis":
		for _, g := range s.groupList().Groups {
			if g.Name == parts[1] {
				g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return &g
			}
		}
		return nil
	case len(parts) == 2 && parts[0] == "api":
		version = parts[1]
	case len(parts) == 3 && parts[0] == "apis":
		group, version = parts[1], parts[2]
	default:
		return nil
	}
	if list := s.resourceList(schema.GroupVersion{Group: group, Version: version}); len(list.APIResources) > 0 {
		return list
	}
	return nil
}

// groups returns the versions of each group, the preferred one first: that of the first Resource.
func (s *Server) groups() map[string][]string {
	groups := map[string][]string{}
	for _, c := range s.collections {
		r := &c.Resource
		if c.served.Load() && !slices.Contains(groups[r.Group], r.Version) {
			groups[r.Group] = append(groups[r.Group], r.Version)
		}
	}
	return groups
}

// groupList returns all groups but the core group, which /api names.
func (s *Server) groupList() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	groups := s.groups()
	delete(groups, "")
	for group, versions := range groups {
		g := metav1.APIGroup{Name: group}
		for _, v := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + v, Version: v})
		}
		g.PreferredVersion = g.Versions[0]
		list.Groups = append(list.Groups, g)
	}
	slices.SortFunc(list.Groups, func(a, b metav1.APIGroup) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// resourceList returns the resources of one version of a group, with their subresources.
func (s *Server) resourceList(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	for _, c := range s.collections {
		r := &c.Resource
		if !c.served.Load() || r.Group != gv.Group || r.Version != gv.Version {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Resource, SingularName: strings.ToLower(r.Kind), Namespaced: !r.Cluster, Kind: r.Kind,
			Verbs: metav1.Verbs{"create", "delete", "get", "list", "update", "watch"},
		})
		if r.Status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Resource + "/" + statusSubresource, Namespaced: !r.Cluster, Kind: r.Kind, Verbs: metav1.Verbs{"get", "update"},
			})
		}
	}
	return list
}

// discover answers a request for what the server serves. It returns false if r is no such request.
// No fault applies to it, and the log of requests does not have it.
func (s *Server) discover(w http.ResponseWriter, r *http.Request) bool {
	answer := s.discovery(r.URL.Path)
	if answer == nil {
		return false
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return true
	}
	f, ok := (&Resource{}).negotiate(r.Header.Get("Accept"), "")
	if !ok {
		writeStatus(w, f, statusOf(notAcceptable()))
		return true
	}
	writeBody(w, f.contentType(false), http.StatusOK, mustJSON(answer))
	return true
}
