package table

import (
	"sync/atomic"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// Key names an object.
type Key = types.NamespacedName

// A Table maps keys to values and to their position in a [Vector]. It is an open-addressed array of entries, which only grows,
// so that a reader needs no lock: one writer at a time may change it while any number of readers look things up. A deleted key
// keeps its entry until the Table is rebuilt. A nil *Table is empty.
//
// It knows nothing of the type of its values, so that it is compiled once for all.
type Table struct {
	// A third of the entries stays empty to keep the searches short. An entry has all that a Get needs, since what a Get costs
	// is the memory that it waits for.
	entries []entry
	used    int // positions that have a key; the writer's
	// What only a writer reads is apart, by position. One of the two is there, records if there are stamps.
	records []record
	hashes  []uint32
}

// A Stamp is what a writer compares of two objects of one key. The table keeps it, because to look at the object before, in
// memory that nobody has touched for long, costs more than all else that a write does.
type Stamp struct {
	Version  uint64 // of objects of one identity, the same only if they are the same version; 0: it cannot be told
	Identity uint32 // a hash of what another object of the same key has another one of
}

// A record is a stamp, and the upper half of the hash of its key.
type record struct {
	version  uint64
	identity uint32
	hash     uint32
}

// An entry is one key of a [Table], in half a cache line.
type entry struct {
	// head is the key's tag above the position plus one; 0 is empty. It is stored after the rest, and publishes it.
	head atomic.Uint64
	// namespace is a handle because all objects of a namespace then share one string, for only as long as one is left, and
	// because it is half the size.
	namespace unique.Handle[string]
	name      name
	value     value
}

// tagOf returns what tells most keys apart without a look at them: of the lower half of the hash what has not chosen the shard,
// and the length of the name.
func tagOf(hash uint64, name string) uint64 { return hash>>3&0xffff<<16 | shortLength(name) }

// newTable returns a table with room for n keys.
func newTable(n int, stamped bool) *Table {
	t := &Table{entries: make([]entry, n+n/2+2)}
	if stamped {
		t.records = make([]record, n)
	} else {
		t.hashes = make([]uint32, n)
	}
	return t
}

// room returns how many keys the table has or may get.
func (t *Table) room() int {
	if t == nil {
		return 0
	}
	return len(t.records) + len(t.hashes)
}

// full reports whether the table has no room for a key more.
func (t *Table) full() bool { return t == nil || t.used == t.room() }

// home returns where a search for a key begins. The lower half of its hash has chosen the shard; the upper, as a fraction of 1,
// chooses the entry.
func (t *Table) home(upper uint32) int { return int(uint64(upper) * uint64(len(t.entries)) >> 32) }

// Find returns the entry of key, which may be a deleted one. If there is none it is negative, and its complement is the empty
// entry that the key would get.
func (t *Table) Find(hash uint64, key Key) int {
	if t == nil {
		return -1
	}
	tag := tagOf(hash, key.Name)
	for i := t.home(uint32(hash >> 32)); ; {
		e := &t.entries[i]
		head := e.head.Load()
		if head == 0 {
			return ^i
		}
		if head>>32 == tag && e.name.string(tag&0xffff) == key.Name && e.namespace.Value() == key.Namespace {
			return i
		}
		if i++; i == len(t.entries) {
			i = 0
		}
	}
}

// at returns the entry of a position.
func (t *Table) at(position int) int {
	for i := t.home(t.hash(position)); ; {
		if t.position(i) == position {
			return i
		}
		if i++; i == len(t.entries) {
			i = 0
		}
	}
}

// position returns the position of the key of an entry, -1 if that is empty.
func (t *Table) position(entry int) int { return int(uint32(t.entries[entry].head.Load())) - 1 }

// key returns the key of an entry.
func (t *Table) key(entry int) Key {
	e := &t.entries[entry]
	return Key{Namespace: e.namespace.Value(), Name: e.name.string(e.head.Load() >> 32 & 0xffff)}
}

// load returns the value of an entry. It is one that was stored at some moment of the call.
func (t *Table) load(entry int) value { return t.entries[entry].value.load() }

func (t *Table) store(entry int, v value) { t.entries[entry].value.store(v) }

// stamp returns the stamp of a position.
func (t *Table) stamp(position int) (st Stamp) {
	if t.records != nil {
		r := &t.records[position]
		st = Stamp{r.version, r.identity}
	}
	return st
}

func (t *Table) setStamp(position int, st Stamp) {
	if t.records != nil {
		r := &t.records[position]
		r.version, r.identity = st.Version, st.Identity
	}
}

// hash returns the upper half of the hash of a position's key.
func (t *Table) hash(position int) uint32 {
	if t.records != nil {
		return t.records[position].hash
	}
	return t.hashes[position]
}

// add puts a key that the table lacks into a table that is not full, at the next position.
func (t *Table) add(hash uint64, namespace unique.Handle[string], name string, v value, st Stamp) {
	upper := uint32(hash >> 32)
	if t.records != nil {
		t.records[t.used] = record{st.Version, st.Identity, upper}
	} else {
		t.hashes[t.used] = upper
	}
	t.used++
	t.place(upper, namespace, nameOf(name), v, tagOf(hash, name)<<32|uint64(t.used))
}

// place fills the first empty entry for a hash.
func (t *Table) place(upper uint32, namespace unique.Handle[string], name name, v value, head uint64) {
	i := t.home(upper)
	for t.entries[i].head.Load() != 0 {
		if i++; i == len(t.entries) {
			i = 0
		}
	}
	e := &t.entries[i]
	e.namespace, e.name, e.value = namespace, name, v
	e.head.Store(head)
}

// rebuilt returns a copy with room for n keys, with stamps if stamped is true. Position p becomes moved[p], and the key is left
// out where that is negative; the positions that are left are the first ones. A nil moved keeps all as it is.
func (t *Table) rebuilt(n int, moved []int32, stamped bool) *Table {
	next := newTable(n, stamped)
	if t == nil {
		return next
	}
	// In the order of the entries, which is about that of the hashes, so that next is filled from one end to the other.
	for i := range t.entries {
		e := &t.entries[i]
		head := e.head.Load()
		if head == 0 {
			continue
		}
		from := int(uint32(head)) - 1
		to := from
		if moved != nil {
			if to = int(moved[from]); to < 0 {
				continue
			}
		}
		if stamped {
			next.records[to] = t.records[from]
		} else {
			next.hashes[to] = t.hashes[from]
		}
		next.used++
		next.place(t.hash(from), e.namespace, e.name, e.value, head&^0xffffffff|uint64(to+1))
	}
	return next
}
