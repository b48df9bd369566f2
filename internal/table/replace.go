package table

import (
	"iter"
	"slices"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/table/signal"
)

// A Comparison tells Compare how to compare objects and keys. Every function may be nil.
type Comparison[T any] struct {
	// Same reports whether new does not differ from old. If so, old stays stored. Compare calls
	// Same only if it does not know the versions of both objects, or if Distrust is true. nil:
	// only an object that is == old does not differ from it.
	Same func(old, new T) bool
	// Distrust says that equal VersionIDs may be of different objects, so that Same decides about
	// all objects.
	Distrust bool
	// Newer reports whether b, rather than a, is the one to store, if a list has both for one key.
	// nil: the later one in the list is stored.
	Newer func(a, b T) bool
	// Keep reports whether key stays although the list has no object of it. nil: none stays.
	Keep func(Key) bool
	// Amend returns what to compare instead of objs, when all writers wait. It may take the owner's
	// lock. nil: objs.
	Amend func(objs []T) []T
	// Recover is called if the function of an index panics at the object of key, at most once for
	// each key, inside the deferred call that recovers. It must not write to the store. nil: the
	// panic is passed on.
	Recover func(key Key, panicked any)
}

// Replace makes objs the whole content and version the version, at one point. It returns how many
// objects are new, changed or gone. It is Compare and CommitLocked, for who needs nothing between
// them. c has no Recover.
func (s *Store[T]) Replace(objs []T, version string, c Comparison[T]) int {
	r := s.Compare(objs, c)
	defer r.Release()
	s.lock()
	defer s.unlock()
	r.CommitLocked(version)
	return r.Len()
}

// Compare works out what has to be changed so that objs are the whole content. All writers wait
// from then on, until Release, and nothing can fail any more. So CommitLocked and Release must
// follow. Compare panics if one of objs is the zero T.
//
// Compare returns nil if Recover was called. Then nothing has changed, no writer waits, and the
// caller may compare a list without the objects at which an index has panicked.
//
// The functions of c and those of the indexes are called with no lock held. They must not write to
// the store: such a write would wait for Release. If one of them panics, nothing has changed.
func (s *Store[T]) Compare(objs []T, c Comparison[T]) (r *Replacement[T]) {
	if slices.ContainsFunc(objs, equal.IsZero) {
		panic("lw: no object to store")
	}
	s.claim()
	defer func() {
		if r == nil { // also after a panic
			s.release()
		}
	}()
	if c.Amend != nil {
		objs = c.Amend(objs)
	}
	staged, unique := s.diff(objs, c)
	var duplicates []Key
	if !unique {
		// Duplicates are rare, so it is cheapest to begin again without them.
		objs, duplicates = s.distinct(objs, c)
		staged, _ = s.diff(objs, c)
	}
	staged.Duplicates = duplicates
	staged.stageDeletions(c)
	drafts, ok := staged.drafts(c)
	if !ok {
		return nil
	}
	staged.prepare(drafts)
	return staged
}

// A Replacement is what Compare has worked out, for a store that it has claimed. It has the new
// state of each shard beside the one that readers use. Only CommitLocked changes what readers see.
type Replacement[T any] struct {
	// Duplicates has the key of each object whose key an earlier one in the list has.
	Duplicates []Key

	store     *Store[T]
	next      [shards]staged[T]
	gone, put []difference[T] // put: new and changed objects, in the order of the list

	namespaces handles
	tables     *[shards]atomicTable
	fired      signal.Fired // by the commit
}

// Len returns the number of differences: of objects that are new, changed or gone.
func (r *Replacement[T]) Len() int { return len(r.gone) + len(r.put) }

// All yields each difference: first (old, zero) for each object that is gone, then (old, new) and
// (zero, new) in the order of the list.
func (r *Replacement[T]) All() iter.Seq2[T, T] {
	return func(yield func(old, new T) bool) {
		for _, all := range [][]difference[T]{r.gone, r.put} {
			for i := range all {
				if !yield(all[i].old, all[i].new) {
					return
				}
			}
		}
	}
}

// Release lets writers go on, and lets go of the channels that the commit has closed. The caller
// holds no lock.
func (r *Replacement[T]) Release() {
	r.store.release()
	r.fired.Release()
}

// A difference is one object that a Replace adds, changes or removes. old is zero for an addition,
// and new is zero for a removal.
type difference[T any] struct {
	shard, position int32
	old, new        T
}

// staged is the next state of a shard. As long as it is the same as the present state, it has the
// table and the vector of the shard itself, and must not change them. fork gives it copies.
type staged[T any] struct {
	forked bool
	table  *Table
	objs   *Vector[T]
	seen   bitset // the positions whose key the list has
}

