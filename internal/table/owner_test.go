package table

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
)

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
				t.Fatalf("%s has left the lock locked", after)
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
		if !mu.TryLock() {
			t.Fatal("a write that waits holds the lock")
		}
		mu.Unlock()
		close(gate)
		synctest.Wait()
		check[string](t, s)
		if s.Len() != 5 {
			t.Errorf("Len() = %d, want 5", s.Len())
		}
	})
}
