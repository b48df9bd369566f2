package source_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// slowList is a source whose list pauses before each item and its end. Its watches are silent.
type slowList struct {
	pauses   []time.Duration // one more than there are items
	requests []context.Context
	at       []time.Time
}

func (s *slowList) List(ctx context.Context, _ metav1.ListOptions,
	yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	s.requests, s.at = append(s.requests, ctx), append(s.at, time.Now())
	for i, d := range s.pauses {
		if err := rest(ctx, d); err != nil {
			return metav1.ListMeta{}, err
		}
		if i == len(s.pauses)-1 {
			break
		}
		if err := yield(rig.Stamped(fmt.Sprint("w", i), 1, "9"), nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "10"}, nil
}

func (s *slowList) Watch(ctx context.Context, _ metav1.ListOptions, _ func(widgetEvent) error) error {
	s.requests = append(s.requests, ctx)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Hour):
		return io.ErrUnexpectedEOF
	}
}

// A list may take as long as it likes while items come, which a Transform may leave out: only one
// of which nothing is heard for 90 s is given up, and that before three minutes have gone by.
func TestListPatience(t *testing.T) {
	minute, slow := time.Minute, 85*time.Second
	for name, tc := range map[string]struct {
		pauses []time.Duration
		synced time.Duration // 0: it never is
	}{
		"quick":                    {[]time.Duration{0, 0}, 0 + time.Millisecond},
		"nothing for a while":      {[]time.Duration{80 * time.Second, 0}, 80 * time.Second},
		"slow at the end":          {[]time.Duration{0, 80 * time.Second}, 80 * time.Second},
		"an item a minute":         {[]time.Duration{minute, minute, minute, minute, minute, minute}, 6 * minute},
		"the server works on it":   {[]time.Duration{slow, slow, slow, slow, slow, 0}, 5 * slow},
		"nothing for three of it":  {[]time.Duration{3 * minute, 0}, 0},
		"nothing after three more": {[]time.Duration{minute, minute, 3 * minute}, 0},
	} {
		for _, leaves := range []bool{false, true} {
			rig.Subtest(t, fmt.Sprint(name, ", and leaves them out ", leaves), func(t *testing.T) {
				slow := &slowList{pauses: tc.pauses}
				errs := &rig.Errors{}
				want := len(tc.pauses) - 1
				var src lw.Source[*rig.Widget] = slow
				if leaves {
					want = 0
					src = lw.Transform(src, func(*rig.Widget) (*rig.Widget, error) { return nil, nil })
				}
				inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole, OnError: errs.Add})
				rig.Start(t, inf)
				if tc.synced == 0 {
					rig.Sleep(9 * time.Minute)
					errs.MustHave(t, "the server made no progress")
					heard := time.Duration(0) // of it for so long
					for _, d := range tc.pauses {
						heard += d % (3 * minute)
					}
					if at := slow.at; len(at) < 2 || at[1].Sub(at[0]) < heard+90*time.Second || at[1].Sub(at[0]) > heard+3*minute {
						t.Errorf("requests at %v", at)
					}
					return
				}
				began := time.Now()
				rig.OK(t, inf.WaitForSync(t.Context()))
				if took := time.Since(began); took > tc.synced+time.Second || inf.Store().Len() != want {
					t.Errorf("synced after %v, want %v; %d objects, want %d", took, tc.synced, inf.Store().Len(), want)
				}
				errs.MustBeNone(t)
			})
		}
	}
}

// When a request has ended its context is done: what a source has begun for it ends too.
func TestRequestsAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &slowList{pauses: []time.Duration{0, 0}}
		rig.RunFor(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}}, 3*time.Hour)
		if len(src.requests) < 4 {
			t.Fatalf("%d requests", len(src.requests))
		}
		for i, ctx := range src.requests[:len(src.requests)-1] {
			if ctx.Err() == nil {
				t.Errorf("request %d has ended, but its context is not done", i)
			}
		}
	})
}

func mustBegin(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) < len(want) || fmt.Sprint(got[:len(want)]) != fmt.Sprint(want) {
		t.Errorf("requests: %q, want first %q", got, want)
	}
}

