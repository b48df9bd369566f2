package history

import (
	"sync"

	"github.com/go-lw/lw/internal/listopts"
)

// A Line is the resource versions of a server: one counter for all of its collections. Each write
// takes the next version. A Line is safe for concurrent use.
type Line struct {
	mu          sync.Mutex // guards the Line, and all fields of its collections
	now         uint64     // the version of the last write
	collections []member
	created     uint64 // how many objects were ever created; never goes back, so no UID comes twice
	bookmarks   uint64 // how many times Bookmark was called
}

// A member is a Collection without its type parameter. All its methods need Line.mu.
type member interface {
	oldestLocked() uint64
	compactLocked(version uint64)
	rewindLocked(version uint64)
	wipeLocked()
	disconnectLocked()
	wakeLocked()
}

// firstVersion is the version of a new line. It is not 0, because "0" in a request means any
// version.
const firstVersion = 1

// NewLine returns a line at version 1, at which every collection is empty.
func NewLine() *Line { return &Line{now: firstVersion} }

// Version returns the current version.
func (l *Line) Version() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Advance raises the version by n without a change to any collection. A real server does so when
// other kinds of objects are written.
func (l *Line) Advance(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now += n
}

// Compact forgets the states before version, in all collections. If version is later than the
// current one it means the current one. An open watch goes on if it has read all changes up to
// version; otherwise it ends with Expired.
func (l *Line) Compact(version uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.collections {
		c.compactLocked(version)
	}
}

// Rewind goes back to the state at version and ends all watches, as when a server is restored from
// a backup. Later writes take the same versions a second time. Rewind fails with Expired if a
// collection has compacted that state, and as StateAt does if the line has not reached version.
func (l *Line) Rewind(version uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version > l.now {
		return listopts.TooLarge(version, l.now)
	}
	for _, c := range l.collections {
		if oldest := c.oldestLocked(); version < oldest {
			return listopts.TooOld(version, oldest)
		}
	}
	l.now = max(version, firstVersion)
	for _, c := range l.collections {
		c.rewindLocked(version)
		c.disconnectLocked()
	}
	return nil
}

// Wipe removes all objects and all history, goes back to version 1 and ends all watches.
func (l *Line) Wipe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = firstVersion
	for _, c := range l.collections {
		c.wipeLocked()
		c.disconnectLocked()
	}
}

// Disconnect ends all open watches: their Next returns io.EOF.
func (l *Line) Disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.collections {
		c.disconnectLocked()
	}
}

// Bookmark makes all open watches that allow bookmarks send one as soon as they have sent all
// changes.
func (l *Line) Bookmark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bookmarks++
	for _, c := range l.collections {
		c.wakeLocked()
	}
}
