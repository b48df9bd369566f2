package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

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

// TestTellInAGap is the story of karpenter#3176: an object is created and deleted while the watch is
// away. A map that merges what is written with what handlers are told keeps it for ever, since no
// handler is ever told that it is gone. An informer that was told, and what is derived from it, do
// not: who hears of what was told also hears that it is gone.
func TestTellInAGap(t *testing.T) {
	for _, tells := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m, inf := ofMemory("", rig.Quiet())
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
				if err := inf.Tell(made); err != nil {
					t.Fatal(err)
				}
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
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("tells %t: map, informer, derived (-want +got):\n%s", tells, diff)
			}
			if n := inf.Status().Ahead; n != 0 {
				t.Errorf("%d ahead", n)
			}
		})
	}
}

// TestTellController is a controller of 1,000 children, one more with each tick, behind a watch that
// is five seconds late. It counts its children in the informer.
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
				Add:      func(*rig.Widget) { enqueue() }, Update: func(_, _ *rig.Widget) { enqueue() }, Delete: func(*rig.Widget) { enqueue() },
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
				for {
					synctest.Wait()
					select {
					case <-queue:
						reconcile()
						continue
					default:
					}
					return
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
