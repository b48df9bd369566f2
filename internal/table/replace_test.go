package table

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDuplicateOfOneBatch replaces by a list of several batches, one of which has a key twice:
// first among new objects, then among known ones.
func TestDuplicateOfOneBatch(t *testing.T) {
	key := func(i int) Key { return Key{Name: strconv.Itoa(i)} }
	for _, twice := range []int{10, 150, 290} {
		s := NewStore(keyOf)
		for version := 1; version <= 2; version++ {
			var objs []*obj
			for i := range 300 {
				objs = append(objs, &obj{key: key(i), version: version})
				if i == twice {
					objs = append(objs, &obj{key: key(i), version: version + 10})
				}
			}
			var duplicates []Key
			s.Replace(objs, strconv.Itoa(version), Changes[*obj]{Duplicate: func(key Key) { duplicates = append(duplicates, key) }})
			if diff := cmp.Diff([]Key{key(twice)}, duplicates); diff != "" {
				t.Errorf("version %d, object %d: duplicates (-want +got):\n%s", version, twice, diff)
			}
			if n := s.Len(); n != 300 {
				t.Errorf("version %d, object %d: %d objects, want 300", version, twice, n)
			}
			if o, _ := s.Get(key(twice)); o.version != version+10 {
				t.Errorf("version %d, object %d: it has version %d, want the later one's", version, twice, o.version)
			}
			check[string](t, s)
		}
	}
}
