package source_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A source that polls: its watch waits until the next list is due, and ends. That is no failure,
// however short the wait is. The pace is the source's, as far as the bound on requests permits.
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
		rig.Subtest(t, name, func(t *testing.T) {
			version := ""
			if tc.hint {
				version = "10"
			}
			src := &rig.Script{OnList: func() rig.Reply { return listed(version, "a1@9") },
				OnWatch: func() rig.Stream { return rig.Stream{After: tc.every} }}
			inf := lw.NewInformer[*rig.Widget](&hinted{src, lw.SourceHints{Unversioned: tc.hint}},
				&lw.Options{List: lw.ListPages, OnError: func(err error) { t.Error(err) }})
			rig.Start(t, inf)
			synctest.Wait()
			for range 3600 {
				rig.Sleep(time.Second)
				s := inf.Status()
				if err := s.Healthy(); err != nil || time.Since(s.LastList) > tc.stale || s.Failures != 0 {
					t.Fatalf("the last list came %v ago: %v, %+v", time.Since(s.LastList), err, s)
				}
			}
			within(t, "lists in an hour", tc.lists, src.Listed(), tc.lists+10)
			rig.MustBeBounded(t, src.Requests())
			mustSay(t, inf, func(s lw.Status) bool { return s.ListCauses["unversioned"] == rig.Relists(s) })
		})
	}
}

// hinted is a source with hints of its own.
type hinted struct {
	lw.Source[*rig.Widget]
	hints lw.SourceHints
}

func (h *hinted) Hints() lw.SourceHints { return h.hints }

// A watch that ends without an error ends the failures before it: the next one is the first again.
func TestPollEndsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		n := 0
		src := &rig.Script{
			OnList: func() rig.Reply {
				if n++; n%4 != 1 {
					return rig.Reply{Err: down}
				}
				return listed("", "a1@9")
			},
			OnWatch: func() rig.Stream { return rig.Stream{After: 5 * time.Second} },
		}
		var asked rig.Pacer
		rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: asked.Pause(3 * time.Second)},
			40*time.Second)
		asked.MustBegin(t, 1, 2, 3, 1, 2, 3)
	})
}

// A server that was away, and is busy when it comes back, is asked again when it has said. How long
// it was away does not matter. Only progress lets the count of either failure begin anew.
func TestBusyServerAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var back time.Time // the first request after the outage, which may come some seconds late
		refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		src := &rig.Script{
			Lists: []rig.Reply{listed("10", "a1@9")},
			OnWatch: func() rig.Stream {
				if time.Since(begin) < 3*time.Minute {
					return rig.Stream{Err: refused}
				}
				if back.IsZero() {
					back = time.Now()
				}
				if time.Since(back) < 20*time.Second {
					return rig.Stream{Err: apierrors.NewTooManyRequests("later", 1)}
				}
				return rig.Forever()
			},
		}
		rig.Paged(t, src, 4*time.Minute)
		at := src.Requests()[1:] // the first one is the list
		refusals, answers := 0, 0
		for i := range at[1:] {
			pause, since := at[i+1].Sub(at[i]), at[i].Sub(begin)
			switch {
			case at[i].Sub(back) >= 20*time.Second: // it works again
			case since >= 3*time.Minute:
				if answers++; pause < time.Second || pause > 2*time.Second && answers <= 8 {
					t.Errorf("pause %v after answer %d, which asked for one second", pause, answers)
				}
			case since >= 40*time.Second:
				if refusals++; pause < 4*time.Second || pause > 12*time.Second {
					t.Errorf("pause %v after a refusal %v after the first one", pause, since)
				}
			case pause < 400*time.Millisecond || pause > 12*time.Second:
				t.Errorf("pause %v after a refusal %v after the first one", pause, since)
			}
		}
		if refusals < 10 || answers < 8 {
			t.Errorf("%d refusals after 40 s, %d answers", refusals, answers)
		}
		rig.MustBeBounded(t, src.Requests())
	})
}

// A failure after some progress is the first one of an outage again.
func TestProgressEndsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		src := &rig.Script{
			Lists: []rig.Reply{listed("10", "a1@9")},
			OnWatch: func() rig.Stream {
				if n++; n%6 == 0 {
					return rig.Stream{After: 15 * time.Second}
				}
				return rig.Stream{Err: errors.New("down")}
			},
		}
		rig.Paged(t, src, time.Hour)
		at := src.Requests()
		if len(at) < 200 { // each six take 15 s and at most 2 + 2.4 + 4.8 + 9.6 + 19.2 s
			t.Errorf("%d requests in an hour", len(at))
		}
	})
}