// drafts calls the functions of the indexes. Nothing after it can fail. ok is false if Recover was
// called. All functions are called for an object before those for the next: a packed object is opened
// once for all of them.
func (r *Replacement[T]) drafts(c Comparison[T]) (drafts []draft[T], ok bool) {
	for _, ix := range *r.store.indexes.Load() {
		d := ix.draft()
		d.grow(len(r.put))
		drafts = append(drafts, d)
	}
	ok = true
	for next := 0; len(drafts) > 0 && next < len(r.put); {
		var failed bool
		if next, failed = r.compute(drafts, next, c.Recover); failed {
			ok = false
		}
	}
	if !ok {
		return nil, false
	}
	return drafts, true
}

// compute calls the functions of the indexes for the new and changed objects from r.put[from] on, up
// to one at which a function panics. It returns where to go on.
func (r *Replacement[T]) compute(drafts []draft[T], from int, recovered func(Key, any)) (next int, failed bool) {
	next = from
	if recovered != nil {
		defer func() {
			if v := recover(); v != nil {
				recovered(r.store.keyOf(r.put[next].new), v)
				next, failed = next+1, true
			}
		}()
	}
	for ; next < len(r.put); next++ {
		for i, d := range drafts {
			r.store.compute(d, i, r.put[next].new)
		}
	}
	return next, false
}

