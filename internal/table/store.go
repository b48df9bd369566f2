package table

import (
	"sync"
	"sync/atomic"
	"unique"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/table/signal"
)

// shards is the number of writers that can work at the same time. Each shard costs a snapshot one
// lock, and an empty store 150 bytes.
const shards = 8

// A Store holds at most one object for each key. The zero value of T is not an object. A Store is
// safe for many readers and many writers; the package comment says what a reader may rely on.
type Store[T any] struct {
	keyOf       func(T) Key
	versionIDOf func(T) (version uint64, identity string) // nil: the objects have no VersionID
	seed        seed                                      // of the hashes of keys and identities
	boxed       bool                                      // isBoxed[T]()

	// tables are the shards' tables. A writer replaces one element, under the lock of that shard. A
	// Replace replaces the array, so that all its changes are seen at one point.
	tables  atomic.Pointer[[shards]atomicTable]
	shards  [shards]*shard[T]
	indexes atomic.Pointer[[]index[T]] // changed under the locks of all shards
	orders  []captor                   // those of indexes that are an Order; guarded by all these locks

	// owner is the lock of a store that has an owner. It then stands for the locks of all shards
	// and of the version. If it is nil each shard has a lock of its own.
	owner *sync.Mutex

	versionMu sync.Mutex // guards version in a store without an owner
	version   string     // the reported version

	memoOf   func(T) *Memo // see UseMemos; nil: no object has one
	identity *int          // tells the store in a Memo; nil without memoOf

	// snapshot is the present state, if anybody has asked for it since the last change. It is set
	// under the locks of all shards and of the version. A writer holds one of them, so nobody can
	// set it during the write. The writer clears it before anybody can see the change: otherwise a
	// Get could show the change, and a Snapshot after it the state before.
	snapshot atomic.Pointer[Snapshot[T]]

	writers sync.Pool // of *writer[T], in a store without an owner
	// writer is the writer of a store with an owner. It is nil while a write uses it, and after a
	// panic of an index's function. Such a store has hardly ever two writes at a time, so it needs
	// no pool: a second write makes a writer of its own.
	writer atomic.Pointer[writer[T]]
}

type atomicTable = atomic.Pointer[Table]

// A shard is the objects of an eighth of all keys. mu guards claims and objs. It also guards the
// shard's Table: only a goroutine that holds mu may change it, while a Get reads it without mu.
type shard[T any] struct {
	mu     *sync.Mutex // the owner's, or the shard's own
	claims *claims     // the owner's, or the shard's own
	objs   Vector[T]   // by position; a deleted object leaves a hole
}

// A lockedShard is a shard of a store without an owner.
type lockedShard[T any] struct {
	shard[T]
	lock sync.Mutex
	gate claims

	// Padding, so that no two shards share a cache line. Writers of different shards would
	// otherwise take the line from each other with each lock.
	_ [64]byte
}

// An ownedShards has the shards of a store with an owner. They share its lock, and need no padding:
// a program may have hundreds of such stores, of a few objects each.
type ownedShards[T any] struct {
	shards [shards]shard[T]
	gate   claims
}

// claims lets a long write keep the other writers waiting without holding a mutex. A store without
// an owner has claims for each shard, a store with an owner has one. The shard's lock guards it.
type claims struct {
	claimed bool
	freed   sync.Cond // signals that claimed was cleared
}

// NewStore returns an empty store of objects whose keys keyOf returns. It is for many writers at a
// time.
func NewStore[T any](keyOf func(T) Key) *Store[T] {
	s := newStore(keyOf)
	for i := range s.shards {
		own := new(lockedShard[T])
		own.mu, own.claims = &own.lock, &own.gate
		own.gate.freed.L = &own.lock
		s.shards[i] = &own.shard
	}
	return s
}

