package history

import "sync"

// A Line is a server's resource versions: one counter for all of its collections, of which each write takes the next.
// It is safe for concurrent use.
type Line struct {
	mu  sync.Mutex
	now uint64
}

// NewLine returns a line that stands at version 1.
func NewLine() *Line { return &Line{now: 1} }

// Version returns the current version.
func (l *Line) Version() uint64 { panic("not written yet") }

// Advance moves the line on by n versions that change none of its collections, as writes elsewhere in the server do.
func (l *Line) Advance(n uint64) { panic("not written yet") }

// Compact forgets the states before version, in every collection. A later version than the current one means the current one.
func (l *Line) Compact(version uint64) { panic("not written yet") }

// Rewind goes back to the state of version, as a server does that is restored from a backup, and ends every watch. Later
// writes take the same versions again. It fails with an Expired error if a collection has compacted that state.
func (l *Line) Rewind(version uint64) error { panic("not written yet") }

// Wipe removes every object and all history, goes back to version 1 and ends every watch.
func (l *Line) Wipe() { panic("not written yet") }

// Disconnect ends every open watch: its Next returns io.EOF.
func (l *Line) Disconnect() { panic("not written yet") }

// Bookmark makes every open watch that allows bookmarks send one when it has nothing else to send.
func (l *Line) Bookmark() { panic("not written yet") }
