package lw

import (
	"sync"
	"sync/atomic"

	"github.com/go-lw/lw/internal/table"
)

// A gate makes a commit of several stores one point, and has no read wait for it.
//
// seq is counted up before the first change of a commit that readers could see, and after the last.
// A read that takes no lock, and finds the same even number before and after itself, has met no
// commit. Any other read is made under look. That is held at both ends of a commit, and between
// them only if the commit is brief: some hundred objects. A long commit first takes a snapshot of
// each store, which reads are answered from until all stores have the new state
// (Indexer.before). Small commits do without, since the first write to each chunk of a store after
// a snapshot copies the chunk.
//
// Without the gate two Gets could show two states: one of a collection that the commit has changed
// already, and then one of a collection that it has not reached.
type gate struct {
	seq atomic.Uint64 // odd while a commit is going on; written under look

	// mu is the lock of the hubs and the owner of the stores. A commit holds it from its beginning
	// until the logs have the changes, so what needs both a store and its log waits for that.
	mu sync.Mutex
	// look comes after mu in the order of the locks. Reads take it alone.
	look sync.Mutex
}

// read returns what f returns at a moment at which no commit is going on, or under look. It may
// call f twice.
func read[R any](g *gate, f func() R) R {
	if seq := g.seq.Load(); seq%2 == 0 {
		if r := f(); g.seq.Load() == seq {
			return r
		}
	}
	g.look.Lock()
	defer g.look.Unlock()
	return f()
}

// getGated is Get for a store that has a gate. It is not written with read, whose closure would
// allocate.
func (x *Indexer[T]) getGated(key Key) (obj T, ok bool) {
	if seq := x.gate.seq.Load(); seq%2 == 0 {
		if obj, ok = x.store.Get(key); x.gate.seq.Load() == seq {
			return obj, ok
		}
	}
	x.gate.look.Lock()
	defer x.gate.look.Unlock()
	if x.before != nil {
		return x.before.Get(key)
	}
	return x.store.Get(key)
}

// contentGated returns the present state of a store that has a gate.
func (x *Indexer[T]) contentGated() *table.Snapshot[T] {
	if seq := x.gate.seq.Load(); seq%2 == 0 {
		if content := x.store.Cached(); content != nil && x.gate.seq.Load() == seq {
			return content
		}
	}
	x.gate.look.Lock()
	defer x.gate.look.Unlock()
	return x.contentLocked()
}

// contentLocked is contentGated for a caller that holds look.
func (x *Indexer[T]) contentLocked() *table.Snapshot[T] {
	if x.before != nil {
		return x.before
	}
	return x.store.SnapshotLocked()
}

// lenGated and versionGated are Len and ResourceVersion for a store that has a gate.
func (x *Indexer[T]) lenGated() int {
	x.gate.look.Lock()
	defer x.gate.look.Unlock()
	if x.before != nil {
		return x.before.Len()
	}
	return x.store.LenLocked()
}

func (x *Indexer[T]) versionGated() string {
	x.gate.look.Lock()
	defer x.gate.look.Unlock()
	if x.before != nil {
		return x.before.Version()
	}
	return x.store.VersionLocked()
}
