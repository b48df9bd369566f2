package table

import "github.com/go-lw/lw/internal/equal"

// sparse reports whether a shard has so many deleted objects that compacting it is worth the time:
// clearly more than it has objects. A shard without objects is compacted in any case, because that
// gives back all its memory.
func sparse[T any](objs *Vector[T]) bool {
	const spare = 16
	live, dead := objs.Live(), objs.Len()-objs.Live()
	return dead > live+spare || live == 0 && dead > 0
}

// rebuildLocked gives a shard a new Table with room for a third more objects than it has, and takes
// the holes of deleted objects out of the Vector. Readers see no difference.
//
// The caller holds the shard's lock and no stripe. rebuildLocked locks all stripes of one index
// after the other, because the memberships of the shard's objects move (see members).
func (s *Store[T]) rebuildLocked(number int) {
	sh := s.shards[number]
	current := &s.tables.Load()[number]
	table, moved := compacted(current.Load(), &sh.objs, s.versionIDOf != nil)
	// A reader may come between the indexes, or before the table is stored. It sees the same
	// objects before and after each step.
	for _, ix := range *s.indexes.Load() {
		ix.lock(allStripes)
		ix.resize(number, moved, table.room())
		ix.unlock(allStripes)
	}
	current.Store(table)
}

// compacted returns a table to use in place of t, with more room. If objs has holes, it takes them
// out and returns the new position of each old one, -1 for a hole. Otherwise moved is nil. If no
// object is left, the table is nil.
func compacted[T any](t *Table, objs *Vector[T], withIDs bool) (_ *Table, moved []int32) {
	if objs.Len() > objs.Live() {
		moved = make([]int32, objs.Len())
		var dense Vector[T]
		dense.Reserve(objs.Live())
		for p := range moved {
			if obj := objs.At(p); !equal.IsZero(obj) {
				moved[p] = int32(dense.Len())
				dense.Append(obj)
			} else {
				moved[p] = -1
			}
		}
		// Snapshots keep the chunks of the old vector, and the old table with the positions in it.
		*objs = dense
	}
	if objs.Len() == 0 && t != nil {
		return nil, moved
	}
	return t.rebuilt(grown(objs.Len()), moved, withIDs), moved
}

// grown returns the number of keys that a table gets room for when n objects have filled it.
func grown(n int) int { return n + n/3 + 4 }
