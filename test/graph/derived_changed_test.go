package graph_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// The channels of Changed of a derived collection are closed by what is a change of it, when every
// read shows that, before a handler is called; and by nothing else.
func TestDerivedChanged(t *testing.T) {
	inGraph(t, nil, func(t *testing.T, b *graphBench) {
		b.have("a10 b20", "")
		tens := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			if w.Size == 0 {
				return nil
			}
			return &rig.Sum{Meta: lw.Meta{Namespace: w.Namespace, Name: w.Name, UID: w.UID}, Sum: w.Size / 10}
		}, "tens")
		bySum := lw.NewIndex(tens, func(s *rig.Sum) int { return s.Sum })
		ctx, cancel := context.WithCancel(t.Context())
		var waiting map[string]<-chan struct{}
		wait := func() {
			waiting = map[string]<-chan struct{}{
				"a": tens.Changed(ctx, rig.Key("a")), "b": tens.Changed(ctx, rig.Key("b")), "c": tens.Changed(ctx, rig.Key("c")), "any": tens.Changed(ctx),
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
		tens.AddHandler(lw.Handler[*rig.Sum]{Update: func(_, s *rig.Sum) {
			if !isDone(waiting[s.Name]) || !isDone(waiting["any"]) {
				late++
			}
		}})
		wait()
		mustBe("before Run")
		b.start()
		mustBe("the first content", "a", "any", "b", "ones", "twos")
		wait()
		rig.Update(t, b.left, "a", 11)
		mustBe("an equal result")
		rig.Update(t, b.left, "a", 21)
		mustBe("an update", "a", "any", "ones", "twos")
		wait()
		rig.Update(t, b.left, "b", 0)
		mustBe("one goes", "any", "b", "twos")
		wait()
		rig.Create(t, b.left, "c", 90)
		mustBe("one comes", "any", "c")
		wait()
		rig.Remove(t, b.left, "c")
		rig.Create(t, b.left, "c", 91)
		mustBe("one is created again", "any", "c")
		if late > 0 {
			t.Errorf("%d channels were open when a handler was told", late)
		}
		wait()
		cancel()
		synctest.Wait()
		rig.Update(t, b.left, "a", 50)
		mustBe("after the context")
		ctx = t.Context()
		wait()
		tens.Close()
		synctest.Wait()
		rig.Update(t, b.left, "a", 60)
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
		rig.Create(t, b.left, "a", 0)
		d := lw.Derive(b.g, b.l, rig.SumOf)
		b.start()
		seen := make(chan int)
		go func() {
			for {
				changed := d.Changed(t.Context(), rig.Key("a"))
				if s, _ := d.Store().Get(rig.Key("a")); s.Sum == last {
					seen <- s.Sum
					return
				}
				<-changed
			}
		}()
		for i := range last {
			rig.Update(t, b.left, "a", i+1)
		}
		<-seen
	})
}
