package history

import "slices"

// Compact is [Line.Compact] for this collection alone.
func (c *Collection[V]) Compact(version uint64) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.compactLocked(version)
}

// Disconnect is [Line.Disconnect] for this collection alone.
func (c *Collection[V]) Disconnect() {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.cutLocked()
}

func (c *Collection[V]) oldestLocked() uint64 { return c.oldest }

func (c *Collection[V]) compactLocked(version uint64) {
	version = min(version, c.line.now)
	if version <= c.oldest {
		return
	}
	n := c.afterLocked(version)
	for _, change := range c.log[:n] {
		c.trimLocked(change, func(revs []revision[V]) []revision[V] {
			// All but the last of those up to version go, and that too if it says that there is nothing.
			keep := 0
			for keep+1 < len(revs) && revs[keep+1].version <= version {
				keep++
			}
			if revs[keep].version <= version && revs[keep].obj == nil {
				keep++
			}
			return slices.Delete(revs, 0, keep)
		})
	}
	c.sorted = slices.DeleteFunc(c.sorted, func(r *row[V]) bool { return r.dead })
	// A copy, so that what was compacted becomes garbage.
	c.log = slices.Clone(c.log[n:])
	c.dropped += uint64(n)
	c.oldest = version
	c.state, c.stateOf = nil, 0
	c.wakeLocked()
}

func (c *Collection[V]) rewindLocked(version uint64) {
	n := c.afterLocked(version)
	for _, change := range c.log[n:] {
		c.trimLocked(change, func(revs []revision[V]) []revision[V] {
			keep := len(revs)
			for keep > 0 && revs[keep-1].version > version {
				keep--
			}
			return slices.Delete(revs, keep, len(revs))
		})
	}
	c.sorted = slices.DeleteFunc(c.sorted, func(r *row[V]) bool { return r.dead })
	clear(c.log[n:])
	c.log = c.log[:n]
	c.state, c.stateOf = nil, 0
}

// trimLocked passes the revisions of change's row through f, and removes the row when none is left.
func (c *Collection[V]) trimLocked(change Change[V], f func([]revision[V]) []revision[V]) {
	obj := change.New
	if obj == nil {
		obj = change.Old
	}
	r := c.rows[obj.Key]
	if r == nil {
		return // an earlier change of the same key has removed it
	}
	if r.revisions = f(r.revisions); len(r.revisions) == 0 {
		r.dead = true // and so nothing at any version, until it leaves c.sorted
		delete(c.rows, obj.Key)
	}
}

func (c *Collection[V]) wipeLocked() {
	clear(c.rows)
	c.sorted, c.unsorted = nil, false
	c.log, c.oldest = nil, firstVersion
	c.state, c.stateOf = nil, 0
}

func (c *Collection[V]) cutLocked() {
	c.cuts++
	c.wakeLocked()
}

// wakeLocked lets every watch that waits look again.
func (c *Collection[V]) wakeLocked() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// waitLocked returns a channel that is closed at the next change.
func (c *Collection[V]) waitLocked() <-chan struct{} {
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}
