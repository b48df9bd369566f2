package table

import (
	"sync/atomic"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// Key names an object.
type Key = types.NamespacedName

// A Table maps keys to values and to their position in a [Vector]. It is an array of slots by position, and an
// open-addressed array of where each hash is, both of which only grow, so that a reader needs no lock: one writer at a time
// may change it while any number of readers look things up. A deleted key keeps its slot until the Table is rebuilt. A nil
// *Table is empty.
//
// It knows nothing of the type of its values, so that it is compiled once for all.
type Table struct {
	// places has, for each key, the upper half of its hash above its position plus one; 0 is empty. A place is stored after
	// its slot, and publishes it. The places are apart from the slots to be small: a search reads several, but one slot.
	places []atomic.Uint64
	slots  []slot
	used   int // slots that have a key; the writer's
	// versions has Stamp.Version by position; the writer's. It is apart from the slots because a Replace reads it from one end
	// to the other. nil: there are no stamps.
	versions []uint64
}

// A Stamp is what a writer compares of two objects of one key. The table keeps it, because to look at the object before, in
// memory that nobody has touched for long, costs more than all else that a write does.
type Stamp struct {
	Version  uint64 // of objects of one identity, the same only if they are the same version; 0: it cannot be told
	Identity uint32 // a hash of what another object of the same key has another one of
}

// A slot is one key of a [Table], in half a cache line.
type slot struct {
	// namespace is a handle because all objects of a namespace then share one string, for only as long as one is left, and
	// because it is half the size.
	namespace unique.Handle[string]
	name      name
	value     value
}

// newTable returns a table with room for n keys.
func newTable(n int, stamped bool) *Table {
	// A third of the places stays empty to keep the searches short.
	t := &Table{places: make([]atomic.Uint64, n+n/2+2), slots: make([]slot, n)}
	if stamped {
		t.versions = make([]uint64, n)
	}
	return t
}

// room returns how many keys the table has or may get.
func (t *Table) room() int {
	if t == nil {
		return 0
	}
	return len(t.slots)
}

// full reports whether the table has no room for a key more.
func (t *Table) full() bool { return t == nil || t.used == len(t.slots) }

// Find returns the position of key, which may be a deleted one, or -1.
func (t *Table) Find(hash uint64, key Key) int {
	if t == nil {
		return -1
	}
	// The lower half of the hash has chosen the shard; the upper, as a fraction of 1, chooses the place.
	tag, n := hash>>32, uint64(len(t.places))
	for i := tag * n >> 32; ; {
		place := t.places[i].Load()
		if place == 0 {
			return -1
		}
		if place>>32 == tag {
			p := uint32(place) - 1
			if s := &t.slots[p]; s.name.string() == key.Name && s.namespace.Value() == key.Namespace {
				return int(p)
			}
		}
		if i++; i == n {
			i = 0
		}
	}
}

// key returns the key of a position.
func (t *Table) key(position int) Key {
	s := &t.slots[position]
	return Key{Namespace: s.namespace.Value(), Name: s.name.string()}
}

// load returns the value of a position. It is one that was stored at some moment of the call.
func (t *Table) load(position int) value { return t.slots[position].value.load() }

func (t *Table) store(position int, v value) { t.slots[position].value.store(v) }

// stamp returns the stamp of a position.
func (t *Table) stamp(position int) (st Stamp) {
	if t.versions != nil {
		st = Stamp{t.versions[position], t.slots[position].name.identity}
	}
	return st
}

func (t *Table) setStamp(position int, st Stamp) {
	if t.versions != nil {
		t.versions[position], t.slots[position].name.identity = st.Version, st.Identity
	}
}

// add puts a key that the table lacks into a table that is not full, at the next position.
func (t *Table) add(hash uint64, namespace unique.Handle[string], name string, v value, st Stamp) {
	// No reader looks at the slot before its place is stored.
	t.slots[t.used] = slot{namespace, nameOf(name, st.Identity), v}
	if t.versions != nil {
		t.versions[t.used] = st.Version
	}
	t.used++
	t.place(hash, t.used-1)
}

func (t *Table) place(hash uint64, position int) {
	tag, n := hash>>32, uint64(len(t.places))
	i := tag * n >> 32
	for t.places[i].Load() != 0 {
		if i++; i == n {
			i = 0
		}
	}
	t.places[i].Store(tag<<32 | uint64(position+1))
}

// rebuilt returns a copy with room for n keys, with stamps if stamped is true. Position p becomes moved[p], and the key is left out where that is negative;
// the positions that are left are the first ones. A nil moved keeps all as it is.
func (t *Table) rebuilt(n int, moved []int32, stamped bool) *Table {
	next := newTable(n, stamped)
	if t == nil {
		return next
	}
	if moved == nil {
		next.used = copy(next.slots, t.slots[:t.used])
		copy(next.versions, t.versions)
	}
	for i := range t.places {
		place := t.places[i].Load()
		if place == 0 {
			continue
		}
		position := int(uint32(place)) - 1
		if moved != nil {
			to := int(moved[position])
			if to < 0 {
				continue
			}
			next.slots[to] = t.slots[position]
			next.setStamp(to, t.stamp(position))
			next.used++
			position = to
		}
		next.place(place, position)
	}
	return next
}
