package history

import "k8s.io/apimachinery/pkg/types"

// A Collection is the objects of one kind in all their versions. It is safe for concurrent use. Its errors are those of an API
// server: they answer to k8s.io/apimachinery/pkg/api/errors.
type Collection[V any] struct {
	line *Line
	opts Options[V]
}

// NewCollection returns an empty collection on line.
func NewCollection[V any](line *Line, opts Options[V]) *Collection[V] {
	return &Collection[V]{line: line, opts: opts}
}

// Create adds obj and returns what was stored. It fails with AlreadyExists.
func (c *Collection[V]) Create(obj Object[V]) (*Object[V], error) { panic("not written yet") }

// Update replaces the object of obj's key and returns what was stored: the old object where Options.Same finds no change. The
// UID stays; one in obj that differs is a Conflict. It fails with NotFound, or with Conflict where pre does not hold.
func (c *Collection[V]) Update(obj Object[V], pre Preconditions) (*Object[V], error) {
	panic("not written yet")
}

// Delete removes the object of key and returns its last state and the version of the deletion. It fails with NotFound, or
// with Conflict where pre does not hold.
func (c *Collection[V]) Delete(key types.NamespacedName, pre Preconditions) (last *Object[V], version uint64, err error) {
	panic("not written yet")
}

// Get returns the current object of key. It fails with NotFound.
func (c *Collection[V]) Get(key types.NamespacedName) (*Object[V], error) { panic("not written yet") }

// StateAt returns the objects of a version in the order of their keys. It fails with Expired where that is compacted, and with
// the error of a too large resource version where it is not there yet.
func (c *Collection[V]) StateAt(version uint64) ([]*Object[V], error) { panic("not written yet") }

// Changes returns the changes in (after, until] in their order. It fails as StateAt does.
func (c *Collection[V]) Changes(after, until uint64) ([]Change[V], error) { panic("not written yet") }

// Compact is Line.Compact for this collection alone.
func (c *Collection[V]) Compact(version uint64) { panic("not written yet") }

// Disconnect is Line.Disconnect for this collection alone.
func (c *Collection[V]) Disconnect() { panic("not written yet") }

// Oldest returns the oldest version whose state is kept.
func (c *Collection[V]) Oldest() uint64 { panic("not written yet") }
