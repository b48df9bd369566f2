package table

// A Snapshot is the whole content of a [Store] at one moment. It never changes.
type Snapshot[T comparable] struct {
	seed    seed
	tables  [shards]*Table // still in use: they know a key's position, the views what was there
	views   [shards]View[T]
	n       int
	version string
}

// Snapshot returns the present state. It costs a lock per shard or the owner's, and nothing if nothing has changed since the
// last call.
func (s *Store[T]) Snapshot() *Snapshot[T] {
	if snap := s.snapshot.Load(); snap != nil {
		return snap
	}
	s.lock()
	defer s.unlock()
	return s.SnapshotLocked()
}

// SnapshotLocked is Snapshot for who holds the lock of the store's owner.
func (s *Store[T]) SnapshotLocked() *Snapshot[T] {
	s.lockVersion()
	defer s.unlockVersion()
	if snap := s.snapshot.Load(); snap != nil {
		return snap
	}
	snap := &Snapshot[T]{seed: s.seed, version: s.version}
	tables := s.tables.Load()
	for i := range s.shards {
		sh := &s.shards[i]
		snap.tables[i] = tables[i].Load()
		snap.views[i] = sh.objs.View()
		snap.n += sh.objs.Live()
	}
	s.snapshot.Store(snap)
	return snap
}

// Get returns the object of key.
func (s *Snapshot[T]) Get(key Key) (obj T, ok bool) {
	hash := hashOf(s.seed, key)
	table := s.tables[hash%shards]
	if at := table.Find(hash, key); at >= 0 {
		obj = s.views[hash%shards].At(table.position(at))
	}
	var none T
	return obj, obj != none
}

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int { return s.n }

// Version returns the version of the state.
func (s *Snapshot[T]) Version() string { return s.version }

// Each yields the objects, in no order, until yield returns false.
func (s *Snapshot[T]) Each(yield func(T) bool) {
	for i := range s.views {
		if !s.views[i].Each(yield) {
			return
		}
	}
}

// List returns the objects, in no order, in a slice of its own.
func (s *Snapshot[T]) List() []T {
	list := make([]T, 0, s.n)
	for i := range s.views {
		list = s.views[i].AppendTo(list)
	}
	return list
}
