package lw

import (
	"iter"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/table"
)

// A Reader reads a collection that is held in memory. The objects are shared by all readers and must not be changed.
//
// Each call is answered from one state of the collection, and a call that begins after another has returned, in any goroutine,
// is never answered from an older one. Objects come in no order.
type Reader[T Object] interface {
	// Get returns the object of key. It takes no lock and does not allocate.
	Get(key Key) (obj T, ok bool)
	// List returns all objects, in a slice that is the caller's.
	List() []T
	// All yields the objects as they were when the loop began. No lock is held while the loop's body runs.
	All() iter.Seq[T]
	// Len returns the number of objects.
	Len() int
	// ResourceVersion returns the version of the collection that the objects are of, or "" if there is none.
	ResourceVersion() string
	// Snapshot returns the present state, for many reads of it. It costs the same however many objects there are.
	Snapshot() *Snapshot[T]
}

// An Indexer is an in-memory store of a collection that its user writes: a [Reader], and a [Sink] for a [Reflector]. Its indexes
// are made by [NewIndex] and [NewMultiIndex]; without one it is a store alone.
//
// It is safe for many readers and many writers. Readers wait for nobody. Writers wait for each other only where they change the
// same shard, which is an eighth of the keys, the same values of an index, or the resource version.
type Indexer[T Object] struct {
	store *table.Store[T]
}

var (
	_ Reader[*Meta] = (*Indexer[*Meta])(nil)
	_ Reader[*Meta] = (*Snapshot[*Meta])(nil)
)

// NewIndexer returns an Indexer that holds objs. If several have the same key, the last one wins.
func NewIndexer[T Object](objs ...T) *Indexer[T] {
	x := &Indexer[T]{store: table.NewStore(KeyOf[T])}
	x.store.Replace(objs, "", table.Changes[T]{})
	return x
}

// Get returns the object of key. It takes no lock and does not allocate.
func (x *Indexer[T]) Get(key Key) (obj T, ok bool) { return x.store.Get(key) }

// List returns all objects, in no order, in a slice that is the caller's.
func (x *Indexer[T]) List() []T { return x.store.Snapshot().List() }

