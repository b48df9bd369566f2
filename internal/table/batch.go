package table

import (
	"slices"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/table/signal"
)

// A Batch is a set of writes of one store, which become visible together. The store has an owner.
// Several batches of stores that have the same owner can become visible together: their caller
// holds the owner's lock while it calls CommitLocked of each.
//
// A batch is used again and again: collect writes with Put, Compute, take the owner's lock, ask
// ReadyLocked, CommitLocked, ShowLocked, All, and Release. A goroutine that does not hold the lock
// sees none of the writes or all of them, except that Get and an index take no lock of the owner:
// their callers have to see to it.
//
// While a commit that is Long is made, readers should go on with what was before. For the objects
// that is a Snapshot, which their callers take. The indexes are changed beside what readers see
// (apart), and ShowLocked shows all of it at once.
type Batch[T any] struct {
	store  *Store[T]
	writes []write[T]
	apart  bool         // the indexes were changed apart
	fired  signal.Fired // by what was committed
	// Recover is called if the function of an index panics at the object of key. If it returns true
	// the batch leaves the write out. If not, the object has no value in that index. nil: the panic
	// is passed on.
	Recover func(key Key, panicked any) (drop bool)

	dropped bool      // a write was left out
	spare   writer[T] // the memory of an earlier write, for the first one
}

// A write is one of a batch: the removal of key if obj is the zero T.
type write[T any] struct {
	key      Key
	obj      T
	old      T         // what obj has replaced, once it was committed
	same     bool      // old has the same identity
	none     bool      // it makes no difference: the removal of what was not there, or left out
	computed int       // for how many indexes w has values
	w        writer[T] // with at least as many drafts
}

// NewBatch returns an empty batch of s, which must have an owner.
func (s *Store[T]) NewBatch() *Batch[T] { return &Batch[T]{store: s} }

// Put adds the write of obj under key, or the removal of key if obj is the zero T. No other write
// of the batch has that key.
func (b *Batch[T]) Put(key Key, obj T) {
	b.writes = slices.Grow(b.writes, 1)[:len(b.writes)+1] // it is empty: reset clears it
	one := &b.writes[len(b.writes)-1]
	one.key, one.obj, one.w = key, obj, b.spare
	b.spare = writer[T]{}
}

// Len returns the number of writes.
func (b *Batch[T]) Len() int { return len(b.writes) }

// Dropped reports whether Recover had a write left out.
func (b *Batch[T]) Dropped() bool { return b.dropped }

// Compute calls the functions of the indexes for what was added. The caller holds no lock, since
// the functions are the user's, may take long and may panic.
func (b *Batch[T]) Compute() {
	indexes := *b.store.indexes.Load()
	for i := range b.writes {
		one := &b.writes[i]
		for ; one.computed < len(indexes) && !one.none; one.computed++ {
			if one.computed == len(one.w.drafts) {
				one.w.drafts = append(one.w.drafts, indexes[one.computed].draft())
			}
			if !equal.IsZero(one.obj) {
				one.none = b.compute(one, one.computed)
			}
		}
		b.dropped = b.dropped || one.none
	}
}

// compute calls the function of index i for one.
func (b *Batch[T]) compute(one *write[T], i int) (drop bool) {
	if b.Recover != nil {
		defer func() {
			if v := recover(); v != nil {
				drop = b.Recover(one.key, v) // the draft has no values
			}
		}()
	}
	b.store.compute(one.w.drafts[i], i, one.obj)
	return false
}

// ReadyLocked reports whether the batch can be committed. It cannot while an index is being added,
// or if one was added since Compute. AwaitLocked waits for the first, and Compute mends the second.
func (b *Batch[T]) ReadyLocked() bool {
	indexes := len(*b.store.indexes.Load())
	for i := range b.writes {
		if one := &b.writes[i]; one.computed != indexes && !one.none {
			return false
		}
	}
	return !b.store.shards[0].claims.claimed
}

// AwaitLocked waits until no index is being added. It releases the lock meanwhile.
func (b *Batch[T]) AwaitLocked() {
	claims := b.store.shards[0].claims
	for claims.claimed {
		claims.freed.Wait()
	}
}

