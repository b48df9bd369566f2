package table

// sparse reports whether so many objects were deleted that the shard is worth compacting.
func (sh *shard[T]) sparse() bool { return sparse(sh.objs.Len(), sh.live) }

func sparse(positions, live int) bool {
	const spare = 16
	dead := positions - live
	return dead > live+spare || live == 0 && dead > 0
}

// rebuild makes room in a shard for half as many objects again as it has, and takes the deleted ones out. The caller holds
// the shard's lock. Nothing that a reader can see changes.
func (s *Store[T]) rebuild(number int) {
	sh := &s.shards[number]
	slot := &s.tables.Load()[number]
	table, moved := compacted(slot.Load(), &sh.objs, sh.live)
	s.move(number, moved, sh.live)
	slot.Store(table)
}

// move tells the indexes of new positions; nil if they are the old ones.
func (s *Store[T]) move(number int, moved []int32, live int) {
	if moved != nil {
		for _, ix := range *s.indexes.Load() {
			ix.move(number, moved, live)
		}
	}
}

// compacted returns a table with more room in place of t, and, if it had to take holes out of objs, each position's new one,
// which is -1 for a hole.
func compacted[T comparable](t *Table, objs *Vector[T], live int) (_ *Table, moved []int32) {
	if objs.Len() > live {
		moved = make([]int32, objs.Len())
		var hole T
		var dense Vector[T]
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
	if live == 0 && t != nil {
		return nil, moved
	}
	return t.rebuilt(live+live/2+4, moved), moved
}
