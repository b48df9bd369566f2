package table

import (
	"iter"

	"github.com/go-lw/lw/internal/equal"
)

// A Snapshot is the whole content of a [Store] at one moment. It never changes. It copies no
// object: it consists of views, and of tables that tell the positions of keys in them.
type Snapshot[T any] struct {
	seed seed
	// tables may still be in use by the store, and change after the snapshot. The snapshot only
	// takes the positions of keys from them, and within a table the position of a key never
	// changes. The objects come from the views. A key that was added after the snapshot has a
	// position beyond the end of its view, so it is not found.
	tables  [shards]*Table
	views   [shards]View[T]
	n       int    // the number of objects
	version string // the version that the store reported
	orders  []captured
}

// Snapshot returns the present state. It takes the locks of all shards, or the owner's, for a few
// loads and stores for each shard. If nothing has changed since the last call it takes no lock and
// returns the same Snapshot.
func (s *Store[T]) Snapshot() *Snapshot[T] {
	if snap := s.snapshot.Load(); snap != nil {
		return snap
	}
	s.lock()
	defer s.unlock()
	return s.SnapshotLocked()
}

// SnapshotLocked is like Snapshot. The caller must hold the owner's lock, or those of all shards if
// the store has no owner.
func (s *Store[T]) SnapshotLocked() *Snapshot[T] {
	s.lockVersion()
	defer s.unlockVersion()
	if snap := s.snapshot.Load(); snap != nil {
		return snap
	}
	snap := &Snapshot[T]{seed: s.seed, version: s.version}
	tables := s.tables.Load()
	for i := range s.shards {
		sh := s.shards[i]
		snap.tables[i] = tables[i].Load()
		snap.views[i] = sh.objs.View()
		snap.n += sh.objs.Live()
	}
	for _, o := range s.orders {
		snap.orders = append(snap.orders, captured{o, o.capture()})
	}
	s.snapshot.Store(snap)
	return snap
}

// Get returns the object that key had in the state.
func (s *Snapshot[T]) Get(key Key) (obj T, ok bool) {
	hash := hashOf(s.seed, key)
	table := s.tables[hash%shards]
	if entry := table.Find(hash, key); entry >= 0 {
		obj = s.views[hash%shards].At(table.position(entry))
	}
	return obj, !equal.IsZero(obj)
}

// Len returns the number of objects in the state.
func (s *Snapshot[T]) Len() int { return s.n }

// Version returns the version that the store reported in the state.
func (s *Snapshot[T]) Version() string { return s.version }

// All yields the objects, in no order. Its loops are in one function, which the compiler then
// inlines together with the body of the caller's loop.
func (s *Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range s.views {
			for _, c := range s.views[i].chunks {
				for _, val := range c.vals {
					if !equal.IsZero(val) && !yield(val) {
						return
					}
				}
			}
		}
	}
}

// List returns the objects, in no order, in a slice that is the caller's.
func (s *Snapshot[T]) List() []T {
	list := make([]T, 0, s.n)
	for i := range s.views {
		list = s.views[i].AppendTo(list)
	}
	return list
}
