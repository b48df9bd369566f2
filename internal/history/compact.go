package history

import "slices"

// Compact is like [Line.Compact], for this collection alone.
func (c *Collection[V]) Compact(version uint64) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.compactLocked(version)
}

// Disconnect is like [Line.Disconnect], for this collection alone.
func (c *Collection[V]) Disconnect() {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.disconnectLocked()
}

// Finish ends the open watches of this collection, each when it has sent all changes so far.
func (c *Collection[V]) Finish() {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.finishes++
	c.wakeLocked()
}

// Leave takes the collection, to which nobody writes any more, out of its line: what the line
// does, as Compact or Wipe, does not meet it, and the line keeps nothing of it.
func (c *Collection[V]) Leave() {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.line.collections = slices.DeleteFunc(c.line.collections, func(m member) bool { return m == member(c) })
}

func (c *Collection[V]) oldestLocked() uint64 { return c.oldest }

// compactLocked forgets the states before version. Only rows with a change up to version can lose
// revisions, so it walks the log and not the rows.
func (c *Collection[V]) compactLocked(version uint64) {
	version = min(version, c.line.now)
	if version <= c.oldest {
		return
	}
	n := c.afterLocked(version)
	for _, change := range c.log[:n] {
		c.trimLocked(change, func(revs []revision[V]) []revision[V] {
			// The state at version needs only the last revision up to version. If that is a
			// deletion it is not needed either.
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
	// A copy, because a subslice would keep the compacted changes in memory, as would an empty clone.
	c.log = append([]Change[V](nil), c.log[n:]...)
	c.countLocked()
	c.compacted += uint64(n)
	c.oldest = version
	c.state, c.stateOf = nil, 0
	c.wakeLocked()
}

// rewindLocked forgets everything after version, as if it had never been written.
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
	c.countLocked()
	c.born = min(c.born, version)
	c.state, c.stateOf = nil, 0
}

// countLocked counts the size of the log again, of which some was taken.
func (c *Collection[V]) countLocked() {
	c.bytes = 0
	for _, change := range c.log {
		c.bytes += c.sizeOf(change.New)
	}
}

// trimLocked passes the revisions of change's key through f. If none is left it marks the row dead,
// and the caller removes it from c.sorted.
func (c *Collection[V]) trimLocked(change Change[V], f func([]revision[V]) []revision[V]) {
	obj := change.New
	if obj == nil {
		obj = change.Old
	}
	r := c.rows[obj.Key]
	if r == nil {
		return // an earlier change of the same key has already removed the row
	}
	if r.revisions = f(r.revisions); len(r.revisions) == 0 {
		r.dead = true
		delete(c.rows, obj.Key)
	}
}

// wipeLocked removes all objects and all history. compacted stays: all watches end anyway.
func (c *Collection[V]) wipeLocked() {
	clear(c.rows)
	c.sorted, c.unsorted = nil, false
	c.log, c.bytes, c.oldest, c.born = nil, 0, c.line.first, c.line.first
	c.state, c.stateOf = nil, 0
}

// disconnectLocked ends all open watches.
func (c *Collection[V]) disconnectLocked() {
	c.disconnects++
	c.wakeLocked()
}

// wakeLocked wakes the watches that wait, so that they look again.
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
