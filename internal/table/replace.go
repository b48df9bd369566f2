package table

import "slices"

// Changes says what Replace has to know of its objects, and whom to tell.
type Changes[T comparable] struct {
	// Same reports that new is no change of old, which then keeps its place. It is asked where stamps do not tell, and always
	// if Distrust is true. nil: they are the same object.
	Same     func(old, new T) bool
	Distrust bool
	// Newer reports whether b counts, rather than a, of two objects of one key. nil: it does.
	Newer func(a, b T) bool
	// Keep names keys that stay although no object has them. nil: none.
	Keep func(Key) bool
	// Trying is told of each object before the functions of the indexes are called with it, so that one can say at which they
	// panicked. nil: nobody wants to know.
	Trying func(T)
	// Change is told of each difference when all of it can be seen: (old, zero) of all that is gone, then (old, new) and
	// (zero, new) in the order of the objects. nil: nobody wants to know.
	Change func(old, new T)
	// Duplicate is told, before Change is, of each object whose key an earlier one has. nil: nobody wants to know.
	Duplicate func(Key)
	// Done is called after the last Change. nil: nobody wants to know.
	Done func()
}

// Replace makes objs the content, and version the version, at once. It returns how many objects are new, changed or gone.
// Change, Duplicate and Done are called with the lock of the store's owner held, or with no lock if there is no owner. All other
// functions, and those of the indexes, are called without a lock, and must not write to the store. If one of these panics
// nothing has changed.
func (s *Store[T]) Replace(objs []T, version string, c Changes[T]) int {
	var none T
	if slices.Contains(objs, none) {
		panic("lw: no object to store")
	}
	s.claim()
	defer s.release()
	r, unique := s.diff(objs, c)
	var duplicates []Key
	if !unique {
		// Rare enough to begin again.
		objs, duplicates = s.distinct(objs, c)
		r, _ = s.diff(objs, c)
	}
	r.drop(c)
	r.commit(r.drafts(c), version, func() { r.tell(c, duplicates) })
	return len(r.gone) + len(r.put)
}

// replace is the work that a Replace does on a store that it has claimed.
type replace[T comparable] struct {
	store     *Store[T]
	next      [shards]staged[T]
	gone, put []difference[T]

	namespaces handles
}

type difference[T comparable] struct {
	shard, position int32
	old, new        T
}

// staged is what a shard is going to be. Until it differs it is what the shard is.
type staged[T comparable] struct {
	forked bool
	table  *Table
	objs   *Vector[T]
	seen   bitset // positions of which there was an object
}

// drafts calls the indexes' functions. What follows does not fail.
func (r *replace[T]) drafts(c Changes[T]) []draft[T] {
	indexes := *r.store.indexes.Load()
	drafts := make([]draft[T], len(indexes))
	for i, ix := range indexes {
		drafts[i] = ix.draft()
		drafts[i].grow(len(r.put))
		for _, d := range r.put {
			if c.Trying != nil {
				c.Trying(d.new)
			}
			drafts[i].compute(d.new)
		}
	}
	return drafts
}

// tell says what has changed.
func (r *replace[T]) tell(c Changes[T], duplicates []Key) {
	var none T
	for _, key := range duplicates {
		if c.Duplicate != nil {
			c.Duplicate(key)
		}
	}
	if c.Change != nil {
		for _, d := range r.gone {
			c.Change(d.old, none)
		}
		for _, d := range r.put {
			c.Change(d.old, d.new)
		}
	}
	if c.Done != nil {
		c.Done()
	}
}

// diff stages objs, without what is gone. It reports whether each has a key of its own, and gives up if not.
func (s *Store[T]) diff(objs []T, c Changes[T]) (r *replace[T], unique bool) {
	r = &replace[T]{store: s}
	tables := s.tables.Load()
	was := 0
	for i := range r.next {
		sh := &s.shards[i]
		r.next[i] = staged[T]{table: tables[i].Load(), objs: &sh.objs}
		was += sh.objs.Live()
	}
	r.put = make([]difference[T], 0, max(0, len(objs)-was)) // as many are new at least
	// A batch at a time, and each step for the whole of it: a step waits for memory, and the processor goes on to the next
	// object meanwhile if there is little to do for each.
	var b batch
	for len(objs) > 0 {
		n := min(len(objs), len(b.keys))
		for i, obj := range objs[:n] {
			b.keys[i] = s.keyOf(obj)
		}
		for i := range n {
			b.hashes[i] = hashOf(s.seed, b.keys[i])
		}
		for i, obj := range objs[:n] {
			b.stamps[i] = s.stamp(obj)
		}
		for i := range n {
			table := r.next[b.hashes[i]%shards].table
			b.tables[i], b.found[i] = table, table.Find(b.hashes[i], b.keys[i])
		}
		for i, obj := range objs[:n] {
			if !r.stage(obj, &b, i, len(objs)/shards, c) {
				return nil, false
			}
		}
		objs = objs[n:]
	}
	return r, true
}

// A batch is what a Replace knows of the next few objects.
type batch struct {
	keys   [64]Key
	hashes [64]uint64
	stamps [64]Stamp
	tables [64]*Table
	found  [64]int // entries of tables
}

