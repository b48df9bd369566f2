package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// WaitFor returns as soon as its condition is met, and the object that meets it.
func TestWaitFor(t *testing.T) {
	gone := func(w *rig.Widget) bool { return w == nil }
	for name, tc := range map[string]struct {
		cond  func(w *rig.Widget) bool
		steps []func(t *testing.T, m memory) // one a minute
		after int                            // minutes
		want  string
	}{
		"at once":           {func(w *rig.Widget) bool { return w != nil }, nil, 0, "a1"},
		"gone at once":      {func(w *rig.Widget) bool { return w == nil || w.Size == 1 }, nil, 0, "a1"},
		"an update":         {func(w *rig.Widget) bool { return w.Size == 3 }, []func(*testing.T, memory){resize("a", 2), resize("a", 3)}, 2, "a3"},
		"others":            {func(w *rig.Widget) bool { return w.Size == 3 }, []func(*testing.T, memory){resize("b", 3), resize("a", 3)}, 2, "a3"},
		"it is gone":        {gone, []func(*testing.T, memory){resize("a", 2), drop("b"), drop("a")}, 3, "-"},
		"it comes back":     {func(w *rig.Widget) bool { return w != nil && w.Size == 7 }, []func(*testing.T, memory){drop("a"), createSized("a", 7)}, 2, "a7"},
		"it is another one": {func(w *rig.Widget) bool { return w == nil || w.UID != uidOfA }, []func(*testing.T, memory){resize("a", 2), recreate("a", 5)}, 2, "a5 or -"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			a := rig.NewWidget("a", 1)
			a.UID = uidOfA
			m := lw.NewMemory(a, rig.NewWidget("b", 1))
			inf := rig.Run(t, m, nil)
			go func() {
				for _, step := range tc.steps {
					time.Sleep(time.Minute)
					step(t, m)
				}
			}()
			begin := time.Now()
			got, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), tc.cond)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.cond(got) || !strings.Contains(tc.want, sized(got)) {
				t.Errorf("it returned %s, want %s", sized(got), tc.want)
			}
			if took := time.Since(begin); took != time.Duration(tc.after)*time.Minute {
				t.Errorf("it took %v, want %d minutes", took, tc.after)
			}
			mustLeaveNothing(t, inf)
		})
	}
}

const uidOfA types.UID = "first"

func sized(w *rig.Widget) string {
	if w == nil {
		return "-"
	}
	return fmt.Sprint(w.Name, w.Size)
}

func resize(name string, size int) func(*testing.T, memory) {
	return func(t *testing.T, m memory) { rig.Update(t, m, name, size) }
}

func drop(name string) func(*testing.T, memory) {
	return func(t *testing.T, m memory) { rig.Remove(t, m, name) }
}

func createSized(name string, size int) func(*testing.T, memory) {
	return func(t *testing.T, m memory) { rig.Create(t, m, name, size) }
}

func recreate(name string, size int) func(*testing.T, memory) {
	return func(t *testing.T, m memory) { rig.Remove(t, m, name); rig.Create(t, m, name, size) }
}

// Before the first list nobody knows that there is no object, so a wait for its end waits for that.
func TestWaitForBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{

			Lists:   []rig.Reply{{Err: errors.New("connection refused")}, rig.List("10", rig.Stamped("a", 1, "9")), rig.List("20")},
			Watches: []rig.Stream{rig.ExpiredAfter(time.Minute), rig.Forever()},
		}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Hour }})
		rig.Start(t, inf)
		begin := time.Now()
		var seen []string
		if _, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), func(w *rig.Widget) bool {
			seen = append(seen, sized(w))
			return w == nil
		}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < time.Hour+time.Minute || took > 2*time.Hour+2*time.Minute {
			t.Errorf("it took %v", took)
		}
		if diff := cmp.Diff([]string{"a1", "-"}, seen); diff != "" { // also: a relist is a change
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}

