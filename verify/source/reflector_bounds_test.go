package source_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A client that may watch but not list gets its list by a stream. A quiet watch of it that is
// closed early leads to a question for the server's version, which is refused, and is asked again
// later and later: not after each ten seconds of quiet.
func TestWatchWithoutTheRightToList(t *testing.T) {
	widgets := schema.GroupResource{Resource: "widgets"}
	for name, err := range map[string]error{
		"forbidden":         apierrors.NewForbidden(widgets, "", errors.New("no role")),
		"no such method":    apierrors.NewMethodNotSupported(widgets, "list"),
		"an internal error": apierrors.NewInternalError(errors.New("no webhook")),
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			n := 0
			src := &rig.Script{
				OnList: func() rig.Reply { return rig.Reply{Err: err} },
				OnStream: func() rig.Stream {
					return rig.Stream{Events: []widgetEvent{rig.Added("a", "9"), rig.End("10")}, After: 20 * time.Second}
				},
				OnWatch: func() rig.Stream {
					if n++; n == 1 {
						return rig.Stream{After: 15 * time.Second} // early, and it was quiet
					}
					return rig.Stream{After: 7 * time.Minute}
				},
			}
			var errs rig.Errors
			inf := rig.Run(t, src, &lw.Options{OnError: errs.Add, WatchTimeout: 7 * time.Minute})
			healthy := 0
			for range 360 {
				rig.Sleep(10 * time.Second)
				if s := inf.Status(); s.Failures == 0 && s.Err == nil && s.Phase == "watching" {
					healthy++
				}
			}
			s := inf.Status()
			rig.Same(t, "lists", 0, s.Requests["list"].Started)
			within(t, "probes", 10, s.Requests["probe"].Started, 16)
			within(t, "watches", 0, rig.Watches(s), 20)
			rig.Same(t, "errors of the probes", int(s.Requests["probe"].Started), len(errs.All()))
			within(t, "times that it was well", 330, healthy, 360)
		})
	}
	// An answer ends the row of refusals: the next one is as the first.
	rig.Subtest(t, "an answer in between", func(t *testing.T) {
		denied := rig.Reply{Err: apierrors.NewForbidden(widgets, "", errors.New("no role"))}
		src := &rig.Script{
			Lists:   []rig.Reply{listed("10", "a1@9"), denied, denied, denied, rig.List("10"), denied, rig.List("10")},
			OnWatch: func() rig.Stream { return rig.Stream{After: 20 * time.Second} }, // quiet, and never less than was asked for
		}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{
			List: lw.ListPages, WatchTimeout: 10 * time.Second, OnError: func(error) {}, Backoff: every(time.Millisecond),
		})
		rig.Start(t, inf)
		// Refusals after 20 s, 50 s, and 60 s later; an answer 120 s after that; a refusal 20 s later,
		// and an answer 30 s after it.
		for _, at := range []struct {
			after  time.Duration
			probes uint64
		}{{40 * time.Second, 1}, {20 * time.Second, 2}, {60 * time.Second, 3}, {120 * time.Second, 4}, {20 * time.Second, 5}, {30 * time.Second, 6}} {
			rig.Sleep(at.after)
			mustSay(t, inf, func(s lw.Status) bool { return s.Requests["probe"].Started == at.probes })
		}
	})
	denied := rig.Reply{Err: apierrors.NewForbidden(widgets, "", errors.New("no role"))}
	quiet := rig.Stream{After: 20 * time.Second} // never less than is asked for
	lively := rig.Stream{Events: []widgetEvent{rig.Bookmark("20")}, After: 20 * time.Second}
	for name, tc := range map[string]struct {
		lists   []rig.Reply
		watches []rig.Stream
		timeout time.Duration
		d       time.Duration
		probes  uint64
		watched uint64
		epoch   int
		rv      string
	}{
		// A refusal does not hide for long that the server went back in time.
		"for a while": {[]rig.Reply{listed("100", "a1@99"), denied, listed("10", "a2@9")},
			[]rig.Stream{{After: 15 * time.Second}, rig.Forever()}, 0, 2 * time.Minute, 2, 3, 1, "10"},
		// A quiet watch that ends before the time to ask again leaves a doubt: the next one is
		// interrupted when that time has come. It asks after 20 s, after 60 s, and 60 s after that.
		"when the time has come": {
			[]rig.Reply{listed("10", "a1@9"), denied, denied, rig.List("20")},
			[]rig.Stream{quiet, lively, quiet, lively, quiet, rig.Forever()}, 10 * time.Second, 130 * time.Second, 3, 7, 0, "20",
		},
		// Nothing is asked where the watch has shown life before the time has come to ask again.
		"and then it is lively": {[]rig.Reply{listed("10", "a1@9"), denied},
			[]rig.Stream{{After: 15 * time.Second}, rig.Events(rig.Bookmark("20"))}, 0, 5 * time.Minute, 1, 2, 0, "20"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			opts := &lw.Options{List: lw.ListPages, WatchTimeout: tc.timeout, OnError: func(error) {}}
			if tc.timeout > 0 {
				opts.Backoff = every(time.Millisecond)
			}
			s := rig.RunFor(t, &rig.Script{Lists: tc.lists, Watches: tc.watches}, opts, tc.d).Status()
			if s.Requests["probe"].Started != tc.probes || rig.Watches(s) != tc.watched || s.Epoch != tc.epoch || s.ResourceVersion != tc.rv {
				t.Errorf("status: %+v", s)
			}
		})
	}
}