// Without an option a stream that says nothing for ten seconds gives way to pages, to the moment.
func TestSyncBudgetSinceTheLastObject(t *testing.T) {
	for name, tc := range map[string]struct {
		gap     time.Duration
		objects int
		last    widgetEvent
		pages   time.Duration // when they are asked for; 0: never
	}{
		"in time":               {9500 * time.Millisecond, 1, rig.End("10"), 0},
		"late":                  {10500 * time.Millisecond, 1, rig.End("10"), 10 * time.Second},
		"nothing after objects": {7 * time.Second, 3, rig.Bookmark(""), 31 * time.Second},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &sprinkler{gap: tc.gap, event: func(n int) widgetEvent {
				if n < tc.objects {
					return rig.Added(fmt.Sprint("w", n), strconv.Itoa(9-n))
				}
				return tc.last
			}}
			src.Lists = []rig.Reply{listed("10", "a1@9")}
			inf := rig.RunFor(t, src, &lw.Options{OnError: func(error) {}}, time.Minute)
			at := src.Requests()
			if tc.pages == 0 {
				rig.MustLog(t, &src.Script, "stream")
				rig.MustHold(t, inf.Store(), "10", map[string]int{"w0": 1})
				return
			}
			rig.MustLog(t, &src.Script, "stream", "list limit 500", "watch 10")
			rig.Same(t, "time until pages were asked for", tc.pages, at[1].Sub(at[0]))
			rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1})
		})
	}
}

// A server that has streamed a whole list is known to. If a later one is silent for long, the
// server is overloaded: what it has sent is not thrown away.
func TestProvedStreamIsWaitedFor(t *testing.T) {
	for pause, want := range map[time.Duration][]string{
		89 * time.Second: {"stream", "stream"},
		91 * time.Second: {"stream", "stream", "list limit 500", "watch 30"},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := &overloaded{pause: pause, Script: rig.Script{Lists: []rig.Reply{listed("30", "a1@9 b1@8")}}}
			inf := rig.RunFor(t, src, &lw.Options{SyncBudget: time.Second, OnError: func(error) {}}, pause+10*time.Second)
			rig.MustLog(t, &src.Script, want...)
			rig.MustHold(t, inf.Store(), map[bool]string{true: "20", false: "30"}[len(want) == 2],
				map[string]int{"a": 1, "b": 1})
		})
	}
}

// overloaded is a source whose first stream is whole at once, and ends with a 410 after a while.
// The next ones are silent for pause after their first object.
type overloaded struct {
	rig.Script
	pause time.Duration
}

func (o *overloaded) Watch(ctx context.Context, opts metav1.ListOptions, yield func(widgetEvent) error) error {
	if opts.SendInitialEvents == nil {
		return o.Script.Watch(ctx, opts, yield)
	}
	o.Mu.Lock()
	o.At, o.Options = append(o.At, time.Now()), append(o.Options, opts)
	first := len(o.At) == 1
	o.Mu.Unlock()
	pause, version := o.pause, "20"
	if first {
		pause, version = 0, "10"
	}
	if err := yield(rig.Added("a", "9")); err != nil {
		return err
	}
	if err := rest(ctx, pause); err != nil {
		return err
	}
	for _, ev := range []widgetEvent{rig.Added("b", "8"), rig.End(version)} {
		if err := yield(ev); err != nil {
			return err
		}
	}
	if first {
		time.Sleep(time.Second)
		return apierrors.NewResourceExpired("too old")
	}
	<-ctx.Done()
	return ctx.Err()
}

// An older state is refused three times, however it is found: each time the next request is a list.
func TestOlderStateIsRefused(t *testing.T) {
	older := listed("5", "a0@4")
	full := listed("10", "a1@9")
	for name, tc := range map[string]struct {
		lists  []rig.Reply
		epochs int
		rv     string
	}{
		"twice":       {[]rig.Reply{full, older, older, listed("12", "a2@11")}, 0, "12"},
		"three times": {[]rig.Reply{full, older, older, older, listed("12", "a2@11")}, 0, "12"},
		"four times":  {[]rig.Reply{full, older, older, older, older}, 1, "5"},
		"three times, and once again": {[]rig.Reply{full, older, older, older, listed("12", "a2@11"), older,
			listed("13", "a3@13")}, 0, "13"},
	} {
		for _, probe := range []bool{false, true} {
			rig.Subtest(t, name+map[bool]string{true: ", found by a question"}[probe], func(t *testing.T) {
				first := rig.Expired()
				if probe {
					first = rig.Stream{After: 20 * time.Second} // silent, and early
				}
				src := &rig.Script{Lists: tc.lists, Watches: []rig.Stream{first, rig.Forever()}}
				if name == "three times, and once again" {
					src.Watches = []rig.Stream{first, rig.ExpiredAfter(time.Minute), rig.Forever()}
				}
				inf, _ := rig.Paged(t, src, 5*time.Minute)
				mustSay(t, inf, func(s lw.Status) bool { return s.Epoch == tc.epochs && s.ResourceVersion == tc.rv })
				asked := slices.Contains(src.Log(), "list limit 1")
				if asked != probe && name != "three times, and once again" {
					t.Errorf("requests: %v", src.Log())
				}
			})
		}
	}
}
