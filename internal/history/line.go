package history

import (
	"sync"
)

// A Line is a server's resource versions: one counter for all of its collections, of which each write takes the next.
// It is safe for concurrent use.
type Line struct {
	mu          sync.Mutex // guards the line and all that its collections hold
	now         uint64
	collections []member
	created     uint64 // how many objects were created; never goes back, so that no two share a UID
	bookmarks   uint64 // how often Bookmark was called
}

// A member is a Collection without its type parameter.
type member interface {
	oldestLocked() uint64
	compactLocked(version uint64)
	rewindLocked(version uint64)
	wipeLocked()
	cutLocked()
	wakeLocked()
}

// firstVersion is the version of a line that nothing was written to. It is not 0, which means "any" in a request.
const firstVersion = 1

// NewLine returns a line that stands at version 1, where every collection is empty.
func NewLine() *Line { return &Line{now: firstVersion} }

// Version returns the current version.
func (l *Line) Version() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Advance moves the line on by n versions that change none of its collections, as writes elsewhere in the server do.
func (l *Line) Advance(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now += n
}

// Compact forgets the states before version, in every collection. A later version than the current one means the current
// one. An open watch that has yet to read one of the changes that go ends with Expired; one that has read them goes on.
func (l *Line) Compact(version uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.collections {
		c.compactLocked(version)
	}
}

// Rewind goes back to the state of version, as a server does that is restored from a backup, and ends every watch. Later
// writes take the same versions again. It fails with Expired if a collection has compacted that state, and with the error of
// a too large resource version if it is not there yet.
func (l *Line) Rewind(version uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version > l.now {
		return errTooLarge(version, l.now)
	}
	for _, c := range l.collections {
		if oldest := c.oldestLocked(); version < oldest {
			return errTooOld(version, oldest)
		}
	}
	l.now = max(version, firstVersion)
	for _, c := range l.collections {
		c.rewindLocked(version)
		c.cutLocked()
	}
	return nil
}

// Wipe removes every object and all history, goes back to version 1 and ends every watch.
func (l *Line) Wipe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = firstVersion
	for _, c := range l.collections {
		c.wipeLocked()
		c.cutLocked()
	}
}

// Disconnect ends every open watch: its Next returns io.EOF.
func (l *Line) Disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.collections {
		c.cutLocked()
	}
}

// Bookmark makes every open watch that allows bookmarks send one as soon as it has nothing else to send.
func (l *Line) Bookmark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bookmarks++
	for _, c := range l.collections {
		c.wakeLocked()
	}
}
