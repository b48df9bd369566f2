package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
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
		d.run(t, "list 10 a@5=1, start")
		changed := d.inf.Changed(t.Context(), rig.Key("a"))
		mine := widgetOf("a@12=2")
		rig.OK(t, d.inf.Tell(mine))
		mine.Size, mine.Name = 99, "mine" // it was copied
		<-changed
		if n, m := bySize.Len(1), bySize.Len(2); n != 0 || m != 1 {
			t.Errorf("the index has %d of size 1 and %d of size 2", n, m)
		}
		rig.OK(t, g.WaitForStep(t.Context()))
		if s, _ := sums.Store().Get(rig.Key("a")); s == nil || s.Sum != 2 {
			t.Errorf("derived is %v", s)
		}
		if got, err := lw.WaitFor(t.Context(), lw.Collection[*rig.Widget](d.inf), rig.Key("a"),
			func(w *rig.Widget) bool { return w.Size == 2 }); err != nil || got.Name != "a" {
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
// object, or panics at it, is not overwritten by it; nor is an event by what was told before.
func TestTellDuringAnEvent(t *testing.T) {
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := dictate(t, false, &lw.Options{DetectMutation: true, OnPanic: func(*lw.Panic) {}})
			held := map[string]chan struct{}{"11": make(chan struct{}), "14": make(chan struct{})}
			lw.NewIndex(d.inf, func(w *rig.Widget) int {
				if c := held[w.ResourceVersion]; c != nil {
					<-c
					if panics {
						panic("unlucky")
					}
				}
				return w.Size
			})
			check := func(want, version string) {
				t.Helper()
				if got, copies := d.shows(), inside.Copies(d.inf); got != want || copies != 1 {
					t.Errorf("%s, and %d copies, want %s, and one", got, copies, want)
				}
				rig.Same(t, "the version", version, d.inf.Status().ResourceVersion)
			}
			d.run(t, "list 10 a@5, start, M a@11, tell a@12")
			close(held["11"])
			synctest.Wait()
			check("[a@12] ahead 1: +a@5 initial, a@5>a@12 told", "11")
			d.run(t, "M a@12, M a@13")
			check("[a@13]: a@12>a@13 watch", "13")
			told := make(chan error, 1)
			go func() { told <- d.inf.Tell(widgetOf("a@14")) }()
			synctest.Wait()
			d.run(t, "M a@15")
			close(held["14"])
			rig.Same(t, "Tell has failed", panics, <-told != nil)
			check("[a@15]: a@13>a@15 watch", "15")
			d.err.MustBeNone(t)
		})
	}
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
			d.run(t, "list 10 a@5=5 b@5=5 c@5=5 d@5=5, start")
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
				rig.OK(t, d.step(line))
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

// A late source yields each event of a Memory so much later.
type late struct {
	*lw.Memory[*rig.Widget]
	by time.Duration
}

func (l late) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*rig.Widget]) error) error {
	type due struct {
		ev lw.WatchEvent[*rig.Widget]
		at time.Time
	}
	events := make(chan due, 100_000)
	done := make(chan error, 1)
	go func() {
		done <- l.Memory.Watch(ctx, opts, func(ev lw.WatchEvent[*rig.Widget]) error {
			events <- due{ev, time.Now().Add(l.by)}
			return nil
		})
	}()
	for {
		select {
		case d := <-events:
			time.Sleep(time.Until(d.at))
			if err := yield(d.ev); err != nil {
				return err
			}
		case err := <-done:
			return err
		}
	}
}