// NewOwned returns an empty store that has one lock, its owner's, for all shards. Set and Remove
// take it after the functions of the indexes have returned, and a [Batch] and a [Replacement] are
// committed under it. So whoever holds the lock sees both a change and what the owner made of it,
// or neither.
//
// The store is for one writer at a time. That writer is faster with this one lock than with those
// of a shard and the version, and the owner's besides.
//
// versionIDOf returns the version and the identity of an object, as a [VersionID] has them; the
// store keeps only a hash of the identity. Two objects whose versions are both known (not 0) are
// compared by them: Replace neither calls Same nor reads the old object.
func NewOwned[T any](keyOf func(T) Key, versionIDOf func(T) (version uint64, identity string), owner *sync.Mutex) *Store[T] {
	s := newStore(keyOf)
	s.owner, s.versionIDOf = owner, versionIDOf
	all := new(ownedShards[T])
	all.gate.freed.L = owner
	for i := range s.shards {
		s.shards[i] = &all.shards[i]
		s.shards[i].mu, s.shards[i].claims = owner, &all.gate
	}
	return s
}

func newStore[T any](keyOf func(T) Key) *Store[T] {
	s := &Store[T]{keyOf: keyOf, seed: newSeed(), boxed: isBoxed[T]()}
	s.tables.Store(new([shards]atomicTable))
	s.indexes.Store(new([]index[T]))
	s.writers.New = func() any { return new(writer[T]) }
	return s
}

// Get returns the object of key. It takes no lock and does not allocate.
//
// In a large store it mostly waits for memory twice: for the entry, and for the bytes of the name.
// It does not read the object.
func (s *Store[T]) Get(key Key) (obj T, ok bool) {
	hash := hashOf(s.seed, key)
	table := s.tables.Load()[hash%shards].Load()
	if entry := table.Find(hash, key); entry >= 0 {
		obj = unbox[T](table.load(entry), s.boxed)
	}
	return obj, !equal.IsZero(obj)
}

// Len returns the number of objects.
func (s *Store[T]) Len() (n int) {
	if snap := s.snapshot.Load(); snap != nil {
		return snap.Len()
	}
	s.lock()
	defer s.unlock()
	return s.LenLocked()
}

// LenLocked is like Len. The caller holds the owner's lock, or those of all shards.
func (s *Store[T]) LenLocked() (n int) {
	for i := range s.shards {
		n += s.shards[i].objs.Live()
	}
	return n
}

// Cached returns the last Snapshot if nothing has changed since, else nil. It takes no lock.
func (s *Store[T]) Cached() *Snapshot[T] { return s.snapshot.Load() }

// Version returns the version of the last write that had one.
func (s *Store[T]) Version() string {
	mu := s.versionLock()
	mu.Lock()
	defer mu.Unlock()
	return s.version
}

// Progress sets only the version. It does not wait for long writes.
func (s *Store[T]) Progress(version string) {
	mu := s.versionLock()
	mu.Lock()
	defer mu.Unlock()
	s.snapshot.Store(nil)
	s.version = version
}

// versionLock returns the lock that guards the version.
func (s *Store[T]) versionLock() *sync.Mutex {
	if s.owner != nil {
		return s.owner
	}
	return &s.versionMu
}

// versionID returns the VersionID of obj. It is zero if the store has no function for it.
func (s *Store[T]) versionID(obj T) (id VersionID) {
	if s.versionIDOf != nil {
		version, identity := s.versionIDOf(obj)
		id = VersionID{version, uint32(hashText(s.seed, identity))}
	}
	return id
}

// Set makes obj the object of its key, and sets the version unless version is "". It returns the
// object that obj replaces, if any. Set panics if obj is the zero T.
func (s *Store[T]) Set(obj T, version string) (old T, replaced bool) {
	if equal.IsZero(obj) {
		panic("lw: no object to store")
	}
	key := s.keyOf(obj)
	hash := hashOf(s.seed, key)
	sh := s.shards[hash%shards]
	id := s.versionID(obj)
	w := s.begin(sh, obj)
	old, _, fired := s.putLocked(w, hash, key, obj, id, version)
	s.end(sh, w)
	fired.Release()
	return old, !equal.IsZero(old)
}

