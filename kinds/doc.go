// Package kinds lets a program follow kinds that are not served yet, and outlive those that go.
//
// A kind that nobody serves has no objects, so its informer is in step, and empty. It makes no
// request while it waits, lists when the kind comes, and deletes what it has when the kind's
// CustomResourceDefinition is gone, as the API server has done. Handlers, indexes and controllers
// stay as they are.
//
// A [Catalog] knows what one server serves: from its CustomResourceDefinitions and APIServices, and
// where it may not read these, from discovery. [Source] is a gate: an lw.Source that is empty while
// its kind is absent. Absent is only what the catalog has evidence of. An error of the kind itself,
// such as 404, 403 or 503, proves nothing, and deletes nothing.
package kinds

import (
	"cmp"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Name is a kind of objects. Of Kind and Resource, the plural in URLs, one is enough. A kind that
// is named by Kind follows a new plural, and one that is named by Resource a new kind behind it. An
// empty Version is any that is served.
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
	// Served says that the server has the kind. Known is false while there is no evidence: before the
	// catalog's first answer. Later, what was known holds until there is other evidence.
	Served, Known bool
	// Resource is what the kind has in URLs, with the version that is served, and Namespaced its
	// scope, if Served is true.
	Resource   schema.GroupVersionResource
	Namespaced bool
	Why        string    // why it is not served
	Since      time.Time // when it began to be as Served, Known and Why say

	stand stand
	kind  string // if Served is true
	// made tells apart the kinds that one name has had one after the other.
	made string
	// news changes where a request that has failed may succeed from now on, and heard says when it has.
	news  string
	heard time.Time
}

// A stand is what a gate does.
type stand int

const (
	unknown  stand = iota // nothing is known: no request, and not in step
	absent                // nobody serves it: it is empty
	orphaned              // its APIService is gone, and nobody has deleted the objects: they stay
	withheld              // its objects are there, but not in this version: they stay, and that is a failure
	served
)

// same reports whether s and o say the same.
func (s State) same(o State) bool {
	s.Since, s.news, s.heard = o.Since, o.news, o.heard
	return s == o
}

// ErrAbsent is what the error of [Catalog.Wait] wraps.
var ErrAbsent = errors.New("the kind is not served")
