package lw

import (
	"cmp"
	"iter"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/table"
)

// A Reader reads a collection in memory. All readers share the objects, which must not be changed.
//
// Each call is answered from one state of the collection. A call that begins after another one has
// returned, in any goroutine, is never answered from an older state. The order of the objects is
// not defined.
type Reader[T Identified] interface {
	// Get takes no lock and does not allocate. ok is false if there is no object of key.
	Get(key Key) (obj T, ok bool)
	List() []T               // all objects, in a new slice
	All() iter.Seq[T]        // all objects, as they were when the loop began; no lock is held in its body
	Len() int                // the number of objects
	ResourceVersion() string // of the collection's state; "" if none is known
	Snapshot() *Snapshot[T]  // the present state, at a cost that does not depend on its size
}

// An Indexer is an in-memory store of a collection, for a program that writes it itself. It is a
// [Reader], and a [Sink] for a [Reflector]. All methods are safe for concurrent use. Get takes no
// lock. Writers wait for each other only for an eighth of the keys or of an index's values, and
// while a Replace runs or an index is built.
type Indexer[T Identified] struct {
	store *table.Store[T]
	// foreign is set before the first write by one of the exported methods. The objects of an
	// informer's store are then no longer all from its source.
	foreign atomic.Bool
	// gate makes reads that take no lock wait for a commit of several changes; nil if the store is
	// that of no hub.
	gate *gate
	// before is the state before the commit that is going on, if that is long. It is guarded by
	// gate.look.
	before *table.Snapshot[T]
	// single says that there are changes besides those of commits: of one object each, or a
	// Replace. They are made under gate.mu alone, as what is read then.
	single bool
}

var (
	_ Reader[*Meta] = (*Indexer[*Meta])(nil)
	_ Reader[*Meta] = (*Snapshot[*Meta])(nil)
)

// NewIndexer returns an Indexer that contains objs. If several have the same key, the last one is
// stored. It panics if one is the zero T.
func NewIndexer[T Object](objs ...T) *Indexer[T] {
	x := &Indexer[T]{store: table.NewStore(KeyOf[T])}
	x.store.Replace(objs, "", table.Comparison[T]{})
	return x
}

// Get is that of [Reader]: it takes no lock and does not allocate.
func (x *Indexer[T]) Get(key Key) (obj T, ok bool) {
	if x.gate == nil {
		return x.store.Get(key)
	}
	seq := x.gate.seq.Load()
	if obj, ok = x.store.Get(key); seq%2 == 0 && x.gate.seq.Load() == seq {
		return obj, ok
	}
	return x.getGated(key)
}

// List is that of [Reader].
func (x *Indexer[T]) List() []T { return x.content().List() }

