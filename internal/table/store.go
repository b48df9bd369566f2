package table

import (
	"sync"
	"sync/atomic"
	"unique"
)

// shards is how many writers can be at work at once. Each costs every snapshot a lock, and an empty store 150 bytes.
const shards = 8

// A Store holds objects by key, each once. The zero value of T is no object. It is safe for many readers and many writers;
// the package's comment says what a reader may rely on.
type Store[T comparable] struct {
	keyOf   func(T) Key
	stampOf func(T) (version uint64, identity string) // of a Stamp; nil: there are none
	seed    seed
	boxed   bool // isBoxed[T]()

	// tables is replaced as a whole by a Replace. Each of its elements is changed under the shard's lock.
	tables  atomic.Pointer[[shards]atomicTable]
	shards  [shards]shard[T]
	indexes atomic.Pointer[[]index[T]] // changed under all shards' locks

	// owner is the lock of a store that has an owner, and then that of all shards and of the version; nil: each has its own.
	owner     *sync.Mutex
	versionMu sync.Mutex
	version   string

	// snapshot is the present state, if somebody has asked for it since it came about. It is set under all shards' locks and
	// the version's. Who changes anything under one of them clears it before that can be seen.
	snapshot atomic.Pointer[Snapshot[T]]

	writers sync.Pool  // of *writer[T]
	writer  *writer[T] // of a store with an owner; nil while it is in use, and if its user has panicked
}

type atomicTable = atomic.Pointer[Table]

type shard[T comparable] struct {
	mu      *sync.Mutex
	claims  *claims
	objs    Vector[T] // by position; a deleted object leaves a hole
	own     sync.Mutex
	ownGate claims

	_ [64]byte // so that two shards share no cache line
}

// claims makes the writers of a shard wait, those of all shards in a store that has an owner. The shard's lock guards it.
type claims struct {
	claimed bool
	freed   sync.Cond // claimed was cleared
}

// NewStore returns an empty store of objects that keyOf knows the key of. It is for many writers at once.
func NewStore[T comparable](keyOf func(T) Key) *Store[T] {
	s := newStore(keyOf)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu, sh.claims = &sh.own, &sh.ownGate
		sh.claims.freed.L = sh.mu
	}
	return s
}

// NewOwned returns an empty store with one lock, its owner's. Put, Remove and Replace take it after the indexes' functions
// have returned and before the change can be seen. They hold it while they call the function that tells the owner of the
// change, and release it before they return: who holds the lock sees the change and what the owner made of it, or neither.
// The store is for one writer at a time, which is faster with one lock than with three.
//
// stampOf tells the version and the identity of an object, as a [Stamp] has them. Of versions that are told neither Same of a
// Replace is asked, nor is the object before looked at.
func NewOwned[T comparable](keyOf func(T) Key, stampOf func(T) (version uint64, identity string), owner *sync.Mutex) *Store[T] {
	s := newStore(keyOf)
	s.owner, s.stampOf = owner, stampOf
	for i := range s.shards {
		s.shards[i].mu, s.shards[i].claims = owner, &s.shards[0].ownGate
	}
	s.shards[0].claims.freed.L = owner
	return s
}

func newStore[T comparable](keyOf func(T) Key) *Store[T] {
	s := &Store[T]{keyOf: keyOf, seed: newSeed(), boxed: isBoxed[T]()}
	s.tables.Store(new([shards]atomicTable))
	s.indexes.Store(new([]index[T]))
	s.writers.New = func() any { return new(writer[T]) }
	return s
}

// Get returns the object of key. It takes no lock and does not allocate.
func (s *Store[T]) Get(key Key) (obj T, ok bool) {
	hash := hashOf(s.seed, key)
	table := s.tables.Load()[hash%shards].Load()
	if at := table.Find(hash, key); at >= 0 {
		obj = unbox[T](table.load(at), s.boxed)
	}
	var none T
	return obj, obj != none
}