// putLocked stores obj, and sets the version unless version is "". The caller has the shard of hash
// locked, and w has the values of obj in each index. identical reports whether old and obj have the
// same identity. It is false if the store has no VersionIDs, and means nothing if there is no old.
// The caller releases fired when it has released the lock.
func (s *Store[T]) putLocked(w *writer[T], hash uint64, key Key, obj T, id VersionID, version string) (old T, identical bool, fired signal.Fired) {
	number := int(hash % shards)
	sh := s.shards[number]
	table := s.tables.Load()[number].Load()
	entry := table.Find(hash, key)
	known := entry >= 0
	var position int
	if known {
		position = table.position(entry)
		// The vector and the VersionID are looked up side by side: neither load depends on the
		// other, so the processor waits for both cache misses at the same time.
		old = sh.objs.At(position)
		identical = s.versionIDOf != nil && table.versionID(position).Identity == id.Identity
	} else {
		if table.full() {
			s.rebuildLocked(number)
			table = s.tables.Load()[number].Load()
		}
		position = sh.objs.Len()
	}

	// Take the remaining locks, then change everything. Only Get reads without these locks, and all
	// that it can see is one store: that of the value, or of the head of a new entry. So the order
	// of the stores between here and the unlocking does not matter. (The Get of an earlier Snapshot
	// may find a new entry too. It ignores that, because the position is beyond the end of its
	// view.)
	s.lockForWrite(w, number, position, version)
	for _, d := range w.drafts {
		d.put(number, position, obj)
	}
	if known {
		sh.objs.Set(position, obj)
		table.store(entry, box(obj, s.boxed))
		table.setVersionID(position, id)
	} else {
		sh.objs.Append(obj)
		table.add(hash, unique.Make(key.Namespace), key.Name, box(obj, s.boxed), id)
	}
	return old, identical, s.setVersionAndUnlock(w, version)
}

// Remove removes the object of key, and sets the version unless version is "". It returns the
// object.
func (s *Store[T]) Remove(key Key, version string) (old T, removed bool) {
	var none T
	hash := hashOf(s.seed, key)
	sh := s.shards[hash%shards]
	w := s.begin(sh, none)
	old, removed, fired := s.removeLocked(w, hash, key, version)
	if !removed && version != "" {
		s.lockVersion()
		s.snapshot.Store(nil)
		s.version = version
		s.unlockVersion()
	}
	s.end(sh, w)
	fired.Release()
	return old, removed
}

// removeLocked removes the object of key, if there is one, and then sets the version unless version
// is "". The caller has the shard of hash locked, and releases fired when it has released the lock.
func (s *Store[T]) removeLocked(w *writer[T], hash uint64, key Key, version string) (old T, removed bool, fired signal.Fired) {
	var none T
	number := int(hash % shards)
	sh := s.shards[number]
	table := s.tables.Load()[number].Load()
	entry := table.Find(hash, key)
	if entry < 0 {
		return none, false, nil
	}
	position := table.position(entry)
	if old = sh.objs.At(position); equal.IsZero(old) {
		return none, false, nil
	}
	s.lockForWrite(w, number, position, version)
	for _, d := range w.drafts {
		d.remove(number, position)
	}
	sh.objs.Set(position, none)
	table.store(entry, value{})
	fired = s.setVersionAndUnlock(w, version)
	// After the stripes are unlocked, because rebuildLocked takes all of them.
	if sparse(&sh.objs) {
		s.rebuildLocked(number)
	}
	return old, true, fired
}

// A writer is the memory that one write needs. Writers are reused.
type writer[T any] struct {
	drafts []draft[T] // one for each index
	apart  bool       // the indexes are changed beside what readers see; see Batch
}

// begin locks the shard for a write of obj, or for a removal if obj is zero. Before that it
// computes the values of obj in each index, with no lock held: the functions are the user's, may
// take long and may panic.
func (s *Store[T]) begin(sh *shard[T], obj T) *writer[T] {
	w := s.takeWriter()
	for computed := 0; ; {
		for _, ix := range (*s.indexes.Load())[len(w.drafts):] {
			w.drafts = append(w.drafts, ix.draft())
		}
		for ; !equal.IsZero(obj) && computed < len(w.drafts); computed++ {
			s.compute(w.drafts[computed], computed, obj)
		}
		sh.mu.Lock()
		if !sh.claims.claimed && len(*s.indexes.Load()) == len(w.drafts) {
			return w
		}
		// A long write has claimed the shard, or an index was added while the values were computed.
		// A claim may end with a new index, so the loop looks again after both.
		for sh.claims.claimed {
			sh.claims.freed.Wait()
		}
		sh.mu.Unlock()
	}
}