// TestTellInAGap is the story of karpenter#3176: an object is created and deleted while the watch
// is away. A map that merges what is written with what handlers are told keeps it for ever, since
// no handler is ever told that it is gone. An informer that was told, and what is derived from it,
// do not: who hears of what was told also hears that it is gone.
func TestTellInAGap(t *testing.T) {
	for _, tells := range []bool{true, false} {
		beforeRun(t, "", rig.Quiet(), func(t *testing.T, m memory, inf informer) {
			g := lw.NewGraph(nil)
			derived := lw.Derive(g, lw.Collection[*rig.Widget](inf), rig.SumOf, "state")
			byHand := map[string]bool{}
			inf.AddHandler(lw.Handler[*rig.Widget]{
				Add: func(w *rig.Widget) { byHand[w.Name] = true }, Delete: func(w *rig.Widget) { delete(byHand, w.Name) },
			})
			rig.Start(t, inf)
			rig.Start(t, g)
			synctest.Wait()
			m.Fail(errors.New("the watch is away"))
			made, ahead := rig.Create(t, m, "node", 1), 0
			byHand["node"] = true
			if tells {
				ahead = 1
				rig.OK(t, inf.Tell(made))
			}
			synctest.Wait()
			if derived.Store().Len() != ahead || inf.Status().Ahead != ahead {
				t.Fatalf("%d derived, %d ahead, want %d of each", derived.Store().Len(), inf.Status().Ahead, ahead)
			}
			rig.Remove(t, m, "node") // by somebody else
			rig.Create(t, m, "other", 1)
			m.Compact()
			m.Fail(nil)
			rig.Sleep(time.Hour)
			want := [][]string{{"node", "other"}, {"other"}, {"other"}}
			if tells {
				want[0] = []string{"other"}
			}
			got := [][]string{slices.Sorted(maps.Keys(byHand)), nil, nil}
			for w := range inf.Store().All() {
				got[1] = append(got[1], w.Name)
			}
			for s := range derived.Store().All() {
				got[2] = append(got[2], s.Name)
			}
			rig.Same(t, fmt.Sprintf("tells %t: map, informer, derived", tells), want, got)
			rig.Same(t, "ahead", 0, inf.Status().Ahead)
		})
	}
}

// TestTellController is a controller of 1,000 children, one more with each tick, behind a watch
// that is five seconds late. It counts its children in the informer.
func TestTellController(t *testing.T) {
	const children = 1000
	type result struct {
		Twice, Reconciles, Children int
		Waited                      time.Duration
	}
	control := func(t *testing.T, tells, skips bool) (r result) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory[*rig.Widget]()
			inf := lw.NewInformer[*rig.Widget](late{m, 5 * time.Second}, nil)
			queue := make(chan struct{}, 1)
			enqueue := func() {
				select {
				case queue <- struct{}{}:
				default:
				}
			}
			inf.AddHandler(lw.Handler[*rig.Widget]{
				SkipTold: skips,
				Add:      func(*rig.Widget) { enqueue() }, Update: func(_, _ *rig.Widget) { enqueue() },
				Delete: func(*rig.Widget) { enqueue() },
			})
			rig.Start(t, inf)
			rig.Sleep(time.Minute) // also the first list is late
			want := 0
			reconcile := func() {
				r.Reconciles++
				defer func(at time.Time) { r.Waited += time.Since(at) }(time.Now())
				for n := inf.Store().Len(); n < want; n++ {
					made, err := m.Create(t.Context(), rig.NewWidget(fmt.Sprint("child-", n), 1))
					if apierrors.IsAlreadyExists(err) {
						r.Twice++
						continue
					}
					if err == nil && tells {
						err = inf.Tell(made)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			drain := func() {
				for synctest.Wait(); len(queue) > 0; synctest.Wait() {
					<-queue
					reconcile()
				}
			}
			for range children {
				want++
				enqueue()
				drain()
			}
			for range 10 {
				time.Sleep(time.Second)
				drain()
			}
			r.Children = inf.Store().Len()
		})
		return r
	}
	told, skipped, late := control(t, true, false), control(t, true, true), control(t, false, false)
	t.Logf("told %+v, skipped %+v, not told %+v", told, skipped, late)
	if want := (result{Children: children, Reconciles: told.Reconciles}); told != want {
		t.Errorf("told: %+v, want %+v", told, want)
	}
	if want := (result{Children: children, Reconciles: children}); skipped != want {
		t.Errorf("told, and skipped: %+v, want %+v", skipped, want)
	}
	if skipped.Reconciles*10 > told.Reconciles*6 {
		t.Errorf("%d reconciles instead of %d: less than 40%% are saved", skipped.Reconciles, told.Reconciles)
	}
	if late.Twice == 0 {
		t.Error("without Tell no child was made twice: this proves nothing")
	}
}