// Len returns the number of objects.
func (s *Store[T]) Len() (n int) {
	if snap := s.snapshot.Load(); snap != nil {
		return snap.Len()
	}
	s.lock()
	defer s.unlock()
	for i := range s.shards {
		n += s.shards[i].objs.Live()
	}
	return n
}

// Version returns the version of the last write that had one.
func (s *Store[T]) Version() string {
	mu := s.versionLock()
	mu.Lock()
	defer mu.Unlock()
	return s.version
}

// Progress sets the version. Unlike the other writes it does not leave an owner's lock locked.
func (s *Store[T]) Progress(version string) {
	mu := s.versionLock()
	mu.Lock()
	defer mu.Unlock()
	s.snapshot.Store(nil)
	s.version = version
}

func (s *Store[T]) versionLock() *sync.Mutex {
	if s.owner != nil {
		return s.owner
	}
	return &s.versionMu
}

// stamp returns the stamp of obj.
func (s *Store[T]) stamp(obj T) (st Stamp) {
	if s.stampOf != nil {
		version, identity := s.stampOf(obj)
		st = Stamp{version, uint32(hashText(s.seed, identity))}
	}
	return st
}

// Set makes obj the object of its key, and moves the version, unless that is "". It returns the object before, if any.
func (s *Store[T]) Set(obj T, version string) (old T, replaced bool) {
	return s.Put(s.keyOf(obj), obj, version, nil)
}

// Put is like Set, for callers that already have the key of obj. It calls changed, unless that is nil, with the owner's lock
// held, when the change can be seen. Identical says that the stamps of old and obj have one identity; it is false where there
// are no stamps, and means nothing unless replaced is true.
func (s *Store[T]) Put(key Key, obj T, version string, changed func(old T, replaced, identical bool)) (old T, replaced bool) {
	var none T
	if obj == none {
		panic("lw: no object to store")
	}
	hash := hashOf(s.seed, key)
	number := int(hash % shards)
	sh := &s.shards[number]
	st := s.stamp(obj)
	w := s.begin(sh, obj)

	table := s.tables.Load()[number].Load()
	at := table.Find(hash, key)
	known := at >= 0
	var position int
	var same bool
	if known {
		position = table.position(at)
		// Both at once, since both wait for memory.
		old = sh.objs.At(position)
		same = s.stampOf != nil && table.stamp(position).Identity == st.Identity
	} else {
		if table.full() {
			s.rebuild(number)
			table = s.tables.Load()[number].Load()
		}
		position = sh.objs.Len()
	}

	s.lockFor(w, number, position, version)
	for _, d := range w.drafts {
		d.put(number, position, obj)
	}
	if known {
		sh.objs.Set(position, obj)
		table.store(at, box(obj, s.boxed))
		table.setStamp(position, st)
	} else {
		sh.objs.Append(obj)
		table.add(hash, unique.Make(key.Namespace), key.Name, box(obj, s.boxed), st)
	}
	s.show(w, version)
	if changed != nil {
		changed(old, old != none, same)
	}
	s.end(sh, w)
	return old, old != none
}

// Remove removes the object of key, and moves the version, unless that is "". It returns the object. If there was one it calls
// changed, unless that is nil, with the owner's lock held, when the change can be seen.
func (s *Store[T]) Remove(key Key, version string, changed func(old T)) (old T, removed bool) {
	var none T
	hash := hashOf(s.seed, key)
	number := int(hash % shards)
	sh := &s.shards[number]
	w := s.begin(sh, none)

	table := s.tables.Load()[number].Load()
	if at := table.Find(hash, key); at >= 0 {
		position := table.position(at)
		if old = sh.objs.At(position); old != none {
			s.lockFor(w, number, position, version)
			for _, d := range w.drafts {
				d.drop(number, position)
			}
			sh.objs.Set(position, none)
			table.store(at, value{})
			s.show(w, version)
			if sparse(&sh.objs) {
				s.rebuild(number)
			}
			if changed != nil {
				changed(old)
			}
			s.end(sh, w)
			return old, true
		}
	}
	if version != "" {
		s.lockVersion()
		s.snapshot.Store(nil)
		s.version = version
		s.unlockVersion()
	}
	s.end(sh, w)
	return old, false
}

