package table

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestBatchModel commits random batches of two stores with one owner, and compares all that can be
// read with two maps.
func TestBatchModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var owner sync.Mutex
		type side struct {
			store *Store[*obj]
			batch *Batch[*obj]
			want  map[Key]*obj
			held  *Snapshot[*obj]
			was   map[Key]*obj
			index []*Groups[string, *obj]
		}
		sides := make([]*side, 2)
		for i := range sides {
			s := NewOwned(keyOf, versionIDOf, &owner)
			sides[i] = &side{store: s, batch: s.NewBatch(), want: map[Key]*obj{}}
		}
		version := 0
		values := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			for _, s := range sides {
				next := maps.Clone(s.want)
				type change struct{ old, obj *obj }
				changes := map[Key]change{}
				for range rapid.IntRange(0, 30).Draw(rt, "writes") {
					key := numbered(rapid.IntRange(0, 20).Draw(rt, "key"))
					if _, twice := changes[key]; twice {
						continue
					}
					version++
					o := &obj{key, version, values.Draw(rt, "one"), rapid.SliceOfN(values, 0, 3).Draw(rt, "many")}
					if rapid.IntRange(0, 3).Draw(rt, "remove") == 0 {
						o = nil
					}
					changes[key] = change{next[key], o}
					s.batch.Put(key, o)
					if next[key] = o; o == nil {
						delete(next, key)
					}
				}
				if s.batch.Len() != len(changes) {
					rt.Fatalf("%d writes, want %d", s.batch.Len(), len(changes))
				}
				s.batch.Compute()
				if len(s.index) < 2 && rapid.Bool().Draw(rt, "add an index") {
					g := NewGroupsOfOne(byOne)
					s.store.Add(g)
					s.index = append(s.index, g)
					owner.Lock()
					if s.batch.Len() > 0 && s.batch.ReadyLocked() {
						rt.Fatal("ready without the values of the new index")
					}
					owner.Unlock()
					s.batch.Compute()
				}
				owner.Lock()
				if !s.batch.ReadyLocked() {
					rt.Fatal("not ready")
				}
				// Readers of an index see what was before until the commit is shown, and then all of it.
				apart, before := rapid.Bool().Draw(rt, "apart"), groupsOf(s.index)
				s.batch.CommitLocked(apart)
				if apart {
					diff(rt, "before the commit is shown", before, groupsOf(s.index))
				}
				s.batch.ShowLocked()
				after := groupsOf(s.index)
				s.batch.SettleLocked()
				diff(rt, "when the commit is settled", after, groupsOf(s.index))
				s.batch.All(func(old, o *obj, same bool) {
					if want := old != nil && o != nil && old.one == o.one; same != want {
						rt.Errorf("%v instead of %v: the same is %v", o, old, same)
					}
					// The removal of what is not there is no change.
					for key, c := range changes {
						if c.old == old && c.obj == o {
							delete(changes, key)
							return
						}
					}
					rt.Fatalf("told of %v instead of %v", o, old)
				})
				s.store.SetVersionLocked(strconv.Itoa(version))
				if got := s.store.VersionLocked(); got != strconv.Itoa(version) {
					rt.Fatalf("version %s, want %d", got, version)
				}
				owner.Unlock()
				if s.batch.Release(); s.batch.Len() > 0 {
					rt.Fatal("not empty after Release")
				}
				for key, c := range changes {
					if c.old != nil || c.obj != nil {
						rt.Fatalf("not told of %v: %v", key, c)
					}
				}
				s.want = next
				check(rt, s.store, s.index...)
				diff(rt, "content", byKey(s.want), byKey(contentOf(s.store.Snapshot())))
				if snap := s.store.Snapshot(); snap.Version() != strconv.Itoa(version) {
					rt.Fatalf("snapshot of version %s, want %d", snap.Version(), version)
				}
				if s.held != nil {
					diff(rt, "held", byKey(s.was), byKey(contentOf(s.held)))
				}
				s.held, s.was = s.store.Snapshot(), s.want
			}
		}
	})
}

// groupsOf returns what readers see of indexes.
func groupsOf(indexes []*Groups[string, *obj]) map[string][]*obj {
	all := map[string][]*obj{}
	for i, g := range indexes {
		for _, v := range g.Values() {
			name := strconv.Itoa(i) + v
			all[name] = g.View(v).AppendTo(nil)
			slices.SortFunc(all[name], func(a, b *obj) int { return a.version - b.version })
			if n := g.Len(v); n != len(all[name]) || n == 0 {
				panic("a group of " + strconv.Itoa(n))
			}
		}
	}
	return all
}