// All yields the objects as they were when the loop began, in no order.
func (x *Indexer[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { x.store.Snapshot().Each(yield) }
}

// Len returns the number of objects.
func (x *Indexer[T]) Len() int { return x.store.Len() }

// ResourceVersion returns the version of the last Replace or Apply.
func (x *Indexer[T]) ResourceVersion() string { return x.store.Version() }

// Snapshot returns the present state.
func (x *Indexer[T]) Snapshot() *Snapshot[T] { return &Snapshot[T]{x.store.Snapshot()} }

// snapshotLocked is Snapshot for an informer that holds its lock.
func (x *Indexer[T]) snapshotLocked() *Snapshot[T] { return &Snapshot[T]{x.store.SnapshotLocked()} }

// Set makes obj the object of its key, and returns the one before. It panics if obj is the zero T. A panic of an index's
// function comes out of Set, which then has changed nothing.
func (x *Indexer[T]) Set(obj T) (old T, replaced bool) { return x.set(obj, "") }

// Delete removes the object of key, and returns it.
func (x *Indexer[T]) Delete(key Key) (old T, deleted bool) { return x.remove(key, "") }

// Replace makes objs the content, and resourceVersion its version, at once: no read, and no two reads, see a part of it. An
// object keeps its place if its UID and resource version are those of the one that is there. Of objects that have the same key
// the one with the highest resource version counts. A panic of an index's function comes out of Replace, which then has changed
// nothing.
func (x *Indexer[T]) Replace(objs []T, resourceVersion string) {
	x.store.Replace(objs, resourceVersion, table.Changes[T]{Same: unchanged[T], Newer: notOlder[T]})
}

// Apply makes the change that ev tells of, and its resource version the reported one. It does nothing with an event that
// has an Err.
func (x *Indexer[T]) Apply(ev WatchEvent[T]) {
	var none T
	switch {
	case ev.Err != nil:
	case ev.Type == watch.Deleted:
		x.remove(ev.Key(), ev.ResourceVersion)
	case ev.Object != none:
		x.set(ev.Object, ev.ResourceVersion)
	default:
		x.progress(ev.ResourceVersion)
	}
}

// set stores obj and moves the reported version to rv ("" leaves it), visibly at once.
func (x *Indexer[T]) set(obj T, rv string) (old T, replaced bool) { return x.store.Set(obj, rv) }

// remove deletes key and moves the reported version to rv ("" leaves it).
func (x *Indexer[T]) remove(key Key, rv string) (old T, deleted bool) {
	return x.store.Remove(key, rv, nil)
}

// progress moves only the reported version ("" leaves it).
func (x *Indexer[T]) progress(rv string) {
	if rv != "" {
		x.store.Progress(rv)
	}
}

func (x *Indexer[T]) indexer() *Indexer[T] { return x }

// An Indexed is what an index can be made of: an [*Indexer] or an [*Informer]. It cannot be implemented elsewhere.
type Indexed[T Object] interface {
	indexer() *Indexer[T]
}

// An Index finds the objects of a collection by a value that each has. It changes together with the collection: a read of
// one after a read of the other is never older.
//
// A value is listed for as long as an object has it. One that is not equal to itself, such as a NaN, is left out: nothing could
// look it up. The object is found under its other values, if it has any.
type Index[K comparable, T Object] struct {
	groups *table.Groups[K, T]
}

// NewIndex returns an index of x by key. It may be called at any time, also on an informer that runs: readers notice nothing,
// writers wait while it is built, and the index is complete when it is returned.
//
// key is called once for each version of an object, by the goroutine that writes it, without a lock. It must not write to x.
func NewIndex[K comparable, T Object](x Indexed[T], key func(T) K) *Index[K, T] {
	if key == nil {
		panic("lw: NewIndex: nil key function")
	}
	return newIndex(x, table.NewGroupsOfOne(key))
}

// NewMultiIndex is [NewIndex] for objects that have any number of values each. A value that keys yields twice counts once.
func NewMultiIndex[K comparable, T Object](x Indexed[T], keys func(T) iter.Seq[K]) *Index[K, T] {
	if keys == nil {
		panic("lw: NewMultiIndex: nil key function")
	}
	return newIndex(x, table.NewGroups(func(obj T, add func(K) bool) { keys(obj)(add) }))
}

func newIndex[K comparable, T Object](x Indexed[T], groups *table.Groups[K, T]) *Index[K, T] {
	x.indexer().store.Add(groups)
	return &Index[K, T]{groups: groups}
}

// Lookup yields the objects of key as they were when the loop began, in no order. No lock is held while the loop's body runs.
func (ix *Index[K, T]) Lookup(key K) iter.Seq[T] {
	return func(yield func(T) bool) { ix.groups.View(key).Each(yield) }
}

// List returns the objects of key, in no order, in a slice that is the caller's; nil if there is none.
func (ix *Index[K, T]) List(key K) []T {
	view := ix.groups.View(key)
	if view.Live() == 0 {
		return nil
	}
	return view.AppendTo(make([]T, 0, view.Live()))
}

// Len returns the number of objects of key.
func (ix *Index[K, T]) Len(key K) int { return ix.groups.Len(key) }

// Keys yields the keys that have an object, as they were when the loop began, in no order.
func (ix *Index[K, T]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for _, key := range ix.groups.Values() {
			if !yield(key) {
				return
			}
		}
	}
}

// A Snapshot is one state of a collection: a [Reader] whose answers never change. It keeps the objects of that state in memory,
// and costs writers, once, a copy of the parts that they change.
type Snapshot[T Object] struct {
	content *table.Snapshot[T]
}

// Get returns the object of key.
func (s *Snapshot[T]) Get(key Key) (obj T, ok bool) { return s.content.Get(key) }

// List returns all objects, in no order, in a slice that is the caller's.
func (s *Snapshot[T]) List() []T { return s.content.List() }

// All yields the objects, in no order.
func (s *Snapshot[T]) All() iter.Seq[T] { return s.content.Each }

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int { return s.content.Len() }

// ResourceVersion returns the version of the collection that the objects are of.
func (s *Snapshot[T]) ResourceVersion() string { return s.content.Version() }

// Snapshot returns s.
func (s *Snapshot[T]) Snapshot() *Snapshot[T] { return s }
