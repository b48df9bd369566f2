package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// What a readiness probe sees while a server goes away and comes back.
func TestStatusHealthy(t *testing.T) {
	down := errors.New("connection refused")
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		m.Fail(down)
		inf := lw.NewInformer(m, &lw.Options{List: lw.ListPages, OnError: func(error) {},
			Backoff: func(int) time.Duration { return 7 * time.Second }})
		healthy := func(when, want string, is error) {
			t.Helper()
			synctest.Wait()
			err := inf.Status().Healthy()
			if got := fmt.Sprint(err); got != want || is != nil && !errors.Is(err, is) {
				t.Errorf("%s:\n%s\nwant\n%s", when, got, want)
			}
		}
		healthy("before Run", "lw: Widget: not synced, since Run has not been called", nil)
		stop := rig.Begin(t, inf)
		healthy("never synced", "lw: Widget: not synced (waiting, mode pages): list: connection refused", down)
		m.Fail(nil)
		rig.Sleep(8 * time.Second)
		healthy("synced", "<nil>", nil)
		rig.Sleep(time.Minute)

		m.Fail(down)
		m.Disconnect()
		since := time.Now().Format(time.RFC3339)
		rig.Sleep(59 * time.Second)
		healthy("a blip", "<nil>", nil)
		if s := inf.Status(); s.Failures == 0 || !errors.Is(s.Err, down) {
			t.Errorf("status in a blip: %+v", s)
		}
		rig.Sleep(2 * time.Second)
		healthy("an outage", "lw: Widget: out of date since "+since+": list (failure 9 in a row): connection refused", down)
		m.Fail(nil)
		rig.Sleep(20 * time.Second)
		healthy("after it", "<nil>", nil)
		stop()
		healthy("stopped", "lw: Widget: stopped", lw.ErrStopped)
	})
}

// A list that is due and does not come is no failure yet. A store that waits for it for a minute is
// out of date all the same.
func TestStatusHealthyWhileAListIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		src := &rig.Script{
			OnList: func() rig.Reply {
				if n++; n == 2 {
					return rig.Reply{Hang: true} // until the reflector gives up, after 90 s
				}
				return rig.List("", rig.Stamped("a", 1, "9"))
			},
			OnWatch: func() rig.Stream { return rig.Stream{After: 20 * time.Second} },
		}
		began := time.Now()
		at := func(d time.Duration) string { return began.Add(d).Format(time.RFC3339) }
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {},
			Backoff: func(int) time.Duration { return time.Second }})
		rig.Start(t, inf)
		for _, want := range []struct {
			after     time.Duration
			last, due time.Duration // after the beginning; due < 0: none is
			healthy   string
		}{
			{0, 0, -1, "<nil>"},
			{19 * time.Second, 0, -1, "<nil>"},
			{time.Second, 0, 20 * time.Second, "<nil>"}, // the next list has begun
			{59 * time.Second, 0, 20 * time.Second, "<nil>"},
			{time.Second, 0, 20 * time.Second, "lw: Widget: out of date since " + at(20*time.Second) +
				" (listing, the last whole list came at " + at(0) + ")"},
			{32 * time.Second, 111 * time.Second, -1, "<nil>"},
		} {
			rig.Sleep(want.after)
			s := inf.Status()
			last, due := s.LastList.Sub(began), time.Duration(-1)
			if !s.NeedsListSince.IsZero() {
				due = s.NeedsListSince.Sub(began)
			}
			if got := fmt.Sprint(s.Healthy()); last != want.last || due != want.due || got != want.healthy {
				t.Errorf("after %v: the last list %v after the beginning, due since %v, healthy: %s", time.Since(began),
					last, due, got)
			}
		}
	})
}

// A whole list is progress: what failed before is over. The pauses go on to grow where watches fail
// after each list.
func TestListEndsFailures(t *testing.T) {
	for _, mode := range []lw.ListMode{lw.ListPages, lw.ListStream} {
		rig.Subtest(t, string(mode), func(t *testing.T) {
			refused := 0
			var pauses []int
			fails := func() bool { refused++; return refused <= 3 }
			end := lw.WatchEvent[*rig.Widget]{Type: watch.Bookmark, ResourceVersion: "10", InitialEventsEnd: true}
			src := &rig.Script{
				OnList: func() rig.Reply {
					if fails() {
						return rig.Reply{Err: errors.New("connection refused")}
					}
					return rig.List("10", rig.Stamped("a", 1, "9"))
				},
				OnStream: func() rig.Stream {
					if fails() {
						return rig.Stream{Err: errors.New("connection refused")}
					}
					return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{end}, After: 5 * time.Second,
						Err: apierrors.NewResourceExpired("too old")}
				},
				OnWatch: func() rig.Stream { return rig.ExpiredAfter(5 * time.Second) },
			}
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: mode, OnError: func(error) {},
				Backoff: func(n int) time.Duration {
					pauses = append(pauses, n)
					return time.Second
				}})
			rig.Start(t, inf)
			rig.OK(t, inf.WaitForSync(t.Context()))
			synctest.Wait()
			if s := inf.Status(); s.Failures != 0 || s.Err != nil || !s.FailingSince.IsZero() || s.Healthy() != nil {
				t.Errorf("status after a whole list: %+v, %v", s, s.Healthy())
			}
			rig.Sleep(20 * time.Second)
			if len(pauses) < 5 || !slices.IsSorted(pauses) || pauses[0] != 1 || pauses[4] < 5 {
				t.Errorf("pauses after so many failures: %v", pauses)
			}
		})
	}
}
