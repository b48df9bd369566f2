package signal

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A waiter is a channel of the model's: what it is about, and whether it must be closed by now.
type waiter struct {
	changed <-chan struct{}
	keys    []string // none: any
	cancel  func()
	fired   bool
	over    bool
}

// TestModel asks for channels, ends contexts and fires, at random, and expects that exactly those
// channels are closed that a change concerns, and that nothing else is kept.
func TestModel(t *testing.T) {
	keys := []string{"a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			var s Set[string]
			var all []*waiter
			ended := false
			fire := func(about func(key string) bool, any bool) {
				for _, w := range all {
					if !w.over && !ended && (len(w.keys) == 0 && any || slices.ContainsFunc(w.keys, about)) {
						w.fired, w.over = true, true
					}
				}
			}
			someKeys := rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 0, 3, rapid.ID[string])
			rt.Repeat(map[string]func(*rapid.T){
				"Wait": func(rt *rapid.T) {
					ctx, cancel := context.WithCancel(context.Background())
					// A key may come twice.
					w := &waiter{keys: rapid.SliceOfN(rapid.SampledFrom(keys), 0, 3).Draw(rt, "keys"), cancel: cancel}
					var guard sync.Locker
					if rapid.Bool().Draw(rt, "guarded") {
						guard = new(sync.Mutex)
					}
					w.changed = s.Wait(ctx, guard, w.keys...)
					w.over = ended
					all = append(all, w)
				},
				"Take": func(rt *rapid.T) {
					key := rapid.SampledFrom(keys).Draw(rt, "key")
					w := &waiter{keys: []string{key}, over: ended}
					w.changed, w.cancel = s.Take(key)
					all = append(all, w)
				},
				"Over": func(rt *rapid.T) {
					if len(all) > 0 {
						w := rapid.SampledFrom(all).Draw(rt, "waiter")
						w.cancel()
						w.over = true
					}
				},
				"Fire": func(rt *rapid.T) {
					key := rapid.SampledFrom(keys).Draw(rt, "key")
					fire(func(k string) bool { return k == key }, true)
					s.Fire(key).Release()
				},
				"Fire many": func(rt *rapid.T) {
					some := someKeys.Draw(rt, "keys")
					fire(func(k string) bool { return slices.Contains(some, k) }, len(some) > 0)
					s.Fire(some...).Release()
				},
				"FireWhere": func(rt *rapid.T) {
					some := someKeys.Draw(rt, "keys")
					about := func(k string) bool { return slices.Contains(some, k) }
					fire(about, true)
					s.FireWhere(about).Release()
				},
				"Close": func(rt *rapid.T) {
					if rapid.IntRange(0, 9).Draw(rt, "end") == 0 {
						s.Close()
						ended = true
					}
				},
				"": func(rt *rapid.T) {
					synctest.Wait()
					kept := 0
					for i, w := range all {
						if got := closed(w.changed); got != w.fired {
							rt.Fatalf("channel %d of %q is closed: %v, want %v", i, w.keys, got, w.fired)
						}
						if !w.over && !ended {
							kept++
						}
					}
					if s.Len() != kept || s.Waiting() != (kept > 0) {
						rt.Fatalf("%d channels are kept, waiting: %v, want %d", s.Len(), s.Waiting(), kept)
					}
					places := map[place[string]]bool{}
					for _, w := range all {
						if w.over || ended {
							continue
						}
						for _, key := range w.keys {
							places[place[string]{key: key}] = true
						}
						if len(w.keys) == 0 {
							places[place[string]{any: true}] = true
						}
					}
					if len(s.at) != len(places) {
						rt.Fatalf("%d places are kept, want %d", len(s.at), len(places))
					}
				},
			})
			for _, w := range all {
				w.cancel()
			}
			synctest.Wait()
			if s.Len() != 0 || s.at != nil {
				rt.Fatalf("%d channels and %v are left", s.Len(), s.at)
			}
		})
	})
}

// TestReleaseLetsContextsGo expects that a context has nothing to call any more after a channel was
// closed and released, nor after Close.
func TestReleaseLetsContextsGo(t *testing.T) {
	for name, end := range map[string]func(s *Set[string]){
		"Fire":      func(s *Set[string]) { s.Fire("a").Release() },
		"FireWhere": func(s *Set[string]) { s.FireWhere(func(string) bool { return true }).Release() },
		"Close":     func(s *Set[string]) { s.Close() },
	} {
		var s Set[string]
		ctx := &counted{Context: context.Background(), done: make(chan struct{})}
		s.Wait(ctx, nil, "a")
		s.Wait(ctx, nil)
		if ctx.calls != 2 {
			t.Fatalf("%s: the context has %d functions to call, want 2", name, ctx.calls)
		}
		end(&s)
		if ctx.calls != 0 {
			t.Errorf("%s: the context still has %d functions to call", name, ctx.calls)
		}
		s.Close()
		s.Wait(ctx, nil, "a")
		if ctx.calls != 0 || s.Len() != 0 {
			t.Errorf("%s: after Close the context has %d functions to call, and %d channels are kept", name, ctx.calls, s.Len())
		}
	}
}

