package table

import (
	"sync/atomic"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// Key names an object.
type Key = types.NamespacedName

// A Table maps keys to values, and to positions in a [Vector]. It is a hash table with open
// addressing and linear probing. One writer at a time may change it, while any number of readers
// look up keys without a lock. A nil *Table is empty.
//
// A reader may be anywhere in the Table while the writer changes it, so these invariants hold at
// each moment:
//
//   - An entry whose head is not 0 is complete. The writer fills namespace, name and value with
//     plain stores, and then stores head atomically. A reader loads head first, so it sees all of
//     the key or an empty entry.
//   - The key of an entry never changes, so that it can be read with plain loads. Only the value
//     changes: one word, which is loaded and stored atomically.
//   - A full entry never becomes empty, because a search ends at the first empty one. A deleted key
//     keeps its entry, with an empty value.
//   - A key keeps its position, which no other key ever gets in this Table. A [Snapshot] relies on
//     that: it finds positions in a Table that goes on changing.
//
// When a Table is full, or has too many deleted keys, the writer builds another one and the store's
// pointer moves to that. The old one does not change any more. A Get that still reads it finds what
// was current when the pointer moved, which was during that Get.
//
// A Table does not know the type of its values, so it is compiled once, not once for each T.
type Table struct {
	// entries is the hash table. A third of it stays empty, so that searches are short.
	entries []entry
	// used is the number of positions that have a key, deleted ones included. Only writers use it.
	used int

	// records and hashes have what only a writer reads, by position. It is not in the entries, so
	// that those stay small. One of the two slices is nil: hashes if the objects have a VersionID,
	// else records.
	records []record
	hashes  []uint32
}

// A VersionID identifies one version of an object among all objects of the same key. A writer
// compares the VersionIDs of two objects in place of the objects. The object that is already stored
// is most likely not in the processor's cache any more, and the miss of reading it would cost more
// than the rest of the write.
type VersionID struct {
	// Version differs between two versions of objects that have the same Identity. 0 means that it
	// is not known.
	Version uint64
	// Identity is a hash of what tells an object from a later one of the same key, such as a UID.
	Identity uint32
}

// A record is a VersionID and the upper half of the hash of the key. Four fit in a cache line.
type record struct {
	version  uint64
	identity uint32
	hash     uint32
}

// An entry is one key of a [Table] in 32 bytes, half a cache line. It has all that a Get needs,
// except for the bytes of the name.
type entry struct {
	// head is 0 in an empty entry. Otherwise its upper half is the key's tag (see tagOf), and its
	// lower half is the position plus one. It is stored last, and that publishes the entry.
	head atomic.Uint64
	// namespace is a handle, which is half the size of a string. All objects of a namespace share
	// one copy of it, which is freed with the last of them.
	namespace unique.Handle[string]
	name      name
	value     value
}

// tagOf returns 32 bits that differ for most keys: 16 bits of the hash and the length of the name.
// A search compares the tag, which is in the entry, before it reads a name somewhere else in
// memory. So it reads the name of a wrong key once in some 65,000 times. The length also completes
// the entry's name, which is a pointer to its bytes.
//
// The bits come from the lower half of the hash. The lowest three are left out, because they have
// chosen the shard: all keys of a Table have the same ones.
func tagOf(hash uint64, name string) uint64 { return hash>>3&0xffff<<16 | shortLength(name) }

// newTable returns an empty table with room for n keys, with VersionIDs if withIDs is true.
func newTable(n int, withIDs bool) *Table {
	t := &Table{entries: make([]entry, n+n/2+2)}
	if withIDs {
		t.records = make([]record, n)
	} else {
		t.hashes = make([]uint32, n)
	}
	return t
}

// room returns the number of keys that the table can hold, including those that it has.
func (t *Table) room() int {
	if t == nil {
		return 0
	}
	return len(t.records) + len(t.hashes)
}

// full reports whether the table has no room for another key.
func (t *Table) full() bool { return t == nil || t.used == t.room() }

// home returns the entry at which the search for a key begins. The upper half of the key's hash,
// taken as a fraction of 1, chooses it: that is a multiplication and a shift, where a remainder
// would need a division. It also means that entries are nearly in the order of their hashes.
func (t *Table) home(upper uint32) int { return int(uint64(upper) * uint64(len(t.entries)) >> 32) }

// Find returns the index of the entry of key. The value of that entry is empty if key is deleted.
// If there is no entry, Find returns ^i, a negative number, where i is the index of the empty entry
// at which the search ended. If key is added next it gets that entry. Any goroutine may call Find.
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

// entryAt returns the entry of a position, for a writer that does not have the key.
func (t *Table) entryAt(position int) int {
	for i := t.home(t.hash(position)); ; {
		if t.position(i) == position {
			return i
		}
		if i++; i == len(t.entries) {
			i = 0
		}
	}
}

// position returns the position of the key of an entry, or -1 if the entry is empty.
func (t *Table) position(entry int) int { return int(uint32(t.entries[entry].head.Load())) - 1 }

// key returns the key of an entry.
func (t *Table) key(entry int) Key {
	e := &t.entries[entry]
	return Key{Namespace: e.namespace.Value(), Name: e.name.string(e.head.Load() >> 32 & 0xffff)}
}

// load returns the value of an entry, as it was at some moment of the call.
func (t *Table) load(entry int) value { return t.entries[entry].value.load() }

// store changes the value of an entry. A Get sees the change from this moment.
func (t *Table) store(entry int, v value) { t.entries[entry].value.store(v) }

// versionID returns the VersionID at a position. It is zero if the table has none.
func (t *Table) versionID(position int) (id VersionID) {
	if t.records != nil {
		r := &t.records[position]
		id = VersionID{r.version, r.identity}
	}
	return id
}

// setVersionID changes the VersionID at a position, if the table has VersionIDs.
func (t *Table) setVersionID(position int, id VersionID) {
	if t.records != nil {
		r := &t.records[position]
		r.version, r.identity = id.Version, id.Identity
	}
}

// hash returns the upper half of the hash of a position's key.
func (t *Table) hash(position int) uint32 {
	if t.records != nil {
		return t.records[position].hash
	}
	return t.hashes[position]
}

// add gives a new key the next position. The table must not be full and must not have the key.
func (t *Table) add(hash uint64, namespace unique.Handle[string], name string, v value, id VersionID) {
	upper := uint32(hash >> 32)
	if t.records != nil {
		t.records[t.used] = record{id.Version, id.Identity, upper}
	} else {
		t.hashes[t.used] = upper
	}
	t.used++
	t.place(upper, namespace, nameOf(name), v, tagOf(hash, name)<<32|uint64(t.used))
}

// place fills the first empty entry for a hash. The head is stored last: at that moment readers can
// find the key, and everything that they read of the entry was stored before. The value needs no
// atomic store for the same reason.
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

// rebuilt returns a copy of t with room for n keys, with VersionIDs if withIDs is true. The copy
// has no readers yet, and the caller keeps writers away from t.
//
// Position p becomes moved[p]. A key whose moved[p] is negative is left out; the others must get
// the positions from 0 without a gap. If moved is nil, all keys keep their positions.
func (t *Table) rebuilt(n int, moved []int32, withIDs bool) *Table {
	next := newTable(n, withIDs)
	if t == nil {
		return next
	}
	// The entries are nearly in the order of their hashes, so next is filled from one end to the
	// other, and the processor fetches the memory of both ahead of the loop.
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
		if withIDs {
			next.records[to] = t.records[from]
		} else {
			next.hashes[to] = t.hashes[from]
		}
		next.used++
		next.place(t.hash(from), e.namespace, e.name, e.value, head&^0xffffffff|uint64(to+1))
	}
	return next
}
