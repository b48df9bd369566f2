package source_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// hose is a source of which each event is one of a run of so many that are at hand, and takes so
// long.
type hose struct {
	run  int
	gap  time.Duration
	told func(n int) // called after each event

	events chan int // how many to send; 0: end the watch
}

func (h *hose) List(context.Context, metav1.ListOptions, func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	return metav1.ListMeta{ResourceVersion: "1"}, nil
}

func (h *hose) Watch(ctx context.Context, _ metav1.ListOptions, yield func(lw.WatchEvent[*rig.Widget]) error) error {
	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-h.events:
			if n == 0 {
				return nil
			}
			for range n {
				sent++
				ev := rig.Added(fmt.Sprint("w", sent), strconv.Itoa(sent+1))
				ev.More = sent%h.run != 0
				time.Sleep(h.gap)
				if err := yield(ev); err != nil {
					return err
				}
				h.told(sent)
			}
		}
	}
}

// Handlers are woken once for events that come together, and reads show each at once.
func TestMore(t *testing.T) {
	for name, tc := range map[string]struct {
		run   int
		gap   time.Duration
		send  int
		after map[int]int // events told after so many; what is not in it is as before
	}{
		"one by one":      {1, 0, 3, map[int]int{1: 1, 2: 2, 3: 3}},
		"three":           {3, 0, 7, map[int]int{3: 3, 6: 6}},
		"too many":        {5000, 0, 2500, map[int]int{1024: 1024, 2048: 2048}},
		"a while apart":   {5000, 100 * time.Microsecond, 40, map[int]int{16: 16, 32: 32}},
		"long apart":      {5000, time.Second, 33, map[int]int{16: 16, 32: 32}},
		"a few in a time": {5000, 10 * time.Microsecond, 100, map[int]int{64: 64}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			var got atomic.Int64
			h := &hose{run: tc.run, gap: tc.gap, events: make(chan int)}
			inf := lw.NewInformer(h, &lw.Options{List: lw.ListWhole})
			inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { got.Add(1) }})
			want := 0
			h.told = func(n int) {
				synctest.Wait()
				if told, ok := tc.after[n]; ok {
					want = told
				}
				if got.Load() != int64(want) || inf.Store().Len() != n || inf.Store().ResourceVersion() != strconv.Itoa(n+1) {
					t.Errorf("after %d events the handler was told %d, want %d, and the store has %d at %s", n, got.Load(), want,
						inf.Store().Len(), inf.Store().ResourceVersion())
				}
			}
			go func() { _ = inf.Run(t.Context()) }()
			synctest.Wait()
			h.events <- tc.send
			// The end of a watch breaks a promise of more, and wakes them all the same.
			h.events <- 0
			synctest.Wait()
			if got.Load() != int64(tc.send) {
				t.Errorf("at the end the handler was told %d events of %d", got.Load(), tc.send)
			}
			if s := inf.Status(); rig.Heard(s) != uint64(tc.send) {
				t.Errorf("Status.Events = %d, want %d", rig.Heard(s), tc.send)
			}
		})
	}
}

// What wraps a source passes on what it says.
func TestWrappersSayMore(t *testing.T) {
	h := &hose{run: 3, events: make(chan int, 2), told: func(int) {}}
	h.events <- 4
	h.events <- 0
	src := lw.Transform(lw.WithListOptions[*rig.Widget](h), func(w *rig.Widget) (*rig.Widget, error) { return w, nil })
	var got []bool
	err := src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*rig.Widget]) error {
		got = append(got, ev.More)
		return nil
	})
	if d := cmp.Diff([]bool{true, true, false, true}, got); d != "" || err != nil {
		t.Errorf("More (-want +got):\n%s%v", d, err)
	}
}
