package history

import (
	"fmt"
	"hash/fnv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/listopts"
)

// Create adds obj and returns the stored object. It fails with AlreadyExists.
func (c *Collection[V]) Create(obj Object[V]) (*Object[V], error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if c.currentLocked(obj.Key) != nil {
		return nil, apierrors.NewAlreadyExists(c.opts.Resource, obj.Key.Name)
	}
	c.line.created++
	if obj.UID == "" {
		obj.UID = c.newUIDLocked(obj.Key)
	}
	return c.appendLocked(obj.Key, nil, &obj), nil
}

// newUIDLocked makes a UID that depends only on the key and on how many objects were created
// before. So a test that is run again fails with the same message.
func (c *Collection[V]) newUIDLocked(key types.NamespacedName) types.UID {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s", c.opts.Resource, key)
	sum := h.Sum64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-8000-%012x", sum>>32, sum>>16&0xffff, sum&0xfff, c.line.created))
}

// Update replaces the object of obj's key and returns the stored object. If Options.Same finds no
// change, that is the old object.
//
// The UID stays. Update fails with NotFound, and with Conflict if obj has another UID or pre does
// not hold.
func (c *Collection[V]) Update(obj Object[V], pre Preconditions) (*Object[V], error) {
	for {
		old, err := c.Get(obj.Key)
		if err != nil {
			return nil, err
		}
		if obj.UID != "" && obj.UID != old.UID {
			return nil, c.errConflictUID(obj.Key, obj.UID, old.UID)
		}
		if err := c.checkPreconditions(pre, old); err != nil {
			return nil, err
		}
		next := obj
		next.UID = old.UID
		// Same runs without the lock. If old is not current any more after it, replace refuses, and
		// the loop begins again.
		if c.opts.Same != nil && c.opts.Same(old, &next) {
			return old, nil
		}
		if stored, ok := c.replace(old, &next); ok {
			return stored, nil
		}
	}
}

// replace stores next if old is still the current object. It reports whether it has.
func (c *Collection[V]) replace(old, next *Object[V]) (*Object[V], bool) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if c.currentLocked(next.Key) != old {
		return nil, false
	}
	return c.appendLocked(next.Key, old, next), true
}

// Delete removes the object of key. It returns the object's last state and the version of the
// deletion. It fails with NotFound, and with Conflict if pre does not hold.
func (c *Collection[V]) Delete(key types.NamespacedName, pre Preconditions) (last *Object[V], version uint64, err error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	last = c.currentLocked(key)
	if last == nil {
		return nil, 0, c.errNotFound(key)
	}
	if err := c.checkPreconditions(pre, last); err != nil {
		return nil, 0, err
	}
	c.appendLocked(key, last, nil)
	return last, c.line.now, nil
}

// checkPreconditions returns a Conflict if pre does not hold for obj.
func (c *Collection[V]) checkPreconditions(pre Preconditions, obj *Object[V]) error {
	if pre.UID != "" && pre.UID != obj.UID {
		return c.errConflictUID(obj.Key, pre.UID, obj.UID)
	}
	if pre.Version != 0 && pre.Version != obj.Version {
		return c.errConflictVersion(obj.Key, pre.Version, obj.Version)
	}
	return nil
}

// appendLocked writes the change from old to obj: it takes the line's next version, sets it in obj,
// and adds the change to the row and the log. Old is nil for a creation, obj for a deletion. It
// returns obj.
func (c *Collection[V]) appendLocked(key types.NamespacedName, old, obj *Object[V]) *Object[V] {
	c.line.now++
	version := c.line.now
	if obj != nil {
		obj.Version = version
	}
	r := c.rows[key]
	if r == nil {
		r = &row[V]{path: listopts.Path(key)}
		c.rows[key] = r
		c.sorted = append(c.sorted, r)
		c.unsorted = true
	}
	r.revisions = append(r.revisions, revision[V]{version, obj})
	c.log = append(c.log, Change[V]{Version: version, Old: old, New: obj})
	// Compaction takes time in proportion to the log. So it waits for twice the window, and its
	// cost is spread over as many writes as the window has.
	if w := c.opts.Window; w > 0 && len(c.log) > 2*w {
		c.compactLocked(c.log[len(c.log)-w-1].Version)
	}
	c.wakeLocked()
	return obj
}
