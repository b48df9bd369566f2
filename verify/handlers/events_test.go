package handlers_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// collect runs a loop over events that ends after so many, and returns what it saw.
func collect(seq func(func(lw.Delta[*rig.Widget]) bool), most int) []string {
	var got []string
	for ev := range seq {
		s := fmt.Sprintf("%s %s %s%d", ev.Cause, ev.Type, ev.Key().Name, ev.Object().Size)
		if ev.Initial {
			s += " first"
		}
		got = append(got, s)
		if len(got) == most {
			break
		}
	}
	return got
}

func TestEvents(t *testing.T) {
	beforeRun(t, "a1", &lw.Options{OnError: func(error) {}}, func(t *testing.T, m memory, inf informer) {
		events := inf.Events(t.Context())
		go func() {
			time.Sleep(time.Second)
			rig.Update(t, m, "a", 2)
			time.Sleep(time.Second)
			rig.Relist(m, func() { rig.Remove(t, m, "a"); rig.Create(t, m, "a", 3) })
			rig.Remove(t, m, "a")
		}()
		rig.Start(t, inf)
		want := []string{"initial added a1 first", "watch updated a2", "relist deleted a2", "relist added a3",
			"watch deleted a3"}
		rig.Same(t, "events", want, collect(events, len(want)))
		// Another iteration begins with what is there now.
		rig.Create(t, m, "b", 1)
		synctest.Wait()
		rig.Same(t, "events of a second loop", []string{"initial added b1 first"}, collect(events, 1))
		rig.Same(t, "changes that wait for a loop that has ended", 0, inf.Status().Pending)
	})
}

func TestEventsEnd(t *testing.T) {
	// Each case ends the sequence at some point of a loop over two objects, of which one is changed
	// five times at the second event. The loop sees no event after the one at which it ends.
	for name, tc := range map[string]struct {
		at      int  // the event at which it ends, or in the wait after it
		waits   bool // there is no change
		context bool // else the informer is stopped
	}{
		"its context, among the first events":   {1, true, true},
		"its context, while it waits":           {2, true, true},
		"its context, among changes that wait":  {3, false, true},
		"the informer, among the first events":  {1, true, false},
		"the informer, while it waits":          {2, true, false},
		"the informer, among changes that wait": {3, false, false},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			m, inf := ofMemory("a1 b1", nil)
			stop := sync.OnceFunc(rig.Begin(t, inf))
			defer stop()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := stop
			if tc.context {
				end = cancel
			}
			seen := 0
			for range inf.Events(ctx) {
				seen++
				switch {
				case seen == 2 && tc.waits:
					time.AfterFunc(time.Second, end)
				case seen == 2:
					for i := range 5 {
						rig.Update(t, m, "a", i+2)
					}
					synctest.Wait()
				case seen == tc.at:
					end()
				}
			}
			rig.Same(t, "events", tc.at, seen)
		})
	}
	mustBeNone := func(t *testing.T, events iter.Seq[lw.Delta[*rig.Widget]]) {
		t.Helper()
		rig.Same(t, "events", nil, collect(events, 1))
	}
	rig.Subtest(t, "never run", func(t *testing.T) {
		_, inf := ofMemory("a1", nil)
		mustBeNone(t, inf.Events(within(t, time.Second)))
	})
	t.Run("after the stop", func(t *testing.T) {
		for range 20 {
			beforeRun(t, "a1", nil, func(t *testing.T, _ memory, inf informer) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				rig.OK(t, inf.Run(ctx))
				mustBeNone(t, inf.Events(t.Context()))
			})
		}
	})
	rig.Subtest(t, "cancelled before", func(t *testing.T) {
		_, inf := runMemory(t, "a1", nil)
		mustBeNone(t, inf.Events(rig.Canceled(t)))
	})
}

// What a loop or a handler has had goes with it, whenever it ends.
func TestEventsLeaveNothing(t *testing.T) {
	beforeRun(t, "a1", nil, func(t *testing.T, _ memory, inf informer) {
		mustBe := func(when string, all, waiting int) {
			t.Helper()
			synctest.Wait()
			if gotAll, gotWaiting := inside.Followers(inf); gotAll != all || gotWaiting != waiting {
				t.Errorf("%s: %d consumers, %d of them waiting, want %d and %d", when, gotAll, gotWaiting, all, waiting)
			}
		}
		loop := func(ctx context.Context) {
			for range inf.Events(ctx) {
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go loop(ctx)
		early := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) {}})
		gone := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) {}})
		mustBe("before Run", 3, 3)
		gone.Remove()
		mustBe("without the handler", 2, 2)
		cancel()
		mustBe("without the loop", 1, 1)

		rig.Start(t, inf)
		mustBe("synced", 1, 0)
		ctx, cancel = context.WithCancel(t.Context())
		go loop(ctx)
		mustBe("with another loop", 2, 0)
		cancel()
		mustBe("without it", 1, 0)
		for range inf.Events(t.Context()) {
			mustBe("within a loop", 2, 0)
			break
		}
		mustBe("after it", 1, 0)
		early.Remove()
		mustBe("in the end", 0, 0)
	})
}

// A loop that is far behind sees the net effect of what waits.
func TestEventsOfASlowLoop(t *testing.T) {
	inMemory(t, "a0", nil, func(t *testing.T, m memory, inf informer) {
		seen, last := 0, 0
		for ev := range inf.Events(t.Context()) {
			if ev.Initial {
				for i := range 5000 {
					rig.Update(t, m, "a", i+1)
					synctest.Wait()
				}
				continue
			}
			seen++
			if ev.Old.Size != last {
				t.Errorf("from %d, was told %d", ev.Old.Size, last)
			}
			if last = ev.New.Size; last == 5000 {
				break
			}
		}
		if seen > 1024+256 {
			t.Errorf("%d events of one object", seen)
		}
	})
}
