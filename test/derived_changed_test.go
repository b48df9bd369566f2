package lw_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// The channels of Changed of a derived collection are closed by what is a change of it, when every
// read shows that, before a handler is called; and by nothing else.
func TestDerivedChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		create(t, b.left, "a", 10)
		create(t, b.left, "b", 20)
		tens := lw.Derive(b.g, b.l, func(w *Widget) *sum {
			if w.Size == 0 {
				return nil
			}
			return &sum{Meta: lw.Meta{Namespace: w.Namespace, Name: w.Name, UID: w.UID}, Sum: w.Size / 10}
		}, "tens")
		bySum := lw.NewIndex(tens, func(s *sum) int { return s.Sum })
		ctx, cancel := context.WithCancel(t.Context())
		var waiting map[string]<-chan struct{}
		wait := func() {
			waiting = map[string]<-chan struct{}{
				"a": tens.Changed(ctx, key("a")), "b": tens.Changed(ctx, key("b")), "c": tens.Changed(ctx, key("c")), "any": tens.Changed(ctx),
				"ones": bySum.Changed(ctx, 1), "twos": bySum.Changed(ctx, 2),
			}
		}
		closed := func() (names []string) {
			for name, c := range waiting {
				if isDone(c) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			return names
		}
		mustBe := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, closed()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		late := 0
		tens.AddHandler(lw.Handler[*sum]{Update: func(_, s *sum) {
			if !isDone(waiting[s.Name]) || !isDone(waiting["any"]) {
				late++
			}
		}})
		wait()
		mustBe("before Run")
		b.start()
		mustBe("the first content", "a", "any", "b", "ones", "twos")
		wait()
		update(t, b.left, "a", 11)
		mustBe("an equal result")
		update(t, b.left, "a", 21)
		mustBe("an update", "a", "any", "ones", "twos")
		wait()
		update(t, b.left, "b", 0)
		mustBe("one goes", "any", "b", "twos")
		wait()
		create(t, b.left, "c", 90)
		mustBe("one comes", "any", "c")
		wait()
		remove(t, b.left, "c")
		create(t, b.left, "c", 91)
		mustBe("one is created again", "any", "c")
		if late > 0 {
			t.Errorf("%d channels were open when a handler was told", late)
		}
		wait()
		cancel()
		synctest.Wait()
		update(t, b.left, "a", 50)
		mustBe("after the context")
		ctx = t.Context()
		wait()
		tens.Close()
		synctest.Wait()
		update(t, b.left, "a", 60)
		mustBe("after Close")
		wait()
		mustBe("of a closed collection")
	})
}

// Whoever takes a channel of a derived collection and then reads misses no change.
func TestDerivedChangedMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const last = 200
		b := newGraphBench(t, nil)
		create(t, b.left, "a", 0)
		d := lw.Derive(b.g, b.l, sumOf)
		b.start()
		seen := make(chan int)
		go func() {
			for {
				changed := d.Changed(t.Context(), key("a"))
				if s, _ := d.Store().Get(key("a")); s.Sum == last {
					seen <- s.Sum
					return
				}
				<-changed
			}
		}()
		for i := range last {
			update(t, b.left, "a", i+1)
		}
		<-seen
	})
}
