package table

import (
	"context"
	"maps"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestChangedModel writes to a store at random, and expects that exactly the channels of those
// groups are closed whose objects differ before and after.
func TestChangedModel(t *testing.T) {
	values := []string{"a", "b", "c", "d", "e", "f"}
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, 3, 40)
		one, many := NewGroupsOfOne(byOne), NewGroups(byMany)
		m.store.Add(one)
		m.store.Add(many)

		// each calls f for each group.
		each := func(f func(g *Groups[string, *obj], value string, name string)) {
			for _, value := range values {
				f(one, value, "one "+value)
				f(many, value, "many "+value)
			}
		}
		content := func() map[string]map[*obj]bool {
			all := map[string]map[*obj]bool{}
			each(func(g *Groups[string, *obj], value, name string) {
				view := g.View(value)
				all[name] = maps.Collect(func(yield func(*obj, bool) bool) {
					view.All()(func(o *obj) bool { return yield(o, true) })
				})
			})
			return all
		}
		step := func(write func(*rapid.T)) func(*rapid.T) {
			return func(rt *rapid.T) {
				before := content()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				channels := map[string]<-chan struct{}{}
				each(func(g *Groups[string, *obj], value, name string) { channels[name] = g.Changed(ctx, value) })
				write(rt)
				after := content()
				var want, got []string
				each(func(_ *Groups[string, *obj], _, name string) {
					if !maps.Equal(before[name], after[name]) {
						want = append(want, name)
					}
					select {
					case <-channels[name]:
						got = append(got, name)
					default:
					}
				})
				same(rt, "closed channels", want, got)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"Set": step(m.set), "Remove": step(m.remove), "Replace": step(m.replace), "Progress": step(m.progress),
		})
	})
}

// TestChangedDuringAWrite expects that a channel cannot be added between the moment when a writer
// looks which channels there are and the moment when its change can be seen. All the while it has
// locked the stripe.
func TestChangedDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroupsOfOne(func(o *obj) string { return o.one })
		g.lock(allStripes)
		var taken sync.WaitGroup
		taken.Go(func() { g.Changed(t.Context(), "a") })
		for range 10_000 {
			runtime.Gosched()
			if g.Waiting() > 0 {
				t.Error("a channel was added during a write")
				break
			}
		}
		g.unlock(allStripes)
		taken.Wait()
		if g.Waiting() != 1 {
			t.Errorf("%d channels, want 1", g.Waiting())
		}
	})
}

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
			r := replace(s, objs, strconv.Itoa(version), Comparison[*obj]{})
			same(t, "duplicates", []Key{key(twice)}, r.Duplicates)
			if o, _ := s.Get(key(twice)); o.version != version+10 || s.Len() != 300 {
				t.Errorf("version %d, object %d of %d: it has version %d, want the later one's", version, twice, s.Len(), o.version)
			}
			check[string](t, s)
		}
	}
}

// A list at whose objects indexes panic is compared without them, or not at all. Each index is
// asked about all objects, so that one more comparison is enough for one index.
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
	same(t, "told", []any{"1", "bad", "3", "bad"}, told)
	s.Set(&obj{key: numbered(4), version: 1}, "2") // no writer waits
	if s.Len() != 2 || groups.Len("partly") != 2 {
		t.Errorf("%d objects, %d in the index, want 2", s.Len(), groups.Len("partly"))
	}
	if n := s.Replace(list[1:2], "3", c); n != 3 || s.Len() != 1 || groups.Len("partly") != 1 {
		t.Errorf("%d changes, %d objects, %d in the index, want 3, 1 and 1", n, s.Len(), groups.Len("partly"))
	}
	check[string](t, s)
}

// TestOwner expects that an owner's lock is free while functions are called and while a write waits
// for a long one, and held from before the change can be seen.
func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		s := NewOwned(keyOf, versionIDOf, &mu)
		s.Add(NewGroups(func(o *obj, add func(string) bool) {
			if !mu.TryLock() {
				t.Error("an index's function was called under the lock")
				return
			}
			mu.Unlock()
			if o.one == "bad" {
				panic("bad")
			}
			add(o.one)
		}))
		told := 0
		held := func() {
			t.Helper()
			told++
			if mu.TryLock() {
				t.Error("told of a change without the lock")
				mu.Unlock()
			}
		}
		free := func(after string, calls int) {
			t.Helper()
			if !mu.TryLock() {
				t.Fatalf("the lock is locked after %s", after)
			}
			mu.Unlock()
			if told != calls {
				t.Errorf("%d calls after %s, want %d", told, after, calls)
			}
			told = 0
		}
		shows := func(key Key, want *obj) {
			t.Helper()
			if got, _ := s.Get(key); got != want {
				t.Errorf("told of a change before Get shows it: %v, want %v", got, want)
			}
		}
		a, b, bad := &obj{key: Key{Name: "a"}}, &obj{key: Key{Name: "b"}}, &obj{key: Key{Name: "bad"}, one: "bad"}
		s.Set(a, "1")
		free("Set", 0)
		s.Remove(a.key, "2")
		s.Remove(a.key, "3")
		free("Remove", 0)
		s.Progress("3.5")
		free("Progress", 0)

		r := s.Compare([]*obj{a, b, b}, Comparison[*obj]{})
		mu.Lock() // Compare has left it
		shows(b.key, nil)
		r.CommitLocked("4")
		held()
		shows(b.key, b)
		mu.Unlock()
		r.Release()
		free("Compare and CommitLocked", 1)
		func() {
			defer func() {
				if v := recover(); v != "bad" {
					t.Errorf("panic %v", v)
				}
			}()
			s.Compare([]*obj{a, bad, b}, Comparison[*obj]{})
		}()
		free("a Compare that has failed", 0)

		gate := make(chan struct{})
		go s.Add(NewGroups(func(*obj, func(int) bool) { <-gate }))
		synctest.Wait()
		go func() {
			for i := range 3 {
				s.Set(&obj{key: Key{Name: strconv.Itoa(i)}}, "")
			}
		}()
		synctest.Wait()
		free("the begin of a write that waits", 0)
		close(gate)
		synctest.Wait()
		check[string](t, s)
		if s.Len() != 5 {
			t.Errorf("Len() = %d, want 5", s.Len())
		}
	})
}