// All is that of [Reader].
func (x *Indexer[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { x.content().All()(yield) }
}

// Len is that of [Reader].
func (x *Indexer[T]) Len() int {
	if x.gate != nil {
		return x.lenGated()
	}
	return x.store.Len()
}

// ResourceVersion returns the version of the last Replace or later Apply.
func (x *Indexer[T]) ResourceVersion() string {
	if x.gate != nil {
		return x.versionGated()
	}
	return x.store.Version()
}

// Snapshot is that of [Reader].
func (x *Indexer[T]) Snapshot() *Snapshot[T] { return &Snapshot[T]{x.content()} }

// content returns the present state.
func (x *Indexer[T]) content() *table.Snapshot[T] {
	if x.gate != nil {
		return x.contentGated()
	}
	return x.store.Snapshot()
}

// snapshotLocked is like Snapshot. The caller holds the lock of the store's owner, which is hub.mu,
// and not gate.look.
func (x *Indexer[T]) snapshotLocked() *Snapshot[T] {
	if x.gate != nil && !x.single {
		return &Snapshot[T]{x.contentGated()}
	}
	return &Snapshot[T]{x.store.SnapshotLocked()}
}

// Set stores obj under its key, and returns the object that it replaces. If obj is the zero T or
// the function of an index panics, Set panics and changes nothing.
func (x *Indexer[T]) Set(obj T) (old T, replaced bool) {
	x.writeForeign()
	return x.set(obj, "")
}

// Delete removes the object of key, and returns it if there was one.
func (x *Indexer[T]) Delete(key Key) (old T, deleted bool) { return x.remove(key, "") }

// Replace makes objs the content and resourceVersion its version, both at once. An object with the
// UID and resource version of the one that is stored does not replace it. Of objs with the same key
// the one with the highest resource version is stored. It panics as Set does.
func (x *Indexer[T]) Replace(objs []T, resourceVersion string) {
	x.writeForeign()
	x.store.Replace(objs, resourceVersion, table.Comparison[T]{Same: unchanged[T], Newer: notOlder[T]})
}

// Apply makes the change of ev, and its resource version the reported one unless it is "", or ev is
// Open: what is read meanwhile may have a part of that version. It does nothing if ev has an Err.
func (x *Indexer[T]) Apply(ev WatchEvent[T]) {
	x.writeForeign()
	version := ev.ResourceVersion
	if ev.Open {
		version = ""
	}
	switch {
	case ev.Err != nil:
	case ev.Type == watch.Deleted:
		x.remove(ev.Key(), version)
	case !equal.IsZero(ev.Object):
		x.set(ev.Object, version)
	default:
		x.progress(version)
	}
}

// writeForeign notes that an exported method is about to write. It reads first, because a write of
// the flag by each of several writers would slow them down.
func (x *Indexer[T]) writeForeign() {
	if !x.foreign.Load() {
		x.foreign.Store(true)
	}
}

// set stores obj, and makes rv the reported version unless it is "". Both are visible at once.
func (x *Indexer[T]) set(obj T, rv string) (old T, replaced bool) { return x.store.Set(obj, rv) }

// remove removes the object of key, and makes rv the reported version unless it is "".
func (x *Indexer[T]) remove(key Key, rv string) (old T, deleted bool) {
	return x.store.Remove(key, rv)
}

// progress makes rv the reported version unless it is "".
func (x *Indexer[T]) progress(rv string) {
	if rv != "" {
		x.store.Progress(rv)
	}
}

// indexer implements [Indexed].
func (x *Indexer[T]) indexer() *Indexer[T] { return x }

// An Indexed can have an index. Only [*Indexer], [*Informer] and [*Derived] are.
type Indexed[T Identified] interface {
	indexer() *Indexer[T]
}

// An Index finds the objects of a collection by a value that they have. A read of the index that
// begins after a read of the collection, or the other way round, is never answered from an older
// state. All methods are safe for concurrent use, and the objects are shared. A value that is not
// equal to itself, such as a NaN, is left out.
type Index[K comparable, T Identified] struct {
	groups *table.Groups[K, T]
	gate   *gate // that of the Indexer; may be nil
}

// NewIndex returns an index of x by the value that key returns for an object, at any time, also
// while x runs. Writers wait while it is built. It panics if key is nil. key is called once for
// each version of an object, without a lock, by the goroutine that writes the object, or by
// NewIndex. It must not write to x.
func NewIndex[K comparable, T Object](x Indexed[T], key func(T) K) *Index[K, T] {
	if key == nil {
		panic("lw: NewIndex: nil key function")
	}
	return newIndex(x, table.NewGroupsOfOne(key))
}

// NewMultiIndex is like [NewIndex], for objects that have any number of values each; nil is none. A
// value that keys yields twice counts once.
func NewMultiIndex[K comparable, T Object](x Indexed[T], keys func(T) iter.Seq[K]) *Index[K, T] {
	if keys == nil {
		panic("lw: NewMultiIndex: nil key function")
	}
	return newIndex(x, table.NewGroups(func(obj T, add func(K) bool) { orNone(keys(obj))(add) }))
}

// newIndex adds groups to the store of x, which fills it with the objects and updates it at each
// write.
func newIndex[K comparable, T Identified](x Indexed[T], groups *table.Groups[K, T]) *Index[K, T] {
	indexer := x.indexer()
	indexer.store.Add(groups)
	return &Index[K, T]{groups: groups, gate: indexer.gate}
}

// Lookup yields the objects that have the value key, as they were when the loop began, without a
// lock held.
func (ix *Index[K, T]) Lookup(key K) iter.Seq[T] {
	return func(yield func(T) bool) { ix.view(key).All()(yield) }
}

// view returns the objects that have the value key. It is not written with read, whose closure
// would allocate.
func (ix *Index[K, T]) view(key K) table.View[T] {
	if ix.gate == nil {
		return ix.groups.View(key)
	}
	if seq := ix.gate.seq.Load(); seq%2 == 0 {
		if view := ix.groups.View(key); ix.gate.seq.Load() == seq {
			return view
		}
	}
	ix.gate.look.Lock()
	defer ix.gate.look.Unlock()
	return ix.groups.View(key)
}

// List returns the objects that have the value key, in a new slice or nil.
func (ix *Index[K, T]) List(key K) []T {
	view := ix.view(key)
	if view.Live() == 0 {
		return nil
	}
	return view.AppendTo(make([]T, 0, view.Live()))
}

// Len returns the number of objects that have the value key.
func (ix *Index[K, T]) Len(key K) int {
	if ix.gate == nil {
		return ix.groups.Len(key)
	}
	return read(ix.gate, func() int { return ix.groups.Len(key) })
}

// Keys yields the values that objects have, as they were when the loop began.
func (ix *Index[K, T]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for _, key := range ix.values() {
			if !yield(key) {
				return
			}
		}
	}
}

