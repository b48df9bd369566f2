package lw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// Which watches are progress: after the others the pauses grow.
func TestNoProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		watch    stream
		timeout  time.Duration
		progress bool
	}{
		"closed at once":                 {stream{}, 0, false},
		"closed soon":                    {stream{after: 9 * time.Second}, 0, false},
		"closed after a while":           {stream{after: 11 * time.Second}, 0, true},
		"closed when it was asked to be": {stream{after: time.Second}, time.Millisecond, true},
		"closed sooner than that":        {stream{after: time.Second / 2}, time.Millisecond, false},
		"a bookmark":                     {stream{events: []lw.WatchEvent[*Widget]{bookmark("20")}, after: time.Second}, 0, true},
		"a bookmark without a version":   {stream{events: []lw.WatchEvent[*Widget]{bookmark("")}, after: time.Second}, 0, false},
		"a bookmark of before":           {stream{events: []lw.WatchEvent[*Widget]{bookmark("5")}, after: time.Second}, 0, false},
		"an event":                       {stream{events: []lw.WatchEvent[*Widget]{modified(stamped("a", 2, "20"))}, after: time.Second}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{lists: []reply{list("10", stamped("a", 1, "9"))}, watches: []stream{tc.watch, tc.watch, forever()}}
				var asked []int
				inf := lw.NewInformer[*Widget](src, &lw.Options{
					List: lw.ListPages, WatchTimeout: tc.timeout, OnError: func(error) {},
					Backoff: func(n int) time.Duration { asked = append(asked, n); return 10 * time.Second },
				})
				if !tc.progress {
					start(t, inf)
					sleep(45 * time.Second)
					if diff := cmp.Diff([]int{1, 2}, asked); diff != "" {
						t.Errorf("backoffs (-want +got):\n%s", diff)
					}
					return
				}
				src.watches = src.watches[:1]
				if src.watches[0].events != nil {
					src.watches = []stream{tc.watch, forever()} // what it says is news once
				}
				start(t, inf)
				sleep(8 * time.Second)
				if len(src.watches) == 1 {
					sleep(5 * time.Minute)
				}
				if len(asked) != 0 || inf.Status().Failures != 0 {
					t.Errorf("backoffs %v, status %+v", asked, inf.Status())
				}
			})
		})
	}
}

// Also where no pause is asked for, requests are few.
func TestNoBackoffIsBounded(t *testing.T) {
	down := errors.New("down")
	full := func() reply { return list("10", stamped("a", 1, "9")) }
	for name, src := range map[string]*script{
		"lists fail":       {list: func() reply { return reply{err: down} }},
		"watches fail":     {list: full, watch: func() stream { return stream{err: down} }},
		"watches are gone": {list: full, watch: expired},
		"streams fail":     {list: func() reply { return reply{err: down} }, stream: func() stream { return stream{err: down} }},
		"probes fail": {list: full, watch: func() stream {
			return stream{after: 11 * time.Second, err: down}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mode := lw.ListPages
				if src.stream != nil {
					mode = lw.ListAuto
				}
				start(t, lw.NewInformer[*Widget](src, &lw.Options{List: mode, OnError: func(error) {}, Backoff: func(int) time.Duration { return 0 }}))
				sleep(10 * time.Minute)
				mustBeBounded(t, src.requests())
				if len(src.requests()) < 50 {
					t.Errorf("only %d requests", len(src.requests()))
				}
			})
		})
	}
}

// A list that must follow at once does so once; after progress it may again.
func TestRelistAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := func(evs ...lw.WatchEvent[*Widget]) stream {
			return stream{events: evs, after: 30 * time.Second, err: apierrors.NewResourceExpired("x")}
		}
		src := &script{
			lists: []reply{list("10", stamped("a", 1, "9")), list("20", stamped("a", 1, "9")), list("30", stamped("a", 1, "9")), list("40", stamped("a", 1, "9"))},
			watches: []stream{
				expired(),               // listed at once
				expired(),               // that has not helped
				lost(bookmark("35")),    // progress: listed at once
				{open: true}, forever(), // and well from then on
			},
		}
		var asked []int
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(n int) time.Duration {
			asked = append(asked, n)
			return 20 * time.Second
		}})
		start(t, inf)
		sleep(2 * time.Minute)
		if diff := cmp.Diff([]int{2}, asked); diff != "" {
			t.Errorf("backoffs (-want +got):\n%s", diff)
		}
		mustLog(t, src, "list limit 500", "watch 10", "list limit 500", "watch 20", "list limit 500", "watch 30", "list limit 500", "watch 40")
	})
}