// diff compares objs with the store, and stages what is new or changed. It does not look for
// objects that are gone. unique is false if two of objs have the same key; then diff has given up.
func (s *Store[T]) diff(objs []T, c Comparison[T]) (r *Replacement[T], unique bool) {
	r = &Replacement[T]{store: s}
	tables := s.tables.Load()
	was := 0
	for i := range r.next {
		sh := s.shards[i]
		r.next[i] = staged[T]{table: tables[i].Load(), objs: &sh.objs}
		was += sh.objs.Live()
	}
	// At least so many objects are new.
	r.put = make([]difference[T], 0, max(0, len(objs)-was))
	// Most of the time goes into cache misses: on the object, the entry of its key, the old
	// object's VersionID. A loop that does all steps for one object would wait for each miss in
	// turn. So the list is taken in batches, and each step runs through the whole batch. The
	// iterations of such a short loop do not depend on each other: while the load of one waits for
	// memory the processor already starts those of the next.
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
			b.ids[i] = s.versionID(obj)
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

// A batch is what a Replace has found out about the next few objects. Its size lets it stay in the
// fastest cache.
type batch struct {
	keys   [64]Key
	hashes [64]uint64
	ids    [64]VersionID
	tables [64]*Table
	found  [64]int // what tables[i].Find returned
}

// stage stages obj, which is object i of batch b. It returns false if an earlier object of the list
// has the same key. If stage has to fork the shard for a new key, it makes room for as many new
// keys as room says.
func (r *Replacement[T]) stage(obj T, b *batch, i, room int, c Comparison[T]) bool {
	var none T
	number := int(b.hashes[i] % shards)
	st := &r.next[number]
	entry := b.found[i]
	if st.table != b.tables[i] || entry < 0 && st.forked && st.table.position(^entry) >= 0 {
		// The batch was looked up before its first object was staged. Since then the shard may have
		// been forked, or the empty entry may have been taken, perhaps by the same key. If it is
		// still empty the key is not there, because a search ends at the first empty entry.
		entry = st.table.Find(b.hashes[i], b.keys[i])
	}
	if entry < 0 {
		r.fork(number, room)
		if st.table.full() {
			st.table = st.table.rebuilt(grown(st.objs.Len()), nil, r.store.versionIDOf != nil)
		}
		position := st.objs.Len()
		st.objs.Append(obj)
		st.table.add(b.hashes[i], r.namespaces.handle(b.keys[i].Namespace), b.keys[i].Name, box(obj, r.store.boxed), b.ids[i])
		st.seen.add(position)
		r.put = append(r.put, difference[T]{int32(number), int32(position), none, obj})
		return true
	}
	position := st.table.position(entry)
	if st.seen.has(position) {
		return false
	}
	st.seen.add(position)
	// old comes from the table, whose entry was just read. To read it from the vector would be
	// another cache miss.
	old := unbox[T](st.table.load(entry), r.store.boxed)
	if equal.Same(old, obj) || !equal.IsZero(old) && r.same(st.table.versionID(position), b.ids[i], old, obj, c) {
		return true
	}
	if !st.forked {
		r.fork(number, 0)
		entry = st.table.entryAt(position) // a fork keeps positions, but not entries
	}
	st.table.setVersionID(position, b.ids[i])
	st.objs.Set(position, obj)
	st.table.store(entry, box(obj, r.store.boxed))
	r.put = append(r.put, difference[T]{int32(number), int32(position), old, obj})
	return true
}

// same reports whether obj, with the VersionID is, does not differ from old, with the VersionID
// was. If both versions are known it does not read the objects.
func (r *Replacement[T]) same(was, is VersionID, old, obj T, c Comparison[T]) bool {
	if was.Version != 0 && is.Version != 0 && !c.Distrust {
		return was == is
	}
	return c.Same != nil && c.Same(old, obj)
}

// fork gives the staged state of a shard a table and a vector of its own, with room for more
// objects.
//
// No writer is at work, but a Snapshot may be taken at any time, and that counts an era in the
// vector. So the vector is forked under the shard's lock.
func (r *Replacement[T]) fork(number, room int) {
	st := &r.next[number]
	if st.forked {
		return
	}
	sh := r.store.shards[number]
	sh.mu.Lock()
	objs := sh.objs.Fork()
	sh.mu.Unlock()
	st.forked, st.objs = true, &objs
	st.table = st.table.rebuilt(max(objs.Len(), room)+room/8+4, nil, r.store.versionIDOf != nil)
}

// distinct returns objs with one object for each key, in the place of the first one. It also
// returns the key of each further object.
func (s *Store[T]) distinct(objs []T, c Comparison[T]) (distinct []T, duplicates []Key) {
	indexes := make(map[Key]int, len(objs))
	for _, obj := range objs {
		key := s.keyOf(obj)
		i, dup := indexes[key]
		if !dup {
			indexes[key] = len(distinct)
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

// stageDeletions stages the removal of the objects that diff has not seen in the list.
func (r *Replacement[T]) stageDeletions(c Comparison[T]) {
	var none T
	for i := range r.next {
		st := &r.next[i]
		if st.seen.count() == st.objs.Live() {
			continue
		}
		r.fork(i, 0)
		for position := range st.objs.Len() {
			old := st.objs.At(position)
			if equal.IsZero(old) || st.seen.has(position) {
				continue
			}
			entry := st.table.entryAt(position)
			// The table has the key under which the object was stored. The object's own name may
			// have been changed since, though nobody should do that.
			if c.Keep != nil && c.Keep(st.table.key(entry)) {
				if c.Distrust {
					// The object stays without having been compared, and from now on the same
					// version may name another state of it. So the version becomes unknown, and
					// the next Replace compares the objects.
					st.table.setVersionID(position, VersionID{Identity: st.table.versionID(position).Identity})
				}
				continue
			}
			st.table.store(entry, value{})
			st.objs.Set(position, none)
			r.gone = append(r.gone, difference[T]{int32(i), int32(position), old, none})
		}
	}
}

// prepare prepares the indexes and the array of tables. This takes time in proportion to the
// changes, so no lock is held. It changes only copies, and data that only writers use; and all
// writers wait for the claim.
func (r *Replacement[T]) prepare(drafts []draft[T]) {
	s := r.store
	indexes := *s.indexes.Load()
	for i, ix := range indexes {
		ix.stage()
		for number := range r.next {
			ix.resize(number, nil, r.next[number].table.room())
		}
		drafts[i].replace(r.gone, r.put)
	}
	r.tables = new([shards]atomicTable)
	for number := range r.next {
		st := &r.next[number]
		if st.forked && sparse(st.objs) { // many objects are gone
			var moved []int32
			st.table, moved = compacted(st.table, st.objs, s.versionIDOf != nil)
			for _, ix := range indexes {
				ix.resize(number, moved, st.table.room())
			}
		}
		r.tables[number].Store(st.table)
	}
}

// CommitLocked puts in place what was staged, at one point, and makes version the version. The
// caller holds the owner's lock.
func (r *Replacement[T]) CommitLocked(version string) {
	// Swap the pointers, under all locks in their order. A Get sees the whole change at the store
	// of s.tables; all other reads wait for the locks.
	s := r.store
	indexes := *s.indexes.Load()
	s.lockVersion()
	for _, ix := range indexes {
		ix.lock(allStripes)
	}
	s.forgetSnapshotLocked()
	for i := range r.next {
		if st := &r.next[i]; st.forked {
			s.shards[i].objs = *st.objs
		}
	}
	s.tables.Store(r.tables)
	s.version = version
	for _, ix := range indexes {
		r.fired = append(r.fired, ix.publish()...)
		ix.unlock(allStripes)
	}
	s.unlockVersion()
}
