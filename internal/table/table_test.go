package table

import (
	"strconv"
	"strings"
	"testing"
	"unique"
)

// TestTableCollisions uses keys with equal hashes. The searches for many of them begin at the last
// entry.
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
			table.add(hash, unique.Make(key(i).Namespace), key(i).Name, number(i), VersionID{uint64(i), uint32(2 * i)})
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
		is := func(table *Table, i, position int) bool {
			at := table.Find(hash, key(i))
			if at < 0 || position < 0 {
				return at < 0 && position < 0
			}
			return table.position(at) == position && table.entryAt(position) == at && table.key(at) == key(i) &&
				unbox[int](table.load(at), true) == i && table.versionID(position) == VersionID{uint64(i), uint32(2 * i)}
		}
		for i := range n {
			if !is(table, i, i) {
				t.Errorf("%v is not at position %d", key(i), i)
			}
			if !is(grown, i, i) {
				t.Errorf("%v is not at position %d after the table grew", key(i), i)
			}
			if !is(rebuilt, i, int(moved[i])) {
				t.Errorf("%v is not at position %d after the table was rebuilt", key(i), moved[i])
			}
		}
	}
}

// TestNameLengths uses names of each kind: short ones, whose length is in their entry, and ones too
// long for that.
func TestNameLengths(t *testing.T) {
	var names []string
	for _, n := range []int{0, 1, 253, longName - 1, longName, longName + 1, 1 << 20} {
		names = append(names, strings.Repeat("n", n), strings.Repeat("m", n)+"o")
	}
	table := newTable(len(names), false)
	seed := newSeed()
	for _, name := range names {
		key := Key{Name: name}
		table.add(hashOf(seed, key), unique.Make(""), name, box(name, true), VersionID{})
	}
	for _, table := range []*Table{table, table.rebuilt(2*len(names), nil, false)} {
		for i, name := range names {
			key := Key{Name: name}
			at := table.Find(hashOf(seed, key), key)
			if at < 0 || table.position(at) != i || table.key(at) != key || unbox[string](table.load(at), true) != name {
				t.Errorf("the name of length %d is not at position %d", len(name), i)
			}
			if at := table.Find(hashOf(seed, key), Key{Name: name + "x"}); at >= 0 {
				t.Errorf("found what is one byte longer than the name of length %d", len(name))
			}
		}
	}
}
