package source_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// Versions are numbers of any length: those that do not fit a word are ordered all the same.
func TestLongVersions(t *testing.T) {
	const before, first, next, last = "18446744073709551609", "18446744073709551610", "18446744073709551617",
		"100000000000000000000"
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Fed{Events: make(chan widgetEvent), Version: first, Objs: []*rig.Widget{rig.Stamped("a", 1, before)}}
		errs := &rig.Errors{}
		inf := rig.Run(t, src, &lw.Options{List: lw.ListWhole, OnError: errs.Add})
		got := &rig.Calls{}
		inf.AddHandler(got.Handler())
		src.Send(rig.Modified(rig.Stamped("a", 2, next)))
		rig.MustHold(t, inf.Store(), next, map[string]int{"a": 2})
		src.Send(rig.Bookmark(last))
		src.Send(rig.Bookmark(next)) // lags
		rig.MustHold(t, inf.Store(), last, map[string]int{"a": 2})
		for _, version := range []string{first, next, last} {
			rig.OK(t, waitFor(t, inf, version, 0))
		}
		mustEnd(t, "a wait", context.DeadlineExceeded, waitFor(t, inf, "100000000000000000001", time.Second))
		errs.MustBeNone(t)
		src.Send(rig.Modified(rig.Stamped("a", 3, next))) // of before
		errs.MustHave(t, "came after")
		got.MustBe(t, "add a1", "synced", "update a1 a2")
	})
}

// Versions of 20 digits in lists: what a list has in an older version than the store is of a server
// that has gone back, and is refused; what it has in the same version is no news.
func TestLongVersionsOfLists(t *testing.T) {
	const first, older, next = "18446744073709551617", "9446744073709551618", "18446744073709551618"
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{
				listed(first, "a1@18446744073709551616 b1@7"),
				listed(older, "a3@9446744073709551617"),
				rig.List(next, rig.Stamped("a", 1, "18446744073709551616"), rig.Stamped("b", 2, next)),
			},
			Watches: []rig.Stream{rig.Expired(), rig.Forever()},
		}
		errs := &rig.Errors{}
		inf, got := told(t, src, &lw.Options{List: lw.ListWhole, OnError: errs.Add})
		rig.Sleep(time.Minute)
		rig.MustHold(t, inf.Store(), next, map[string]int{"a": 1, "b": 2})
		errs.MustHave(t, older)
		got.Sorted(t, "add a1", "add b1", "synced", "update b1 b2")
		rig.Same(t, "epoch", 0, inf.Status().Epoch)
	})
}

// A deletion that cannot be decoded, and does not say of what, is a protocol error that says so.
func TestBadEventWithoutAName(t *testing.T) {
	for _, typ := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		for _, rv := range []string{"", "11"} {
			synctest.Test(t, func(t *testing.T) {
				src := &rig.Script{
					Lists: []rig.Reply{listed("10", "a1@9"), listed("20", "a2@12")},
					Watches: []rig.Stream{rig.Events(widgetEvent{Type: typ, ResourceVersion: rv, Err: errors.New("no widget")}),
						rig.Forever()},
				}
				inf, errs := rig.Paged(t, src, time.Minute)
				errs.MustHave(t, fmt.Sprintf("%s event of an object without a name", typ))
				errs.MustHave(t, "no widget")
				rig.MustHold(t, inf.Store(), "20", map[string]int{"a": 2})
				rig.Same(t, "set aside", map[lw.Key]error(nil), inf.Status().SetAside)
			})
		}
	}
}

