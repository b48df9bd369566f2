package table

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDuplicatesOfOneBatch has a key twice in one batch of a list that has several: first among new objects, then among known ones.
func TestDuplicatesOfOneBatch(t *testing.T) {
	s := NewStore(keyOf)
	key := func(i int) Key { return Key{Name: strconv.Itoa(i)} }
	for version := 1; version <= 2; version++ {
		var objs []*obj
		for i := range 300 {
			objs = append(objs, &obj{key: key(i), version: version})
			if i%100 == 50 {
				objs = append(objs, &obj{key: key(i), version: version + 10})
			}
		}
		var duplicates []Key
		s.Replace(objs, strconv.Itoa(version), Changes[*obj]{Duplicate: func(key Key) { duplicates = append(duplicates, key) }})
		if diff := cmp.Diff([]Key{key(50), key(150), key(250)}, duplicates); diff != "" {
			t.Errorf("version %d: duplicates (-want +got):\n%s", version, diff)
		}
		if n := s.Len(); n != 300 {
			t.Errorf("version %d: %d objects, want 300", version, n)
		}
		if o, _ := s.Get(key(150)); o.version != version+10 {
			t.Errorf("version %d: the object has version %d, want the later one's", version, o.version)
		}
		check[string](t, s)
	}
}
