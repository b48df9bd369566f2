package history

import (
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/listopts"
)

// A Collection is the objects of one kind with all their versions. It is safe for concurrent use.
// Its errors are those of an API server, as k8s.io/apimachinery/pkg/api/errors has them.
//
// Each key has a row with its revisions. The log has the changes in the order of their versions. A
// past state is computed from the rows; a watch reads the log.
type Collection[V any] struct {
	line *Line
	opts Options[V]

	// The rest is guarded by line.mu.

	rows   map[types.NamespacedName]*row[V]
	sorted []*row[V] // by path, unless unsorted is set
	// unsorted says that new rows were added at the end of sorted. They are sorted in when the next
	// state is computed, so that a load of many objects does not sort after each.
	unsorted bool

	log   []Change[V] // the changes after version oldest
	bytes int         // the size of what they have made; 0: there is no bound
	// compacted is the number of changes that are no longer in the log. A watch counts the changes
	// from the first one ever, so its place stays right when the log is cut at its beginning.
	compacted uint64
	oldest    uint64 // the oldest version whose state is known
	born      uint64 // the version at which the collection began: no watch begins before it

	state   []*Object[V] // the state at stateOf; shared with callers, and never changed
	stateOf uint64       // 0: none

	disconnects uint64        // how many times all watches were ended
	finishes    uint64        // how many times all watches were to end after what they had to send
	changed     chan struct{} // closed at the next change; nil while no watch waits
}

// A row is all versions of one key, across deletions and new creations.
type row[V any] struct {
	path string
	// revisions are in the order of their versions. Of those up to Collection.oldest only the last
	// is kept.
	revisions []revision[V]
	// dead says that no revision is left. The row then has no object at any version, and is about
	// to be removed from Collection.sorted.
	dead bool
}

type revision[V any] struct {
	version uint64
	obj     *Object[V] // nil: deleted
}

// at returns the object at version, or nil if there was none.
func (r *row[V]) at(version uint64) *Object[V] {
	for i := len(r.revisions) - 1; i >= 0; i-- {
		if rev := r.revisions[i]; rev.version <= version {
			return rev.obj
		}
	}
	return nil
}

// NewCollection returns an empty collection whose writes take versions of line.
func NewCollection[V any](line *Line, opts Options[V]) *Collection[V] {
	c := &Collection[V]{line: line, opts: opts, rows: map[types.NamespacedName]*row[V]{}}
	line.mu.Lock()
	defer line.mu.Unlock()
	c.oldest, c.born = line.first, line.now
	line.collections = append(line.collections, c)
	return c
}

// Version returns the current version of the collection's line.
func (c *Collection[V]) Version() uint64 { return c.line.Version() }

// Oldest returns the oldest version whose state is known.
func (c *Collection[V]) Oldest() uint64 {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	return c.oldest
}

// Get returns the current object of key, or the error NotFound.
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

// At returns the object that key had at a version, or nil if there was none. Its errors are those
// of StateAt.
func (c *Collection[V]) At(key types.NamespacedName, version uint64) (*Object[V], error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if err := c.checkVersionLocked(version); err != nil {
		return nil, err
	}
	if r := c.rows[key]; r != nil {
		return r.at(version), nil
	}
	return nil, nil
}

// StateAt returns the objects at a version in the order of their paths. The slice is shared and
// must not be changed. The error is Expired if that version was compacted. It is a Timeout with the
// cause "ResourceVersionTooLarge" if the line has not reached that version.
func (c *Collection[V]) StateAt(version uint64) ([]*Object[V], error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if err := c.checkVersionLocked(version); err != nil {
		return nil, err
	}
	return c.stateLocked(version), nil
}

// Changes returns the changes in (after, until] in the order of their versions. Its errors are
// those of StateAt, for either version.
func (c *Collection[V]) Changes(after, until uint64) ([]Change[V], error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if err := c.checkVersionLocked(after); err != nil {
		return nil, err
	}
	if err := c.checkVersionLocked(until); err != nil {
		return nil, err
	}
	from, to := c.afterLocked(after), c.afterLocked(until)
	return slices.Clone(c.log[min(from, to):to]), nil
}

// checkVersionLocked returns nil if the state at version is known.
func (c *Collection[V]) checkVersionLocked(version uint64) error {
	switch {
	case version > c.line.now:
		return listopts.TooLarge(version, c.line.now)
	case version < c.oldest:
		return listopts.TooOld(version, c.oldest)
	}
	return nil
}

// afterLocked returns the index in the log of the first change after version.
func (c *Collection[V]) afterLocked(version uint64) int {
	return sort.Search(len(c.log), func(i int) bool { return c.log[i].Version > version })
}

// togetherLocked returns the changes of the log from i on that have one version.
func (c *Collection[V]) togetherLocked(i int) []Change[V] {
	end := i + 1
	for end < len(c.log) && c.log[end].Version == c.log[i].Version {
		end++
	}
	return c.log[i:end]
}

// stateLocked returns the state at version, which must be known. It keeps the last result, because
// the pages of a list ask for one state, and so do all lists between two writes.
func (c *Collection[V]) stateLocked(version uint64) []*Object[V] {
	// The versions between two changes all have the same state. Take the oldest of them.
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

// sortLocked brings sorted into the order of the paths.
func (c *Collection[V]) sortLocked() {
	if !c.unsorted {
		return
	}
	slices.SortFunc(c.sorted, func(a, b *row[V]) int { return strings.Compare(a.path, b.path) })
	c.unsorted = false
}