// A wait ends with ErrStopped when the informer stops, or has stopped. A state that meets the
// condition counts all the same.
func TestWaitForWhenTheInformerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), nil)
		stop := rig.Begin(t, inf)
		never := func(*rig.Widget) bool { return false }
		ended := make(chan error)
		go func() { _, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), never); ended <- err }()
		synctest.Wait()
		stop()
		const want = "lw: Widget: waiting for a condition of default/a, which does not meet it at 2 (stopped): stopped"
		if err := <-ended; !errors.Is(err, lw.ErrStopped) || err.Error() != want {
			t.Errorf("it said\n%v\nwant\n%s", err, want)
		}
		if _, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), never); !errors.Is(err, lw.ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
		if w, err := lw.WaitFor(rig.Canceled(t), inf, rig.Key("a"), func(w *rig.Widget) bool { return w.Size == 1 }); err != nil || w == nil {
			t.Errorf("what is met: %v, %v", w, err)
		}
		if _, err := lw.WaitFor(rig.Canceled(t), inf, rig.Key("b"), func(w *rig.Widget) bool { return w == nil }); err != nil {
			t.Errorf("what is gone: %v", err)
		}
	})
}

// A change that comes while the condition looks at the state before is not missed.
func TestWaitForSeesWhatComesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, inf := fed(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		w, err := lw.WaitFor(ctx, inf, rig.Key("a"), func(w *rig.Widget) bool {
			if w.Size < 5 {
				src.Send(rig.Modified(rig.Stamped("a", w.Size+1, fmt.Sprint(10+w.Size))))
			}
			return w.Size == 5
		})
		if err != nil || w.Size != 5 || time.Since(begin) != 0 {
			t.Errorf("it returned %s and %v after %v", sized(w), err, time.Since(begin))
		}
	})
}

// A state that has come when the context ends counts, whichever of the two is noticed first.
func TestWaitForAtTheEndOfTheContext(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			src, inf := fed(t)
			ctx, cancel := context.WithCancel(t.Context())
			// The condition itself makes both happen, before the wait looks at either.
			looked := 0
			w, err := lw.WaitFor(ctx, inf, rig.Key("a"), func(w *rig.Widget) bool {
				if looked++; looked == 1 {
					src.Send(rig.Modified(rig.Stamped("a", 2, "11")))
					cancel()
				}
				return w.Size == 2
			})
			if err != nil || w.Size != 2 || looked != 2 {
				t.Errorf("it returned %s and %v after %d looks", sized(w), err, looked)
			}
		})
	}
}

// A condition that panics leaves nothing behind, and one that is nil is told at once.
func TestWaitForPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := rig.Run(t, lw.NewMemory(rig.NewWidget("a", 1)), nil)
		for want, cond := range map[string]func(*rig.Widget) bool{
			"oh no":                      func(*rig.Widget) bool { panic("oh no") },
			"lw: WaitFor: nil condition": nil,
		} {
			rig.MustPanic(t, want, func() { lw.WaitFor(t.Context(), inf, rig.Key("a"), cond) })
		}
		mustLeaveNothing(t, inf)
	})
}

// However fast the changes come, a wait does not miss the last one.
func TestWaitForNeverMissesTheLast(t *testing.T) {
	inMemory(t, "a0", nil, func(t *testing.T, m memory, inf informer) {
		const rounds, changes = 100, 7
		ended := make(chan error, 4)
		for round := range rounds {
			last := (round + 1) * changes
			for i := range 4 {
				go func() {
					w, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), func(w *rig.Widget) bool {
						return w != nil && w.Size == last || i == 3 && w == nil
					})
					if err == nil && w != nil && w.Size != last {
						err = fmt.Errorf("it returned %s, want size %d", sized(w), last)
					}
					ended <- err
				}()
			}
			for i := range changes {
				rig.Update(t, m, "a", round*changes+i+1)
			}
			for range 4 { // a wait that misses it hangs, which ends the bubble with an error
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
			}
		}
		mustLeaveNothing(t, inf)
	})
}
