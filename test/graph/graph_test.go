package graph_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// A graph syncs whenever the first list comes: the wake-up for it is not lost.
func TestGraphStarts(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), &lw.Options{OnError: func(error) {}})
			g := lw.NewGraph(nil)
			same := lw.Derive(g, inf, func(w *rig.Widget) *rig.Widget { return w })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go inf.Run(ctx)
			go g.Run(ctx)
			synctest.Wait()
			if same.Store().Len() != 1 {
				t.Fatal("the graph has not synced")
			}
		})
	}
}

// The version of a collection is the number of the step that it shows, as a decimal.
func TestGraphVersionsAreSteps(t *testing.T) {
	inGraph(t, nil, func(t *testing.T, b *graphBench) {
		rig.Create(t, b.left, "a", 1)
		d := lw.Derive(b.g, b.l, rig.SumOf)
		b.start()
		for want := 1; want <= 21; want++ {
			if got := d.Store().ResourceVersion(); got != fmt.Sprint(want) || b.g.Status().Steps != uint64(want) {
				t.Errorf("version %s after %d steps, want %d", got, b.g.Status().Steps, want)
			}
			b.update(b.left, "a", 1+want)
		}
	})
}

// A loop over the events of a derived collection is told where each comes from.
func TestGraphEventsHaveTheirCause(t *testing.T) {
	inGraph(t, nil, func(t *testing.T, b *graphBench) {
		rig.Create(t, b.left, "a", 1)
		d := lw.Derive(b.g, b.l, rig.SumOf)
		b.start()
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ev := range d.Events(ctx) {
				got = append(got, fmt.Sprint(ev.Type, " ", ev.Cause, " ", ev.Key().Name))
			}
		}()
		synctest.Wait()
		b.update(b.left, "a", 2)
		b.create(b.left, "b", 1)
		b.remove(b.left, "a")
		cancel()
		<-done
		want := []string{
			fmt.Sprint(lw.Added, " ", lw.CauseInitial, " a"), fmt.Sprint(lw.Updated, " ", lw.CauseDerived, " a"),
			fmt.Sprint(lw.Added, " ", lw.CauseDerived, " b"), fmt.Sprint(lw.Deleted, " ", lw.CauseDerived, " a"),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