// counted is a context of a type of its own. It counts the functions that it still has to call.
type counted struct {
	context.Context
	done  chan struct{}
	calls int
	using func() // called when the context is used; may be nil
}

func (c *counted) Done() <-chan struct{} { return c.done }

func (c *counted) AfterFunc(func()) (stop func() bool) {
	c.use()
	c.calls++
	return func() bool {
		c.use()
		c.calls--
		return true
	}
}

func (c *counted) use() {
	if c.using != nil {
		c.using()
	}
}

// TestNoLockWhileAContextIsUsed expects that a context's methods may use the set, and the lock that
// guards what the set is about.
func TestNoLockWhileAContextIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set[string]
		var guard sync.Mutex
		used := 0
		ctx := &counted{Context: context.Background(), done: make(chan struct{}), using: func() {
			used++
			guard.Lock()
			defer guard.Unlock()
			s.Take("b")
		}}
		s.Wait(ctx, &guard, "a")
		guard.Lock()
		fired := s.Fire("a")
		guard.Unlock()
		fired.Release()
		if used != 2 {
			t.Errorf("the context was used %d times, want 2", used)
		}
	})
}

// TestGuard expects that a channel is added while the guard is held, and only that.
func TestGuard(t *testing.T) {
	var s Set[string]
	g := &guard{len: s.Len}
	s.Wait(t.Context(), g, "a")
	if diff := cmp.Diff([]int{0, 1}, g.seen); diff != "" {
		t.Errorf("channels when the guard was locked and unlocked (-want +got):\n%s", diff)
	}
}

// guard is a lock that notes how many channels there are when it is locked and unlocked.
type guard struct {
	len  func() int
	seen []int
}

func (g *guard) Lock()   { g.seen = append(g.seen, g.len()) }
func (g *guard) Unlock() { g.seen = append(g.seen, g.len()) }

// TestContextThatIsOver expects that nothing is kept for a context that is done before the channel
// is added.
func TestContextThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set[string]
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		changed := s.Wait(ctx, pause{}, "a")
		if s.Len() != 0 || closed(changed) {
			t.Errorf("%d channels are kept, closed %v", s.Len(), closed(changed))
		}
	})
}

// pause is a lock that whoever locks it gets when all others of the bubble wait.
type pause struct{}

func (pause) Lock()   { synctest.Wait() }
func (pause) Unlock() {}

// TestKeyThatNobodyFinds expects that a NaN is not kept, since no map would find it again.
func TestKeyThatNobodyFinds(t *testing.T) {
	var s Set[float64]
	changed, forget := s.Take(math.NaN())
	if s.Len() != 0 || closed(changed) {
		t.Errorf("%d channels are kept", s.Len())
	}
	s.Wait(t.Context(), nil, math.NaN())
	s.Fire(math.NaN()).Release()
	forget()
	if s.Len() != 0 || len(s.at) != 0 {
		t.Errorf("%d channels are kept in %d places", s.Len(), len(s.at))
	}
}

// TestUnusedCostsNothing expects that nothing is called or allocated as long as nobody waits.
func TestUnusedCostsNothing(t *testing.T) {
	var s Set[string]
	fail := func(string) bool { t.Error("somebody asked about a key"); return true }
	if got := testing.AllocsPerRun(100, func() {
		s.Fire("a").Release()
		s.Fire("a", "b").Release()
		s.FireWhere(fail).Release()
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// TestNobodyIsMissed has readers that take a channel and then read, and a writer that writes and
// then fires. A reader that has read an old value must be woken.
func TestNobodyIsMissed(t *testing.T) {
	const last = 2000
	synctest.Test(t, func(t *testing.T) {
		var s Set[int]
		var mu sync.Mutex
		value := 0
		read := func() int {
			mu.Lock()
			defer mu.Unlock()
			return value
		}
		for i := range 4 {
			go func() {
				for {
					changed, over := s.Take(1)
					if i%2 == 0 {
						over()
						ctx, cancel := context.WithCancel(t.Context())
						changed, over = s.Wait(ctx, nil, 1), cancel // the other way
					}
					if read() == last {
						over()
						return
					}
					<-changed // a reader that was missed is stuck, which ends the bubble with an error
					over()
				}
			}()
		}
		for range last {
			mu.Lock()
			value++
			mu.Unlock()
			s.Fire(1).Release()
		}
		synctest.Wait()
	})
}

func ExampleSet() {
	var s Set[string]
	changed := s.Wait(context.Background(), nil, "a")
	s.Fire("b").Release()
	fmt.Println(closed(changed))
	s.Fire("a").Release()
	fmt.Println(closed(changed))
	// Output:
	// false
	// true
}

// TestFiredOnce expects that a channel is closed once, however many changes there are at a time.
func TestFiredOnce(t *testing.T) {
	var s Set[int]
	changed := s.Wait(t.Context(), nil)
	got := s.Fire(1, 1, 2)
	if diff := cmp.Diff(1, len(got)); diff != "" || !closed(changed) {
		t.Errorf("closed %v, fired (-want +got):\n%s", closed(changed), diff)
	}
	got.Release()
}