// Brief is the number of writes that are committed while readers wait. With it a commit takes some
// ten microseconds, and with several indexes some hundred.
const Brief = 256

// LongLocked reports whether the commit takes long: because of its writes, or because a shard's
// table has no room for them or may have to be compacted. The caller holds the owner's lock.
func (b *Batch[T]) LongLocked() bool {
	const large = 16 * Brief // from here on it takes long to build a table anew
	if len(b.writes) > Brief {
		return true
	}
	s := b.store
	tables := s.tables.Load()
	for i := range b.writes {
		number := hashOf(s.seed, b.writes[i].key) % shards
		objs, table := &s.shards[number].objs, tables[number].Load()
		dead := objs.Len() - objs.Live()
		switch {
		case objs.Len() < large:
		case equal.IsZero(b.writes[i].obj):
			if dead+2*len(b.writes) > objs.Live() { // see sparse
				return true
			}
		case table.room()-table.used < len(b.writes):
			if hash := hashOf(s.seed, b.writes[i].key); table.Find(hash, b.writes[i].key) < 0 {
				return true
			}
		}
	}
	return false
}

// CommitLocked makes the writes, in the order in which they were added. Readers of the indexes see
// them from then on, or from ShowLocked on if apart is true. The caller holds the owner's lock, and
// ReadyLocked has returned true under it.
func (b *Batch[T]) CommitLocked(apart bool) {
	s := b.store
	if b.apart = apart; apart {
		for _, ix := range *s.indexes.Load() {
			ix.stage()
		}
	}
	for i := range b.writes {
		one := &b.writes[i]
		if one.none {
			continue
		}
		one.w.apart = apart
		hash := hashOf(s.seed, one.key)
		var fired signal.Fired
		if equal.IsZero(one.obj) {
			var removed bool
			one.old, removed, fired = s.removeLocked(&one.w, hash, one.key, "")
			one.none = !removed
		} else {
			one.old, one.same, fired = s.putLocked(&one.w, hash, one.key, one.obj, s.versionID(one.obj), "")
		}
		b.fired = append(b.fired, fired...)
	}
	if len(b.writes) > 0 && !b.writes[0].none {
		b.spare = b.writes[0].w // its drafts are empty again
	}
}

// ShowLocked shows what CommitLocked has made apart. It takes a few locks, whatever the number of
// writes. The caller holds the owner's lock.
func (b *Batch[T]) ShowLocked() {
	if b.apart {
		for _, ix := range *b.store.indexes.Load() {
			ix.show()
		}
	}
}

// SettleLocked puts what ShowLocked has shown in the place of what was before. The caller holds the
// owner's lock.
func (b *Batch[T]) SettleLocked() {
	if b.apart {
		for _, ix := range *b.store.indexes.Load() {
			b.fired = append(b.fired, ix.settle()...)
		}
		b.apart = false
	}
}

// All calls changed for each write that was committed and has made a difference, in the order in
// which they were added. same says that there was an object, and that it has the same identity.
func (b *Batch[T]) All(changed func(old, new T, same bool)) {
	for i := range b.writes {
		if one := &b.writes[i]; !one.none {
			changed(one.old, one.obj, one.same && !equal.IsZero(one.old))
		}
	}
}

// Old returns what was there before the ith write that was added; the zero T if nothing was, or if
// the write was left out.
func (b *Batch[T]) Old(i int) T { return b.writes[i].old }

// Release empties the batch, and lets go of the channels of the indexes' Changed that the commit
// has closed. The caller holds no lock.
func (b *Batch[T]) Release() {
	b.dropped = false
	b.reset()
	b.fired.Release()
	b.fired = nil
}

// reset empties the batch. It keeps memory for as many writes as a step mostly has.
func (b *Batch[T]) reset() {
	const most = 256
	if cap(b.writes) > most {
		b.writes = nil
		return
	}
	clear(b.writes)
	b.writes = b.writes[:0]
}

// VersionLocked is like Version. The caller holds the owner's lock.
func (s *Store[T]) VersionLocked() string { return s.version }

// SetVersionLocked sets only the version, unless it is "". The caller holds the owner's lock.
func (s *Store[T]) SetVersionLocked(version string) {
	if version != "" {
		s.forgetSnapshotLocked()
		s.version = version
	}
}
