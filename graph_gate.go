package lw

import (
	"sync"
	"sync/atomic"
)

// A gate makes a commit of several stores one point for reads that take no lock. It counts seq up
// before the first change and after the last. A read that finds the same even number before and
// after itself has met no commit. Any other read is made again under mu, which every commit holds.
//
// Without the gate two Gets could show two states: one of a collection that the commit has changed
// already, and then one of a collection that it has not reached.
type gate struct {
	seq atomic.Uint64 // odd while a commit is going on; written under mu
	mu  sync.Mutex
}

// beginLocked and endLocked enclose the changes of a commit.
func (g *gate) beginLocked() { g.seq.Add(1) }
func (g *gate) endLocked()   { g.seq.Add(1) }

// read returns what f returns at a moment at which no commit is going on. It may call f twice.
func read[R any](g *gate, f func() R) R {
	if seq := g.seq.Load(); seq%2 == 0 {
		if r := f(); g.seq.Load() == seq {
			return r
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
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
	x.gate.mu.Lock()
	defer x.gate.mu.Unlock()
	return x.store.Get(key)
}
