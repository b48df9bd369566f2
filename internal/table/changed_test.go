package table

import (
	"context"
	"maps"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
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
				if diff := cmp.Diff(want, got); diff != "" {
					rt.Fatalf("closed channels (-differ +closed):\n%s", diff)
				}
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
