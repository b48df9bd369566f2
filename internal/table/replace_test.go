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
			r := s.Compare(objs, Comparison[*obj]{})
			s.lock()
			r.CommitLocked(strconv.Itoa(version))
			s.unlock()
			r.Release()
			if diff := cmp.Diff([]Key{key(twice)}, r.Duplicates); diff != "" {
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

// A list at whose objects indexes panic is compared without them, or not at all. Each index is asked
// about all objects, so that one more comparison is enough for one index.
func TestCompareRecovers(t *testing.T) {
	s := NewStore(keyOf)
	groups := NewGroups(func(o *obj, add func(string) bool) {
		add("partly")
		if o.version == 2 {
			panic("bad")
		}
	})
	s.Add(groups)
	s.Replace([]*obj{{key: numbered(0), version: 1}}, "1", Comparison[*obj]{})
	list := []*obj{{key: numbered(1), version: 2}, {key: numbered(2), version: 1}, {key: numbered(3), version: 2}}
	var told []any
	c := Comparison[*obj]{Recover: func(key Key, v any) { told = append(told, key.Name, v) }}
	if r := s.Compare(list, c); r != nil {
		t.Error("there is something to commit")
	}
	if diff := cmp.Diff([]any{"1", "bad", "3", "bad"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.Set(&obj{key: numbered(4), version: 1}, "2") // no writer waits
	if s.Len() != 2 || groups.Len("partly") != 2 {
		t.Errorf("%d objects, %d in the index, want 2", s.Len(), groups.Len("partly"))
	}
	if n := s.Replace(list[1:2], "3", c); n != 3 || s.Len() != 1 || groups.Len("partly") != 1 {
		t.Errorf("%d changes, %d objects, %d in the index, want 3, 1 and 1", n, s.Len(), groups.Len("partly"))
	}
	check[string](t, s)
}
