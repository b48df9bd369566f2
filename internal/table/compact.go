package table

// sparse reports whether so many of a shard's objects were deleted that it is worth compacting.
func sparse[T comparable](objs *Vector[T]) bool {
	const spare = 16
	live, dead := objs.Live(), objs.Len()-objs.Live()
	return dead > live+spare || live == 0 && dead > 0
}

// rebuild makes room in a shard for a third more objects than it has, and takes the deleted ones out. The caller holds the
// shard's lock, and no stripe's. Nothing that a reader can see changes.
func (s *Store[T]) rebuild(number int) {
	sh := &s.shards[number]
	at := &s.tables.Load()[number]
	table, moved := compacted(at.Load(), &sh.objs, s.stampOf != nil)
	for _, ix := range *s.indexes.Load() {
		ix.lock(allStripes)
		ix.resize(number, moved, table.room())
		ix.unlock(allStripes)
	}
	at.Store(table)
}

// compacted returns a table with more room in place of t, and, if it had to take holes out of objs, each position's new one,
// which is -1 for a hole.
func compacted[T comparable](t *Table, objs *Vector[T], stamped bool) (_ *Table, moved []int32) {
	if objs.Len() > objs.Live() {
		moved = make([]int32, objs.Len())
		var hole T
		var dense Vector[T]
		dense.Reserve(objs.Live())
		for p := range moved {
			if obj := objs.At(p); obj != hole {
				moved[p] = int32(dense.Len())
				dense.Append(obj)
			} else {
				moved[p] = -1
			}
		}
		*objs = dense
	}
	if objs.Len() == 0 && t != nil {
		return nil, moved
	}
	return t.rebuilt(grown(objs.Len()), moved, stamped), moved
}

// grown returns the number of keys to make room for when a table of n is full.
func grown(n int) int { return n + n/3 + 4 }
