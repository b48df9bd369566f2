package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Definition is what this program reads of a CustomResourceDefinition. A T of lw.HTTP need not be
// a whole API type: the fields that it does not have are skipped, and most of a definition is its
// schema, which nobody needs here.
type Definition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []Version `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// A Version is one version of a Definition.
type Version struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
}

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// resource returns the resource to follow: the stored version, if that is served, or else the first
// that is. ok is false if the server does not serve any, or not yet.
func (d *Definition) resource() (gvr schema.GroupVersionResource, ok bool) {
	gvr = schema.GroupVersionResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
	for _, v := range d.Spec.Versions {
		if v.Served && (v.Storage || gvr.Version == "") {
			gvr.Version = v.Name
		}
	}
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" {
			ok = c.Status == metav1.ConditionTrue
		}
	}
	return gvr, ok && gvr.Version != "" && d.DeletionTimestamp == nil
}