// stage stages obj, which is number i of b. It reports false if there was an object of the same key. A shard of which
// nothing is staged yet gets room for as many new keys.
func (r *replace[T]) stage(obj T, b *batch, i, room int, c Changes[T]) bool {
	var none T
	number := int(b.hashes[i] % shards)
	st := &r.next[number]
	at := b.found[i]
	if st.table != b.tables[i] || at < 0 && st.forked && st.table.position(^at) >= 0 {
		// The shard has been forked, or it may have got the same key, since the batch was looked up.
		at = st.table.Find(b.hashes[i], b.keys[i])
	}
	if at < 0 {
		r.fork(number, room)
		if st.table.full() {
			st.table = st.table.rebuilt(grown(st.objs.Len()), nil, r.store.stampOf != nil)
		}
		position := st.objs.Len()
		st.objs.Append(obj)
		st.table.add(b.hashes[i], r.namespaces.handle(b.keys[i].Namespace), b.keys[i].Name, box(obj, r.store.boxed), b.stamps[i])
		st.seen.add(position)
		r.put = append(r.put, difference[T]{int32(number), int32(position), none, obj})
		return true
	}
	position := st.table.position(at)
	if st.seen.has(position) {
		return false
	}
	st.seen.add(position)
	old := unbox[T](st.table.load(at), r.store.boxed) // which is at hand, unlike what the vector has
	if old == obj || old != none && r.same(st.table.stamp(position), b.stamps[i], old, obj, c) {
		return true
	}
	if !st.forked {
		r.fork(number, 0)
		at = st.table.at(position)
	}
	st.table.setStamp(position, b.stamps[i])
	st.objs.Set(position, obj)
	st.table.store(at, box(obj, r.store.boxed))
	r.put = append(r.put, difference[T]{int32(number), int32(position), old, obj})
	return true
}

// same reports whether obj, with the stamp is, is no change of old, with the stamp was.
func (r *replace[T]) same(was, is Stamp, old, obj T, c Changes[T]) bool {
	if was.Version != 0 && is.Version != 0 && !c.Distrust {
		return was == is
	}
	return c.Same != nil && c.Same(old, obj)
}

// fork gives a shard's stage a copy of its own, with room for more objects.
func (r *replace[T]) fork(number, room int) {
	st := &r.next[number]
	if st.forked {
		return
	}
	sh := &r.store.shards[number]
	sh.mu.Lock() // against Snapshot
	objs := sh.objs.Fork()
	sh.mu.Unlock()
	st.forked, st.objs = true, &objs
	st.table = st.table.rebuilt(max(objs.Len(), room)+room/8+4, nil, r.store.stampOf != nil)
}

// distinct returns objs with one object for each key, in the place of the first, and the keys of which there was another.
func (s *Store[T]) distinct(objs []T, c Changes[T]) (distinct []T, duplicates []Key) {
	at := make(map[Key]int, len(objs))
	for _, obj := range objs {
		key := s.keyOf(obj)
		i, dup := at[key]
		if !dup {
			at[key] = len(distinct)
			distinct = append(distinct, obj)
			continue
		}
		duplicates = append(duplicates, key)
		if c.Newer == nil || c.Newer(distinct[i], obj) {
			distinct[i] = obj
		}
	}
	return distinct, duplicates
}

// drop stages that what diff has not seen is gone.
func (r *replace[T]) drop(c Changes[T]) {
	var none T
	for i := range r.next {
		st := &r.next[i]
		if st.seen.count() == st.objs.Live() {
			continue
		}
		r.fork(i, 0)
		for position := range st.objs.Len() {
			old := st.objs.At(position)
			if old == none || st.seen.has(position) {
				continue
			}
			at := st.table.at(position)
			// The key is that of the table, not the one that the object has now: nobody should change that, but somebody may.
			if c.Keep != nil && c.Keep(st.table.key(at)) {
				if c.Distrust {
					// Its version means something else from now on.
					st.table.setStamp(position, Stamp{Identity: st.table.stamp(position).Identity})
				}
				continue
			}
			st.table.store(at, value{})
			st.objs.Set(position, none)
			r.gone = append(r.gone, difference[T]{int32(i), int32(position), old, none})
		}
	}
}

// commit puts in place what was staged, and calls tell when all of it can be seen.
func (r *replace[T]) commit(drafts []draft[T], version string, tell func()) {
	s := r.store
	indexes := *s.indexes.Load()
	for i, ix := range indexes {
		ix.stage()
		for number := range r.next {
			ix.resize(number, nil, r.next[number].table.room())
		}
		drafts[i].replace(r.gone, r.put)
	}
	tables := new([shards]atomicTable)
	for number := range r.next {
		st := &r.next[number]
		if st.forked && sparse(st.objs) {
			var moved []int32
			st.table, moved = compacted(st.table, st.objs, s.stampOf != nil)
			for _, ix := range indexes {
				ix.resize(number, moved, st.table.room())
			}
		}
		tables[number].Store(st.table)
	}

	s.lock()
	s.lockVersion()
	for _, ix := range indexes {
		ix.lock(allStripes)
	}
	s.forget()
	for i := range r.next {
		if st := &r.next[i]; st.forked {
			s.shards[i].objs = *st.objs
		}
	}
	s.tables.Store(tables)
	s.version = version
	for _, ix := range indexes {
		ix.publish()
		ix.unlock(allStripes)
	}
	s.unlockVersion()
	if s.owner != nil {
		tell() // before anybody else sees the change
		s.unlock()
		return
	}
	s.unlock()
	tell()
}
