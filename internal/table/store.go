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
	keyOf func(T) Key
	seed  seed
	boxed bool // isBoxed[T]()

	// tables is replaced as a whole by a Replace. Each of its elements is changed under the shard's lock.
	tables  atomic.Pointer[[shards]atomicTable]
	shards  [shards]shard[T]
	indexes atomic.Pointer[[]index[T]] // changed under all shards' locks

	versionMu sync.Mutex
	version   string

	// snapshot is the present state, if somebody has asked for it since it came about. It is set under all shards' locks and
	// versionMu. Who changes anything under one of them clears it before that can be seen.
	snapshot atomic.Pointer[Snapshot[T]]

	writers sync.Pool // of *writer[T]
}

type atomicTable = atomic.Pointer[Table]

type shard[T comparable] struct {
	mu      sync.Mutex
	objs    Vector[T] // by position; a deleted object leaves a hole
	claimed bool      // writers wait
	freed   sync.Cond // claimed was cleared

	_ [64]byte // so that two shards share no cache line
}

// NewStore returns an empty store of objects that keyOf knows the key of.
func NewStore[T comparable](keyOf func(T) Key) *Store[T] {
	s := &Store[T]{keyOf: keyOf, seed: newSeed(), boxed: isBoxed[T]()}
	s.tables.Store(new([shards]atomicTable))
	s.indexes.Store(new([]index[T]))
	s.writers.New = func() any { return new(writer[T]) }
	for i := range s.shards {
		s.shards[i].freed.L = &s.shards[i].mu
	}
	return s
}

// Get returns the object of key. It takes no lock and does not allocate.
func (s *Store[T]) Get(key Key) (obj T, ok bool) {
	hash := hashOf(s.seed, key)
	table := s.tables.Load()[hash%shards].Load()
	if position := table.Find(hash, key); position >= 0 {
		obj = unbox[T](table.load(position), s.boxed)
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
	s.versionMu.Lock()
	defer s.versionMu.Unlock()
	return s.version
}

// Progress sets the version.
func (s *Store[T]) Progress(version string) {
	s.versionMu.Lock()
	defer s.versionMu.Unlock()
	s.snapshot.Store(nil)
	s.version = version
}

// Set makes obj the object of its key, and moves the version, unless that is "". It returns the object before, if any.
//
// If outer is not nil it is locked after the functions of the indexes have been called, before the change can be seen, and
// left locked. Nothing is waited for meanwhile but other locks.
func (s *Store[T]) Set(obj T, version string, outer sync.Locker) (old T, replaced bool) {
	var none T
	if obj == none {
		panic("lw: no object to store")
	}
	key := s.keyOf(obj)
	hash := hashOf(s.seed, key)
	number := int(hash % shards)
	sh := &s.shards[number]
	w := s.begin(sh, obj, outer)

	table := s.tables.Load()[number].Load()
	position := table.Find(hash, key)
	known := position >= 0
	if known {
		old = sh.objs.At(position)
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
		table.store(position, box(obj, s.boxed))
	} else {
		sh.objs.Append(obj)
		table.add(hash, unique.Make(key.Namespace), key.Name, box(obj, s.boxed))
	}
	s.show(w, version)
	s.end(sh, w)
	return old, old != none
}

// Remove removes the object of key, and moves the version, unless that is "". It returns the object. outer is as in Set.
func (s *Store[T]) Remove(key Key, version string, outer sync.Locker) (old T, removed bool) {
	var none T
	hash := hashOf(s.seed, key)
	number := int(hash % shards)
	sh := &s.shards[number]
	w := s.begin(sh, none, outer)

	table := s.tables.Load()[number].Load()
	if position := table.Find(hash, key); position >= 0 {
		if old = sh.objs.At(position); old != none {
			s.lockFor(w, number, position, version)
			for _, d := range w.drafts {
				d.drop(number, position)
			}
			sh.objs.Set(position, none)
			table.store(position, value{})
			s.show(w, version)
			if sparse(&sh.objs) {
				s.rebuild(number)
			}
			s.end(sh, w)
			return old, true
		}
	}
	s.end(sh, w)
	if version != "" {
		s.Progress(version)
	}
	return old, false
}

// A writer is the memory that one write needs.
type writer[T comparable] struct {
	drafts []draft[T] // one for each index
}

// begin computes what the indexes need to know of obj, if it is one, and locks outer, if there is one, and the shard.
func (s *Store[T]) begin(sh *shard[T], obj T, outer sync.Locker) *writer[T] {
	var none T
	w := s.writers.Get().(*writer[T])
	for computed := 0; ; {
		for _, ix := range (*s.indexes.Load())[len(w.drafts):] {
			w.drafts = append(w.drafts, ix.draft())
		}
		for ; obj != none && computed < len(w.drafts); computed++ {
			w.drafts[computed].compute(obj)
		}
		if outer != nil {
			outer.Lock()
		}
		sh.mu.Lock()
		if !sh.claimed && len(*s.indexes.Load()) == len(w.drafts) {
			return w
		}
		// Somebody is at a long write, or has added an index.
		if outer != nil {
			outer.Unlock()
		}
		for sh.claimed {
			sh.freed.Wait()
		}
		sh.mu.Unlock()
	}
}

// lockFor takes, with the shard's lock held, the others that a write to a position needs.
func (s *Store[T]) lockFor(w *writer[T], number, position int, version string) {
	if version != "" {
		s.versionMu.Lock()
	}
	for _, d := range w.drafts {
		d.lock(number, position)
	}
	s.forget()
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
		s.versionMu.Unlock()
	}
}

// end lets go of what begin took, but for outer.
func (s *Store[T]) end(sh *shard[T], w *writer[T]) {
	sh.mu.Unlock()
	s.writers.Put(w)
}

// lock takes the locks of all shards: no writer is in the middle of a change.
func (s *Store[T]) lock() {
	for i := range s.shards {
		s.shards[i].mu.Lock()
	}
}

func (s *Store[T]) unlock() {
	for i := range s.shards {
		s.shards[i].mu.Unlock()
	}
}

// claim keeps all writers waiting until release, without a lock.
func (s *Store[T]) claim() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for sh.claimed {
			sh.freed.Wait()
		}
		sh.claimed = true
		sh.mu.Unlock()
	}
}

func (s *Store[T]) release() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.claimed = false
		sh.mu.Unlock()
		sh.freed.Broadcast()
	}
}
