package apiserver

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/go-lw/lw/internal/wire"
)

// shortNames are those of Kubernetes' own resources.
var shortNames = map[string]string{
	"componentstatuses": "cs", "configmaps": "cm", "endpoints": "ep", "events": "ev", "limitranges": "limits", "namespaces": "ns",
	"nodes": "no", "persistentvolumeclaims": "pvc", "persistentvolumes": "pv", "pods": "po", "replicationcontrollers": "rc",
	"resourcequotas": "quota", "serviceaccounts": "sa", "services": "svc", "daemonsets.apps": "ds", "deployments.apps": "deploy",
	"replicasets.apps": "rs", "statefulsets.apps": "sts", "horizontalpodautoscalers.autoscaling": "hpa", "cronjobs.batch": "cj",
	"customresourcedefinitions.apiextensions.k8s.io": "crd crds", "certificatesigningrequests.certificates.k8s.io": "csr",
	"events.events.k8s.io": "ev", "ingresses.networking.k8s.io": "ing", "networkpolicies.networking.k8s.io": "netpol",
	"poddisruptionbudgets.policy": "pdb", "priorityclasses.scheduling.k8s.io": "pc", "storageclasses.storage.k8s.io": "sc",
	"volumeattributesclasses.storage.k8s.io": "vac",
}

// ofAll are Kubernetes' own resources that kubectl get all shows.
var ofAll = sets.New(strings.Fields(`pods replicationcontrollers services daemonsets.apps deployments.apps replicasets.apps
	statefulsets.apps horizontalpodautoscalers.autoscaling cronjobs.batch jobs.batch`)...)

// discovered returns what the server serves, for discovery.
func (s *Server) discovered() []wire.Resource {
	var out []wire.Resource
	for _, c := range s.all() {
		if !c.served.Load() {
			continue
		}
		r := wire.Resource{
			Group: c.Resource.Group, Version: c.Resource.Version, Name: c.Resource.Resource,
			Singular: cmp.Or(c.Resource.Singular, strings.ToLower(c.Resource.Kind)), Kind: c.Resource.Kind, Namespaced: !c.Resource.Cluster,
			ShortNames: c.Resource.ShortNames, Categories: c.Resource.Categories,
			Verbs:  []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			Schema: c.kind.OpenAPI, Patches: c.kind.PatchTypes(),
		}
		if c.Resource.Review {
			r.Verbs, r.Patches = []string{"create"}, nil
		}
		if r.ShortNames == nil {
			r.ShortNames = strings.Fields(shortNames[c.Resource.groupResource().String()])
		}
		if ofAll.Has(c.Resource.groupResource().String()) {
			r.Categories = []string{"all"}
		}
		if c.Resource.groupResource() == pods {
			out = append(out, wire.Resource{
				Version: r.Version, Name: bindings, Singular: "binding", Kind: "Binding", Namespaced: true,
				Verbs: []string{"create"},
			})
		}
		out = append(out, r.With(c.subs()...)...)
	}
	return out
}
