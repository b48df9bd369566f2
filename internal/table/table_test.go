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
		table := newTable(n)
		for i := range n {
			if table.full() {
				t.Fatalf("full with %d keys of %d", i, n)
			}
			if slot := table.Find(hash, key(i)); slot != nil {
				t.Fatalf("found %v before it was added", key(i))
			}
			table.add(hash, unique.Make(key(i).Namespace), key(i).Name, i, i)
		}
		moved := make([]int32, n)
		for i := range moved {
			moved[i] = int32(n - i)
			if i%3 == 0 {
				moved[i] = -1
			}
		}
		rebuilt := table.rebuilt(n, moved)
		for i := range n {
			if slot := table.Find(hash, key(i)); slot == nil || slot.Position() != i || slot.Load() != i || slot.key() != key(i) {
				t.Errorf("found %v for %v", slot, key(i))
			}
			slot := rebuilt.Find(hash, key(i))
			if i%3 == 0 {
				if slot != nil {
					t.Errorf("found %v, which was left out", key(i))
				}
			} else if slot == nil || slot.Position() != n-i || slot.Load() != i {
				t.Errorf("found %v for %v after it was moved", slot, key(i))
			}
		}
	}
}