// takeWriter returns a writer that nobody uses.
func (s *Store[T]) takeWriter() *writer[T] {
	if s.owner == nil {
		return s.writers.Get().(*writer[T])
	}
	if w := s.writer.Swap(nil); w != nil {
		return w
	}
	return new(writer[T])
}

// lockForWrite takes the locks that a write to a position needs beside the shard's, which the
// caller holds: the version's, if the write sets it, and the stripes of each index. It also forgets
// the cached snapshot, which must happen before the change can be seen.
func (s *Store[T]) lockForWrite(w *writer[T], number, position int, version string) {
	if version != "" {
		s.lockVersion()
	}
	for _, d := range w.drafts {
		if w.apart {
			d.compare(number, position)
		} else {
			d.lock(number, position)
		}
	}
	s.forgetSnapshotLocked()
}

// lockVersion locks the version, for callers that hold the lock of a shard. That is already the
// version's lock if the store has an owner.
func (s *Store[T]) lockVersion() {
	if s.owner == nil {
		s.versionMu.Lock()
	}
}

// unlockVersion undoes lockVersion.
func (s *Store[T]) unlockVersion() {
	if s.owner == nil {
		s.versionMu.Unlock()
	}
}

// forgetSnapshotLocked clears the cached snapshot, because the state is about to change. The caller
// holds the lock of a shard. Under steady writes there mostly is no snapshot to clear. So it loads
// first: an atomic load is much cheaper than a store, which takes the cache line from other cores.
func (s *Store[T]) forgetSnapshotLocked() {
	if s.snapshot.Load() != nil {
		s.snapshot.Store(nil)
	}
}

// setVersionAndUnlock sets the version, unless it is "", and releases the locks that lockForWrite
// took. The shard stays locked. What it returns is to be released when no lock is held.
func (s *Store[T]) setVersionAndUnlock(w *writer[T], version string) (fired signal.Fired) {
	for _, d := range w.drafts {
		if w.apart {
			d.clear()
		} else if f := d.unlock(); f != nil {
			fired = append(fired, f...)
		}
	}
	if version != "" {
		s.version = version
		s.unlockVersion()
	}
	return fired
}

// end releases the shard and the writer that begin returned.
func (s *Store[T]) end(sh *shard[T], w *writer[T]) {
	if s.owner == nil {
		sh.mu.Unlock()
		s.writers.Put(w)
		return
	}
	s.writer.Store(w) // before the unlocking: then the next write may begin at once, and takes it
	sh.mu.Unlock()
}

// lock takes the locks of all shards. While they are held no writer is in the middle of a change.
func (s *Store[T]) lock() {
	if s.owner != nil {
		s.owner.Lock()
		return
	}
	for i := range s.shards {
		s.shards[i].mu.Lock()
	}
}

// unlock undoes lock.
func (s *Store[T]) unlock() {
	if s.owner != nil {
		s.owner.Unlock()
		return
	}
	for i := range s.shards {
		s.shards[i].mu.Unlock()
	}
}

// gates returns the number of shards that have claims of their own: all, or the first if the store
// has an owner.
func (s *Store[T]) gates() int {
	if s.owner != nil {
		return 1
	}
	return shards
}

// claim keeps all writers waiting until release is called. It returns with no lock held. Two claims
// take the shards in the same order, so they cannot wait for each other.
func (s *Store[T]) claim() {
	for i := range s.gates() {
		sh := s.shards[i]
		sh.mu.Lock()
		for sh.claims.claimed {
			sh.claims.freed.Wait()
		}
		sh.claims.claimed = true
		sh.mu.Unlock()
	}
}

// release ends a claim and wakes the writers that wait for it.
func (s *Store[T]) release() {
	for i := range s.gates() {
		sh := s.shards[i]
		sh.mu.Lock()
		sh.claims.claimed = false
		sh.claims.freed.Broadcast()
		sh.mu.Unlock()
	}
}