func (ix *Index[K, T]) values() []K {
	if ix.gate == nil {
		return ix.groups.Values()
	}
	return read(ix.gate, ix.groups.Values)
}

// A Snapshot is one state of a collection: a [Reader] whose answers never change. It keeps the
// objects of that state in memory. After a Snapshot, the first write to each chunk of 256 objects
// copies that chunk, though not the objects.
type Snapshot[T Identified] struct {
	content *table.Snapshot[T]
}

// Get is that of [Reader].
func (s *Snapshot[T]) Get(key Key) (obj T, ok bool) { return s.content.Get(key) }

// List is that of [Reader].
func (s *Snapshot[T]) List() []T { return s.content.List() }

// All is that of [Reader].
func (s *Snapshot[T]) All() iter.Seq[T] { return s.content.All() }

// Len is that of [Reader].
func (s *Snapshot[T]) Len() int { return s.content.Len() }

// ResourceVersion is that of [Reader].
func (s *Snapshot[T]) ResourceVersion() string { return s.content.Version() }

// Snapshot returns s itself.
func (s *Snapshot[T]) Snapshot() *Snapshot[T] { return s }

// A gate makes a commit of several changes, perhaps of several stores, one point, and has no read
// wait for it. A graph has one for all its stores, and an informer has one of its own.
//
// seq is counted up before the first change of a commit that readers could see, and after the last.
// A read that takes no lock, and finds the same even number before and after itself, has met no
// commit. Any other read is made under look. That is held at both ends of a commit, and between
// them only if the commit is brief: some hundred objects. A long commit first takes a snapshot of
// each store, which reads are answered from until all stores have the new state
// (Indexer.before). Small commits do without, since the first write to each chunk of a store after
// a snapshot copies the chunk.
//
// Without the gate two Gets could show two states: one of a collection that the commit has changed
// already, and then one of a collection that it has not reached.
type gate struct {
	seq atomic.Uint64 // odd while a commit is going on; written under look

	// mu is the lock of the hubs and the owner of the stores. A commit holds it from its beginning
	// until the logs have the changes, so what needs both a store and its log waits for that.
	mu sync.Mutex
	// look comes after mu in the order of the locks. Reads take it alone.
	look sync.Mutex
}

// read returns what f returns at a moment at which no commit is going on, or under look. It may
// call f twice.
func read[R any](g *gate, f func() R) R {
	if seq := g.seq.Load(); seq%2 == 0 {
		if r := f(); g.seq.Load() == seq {
			return r
		}
	}
	g.look.Lock()
	defer g.look.Unlock()
	return f()
}

// getGated is Get for a read that has met a commit. Get has the rest of it, and not read, whose
// closure would allocate.
func (x *Indexer[T]) getGated(key Key) (obj T, ok bool) {
	x.gate.look.Lock()
	defer x.gate.look.Unlock()
	if x.before != nil {
		return x.before.Get(key)
	}
	return x.store.Get(key)
}

// contentGated returns the present state of a store that has a gate.
func (x *Indexer[T]) contentGated() *table.Snapshot[T] {
	if seq := x.gate.seq.Load(); seq%2 == 0 {
		if x.single {
			return x.store.Snapshot() // under gate.mu, so it waits for a commit that has begun since
		}
		if content := x.store.Cached(); content != nil && x.gate.seq.Load() == seq {
			return content
		}
	}
	x.gate.look.Lock()
	if x.single && x.before == nil {
		x.gate.look.Unlock()
		return x.store.Snapshot()
	}
	defer x.gate.look.Unlock()
	return x.contentLocked()
}

// contentLocked is contentGated for a caller that holds look, of a store that is not single.
func (x *Indexer[T]) contentLocked() *table.Snapshot[T] {
	if x.before != nil {
		return x.before
	}
	return x.store.SnapshotLocked()
}

