// Package kinds lets a program follow kinds that are not served yet, and keep running when a kind
// goes away.
//
// A kind that nobody serves has no objects, so its informer is in sync, and empty. The informer
// makes no request while it waits. It lists when the kind comes. When the kind's
// CustomResourceDefinition is deleted, it deletes its objects, as the API server has done.
// Handlers, indexes and controllers do not have to know.
//
// A [Catalog] knows what one server serves. It reads CustomResourceDefinitions and APIServices, or
// discovery where it has no right to read these. [Source] is a gate: an lw.Source that is empty
// while its kind is absent. A kind is absent only if the catalog has evidence of it. An error of a
// request for the kind, such as 404, 403 or 503, is no evidence, and deletes nothing.
package kinds

import (
	"cmp"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Name names a kind of objects, by its Kind or by its Resource, the plural in URLs. A Name with a
// Kind follows it to another plural; a Name with a Resource alone follows that to another kind. An
// empty Version means any version that is served.
type Name struct{ Group, Version, Kind, Resource string }

// GVK returns the name of a kind.
func GVK(gvk schema.GroupVersionKind) Name {
	return Name{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

// GVR returns the name of a resource.
func GVR(gvr schema.GroupVersionResource) Name {
	return Name{Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource}
}

// String returns the name as in keda.sh/v1alpha1 ScaledObject.
func (n Name) String() string {
	return n.groupVersion() + " " + cmp.Or(n.Kind, n.Resource)
}

func (n Name) groupVersion() string {
	switch {
	case n.Version == "":
		return n.Group
	case n.Group == "":
		return n.Version
	}
	return n.Group + "/" + n.Version
}

// A State is what a [Catalog] knows of a Name.
type State struct {
	// Served reports whether the server has the kind. Known is false before the catalog's first
	// answer, when there is no evidence. Later on, a state holds until there is evidence of another
	// one.
	Served, Known bool
	// Resource is the kind's in URLs, in the version that is served, and Namespaced is its scope. Both
	// are set only if Served is true.
	Resource   schema.GroupVersionResource
	Namespaced bool
	Why        string    // why the kind is not served
	Since      time.Time // since when Served, Known and Why are as they are

	stand stand
	kind  string // set only if Served is true
	// made identifies the definition. It tells apart the kinds that have had the same name.
	made string
	// news changes when requests that failed may succeed again. heard is the time of that change.
	news  string
	heard time.Time
}

// A stand says what a gate does.
type stand int

const (
	unknown  stand = iota // no evidence: the gate makes no request, and lists wait
	absent                // nobody serves the kind: the gate is empty
	orphaned              // its APIService is gone, but nobody has deleted the objects: they stay
	withheld              // it is served, but not in this version: the objects stay, and requests fail
	served
)

// same reports whether s and o are the same to those who follow the name.
func (s State) same(o State) bool {
	s.Since, s.news, s.heard = o.Since, o.news, o.heard
	return s == o
}

// ErrAbsent says that a kind is not served. The errors of [Catalog.Wait] wrap it.
var ErrAbsent = errors.New("the kind is not served")
