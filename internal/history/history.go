// Package history models the storage of an API server: collections of objects with all their
// versions. It has one line of resource versions, and answers for the state at each version, the
// changes between two versions, lists in pages, watches, and compaction. It follows
// https://kubernetes.io/docs/reference/using-api/api-concepts/.
//
// It knows neither HTTP nor what an object looks like. A front end gives it an [Object], which has
// a value, and beside that the identity, labels and fields of the value. History never writes a
// resource version into a value. The front end does that when it sends the object: it is
// Object.Version, or Event.Version in the event of a deletion.
//
// The package starts no goroutine, and calls no function of a caller while it holds a lock, but
// Options.Field.
package history

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// An Object is one version of an object. All who read it share it, so it must not be changed.
type Object[V any] struct {
	Key     types.NamespacedName
	UID     types.UID         // if empty, Create makes one
	Version uint64            // the version of the write that made it; set by Create and Update
	Labels  map[string]string // for label selectors
	Fields  map[string]string // for field selectors, besides metadata.name and metadata.namespace
	Value   V
}

// A Change is one write to a collection. It is shared and must not be changed.
type Change[V any] struct {
	Version  uint64
	Old, New *Object[V] // Old is nil for a creation, New for a deletion
}

// Options configure a collection.
type Options[V any] struct {
	// Resource names the collection in errors.
	Resource schema.GroupResource
	// Fields are the names that a field selector may use, besides metadata.name and
	// metadata.namespace.
	Fields []string
	// Field returns the value of one of Fields, and must not call the collection. nil: Object.Fields
	// has it.
	Field func(obj *Object[V], name string) string
	// Same reports whether an update from old to new changes nothing. Such an update makes no
	// version. Same is called without a lock, perhaps more than once for an update, and new.Version
	// is not set yet. nil: every update makes a version.
	Same func(old, new *Object[V]) bool
	// Window is the number of changes to keep; older ones are compacted now and then. 0: all are
	// kept until Compact is called.
	Window int
	// Size returns the memory that a version takes, in bytes. Of changes with more than Bytes the
	// older ones are compacted as well, but the last hundred stay. nil, 0: there is no such bound.
	Size  func(obj *Object[V]) int
	Bytes int
}

// Preconditions must hold for the current object, or a write of it fails with Conflict. An empty or
// zero field requires nothing.
type Preconditions struct {
	UID     types.UID
	Version uint64
}