// sprinkler is a script whose stream sends what event returns, one each gap.
type sprinkler struct {
	rig.Script
	gap   time.Duration
	event func(n int) widgetEvent
}

func (s *sprinkler) Watch(ctx context.Context, opts metav1.ListOptions, yield func(widgetEvent) error) error {
	if opts.SendInitialEvents == nil {
		return s.Script.Watch(ctx, opts, yield)
	}
	s.Mu.Lock()
	s.At, s.Options = append(s.At, time.Now()), append(s.Options, opts)
	s.Mu.Unlock()
	for n := 0; ; n++ {
		if err := rest(ctx, s.gap); err != nil {
			return err
		}
		if err := yield(s.event(n)); err != nil {
			return err
		}
	}
}

// A server that does not know of streamed lists sends what is there and then changes, for as long
// as the collection is in use. These are no progress of the list.
func TestBusyStreamWithoutAnEnd(t *testing.T) {
	version := func(n int) string { return strconv.Itoa(100 + n) }
	created := func(n int) widgetEvent { return rig.Added(fmt.Sprint("x", n), version(n)) }
	// Ten objects are there, and then comes the rest.
	after := func(event func(n int) widgetEvent) func(n int) widgetEvent {
		return func(n int) widgetEvent {
			if n < 10 {
				return rig.Added(fmt.Sprint("w", n), strconv.Itoa(50-n))
			}
			return event(n)
		}
	}
	for name, tc := range map[string]struct {
		event func(n int) widgetEvent
		most  time.Duration // until the list is asked for in pages
	}{
		"an object is changed": {after(func(n int) widgetEvent { return rig.Modified(rig.Stamped("w1", n, version(n))) }), 22 * time.Second},
		"an object comes and goes": {after(func(n int) widgetEvent {
			if n%2 == 0 {
				return rig.Added("x", version(n))
			}
			return rig.Deleted(rig.Stamped("x", 1, version(n)))
		}), 22 * time.Second},
		"objects are made after a change": {after(func(n int) widgetEvent {
			if n == 10 {
				return rig.Modified(rig.Stamped("w1", n, version(n)))
			}
			return created(n)
		}), 22 * time.Second},
		"objects are made after a bookmark": {after(func(n int) widgetEvent {
			if n == 10 {
				return rig.Bookmark(version(n))
			}
			return created(n)
		}), 22 * time.Second},
		"bookmarks come": {after(func(n int) widgetEvent { return rig.Bookmark(version(n)) }), 22 * time.Second},
		"one object is added again and again": {func(n int) widgetEvent {
			if n == 1 {
				return rig.Modified(rig.Stamped("w0", 1, version(n)))
			}
			return rig.Added("w0", version(n))
		}, 22 * time.Second},
		// These may be the list's, for all that can be told.
		"objects are made": {created, 82 * time.Second},
		// These are the list's, but no server sends a list for longer than a watch.
		"the list has no end": {func(n int) widgetEvent {
			if n == 0 {
				return rig.Added("first", "999999999")
			}
			return created(n)
		}, 11 * time.Minute},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &sprinkler{Script: rig.Script{Lists: []rig.Reply{rig.List("1000000000")}}, gap: 100 * time.Millisecond, event: tc.event}
			var errs rig.Errors
			inf := rig.RunFor(t, src, &lw.Options{OnError: errs.Add}, time.Hour)
			if len(src.Requests()) < 2 {
				t.Fatal("it has no list after an hour")
			}
			within(t, "time until pages were asked for", 0, src.Requests()[1].Sub(src.Requests()[0]), tc.most)
			rig.Same(t, "requests", []string{"stream", "list limit 500", "watch 1000000000"}, src.Log()[:3])
			mustSay(t, inf, func(s lw.Status) bool { return s.Synced && s.Mode == lw.ListPages })
			rig.Same(t, "lists", 1, inf.Status().Requests["list"].Started)
			rig.Same(t, "the first error",
				"lw: Widget: stream: the server did not end the initial events of the streamed list", errs.Texts()[0])
		})
	}
}