// A connection that was good and broke is no failure in a row: what Status says stays well.
func TestBrokenConnectionIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{list("10", stamped("a", 1, "9"))},
			watches: []stream{
				{events: []lw.WatchEvent[*Widget]{modified(stamped("a", 2, "20"))}, after: time.Second, err: errors.New("reset")}, forever(),
			},
		}
		inf, errs := paged(t, src, 2*time.Second)
		if s := inf.Status(); s.Failures != 0 || s.Err != nil || s.Phase != lw.PhaseWatching || len(errs.all()) != 1 {
			t.Errorf("status %+v, errors %v", s, errs.all())
		}
	})
}

// closing is a sprinkler whose stream the server closes.
type closing struct {
	*sprinkler
	after time.Duration
}

func (c *closing) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	if opts.SendInitialEvents == nil {
		return c.sprinkler.Watch(ctx, opts, yield)
	}
	in, cancel := context.WithTimeout(ctx, c.after)
	defer cancel()
	if err := c.sprinkler.Watch(in, opts, yield); ctx.Err() != nil || in.Err() == nil {
		return err
	}
	return nil
}

// A source that polls: its watch waits until the next list is due, and ends. That is no failure, however short the wait is. The pace
// is the source's, as far as the bound on requests permits.
func TestPollingSource(t *testing.T) {
	for name, tc := range map[string]struct {
		every time.Duration
		hint  bool // versions mean nothing, though there are some
		lists int  // in an hour, at least
		stale time.Duration
	}{
		"at once":           {0, false, 1630, 2300 * time.Millisecond},
		"each second":       {time.Second, false, 1630, 2300 * time.Millisecond},
		"each five seconds": {5 * time.Second, false, 720, 5 * time.Second},
		"each minute":       {time.Minute, false, 60, time.Minute},
		"with a hint":       {5 * time.Second, true, 720, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				version := ""
				if tc.hint {
					version = "10"
				}
				src := &script{list: func() reply { return list(version, stamped("a", 1, "9")) }, watch: func() stream { return stream{after: tc.every} }}
				inf := lw.NewInformer[*Widget](&hinted{src, lw.SourceHints{Unversioned: tc.hint}},
					&lw.Options{List: lw.ListPages, OnError: func(err error) { t.Error(err) }})
				start(t, inf)
				synctest.Wait()
				for range 3600 {
					sleep(time.Second)
					s := inf.Status()
					if err := s.Healthy(); err != nil || time.Since(s.LastList) > tc.stale || s.Failures != 0 {
						t.Fatalf("the last list came %v ago: %v, %+v", time.Since(s.LastList), err, s)
					}
				}
				if n := src.listed(); n < tc.lists || n > tc.lists+10 {
					t.Errorf("%d lists in an hour, want about %d", n, tc.lists)
				}
				mustBeBounded(t, src.requests())
				if s := inf.Status(); s.ListCauses.Unversioned != s.Relists {
					t.Errorf("causes of %d relists: %+v", s.Relists, s.ListCauses)
				}
			})
		})
	}
}

// hinted is a script with hints.
type hinted struct {
	*script
	hints lw.SourceHints
}

func (h *hinted) Hints() lw.SourceHints { return h.hints }

// Where the watch ends without an error the failures before it are over: the next one is the first of its row.
func TestPollEndsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		n := 0
		src := &script{
			list: func() reply {
				if n++; n%4 != 1 {
					return reply{err: down}
				}
				return list("", stamped("a", 1, "9"))
			},
			watch: func() stream { return stream{after: 5 * time.Second} },
		}
		var asked []int
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(n int) time.Duration {
			asked = append(asked, n)
			return 3 * time.Second
		}})
		start(t, inf)
		sleep(40 * time.Second)
		if diff := cmp.Diff([]int{1, 2, 3, 1, 2, 3}, asked[:6]); diff != "" {
			t.Errorf("backoffs (-want +got):\n%s", diff)
		}
	})
}
