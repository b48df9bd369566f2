package table

import (
	"strconv"
	"testing"
	"unique"
)

// TestTableCollisions has keys of the same hash, of which many begin to be searched for at the last slot.
func TestTableCollisions(t *testing.T) {
	const n = 40
	for _, hash := range []uint64{0, 1 << 40, 1<<64 - 1} {
		key := func(i int) Key { return Key{Namespace: strconv.Itoa(i % 5), Name: strconv.Itoa(i / 5)} }
		table := newTable(n, true)
		number := func(i int) value { return box(i, true) }
		for i := range n {
			if table.full() {
				t.Fatalf("full with %d keys of %d", i, n)
			}
			if at := table.Find(hash, key(i)); at >= 0 {
				t.Fatalf("found %v before it was added, at %d", key(i), at)
			}
			table.add(hash, unique.Make(key(i).Namespace), key(i).Name, number(i), Stamp{uint64(i), uint32(2 * i)})
		}
		if !table.full() {
			t.Errorf("not full with %d keys", n)
		}
		moved, kept := make([]int32, n), int32(0)
		for i := range moved {
			if moved[i] = -1; i%3 != 0 {
				moved[i] = kept
				kept++
			}
		}
		rebuilt, grown := table.rebuilt(int(kept), moved, true), table.rebuilt(2*n, nil, true)
		is := func(table *Table, i, at int) bool {
			return table.Find(hash, key(i)) == at && (at < 0 || table.key(at) == key(i) && unbox[int](table.load(at), true) == i &&
				table.stamp(at) == Stamp{uint64(i), uint32(2 * i)})
		}
		for i := range n {
			if !is(table, i, i) {
				t.Errorf("found %v at %d, want %d", key(i), table.Find(hash, key(i)), i)
			}
			if !is(grown, i, i) {
				t.Errorf("found %v at %d after the table grew, want %d", key(i), grown.Find(hash, key(i)), i)
			}
			if !is(rebuilt, i, int(moved[i])) {
				t.Errorf("found %v at %d after the table was rebuilt, want %d", key(i), rebuilt.Find(hash, key(i)), moved[i])
			}
		}
	}
}