// A list that is streamed for longer than any budget is waited for, though changes come in between,
// or though there is no other way to get it.
func TestLongStream(t *testing.T) {
	const objects = 3000 // five minutes
	last := rig.Added("last", "999999")
	for name, tc := range map[string]struct {
		mode  lw.ListMode
		event func(n int) widgetEvent
	}{
		"in no order": {lw.ListAuto, func(n int) widgetEvent { return rig.Added(fmt.Sprint("w", n), strconv.Itoa(5000-n)) }},
		"with changes": {lw.ListAuto, func(n int) widgetEvent {
			if n%100 == 99 {
				return rig.Modified(rig.Stamped("w0", n, strconv.Itoa(5000+n)))
			}
			return rig.Added(fmt.Sprint("w", n), strconv.Itoa(5000-n))
		}},
		"in the order of versions": {lw.ListStream, func(n int) widgetEvent { return rig.Added(fmt.Sprint("w", n), strconv.Itoa(1000+n)) }},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &sprinkler{gap: 100 * time.Millisecond, event: func(n int) widgetEvent {
				switch {
				case n == objects:
					return last
				case n > objects:
					return rig.End("1000000")
				}
				return tc.event(n)
			}}
			inf := rig.RunFor(t, src, &lw.Options{List: tc.mode, OnError: func(err error) { t.Error(err) }}, objects*100*time.Millisecond+200*time.Millisecond)
			mustSay(t, inf, func(s lw.Status) bool { return s.Synced && s.Objects >= objects*98/100 })
		})
	}
}

// What a Transform leaves out of a long stream is an object of the list all the same.
func TestLongStreamThatIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &sprinkler{gap: time.Second, event: func(n int) widgetEvent {
			if n == 200 {
				return rig.End("10000")
			}
			return rig.Added(fmt.Sprint("w", n), strconv.Itoa(5000-n))
		}}
		none := lw.Transform[*rig.Widget](src, func(*rig.Widget) (*rig.Widget, error) { return nil, nil })
		inf := rig.RunFor(t, none, &lw.Options{OnError: func(err error) { t.Error(err) }}, 201*time.Second+500*time.Millisecond)
		mustSay(t, inf, func(s lw.Status) bool { return s.Synced && s.Objects == 0 && s.Mode == lw.ListStream })
	})
}

// What a stream keeps before its end does not grow with the changes that come.
func TestBusyStreamKeepsLittle(t *testing.T) {
	for name, event := range map[string]func(n int) widgetEvent{
		"changes": func(n int) widgetEvent { return rig.Modified(rig.Stamped("w0", n, strconv.Itoa(100+n))) },
		"comes and goes": func(n int) widgetEvent {
			if n%2 == 0 {
				return rig.Deleted(rig.Stamped("w0", n, strconv.Itoa(100+n)))
			}
			return rig.Added("w0", strconv.Itoa(100+n))
		},
	} {
		t.Run(name, func(t *testing.T) {
			const changes = 300_000
			var before, after float64
			src := &sprinkler{event: func(n int) widgetEvent {
				switch n {
				case 0, 1, 2, 3:
					return rig.Added(fmt.Sprint("w", n), strconv.Itoa(10-n))
				case 1000:
					if before == 0 { // of the first stream
						before = rig.Heap()
					}
				case changes:
					if after == 0 {
						after = rig.Heap()
					}
				case changes + 1:
					return rig.End(strconv.Itoa(100 + changes))
				}
				return event(n)
			}}
			// No bubble, since the heap is measured: a busy machine must not make the stream too slow.
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{SyncBudget: time.Hour})
			rig.Start(t, inf)
			rig.OK(t, inf.WaitForSync(t.Context()))
			// A slot for each change would be 2.4 MB.
			within(t, "bytes of the heap", 0, after, before+1<<20)
			if n := inf.Store().Len(); n != 3+changes%2 && n != 4 {
				t.Errorf("%d objects", n)
			}
		})
	}
}