// lenGated and versionGated are Len and ResourceVersion for a store that has a gate.
func (x *Indexer[T]) lenGated() int {
	if x.single {
		if before := x.duringLong(); before != nil {
			return before.Len()
		}
		return x.store.Len()
	}
	x.gate.look.Lock()
	defer x.gate.look.Unlock()
	if x.before != nil {
		return x.before.Len()
	}
	return x.store.LenLocked()
}

func (x *Indexer[T]) versionGated() string {
	if x.single {
		if before := x.duringLong(); before != nil {
			return before.Version()
		}
		return x.store.Version()
	}
	x.gate.look.Lock()
	defer x.gate.look.Unlock()
	if x.before != nil {
		return x.before.Version()
	}
	return x.store.VersionLocked()
}

// duringLong returns the state before the long commit that is going on; nil if there is none.
func (x *Indexer[T]) duringLong() *table.Snapshot[T] {
	if x.gate.seq.Load()%2 == 0 {
		return nil
	}
	x.gate.look.Lock()
	defer x.gate.look.Unlock()
	return x.before
}

// A SortedIndex has the objects of a collection in the order of a value that they have, and those
// of one value in the order of namespace and name. Where a page or a range begins is found in O(log
// n), which is also what a change of an object costs. Otherwise it is as [Index].
type SortedIndex[K cmp.Ordered, T Identified] struct {
	order *table.Order[K, T]
	gate  *gate              // that of the Indexer; may be nil
	in    *table.Snapshot[T] // the state that In was given; nil: the present one
}

// NewSortedIndex returns an index of x by the value that value returns for an object; for a time
// that is its UnixNano. x may run, and value is called, as for [NewIndex]. It panics if value is
// nil.
func NewSortedIndex[K cmp.Ordered, T Object](x Indexed[T], value func(T) K) *SortedIndex[K, T] {
	if value == nil {
		panic("lw: NewSortedIndex: nil function")
	}
	indexer, order := x.indexer(), table.NewOrder(KeyOf[T], value)
	indexer.store.Add(order)
	return &SortedIndex[K, T]{order: order, gate: indexer.gate}
}

// At returns the index of the state of s, for reads that must agree, such as a page and Len. If s
// is older than the index, each of them sorts the objects of s.
func (ix *SortedIndex[K, T]) At(s *Snapshot[T]) *SortedIndex[K, T] {
	return &SortedIndex[K, T]{order: ix.order, in: s.content}
}

// ordered returns the objects of the state. It is not written with read, whose function would
// allocate.
func (ix *SortedIndex[K, T]) ordered() table.Ordered[K, T] {
	switch {
	case ix.in != nil:
		return ix.order.In(ix.in)
	case ix.gate == nil:
		return ix.order.Ordered()
	}
	if seq := ix.gate.seq.Load(); seq%2 == 0 {
		if all := ix.order.Ordered(); ix.gate.seq.Load() == seq {
			return all
		}
	}
	ix.gate.look.Lock()
	defer ix.gate.look.Unlock()
	return ix.order.Ordered()
}

// Len returns the number of objects.
func (ix *SortedIndex[K, T]) Len() int { return ix.ordered().Len() }

// Before returns the number of objects whose value is less than value.
func (ix *SortedIndex[K, T]) Before(value K) int { return ix.ordered().Place(value) }

// Up yields n objects from the lowest value on, or fewer, without the first skip, as they were when
// the loop began. No lock is held in its body.
func (ix *SortedIndex[K, T]) Up(skip, n int) iter.Seq[T] {
	return func(yield func(T) bool) {
		s := ix.ordered()
		from, to := page(skip, n, s.Len())
		s.Up(from, to)(yield)
	}
}

// Down is like Up from the highest value on: Down(0, 10) is the top ten.
func (ix *SortedIndex[K, T]) Down(skip, n int) iter.Seq[T] {
	return func(yield func(T) bool) {
		s := ix.ordered()
		from, to := page(skip, n, s.Len())
		s.Down(s.Len()-to, s.Len()-from)(yield)
	}
}

// page returns the places of n objects after skip of all; there are none if to is not above from.
// No sum overflows, whatever skip and n are.
func page(skip, n, all int) (from, to int) {
	from = max(skip, 0)
	return from, from + min(max(n, 0), all-from)
}

// Between is like Up for the objects whose values are at least from and less than to.
func (ix *SortedIndex[K, T]) Between(from, to K) iter.Seq[T] {
	return func(yield func(T) bool) {
		s := ix.ordered()
		s.Up(s.Place(from), s.Place(to))(yield)
	}
}
