// Package history keeps collections of objects in all their versions, as the storage of an API server does: one line of
// resource versions, the state at each of them, the changes between any two, pages, watches, and compaction.
//
// It knows neither HTTP nor what an object looks like. An [Object] is what a front end wants to keep with its identity, its
// labels and its fields beside it; nothing writes the resource version into the value: a front end stamps it with
// Object.Version, or with Event.Version for a deletion, when it hands the object out.
//
// Nothing here has a goroutine, and no function that a caller gave is called with a lock held.
package history

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// An Object is one version of an object. It is shared by all who read it and must not be changed.
type Object[V any] struct {
	Key     types.NamespacedName
	UID     types.UID         // drawn by Create where it is empty
	Version uint64            // the version that wrote it; set by Create and Update
	Labels  map[string]string // what label selectors see
	Fields  map[string]string // what field selectors see beside metadata.name and metadata.namespace
	Value   V
}

// A Change is one version of a collection.
type Change[V any] struct {
	Version  uint64
	Old, New *Object[V] // Old is nil for a creation, New for a deletion
}

// Options are what a collection is made with.
type Options[V any] struct {
	// Resource names the collection in errors.
	Resource schema.GroupResource
	// Fields are the names that a field selector may use beside metadata.name and metadata.namespace.
	Fields []string
	// Same reports whether an update from old to new, which has no version yet, changes nothing, and so makes no version. It
	// may be called more than once for an update. Nil: every update makes a version.
	Same func(old, new *Object[V]) bool
	// Window is how many changes are kept; older ones are compacted. 0: all, until Compact.
	Window int
}

// Preconditions are what a write requires of the object that it replaces. The zero value requires nothing.
type Preconditions struct {
	UID     types.UID
	Version uint64
}
