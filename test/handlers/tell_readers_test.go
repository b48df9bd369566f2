package handlers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// TestTellIndex: indexes, waits and derived collections have what was told, and a function that
// panics is the error of Tell.
func TestTellIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dictate(t, false, nil)
		bySize := lw.NewIndex(d.inf, func(w *rig.Widget) int {
			if w.Size == 13 {
				panic("unlucky")
			}
			return w.Size
		})
		g := lw.NewGraph(nil)
		sums := lw.Derive(g, lw.Collection[*rig.Widget](d.inf), rig.SumOf, "sums")
		rig.Start(t, g)
		d.step("list 10 a@5=1")
		d.step("start")
		changed := d.inf.Changed(t.Context(), rig.Key("a"))
		mine := widgetOf("a@12=2")
		if err := d.inf.Tell(mine); err != nil {
			t.Fatal(err)
		}
		mine.Size, mine.Name = 99, "mine" // it was copied
		<-changed
		if n, m := bySize.Len(1), bySize.Len(2); n != 0 || m != 1 {
			t.Errorf("the index has %d of size 1 and %d of size 2", n, m)
		}
		if err := g.WaitForStep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, _ := sums.Store().Get(rig.Key("a")); s == nil || s.Sum != 2 {
			t.Errorf("derived is %v", s)
		}
		if got, err := lw.WaitFor(t.Context(), lw.Collection[*rig.Widget](d.inf), rig.Key("a"), func(w *rig.Widget) bool { return w.Size == 2 }); err != nil || got.Name != "a" {
			t.Errorf("WaitFor: %v, %v", got, err)
		}
		if s := d.inf.Status(); s.ResourceVersion != "10" || d.inf.Store().Snapshot().ResourceVersion() != "10" {
			t.Errorf("the reported version is %s, want 10", s.ResourceVersion)
		}
		var p *lw.Panic
		if err := d.inf.Tell(widgetOf("a@14=13")); !errors.As(err, &p) || p.Handler != "index" {
			t.Errorf("an index panics: %v", err)
		}
		if got := d.shows(); !strings.HasPrefix(got, "[a@12] ahead 1") {
			t.Errorf("after that: %s", got)
		}
	})
}

// TestTellDuringAnEvent: what is told while the function of an index works on an older event of the
// object is not overwritten by it.
func TestTellDuringAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dictate(t, false, nil)
		held := make(chan struct{})
		lw.NewIndex(d.inf, func(w *rig.Widget) int {
			if w.ResourceVersion == "11" {
				<-held
			}
			return w.Size
		})
		d.step("list 10 a@5")
		d.step("start")
		d.step("M a@11")
		if err := d.step("tell a@12"); err != nil {
			t.Fatal(err)
		}
		close(held)
		synctest.Wait()
		if got, want := d.shows(), "[a@12] ahead 1: +a@5 initial, a@5>a@12 told"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		d.step("M a@12")
		d.step("M a@13")
		if got, want := d.shows(), "[a@13]: a@12>a@13 watch"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestSkipTold: a handler that skips what was told is called for all other changes, and also if it
// is far behind.
func TestSkipTold(t *testing.T) {
	for _, far := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := dictate(t, false, nil)
			var calls rig.Calls
			gate := make(chan struct{})
			h := calls.Handler()
			h.SkipTold = true
			h.Synced = func() { <-gate }
			d.inf.AddHandler(h)
			d.step("list 10 a@5=5 b@5=5 c@5=5 d@5=5")
			d.step("start")
			if !far {
				close(gate)
				synctest.Wait()
			}
			calls.Take()
			for _, line := range []string{
				"tell a@11=11", "M a@11=11", "M a@12=12", // an update of its own and one of another's
				"gone b@13", "D b@13", // a deletion of its own
				"tell e@14=14", "A e@14=14", "D e@15=15", // another deletes what it has created
				"tell c@16=16", "D c@16=16", // its write moves it away
				"tell f@17=17", "B 18", // a write that the collection leaves out
				"tell a@20=20", "M a@19=19", "M a@20=20", // what was told has another's change, which is left out with it
				"M d@21=19", "tell d@22=20", // its own after another's
			} {
				if err := d.step(line); err != nil {
					t.Fatal(err)
				}
			}
			if far {
				for i := range 1100 {
					d.step(fmt.Sprintf("M d@%d=20", 23+i))
				}
				close(gate)
				synctest.Wait()
			}
			last := "update d5 d19"
			if far {
				last = "update d5 d20"
			}
			calls.Sorted(t, "delete c16", "delete e14", "delete f17", "update a11 a12", last)
		})
	}
}

// TestTellDeletedBeforeRun: that nobody can ask for the server's version yet does not keep Run from
// it.
func TestTellDeletedBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dictate(t, false, nil)
		d.inf.Fixture().Replace([]*rig.Widget{widgetOf("a@5")}, "5")
		d.run(t, "server 9, gone a, list 5 a@5, start, sleep 1s")
		if got, want := d.shows(), "[] ahead 1"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		d.run(t, "B 9") // the server has not deleted it after all
		if got, want := d.shows(), "[a@5]: +a@5 watch"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
