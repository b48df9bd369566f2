package history

import (
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// A Collection is the objects of one kind in all their versions. It is safe for concurrent use. Its errors are those of an
// API server: they answer to k8s.io/apimachinery/pkg/api/errors.
type Collection[V any] struct {
	line *Line
	opts Options[V]

	// The rest is guarded by line.mu.

	rows   map[types.NamespacedName]*row[V]
	sorted []*row[V] // by path; while unsorted is set, new rows stand at the end
	// unsorted saves a load of many objects from a sort after each.
	unsorted bool

	log     []Change[V] // those after oldest
	dropped uint64      // how many changes were before log[0], so that a watch can count where it stands
	oldest  uint64      // the oldest version whose state is kept

	state   []*Object[V] // that of version stateOf; shared with callers, and never changed
	stateOf uint64       // 0: none

	cuts    uint64        // how often all watches were ended
	changed chan struct{} // closed at the next change; nil while nobody waits
}

// A row is an object in its versions, and those after it of the same key.
type row[V any] struct {
	path      string
	revisions []revision[V] // rising; of those up to Collection.oldest only the last
	dead      bool          // no revision is left
}

type revision[V any] struct {
	version uint64
	obj     *Object[V] // nil: deleted
}

// at returns the row's object at version, or nil.
func (r *row[V]) at(version uint64) *Object[V] {
	for i := len(r.revisions) - 1; i >= 0; i-- {
		if rev := r.revisions[i]; rev.version <= version {
			return rev.obj
		}
	}
	return nil
}

// pathOf is what a server sorts by: its key in etcd.
func pathOf(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// NewCollection returns an empty collection on line.
func NewCollection[V any](line *Line, opts Options[V]) *Collection[V] {
	c := &Collection[V]{line: line, opts: opts, rows: map[types.NamespacedName]*row[V]{}, oldest: firstVersion}
	line.mu.Lock()
	defer line.mu.Unlock()
	line.collections = append(line.collections, c)
	return c
}

// Version returns the current version of the collection's line.
func (c *Collection[V]) Version() uint64 { return c.line.Version() }

// Oldest returns the oldest version whose state is kept.
func (c *Collection[V]) Oldest() uint64 {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	return c.oldest
}

// Get returns the current object of key. It fails with NotFound.
func (c *Collection[V]) Get(key types.NamespacedName) (*Object[V], error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if obj := c.currentLocked(key); obj != nil {
		return obj, nil
	}
	return nil, c.errNotFound(key)
}

func (c *Collection[V]) currentLocked(key types.NamespacedName) *Object[V] {
	r := c.rows[key]
	if r == nil {
		return nil
	}
	return r.revisions[len(r.revisions)-1].obj
}

// StateAt returns the objects of a version in the order of their keys. The slice is shared and must not be changed. It fails
// with Expired where that version is compacted, and with the error of a too large resource version where it is not there
// yet.
func (c *Collection[V]) StateAt(version uint64) ([]*Object[V], error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if err := c.keptLocked(version); err != nil {
		return nil, err
	}
	return c.stateLocked(version), nil
}

// Changes returns the changes in (after, until] in their order. It fails as StateAt does.
func (c *Collection[V]) Changes(after, until uint64) ([]Change[V], error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if err := c.keptLocked(after); err != nil {
		return nil, err
	}
	if err := c.keptLocked(until); err != nil {
		return nil, err
	}
	from, to := c.afterLocked(after), c.afterLocked(until)
	return slices.Clone(c.log[min(from, to):to]), nil
}

// keptLocked returns nil where the state of version is known.
func (c *Collection[V]) keptLocked(version uint64) error {
	switch {
	case version > c.line.now:
		return errTooLarge(version, c.line.now)
	case version < c.oldest:
		return errTooOld(version, c.oldest)
	}
	return nil
}

// afterLocked returns the index in the log of the first change after version.
func (c *Collection[V]) afterLocked(version uint64) int {
	return sort.Search(len(c.log), func(i int) bool { return c.log[i].Version > version })
}

// stateLocked keeps its last result: the pages of one list, and lists between two writes, share it.
func (c *Collection[V]) stateLocked(version uint64) []*Object[V] {
	// All versions since the last change have one state.
	if i := c.afterLocked(version); i > 0 {
		version = c.log[i-1].Version
	} else {
		version = c.oldest
	}
	if c.stateOf == version {
		return c.state
	}
	c.sortLocked()
	state := make([]*Object[V], 0, len(c.sorted))
	for _, r := range c.sorted {
		if obj := r.at(version); obj != nil {
			state = append(state, obj)
		}
	}
	c.state, c.stateOf = state, version
	return state
}

func (c *Collection[V]) sortLocked() {
	if !c.unsorted {
		return
	}
	slices.SortFunc(c.sorted, func(a, b *row[V]) int { return strings.Compare(a.path, b.path) })
	c.unsorted = false
}