func contentOf(s *Snapshot[*obj]) map[Key]*obj {
	all := map[Key]*obj{}
	for o := range s.All() {
		all[o.key] = o
	}
	return all
}

func byKey(objs map[Key]*obj) map[Key][]*obj {
	all := map[Key][]*obj{}
	for key, o := range objs {
		all[key] = []*obj{o}
	}
	return all
}

// An object at which an index panics is stored without a value of that index, if there is a
// Recover.
func TestBatchRecovers(t *testing.T) {
	var owner sync.Mutex
	s := NewOwned(keyOf, versionIDOf, &owner)
	g := NewGroups(func(o *obj, add func(string) bool) {
		add("partly")
		if o.version == 2 {
			panic("bad")
		}
	})
	s.Add(g)
	b := s.NewBatch()
	var told []any
	b.Recover = func(key Key, v any) bool { told = append(told, key.Name, v); return false }
	b.Put(numbered(1), &obj{numbered(1), 1, "", nil})
	b.Put(numbered(2), &obj{numbered(2), 2, "", nil})
	commit(b, &owner, false)
	if s.Len() != 2 || g.Len("partly") != 1 {
		t.Errorf("%d objects, %d in the index, want 2 and 1", s.Len(), g.Len("partly"))
	}
	if len(told) != 2 || told[0] != "2" || told[1] != "bad" {
		t.Errorf("told of %v", told)
	}
	// Its next version is in the index again.
	b.Put(numbered(2), &obj{numbered(2), 3, "", nil})
	commit(b, &owner, false)
	if g.Len("partly") != 2 {
		t.Errorf("%d in the index, want 2", g.Len("partly"))
	}
}

// A commit waits while an index is being added.
func TestBatchWaitsForAnIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var owner sync.Mutex
		s := NewOwned(keyOf, versionIDOf, &owner)
		s.Set(&obj{numbered(1), 1, "", nil}, "")
		slow := make(chan struct{})
		added := make(chan struct{})
		go func() {
			s.Add(NewGroups(func(o *obj, add func(string) bool) { <-slow }))
			close(added)
		}()
		synctest.Wait()
		b := s.NewBatch()
		b.Put(numbered(2), &obj{numbered(2), 2, "", nil})
		b.Compute()
		owner.Lock()
		if b.ReadyLocked() {
			t.Error("ready while an index is added")
		}
		go func() { close(slow) }()
		b.AwaitLocked()
		if b.ReadyLocked() {
			t.Error("ready without the values of the new index")
		}
		owner.Unlock()
		<-added
		b.Compute()
		owner.Lock()
		if !b.ReadyLocked() {
			t.Error("not ready")
		}
		b.CommitLocked(false)
		owner.Unlock()
		if s.Len() != 2 {
			t.Errorf("%d objects, want 2", s.Len())
		}
	})
}

// A commit is long if it has many writes, or if a large table may have to be built anew for it.
func TestBatchLong(t *testing.T) {
	var owner sync.Mutex
	s := NewOwned(keyOf, versionIDOf, &owner)
	b := s.NewBatch()
	write := func(writes int, next func() (Key, *obj)) (long bool) {
		for range writes {
			b.Put(next())
		}
		b.Compute()
		owner.Lock()
		long = b.LongLocked()
		owner.Unlock()
		commit(b, &owner, long)
		return long
	}
	n, gone := 0, 0
	add := func() (Key, *obj) { n++; return numbered(n), &obj{numbered(n), n, "", nil} }
	remove := func() (Key, *obj) { gone++; return numbered(gone), nil }
	if write(Brief, add) || !write(Brief+1, add) {
		t.Error("a commit is not long from one write more on")
	}
	write(60000, add)
	tables := func() (all [shards]*Table) {
		for i := range all {
			all[i] = s.tables.Load()[i].Load()
		}
		return all
	}
	anew, long := 0, 0
	for i := range 130000 {
		before, next := tables(), add
		if i >= 60000 && s.Len() > 40000 {
			next = remove
		}
		is := write(1, next)
		if is {
			long++
		}
		if before != tables() {
			if anew++; !is {
				t.Fatalf("a table was built anew at %d objects in a commit that was not long", s.Len())
			}
		}
	}
	if anew < 8 || long > 5*anew {
		t.Errorf("%d tables were built anew, and %d commits were long", anew, long)
	}
}
