package table

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
)

// TestOwner expects that an owner's lock is free while functions are called and while a write waits for a long one, and held
// from before the change can be seen.
func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		s := NewOwned(keyOf, stampOf, &mu)
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
		held := func(what string) {
			t.Helper()
			if mu.TryLock() {
				t.Errorf("%s has not left the lock locked", what)
			}
			mu.Unlock()
		}
		a, b, bad := &obj{key: Key{Name: "a"}}, &obj{key: Key{Name: "b"}}, &obj{key: Key{Name: "bad"}, one: "bad"}
		s.Set(a, "1")
		held("Set")
		s.Remove(a.key, "2")
		held("Remove")
		s.Remove(a.key, "3")
		held("Remove of nothing")
		s.Progress("3.5")
		if !mu.TryLock() {
			t.Fatal("Progress has left the lock locked")
		}
		mu.Unlock()

		var tried *obj
		c := Changes[*obj]{Trying: func(o *obj) { tried = o }}
		c.Change = func(_, new *obj) {
			if mu.TryLock() {
				t.Errorf("told of %v without the lock", new)
				mu.Unlock()
			}
		}
		s.Replace([]*obj{a, b}, "4", c)
		held("Replace")
		func() {
			defer func() {
				if v := recover(); v != "bad" || tried != bad {
					t.Errorf("panic %v at %v", v, tried)
				}
			}()
			s.Replace([]*obj{a, bad, b}, "5", c)
		}()
		if !mu.TryLock() {
			t.Fatal("a Replace that has failed has left the lock locked")
		}
		mu.Unlock()

		gate := make(chan struct{})
		go s.Add(NewGroups(func(*obj, func(int) bool) { <-gate }))
		synctest.Wait()
		go func() {
			for i := range 3 {
				s.Set(&obj{key: Key{Name: strconv.Itoa(i)}}, "")
				mu.Unlock()
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