// Versions without an order are resumed from as any, but nobody can be asked what they mean.
// Without a version a watch cannot be resumed, and each is followed by a list.
func TestVersionsWithoutAnOrder(t *testing.T) {
	unversioned := func(name string, size int) *rig.Widget { return rig.Stamped(name, size, "") }
	for name, tc := range map[string]struct {
		src  *rig.Script
		want map[string]int
		rv   string
		log  []string
		d    time.Duration
	}{
		// The one that comes later is not the greater one as a text.
		"words": {&rig.Script{
			Lists: []rig.Reply{listed("ten", "a1@xyz")},
			Watches: []rig.Stream{
				{After: time.Minute}, {After: 15 * time.Second}, {Events: []widgetEvent{modified("a2@aaa")}},
				{After: 4 * time.Minute}, rig.Forever(),
			},
		}, map[string]int{"a": 2}, "aaa", []string{"list limit 500", "watch ten", "watch ten", "watch ten", "watch aaa",
			"watch aaa"}, 10 * time.Minute},
		"none": {&rig.Script{
			Lists: []rig.Reply{rig.List("", unversioned("a", 1)), rig.List("", unversioned("a", 3), unversioned("b", 1))},
			Watches: []rig.Stream{{Events: []widgetEvent{
				{Type: "ADDED", Object: unversioned("a", 1)}, rig.Modified(unversioned("a", 2)),
				{Type: "MODIFIED", Object: unversioned("c", 2)},
			}, After: 15 * time.Second}, rig.Forever()},
		}, map[string]int{"a": 3, "b": 1}, "", []string{"list limit 500", "watch", "list limit 500", "watch"}, time.Minute},
		"none, and each watch is short": {&rig.Script{Lists: []rig.Reply{rig.List("", unversioned("a", 1))},
			Watches: []rig.Stream{{}, rig.Forever()}},
			map[string]int{"a": 1}, "", []string{"list limit 500", "watch", "list limit 500", "watch"}, time.Minute},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			inf, errs := rig.Paged(t, tc.src, tc.d)
			rig.MustHold(t, inf.Store(), tc.rv, tc.want)
			rig.MustLog(t, tc.src, tc.log...)
			errs.MustBeNone(t)
			if err := waitFor(t, inf, "10", time.Second); err == nil || !strings.Contains(err.Error(), tc.rv) {
				t.Errorf("a wait for a number ends with %v", err)
			}
		})
	}
}

// A transaction of the server's store may create several objects at one version. The same object
// twice is no such thing.
func TestTwoObjectsCreatedAtOneVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		last widgetEvent
		log  []string
	}{
		"two":         {rig.Bookmark("12"), []string{"list limit 500", "watch 10"}},
		"three":       {rig.Added("d", "11"), []string{"list limit 500", "watch 10"}},
		"one of them": {rig.Added("c", "11"), []string{"list limit 500", "watch 10", "list limit 500", "watch 20"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{
				Lists:   []rig.Reply{listed("10", "a1@9"), listed("20", "a1@9")},
				Watches: []rig.Stream{rig.Events(rig.Added("b", "11"), rig.Added("c", "11"), tc.last), rig.Forever()},
			}
			inf, errs := rig.Paged(t, src, time.Second)
			rig.MustLog(t, src, tc.log...)
			if relisted := len(tc.log) > 2; relisted != (len(errs.All()) > 0) || !relisted && inf.Store().Len() < 3 {
				t.Errorf("%d objects, errors %v", inf.Store().Len(), errs.All())
			}
		})
	}
}

// hose is a source whose events come in runs that are at hand, and each takes so long.
type hose struct {
	run  int
	gap  time.Duration
	told func(n int) // called after each event

	events chan int // how many to send; 0: end the watch
}

func (h *hose) List(context.Context, metav1.ListOptions, func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	return metav1.ListMeta{ResourceVersion: "1"}, nil
}

func (h *hose) Watch(ctx context.Context, _ metav1.ListOptions, yield func(widgetEvent) error) error {
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
			rig.Same(t, "events that the handler was told", int64(tc.send), got.Load())
			mustSay(t, inf, func(s lw.Status) bool { return rig.Heard(s) == uint64(tc.send) })
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
	err := src.Watch(t.Context(), metav1.ListOptions{}, func(ev widgetEvent) error {
		got = append(got, ev.More)
		return nil
	})
	rig.OK(t, err)
	rig.Same(t, "More", []bool{true, true, false, true}, got)
}