// The clients of a server that was away resume at the same moment. If they hear nothing they ask
// for its version, each at a moment of its own.
func TestQuestionsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 200
		asked := map[time.Duration]int{} // by the second after the end of the watch
		var all []*rig.Script
		for range clients {
			src := &rig.Script{
				Lists: []rig.Reply{listed("10", "a1@9"), listed("20", "a1@9")},
				Watches: []rig.Stream{{Events: []widgetEvent{rig.Bookmark("20")}, After: time.Minute, Err: syscall.ECONNRESET},
					rig.Forever()},
			}
			all = append(all, src)
			rig.Start(t, lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}}))
		}
		begin := time.Now()
		rig.Sleep(2 * time.Minute)
		for _, src := range all {
			at := src.Requests()
			if len(at) != 5 { // list, watch, watch, question, watch
				t.Fatalf("requests: %v", src.Log())
			}
			asked[at[3].Sub(begin).Truncate(time.Second)]++
		}
		for after, n := range asked {
			if after < 70*time.Second || after >= 80*time.Second || n > clients/4 {
				t.Errorf("%d of %d clients ask %v after the beginning", n, clients, after)
			}
		}
	})
}

// A cutting server ends each watch uncleanly.
type cutting struct {
	*lw.Memory[*rig.Widget]
	open  func() time.Duration // how long a watch lasts
	err   error                // of its end
	down  atomic.Bool          // lists fail
	asked atomic.Int64         // requests
}

// Hints leaves out that the server can be asked in another way than by a list.
func (c *cutting) Hints() lw.SourceHints {
	h := c.Memory.Hints()
	h.StillHas = nil
	return h
}

func (c *cutting) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	if c.asked.Add(1); c.down.Load() {
		return metav1.ListMeta{}, c.err
	}
	return c.Memory.List(ctx, opts, yield)
}

func (c *cutting) Watch(ctx context.Context, opts metav1.ListOptions, yield func(widgetEvent) error) error {
	c.asked.Add(1)
	ctx, cancel := context.WithTimeout(ctx, c.open())
	defer cancel()
	err := c.Memory.Watch(ctx, opts, yield)
	if ctx.Err() == context.DeadlineExceeded {
		return c.err
	}
	return err
}

// TestCutWatches: something on the way cuts each watch after some seconds. That is no outage while
// the server answers: changes are shown as soon as a watch can be open, and the server is asked a
// few times in a minute. A server that answers nothing is asked as after any failure.
func TestCutWatches(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	between := func(least, most time.Duration) func() time.Duration {
		return func() time.Duration { return least + rand.N(most-least) }
	}
	for name, tt := range map[string]struct {
		open   func() time.Duration
		err    error
		down   bool
		late   time.Duration // how late a change may be
		minute int64         // how many requests there may be in a minute, if each pause is the shortest
	}{
		"after 5 to 8 s": {between(5*time.Second, 8*time.Second), io.ErrUnexpectedEOF, false,
			time.Second, 26},
		"reset after 5 to 8 s": {between(5*time.Second, 8*time.Second), reset, false, time.Second, 26},
		"by a proxy of HTTP/2": {between(5*time.Second, 8*time.Second),
			errors.New("stream error: stream ID 3; INTERNAL_ERROR"), false, time.Second, 26},
		"after 2 s": {between(2*time.Second, 2001*time.Millisecond), io.ErrUnexpectedEOF, false,
			4 * time.Second, 26},
		"at once":                 {between(1, 2), io.ErrUnexpectedEOF, false, time.Minute, 9},
		"and no list is answered": {between(5*time.Second, 8*time.Second), io.ErrUnexpectedEOF, true, time.Hour, 9},
		"but the answer has never begun": {between(5*time.Second, 8*time.Second), &url.Error{Op: "Get", URL: "http://x",
			Err: context.DeadlineExceeded}, false, time.Minute, 9},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &cutting{Memory: lw.NewMemory(rig.NewWidget("a", 1)), open: tt.open, err: tt.err}
			inf := rig.Run(t, lw.Source[*rig.Widget](src), &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
			src.down.Store(tt.down)
			const minutes = 60
			most, was := int64(0), src.asked.Load()
			for range minutes { // nobody changes anything: the pauses grow, if there are any
				rig.Sleep(time.Minute)
				now := src.asked.Load()
				most, was = max(most, now-was), now
			}
			within(t, "requests in a minute", 1, most, tt.minute)
			if tt.down {
				return
			}
			latest := time.Duration(0)
			for size := range 100 {
				rig.Sleep(rand.N(time.Minute))
				changed := time.Now()
				rig.Update(t, src.Memory, "a", size+2)
				for w, _ := inf.Store().Get(rig.Key("a")); w.Size != size+2; w, _ = inf.Store().Get(rig.Key("a")) {
					rig.Sleep(100 * time.Millisecond)
				}
				latest = max(latest, time.Since(changed))
			}
			within(t, "the latest change", 0, latest, tt.late)
		})
	}
}

// A proxy ends idle watches after 8 s, also one that began with a streamed list, whose end was the
// last that was heard. Nothing is wrong.
func TestIdleStreamIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &cutting{Memory: lw.NewMemory(rig.NewWidget("a", 1)), open: func() time.Duration { return 8 * time.Second }}
		var errs rig.Errors
		inf := rig.Run(t, lw.Source[*rig.Widget](src), &lw.Options{OnError: errs.Add})
		rig.Sleep(5 * time.Minute)
		errs.MustBeNone(t)
		if got := inf.Status().Requests["stream"].Started; got != 1 {
			t.Errorf("%d streamed lists, want one", got)
		}
	})
}
