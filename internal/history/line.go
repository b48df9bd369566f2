package history

import (
	"sync"
	"time"

	"github.com/go-lw/lw/internal/listopts"
)

// A Line is the resource versions of a server: one counter for all of its collections. Each write
// takes the next version. A Line is safe for concurrent use.
type Line struct {
	mu          sync.Mutex // guards the Line, and all fields of its collections
	first       uint64     // the version at which every collection was empty
	random      bool       // so are the UIDs
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
func NewLine() *Line { return &Line{first: firstVersion, now: firstVersion} }

// FromOne makes NewLineNow return what NewLine does. Tests set it, before anything else.
var FromOne bool

// perMicrosecond is how many versions a microsecond has: more than there can be writes.
const perMicrosecond = 1 << 10

// NewLineNow returns a line whose versions and UIDs come again in no later process: it begins at
// the time, in microseconds times 1024, and UIDs are random.
func NewLineNow() *Line {
	if FromOne {
		return NewLine()
	}
	now := uint64(time.Now().UnixMicro()) * perMicrosecond
	return &Line{first: now, now: now, random: true}
}

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
// collection has compacted that state, and as StateAt does if the line has not reached version. A
// line at which nothing was written yet can begin at any version before it, and then makes the same
// UIDs each time.
func (l *Line) Rewind(version uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version = max(version, firstVersion); version < l.first && l.now == l.first {
		l.first, l.random = version, false
		l.wipeLocked()
		return nil
	}
	if version > l.now {
		return listopts.TooLarge(version, l.now)
	}
	for _, c := range l.collections {
		if oldest := c.oldestLocked(); version < oldest {
			return listopts.TooOld(version, oldest)
		}
	}
	l.now = version
	for _, c := range l.collections {
		c.rewindLocked(version)
		c.disconnectLocked()
	}
	return nil
}

// Wipe removes all objects and all history, goes back to the first version and ends all watches.
func (l *Line) Wipe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wipeLocked()
}

func (l *Line) wipeLocked() {
	l.now = l.first
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
