package history

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

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
// before. So a test that is run again fails with the same message. See also [NewLineNow].
func (c *Collection[V]) newUIDLocked(key types.NamespacedName) types.UID {
	if c.line.random {
		a, b := rand.Uint64(), rand.Uint64()
		return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&(1<<48-1)))
	}
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

// A Write is one write of a Transact: of an object that is created or replaced, or the deletion of
// one.
type Write[V any] struct {
	Object Object[V] // only its Key if Delete is set
	Delete bool
	Pre    Preconditions // of the object that is there
}

// Transact makes all writes at one version, which it returns, or none. It fails as Update and
// Delete do, also if an object is to be created and Pre is not empty, and with BadRequest if two
// writes have one key. Writes that change nothing are left out. If no write is left the version is
// the current one.
func (c *Collection[V]) Transact(writes ...Write[V]) (version uint64, err error) {
	keys := map[types.NamespacedName]bool{}
	for i := range writes {
		key := writes[i].Object.Key
		if keys[key] {
			return 0, apierrors.NewBadRequest(fmt.Sprintf("two writes of %s in one transaction", key))
		}
		keys[key] = true
	}
	for {
		// As in Update, Same runs without the lock.
		changes, err := c.prepare(writes)
		if err != nil {
			return 0, err
		}
		if version, ok := c.commit(changes); ok {
			return version, nil
		}
	}
}

// prepare returns what writes change. A change that changes nothing has the same object twice.
func (c *Collection[V]) prepare(writes []Write[V]) ([]Change[V], error) {
	changes := make([]Change[V], 0, len(writes))
	for i := range writes {
		write := &writes[i]
		old, err := c.Get(write.Object.Key)
		if err != nil && (write.Delete || write.Pre != Preconditions{}) {
			return nil, err
		}
		if err == nil {
			if err := c.checkPreconditions(write.Pre, old); err != nil {
				return nil, err
			}
		}
		if write.Delete {
			changes = append(changes, Change[V]{Old: old})
			continue
		}
		next := write.Object
		if old != nil {
			if next.UID != "" && next.UID != old.UID {
				return nil, c.errConflictUID(next.Key, next.UID, old.UID)
			}
			next.UID = old.UID
			if c.opts.Same != nil && c.opts.Same(old, &next) {
				changes = append(changes, Change[V]{Old: old, New: old})
				continue
			}
		}
		changes = append(changes, Change[V]{Old: old, New: &next})
	}
	return changes, nil
}

// commit makes the changes if what they replace is still there. It reports whether it has.
func (c *Collection[V]) commit(changes []Change[V]) (version uint64, ok bool) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	real := 0
	for _, change := range changes {
		if c.currentLocked(change.key()) != change.Old {
			return 0, false
		}
		if change.Old != change.New {
			real++
		}
	}
	if real == 0 {
		return c.line.now, true
	}
	c.line.now++
	for _, change := range changes {
		if change.Old == change.New {
			continue
		}
		if change.Old == nil {
			c.line.created++
			if change.New.UID == "" {
				change.New.UID = c.newUIDLocked(change.New.Key)
			}
		}
		c.appendNowLocked(change.key(), change.Old, change.New)
	}
	c.appendedLocked()
	return c.line.now, true
}

func (c Change[V]) key() types.NamespacedName {
	if c.New == nil {
		return c.Old.Key
	}
	return c.New.Key
}

// appendLocked writes the change from old to obj: it takes the line's next version, sets it in obj,
// and adds the change to the row and the log. Old is nil for a creation, obj for a deletion. It
// returns obj.
func (c *Collection[V]) appendLocked(key types.NamespacedName, old, obj *Object[V]) *Object[V] {
	c.line.now++
	c.appendNowLocked(key, old, obj)
	c.appendedLocked()
	return obj
}

// appendNowLocked is appendLocked at the line's present version. appendedLocked follows.
func (c *Collection[V]) appendNowLocked(key types.NamespacedName, old, obj *Object[V]) {
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
	c.bytes += c.sizeOf(obj)
}

// fewest is how many changes stay, however large they are. kube-apiserver keeps as many at least.
const fewest = 100

// appendedLocked compacts, if it is time, and wakes the watches.
func (c *Collection[V]) appendedLocked() {
	// Compaction takes time in proportion to the log. So it waits for more than what is to be kept, and
	// its cost is spread over as many writes.
	many := c.opts.Window > 0 && len(c.log) > 2*c.opts.Window
	large := c.opts.Bytes > 0 && c.bytes > c.opts.Bytes/4*5 && len(c.log) > fewest/4*5
	if many || large {
		c.compactLocked(c.log[len(c.log)-c.keptLocked()-1].Version)
	}
	c.wakeLocked()
}

// keptLocked returns how many of the last changes are kept.
func (c *Collection[V]) keptLocked() (n int) {
	for size := 0; n < len(c.log)-1; n++ {
		if size += c.sizeOf(c.log[len(c.log)-1-n].New); c.opts.Window > 0 && n == c.opts.Window ||
			c.opts.Bytes > 0 && n >= fewest && size > c.opts.Bytes {
			break
		}
	}
	return n
}

// sizeOf returns the size of obj, which may be nil.
func (c *Collection[V]) sizeOf(obj *Object[V]) int {
	if obj == nil || c.opts.Size == nil {
		return 0
	}
	return c.opts.Size(obj)
}