// A writer is the memory that one write needs.
type writer[T comparable] struct {
	drafts []draft[T] // one for each index
}

// begin computes what the indexes need to know of obj, if it is one, and locks the shard.
func (s *Store[T]) begin(sh *shard[T], obj T) *writer[T] {
	var none T
	w := s.takeWriter()
	for computed := 0; ; {
		for _, ix := range (*s.indexes.Load())[len(w.drafts):] {
			w.drafts = append(w.drafts, ix.draft())
		}
		for ; obj != none && computed < len(w.drafts); computed++ {
			w.drafts[computed].compute(obj)
		}
		sh.mu.Lock()
		if !sh.claims.claimed && len(*s.indexes.Load()) == len(w.drafts) {
			return w
		}
		// Somebody is at a long write, or has added an index.
		for sh.claims.claimed {
			sh.claims.freed.Wait()
		}
		sh.mu.Unlock()
	}
}

func (s *Store[T]) takeWriter() *writer[T] {
	if s.owner == nil {
		return s.writers.Get().(*writer[T])
	}
	w := s.writer
	s.writer = nil
	if w == nil {
		w = new(writer[T])
	}
	return w
}

// lockFor takes, with the shard's lock held, the others that a write to a position needs.
func (s *Store[T]) lockFor(w *writer[T], number, position int, version string) {
	if version != "" {
		s.lockVersion()
	}
	for _, d := range w.drafts {
		d.lock(number, position)
	}
	s.forget()
}

// lockVersion takes the lock of the version, for who holds that of a shard.
func (s *Store[T]) lockVersion() {
	if s.owner == nil {
		s.versionMu.Lock()
	}
}

func (s *Store[T]) unlockVersion() {
	if s.owner == nil {
		s.versionMu.Unlock()
	}
}

// forget says that the present state is about to change.
func (s *Store[T]) forget() {
	if s.snapshot.Load() != nil {
		s.snapshot.Store(nil)
	}
}

// show sets the version and lets go of what lockFor took, when all is changed.
func (s *Store[T]) show(w *writer[T], version string) {
	for _, d := range w.drafts {
		d.unlock()
	}
	if version != "" {
		s.version = version
		s.unlockVersion()
	}
}

// end releases what begin took.
func (s *Store[T]) end(sh *shard[T], w *writer[T]) {
	if s.owner == nil {
		sh.mu.Unlock()
		s.writers.Put(w)
		return
	}
	s.writer = w // before the lock is released: the next writer may begin at once
	sh.mu.Unlock()
}

// lock takes the locks of all shards: no writer is in the middle of a change.
func (s *Store[T]) lock() {
	if s.owner != nil {
		s.owner.Lock()
		return
	}
	for i := range s.shards {
		s.shards[i].mu.Lock()
	}
}

func (s *Store[T]) unlock() {
	if s.owner != nil {
		s.owner.Unlock()
		return
	}
	for i := range s.shards {
		s.shards[i].mu.Unlock()
	}
}

// gates returns how many shards have claims of their own.
func (s *Store[T]) gates() int {
	if s.owner != nil {
		return 1
	}
	return shards
}

// claim keeps all writers waiting until release, without a lock.
func (s *Store[T]) claim() {
	for i := range s.gates() {
		sh := &s.shards[i]
		sh.mu.Lock()
		for sh.claims.claimed {
			sh.claims.freed.Wait()
		}
		sh.claims.claimed = true
		sh.mu.Unlock()
	}
}

func (s *Store[T]) release() {
	for i := range s.gates() {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.claims.claimed = false
		sh.claims.freed.Broadcast()
		sh.mu.Unlock()
	}
}
