package wire

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Aggregated discovery is all resources of all groups in one document. Its types are those of
// k8s.io/api/apidiscovery/v2, with the members that a server sends.
const (
	discoveryGroup   = "apidiscovery.k8s.io"
	discoveryVersion = "v2"
	discoveryKind    = "APIGroupDiscoveryList"
	discoveryType    = typeJSON + ";g=" + discoveryGroup + ";v=" + discoveryVersion + ";as=" + discoveryKind
)

type aggregatedList struct {
	metav1.TypeMeta
	Metadata metav1.ListMeta   `json:"metadata"`
	Items    []aggregatedGroup `json:"items"`
}

type aggregatedGroup struct {
	Metadata metav1.ObjectMeta   `json:"metadata"`
	Versions []aggregatedVersion `json:"versions"`
}

type aggregatedVersion struct {
	Version   string               `json:"version"`
	Resources []aggregatedResource `json:"resources"`
	Freshness string               `json:"freshness"`
}

type aggregatedResource struct {
	Resource     string                  `json:"resource"`
	Kind         metav1.GroupVersionKind `json:"responseKind"`
	Scope        string                  `json:"scope"`
	Singular     string                  `json:"singularResource"`
	Verbs        []string                `json:"verbs"`
	ShortNames   []string                `json:"shortNames,omitempty"`
	Categories   []string                `json:"categories,omitempty"`
	Subresources []aggregatedSubresource `json:"subresources,omitempty"`
}

type aggregatedSubresource struct {
	Subresource string                  `json:"subresource"`
	Kind        metav1.GroupVersionKind `json:"responseKind"`
	Verbs       []string                `json:"verbs"`
}

// aggregate returns the document of /api, which has the core group, or of /apis, which has the
// others.
func (d discovered) aggregate(core bool) *aggregatedList {
	list := &aggregatedList{
		TypeMeta: metav1.TypeMeta{Kind: discoveryKind, APIVersion: discoveryGroup + "/" + discoveryVersion},
		Items:    []aggregatedGroup{},
	}
	groups := d.groups()
	if core {
		groups = []string{""}
	}
	for _, group := range groups {
		g := aggregatedGroup{Metadata: metav1.ObjectMeta{Name: group}}
		for _, v := range d.versions(group) {
			g.Versions = append(g.Versions, aggregatedVersion{Version: v, Resources: d.aggregateVersion(group, v), Freshness: "Current"})
		}
		if len(g.Versions) > 0 {
			list.Items = append(list.Items, g)
		}
	}
	return list
}

func (d discovered) aggregateVersion(group, version string) []aggregatedResource {
	var out []aggregatedResource
	for _, r := range d {
		if r.Group != group || r.Version != version {
			continue
		}
		kind := metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		if !r.Of.Empty() {
			kind = metav1.GroupVersionKind(r.Of.WithKind(r.Kind))
		}
		if parent, sub, ok := strings.Cut(r.Name, "/"); ok {
			for i := range out {
				if out[i].Resource == parent {
					out[i].Subresources = append(out[i].Subresources, aggregatedSubresource{Subresource: sub, Kind: kind, Verbs: r.Verbs})
				}
			}
			continue
		}
		scope := "Cluster"
		if r.Namespaced {
			scope = "Namespaced"
		}
		out = append(out, aggregatedResource{
			Resource: r.Name, Kind: kind, Scope: scope, Singular: r.Singular, Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	return out
}
