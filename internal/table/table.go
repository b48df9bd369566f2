package table

import (
	"sync/atomic"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// Key names an object.
type Key = types.NamespacedName

// A Table maps keys to values and to their position in a [Vector]. It is an open-addressed array whose slots never change
// their key or position, so that a reader needs no lock: one writer at a time may change it while any number of readers look
// things up. A deleted key keeps its slot until the Table is rebuilt. A nil *Table is empty.
//
// It holds values as any, which costs nothing for pointers, so that it is compiled once for all types.
type Table struct {
	slots []Slot

	// The writer's.
	used      int // slots that have a key
	namespace unique.Handle[string]
}

// A Slot is the place of one key in a [Table].
type Slot struct {
	// meta is the upper half of the key's hash above its position plus one; 0 means that the slot is empty. It is stored last,
	// and publishes the fields below.
	meta atomic.Uint64
	// namespace is a handle because all objects of a namespace then share one string, for only as long as one is left, and
	// because it is half the size.
	namespace unique.Handle[string]
	name      string
	value     atomic.Value
}

// newTable returns a table with room for n keys before it is full.
func newTable(n int) *Table {
	return &Table{slots: make([]Slot, n+n/4+2)}
}

// full reports whether the table has no room for a key more. A fifth of the slots stays empty to keep the searches short.
func (t *Table) full() bool {
	return t == nil || (t.used+1)*5 > len(t.slots)*4
}

// Find returns the slot of key, or nil. It may be a deleted key's.
func (t *Table) Find(hash uint64, key Key) *Slot {
	if t == nil {
		return nil
	}
	// The lower half of the hash has chosen the shard; the upper, as a fraction of 1, chooses the place.
	tag, n := hash>>32, uint64(len(t.slots))
	for i := tag * n >> 32; ; {
		s := &t.slots[i]
		meta := s.meta.Load()
		if meta == 0 {
			return nil
		}
		if meta>>32 == tag && s.name == key.Name && s.namespace.Value() == key.Namespace {
			return s
		}
		if i++; i == n {
			i = 0
		}
	}
}

// Position returns the position that the slot's key was added with.
func (s *Slot) Position() int { return int(uint32(s.meta.Load()) - 1) }

// Load returns the value. It is one that was stored at some moment of the call.
func (s *Slot) Load() any { return s.value.Load() }

// Store sets the value, which has to be of the type of the first one.
func (s *Slot) Store(v any) { s.value.Store(v) }

func (s *Slot) key() Key { return Key{Namespace: s.namespace.Value(), Name: s.name} }

// add puts a key that the table lacks into a table that is not full.
func (t *Table) add(hash uint64, namespace unique.Handle[string], name string, position int, v any) {
	tag, n := hash>>32, uint64(len(t.slots))
	i := tag * n >> 32
	for t.slots[i].meta.Load() != 0 {
		if i++; i == n {
			i = 0
		}
	}
	s := &t.slots[i]
	s.namespace, s.name = namespace, name
	s.value.Store(v)
	s.meta.Store(tag<<32 | uint64(position+1))
	t.used++
}

// intern returns the handle of a namespace, most often without looking it up.
func (t *Table) intern(namespace string) unique.Handle[string] {
	if t.used == 0 || t.namespace.Value() != namespace {
		t.namespace = unique.Make(namespace)
	}
	return t.namespace
}

// rebuilt returns a copy with room for n keys. A slot's position p becomes moved[p], and its key is left out where that is
// negative; a nil moved keeps all as it is.
func (t *Table) rebuilt(n int, moved []int32) *Table {
	next := newTable(n)
	if t != nil {
		next.namespace = t.namespace
	}
	for s := range t.all {
		position := s.Position()
		if moved != nil {
			if position = int(moved[position]); position < 0 {
				continue
			}
		}
		next.add(s.meta.Load(), s.namespace, s.name, position, s.value.Load())
	}
	return next
}

// all yields the slots that have a key.
func (t *Table) all(yield func(*Slot) bool) {
	if t == nil {
		return
	}
	for i := range t.slots {
		if t.slots[i].meta.Load() != 0 && !yield(&t.slots[i]) {
			return
		}
	}
}
