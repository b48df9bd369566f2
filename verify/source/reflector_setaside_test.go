package source_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// drift is a source of which so many objects cannot be read. Its watch sends changes of them, and
// measures what they cost.
type drift struct {
	aside  int
	good   bool // each second change can be read
	bytes  chan uint64
	events int
}

func (d *drift) bad(i int) error {
	return &lw.Error{Op: "decode", Key: rig.Key(strconv.Itoa(i)), Err: errors.New("the size is a text")}
}

func (d *drift) List(_ context.Context, _ metav1.ListOptions, yield func(*rig.Widget, error) error) (metav1.ListMeta,
	error) {
	for i := range d.aside {
		if err := yield(nil, d.bad(i)); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "10"}, yield(rig.Stamped("good", 1, "9"), nil)
}

func (d *drift) Watch(ctx context.Context, _ metav1.ListOptions, yield func(widgetEvent) error) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for n := range d.events {
		i := n / 2 % d.aside
		ev := widgetEvent{Type: watch.Modified, ResourceVersion: strconv.Itoa(100 + n)}
		if d.good && n%2 == 0 {
			ev.Object = rig.Stamped(strconv.Itoa(i), 1, ev.ResourceVersion)
		} else {
			ev.Err = d.bad(i)
		}
		if err := yield(ev); err != nil {
			return err
		}
	}
	runtime.ReadMemStats(&after)
	d.bytes <- after.TotalAlloc - before.TotalAlloc
	<-ctx.Done()
	return ctx.Err()
}

// An event of a bad object costs no more where many are set aside. It copied them all.
func TestAsideCostsNoMoreWhenThereIsMore(t *testing.T) {
	for _, good := range []bool{false, true} {
		t.Run(fmt.Sprint("some are good again ", good), func(t *testing.T) {
			measure := func(aside int) uint64 {
				src := &drift{aside: aside, good: good, events: 2000, bytes: make(chan uint64, 1)}
				inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- inf.Run(ctx) }()
				bytes := <-src.bytes
				rig.Same(t, "objects set aside", aside, len(inf.Status().SetAside))
				cancel()
				<-done
				return bytes
			}
			few, many := measure(100), measure(20_000)
			if many > 10*few { // to copy them all was 200 times as much
				t.Errorf("2000 events cost %d bytes with 100 objects set aside, and %d with 20,000", few, many)
			}
		})
	}
}

// The version that is reported does not pass an event that was not applied, whatever comes after
// it, a relist included; once the object can be read, or is gone, or the server went back in time,
// it goes on.
func TestHeldVersion(t *testing.T) {
	first := listed("10", "a1@8 b1@9")
	spoiled := func(evs ...widgetEvent) rig.Stream {
		return rig.Stream{Events: append([]widgetEvent{rig.BadEvent("b", "11")}, evs...), After: time.Second,
			Err: rig.Expired().Err}
	}
	for name, tc := range map[string]struct {
		lists []rig.Reply
		last  []widgetEvent // of the watch after the second list
		rv    string
		want  map[string]int
		aside int
		errs  int // of objects
	}{
		"a relist that cannot read it": {[]rig.Reply{first, badList("30", "b", "a3@20")}, nil, "10",
			map[string]int{"a": 3, "b": 1}, 1, 1},
		"events after that": {[]rig.Reply{first, badList("30", "b", "a3@20")},
			[]widgetEvent{modified("a4@31"), rig.Bookmark("40")}, "10", map[string]int{"a": 4, "b": 1}, 1, 1},
		"it can be read after that": {[]rig.Reply{first, badList("30", "b", "a3@20")},
			[]widgetEvent{modified("b4@31")}, "31", map[string]int{"a": 3, "b": 4}, 0, 1},
		"it is deleted after that": {[]rig.Reply{first, badList("30", "b", "a3@20")},
			[]widgetEvent{deleted("b4@31")}, "31", map[string]int{"a": 3}, 0, 1},
		"it is spoiled again": {[]rig.Reply{first, badList("30", "b", "a3@20")},
			[]widgetEvent{rig.BadEvent("b", "31")}, "10", map[string]int{"a": 3, "b": 1}, 1, 2},
		"a relist that can read it": {[]rig.Reply{first, listed("30", "a3@20 b4@11")}, nil, "30",
			map[string]int{"a": 3, "b": 4}, 0, 1},
		"a relist without it": {[]rig.Reply{first, listed("30", "a3@20")}, nil, "30", map[string]int{"a": 3}, 0, 1},
		"one that never was there": {[]rig.Reply{listed("10", "a1@8"), badList("30", "b", "a3@20")},
			[]widgetEvent{rig.Bookmark("40")}, "10", map[string]int{"a": 3}, 1, 1},
		"one that never was there, and can be read": {[]rig.Reply{listed("10", "a1@8"), listed("30", "a3@20 b4@11")}, nil,
			"30", map[string]int{"a": 3, "b": 4}, 0, 1},
		// What was set aside by a list was never held: its list had no older state to keep.
		"only a list could not read it": {[]rig.Reply{badList("10", "b", "a1@8"), badList("30", "b", "a3@20")}, nil, "30",
			map[string]int{"a": 3}, 1, 1},
		// The version of before means nothing there.
		"a new epoch that cannot read it": {[]rig.Reply{first, badList("5", "b", "a3@4"), badList("5", "b", "a3@4"),
			badList("5", "b", "a3@4"), badList("5", "b", "a3@4")},
			nil, "5", map[string]int{"a": 3, "b": 1}, 1, 1},
		"events of that": {[]rig.Reply{first, badList("5", "b", "a3@4"), badList("5", "b", "a3@4"), badList("5", "b", "a3@4"),
			badList("5", "b", "a3@4")},
			[]widgetEvent{modified("a4@6")}, "6", map[string]int{"a": 4, "b": 1}, 1, 1},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: tc.lists, Watches: []rig.Stream{spoiled(), rig.Events(tc.last...)}}
			if name == "only a list could not read it" {
				src.Watches[0].Events = nil
			}
			inf, errs := rig.Paged(t, src, 2*time.Minute)
			rig.MustHold(t, inf.Store(), tc.rv, tc.want)
			rig.Same(t, "objects set aside", tc.aside, len(inf.Status().SetAside))
			n := 0
			for _, err := range errs.All() {
				if e, ok := errors.AsType[*lw.Error](err); ok && e.Op == "decode" {
					n++
				}
			}
			rig.Same(t, "errors of objects", tc.errs, n)
		})
	}
}

// badList is a list of which one object cannot be decoded.
func badList(rv, bad, widgets string) rig.Reply {
	r := listed(rv, widgets)
	r.Bad = []error{rig.Unreadable(bad)}
	return r
}

// waitFor waits for a version for so long.
func waitFor(t *testing.T, inf *lw.Informer[*rig.Widget], version string, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return inf.WaitForResourceVersion(ctx, version)
}

func mustBeHeld(t *testing.T, inf *lw.Informer[*rig.Widget], version string) {
	t.Helper()
	var e *lw.Error
	if err := waitFor(t, inf, version, time.Second); !errors.As(err, &e) || inf.Status().SetAside[e.Key] == nil {
		t.Errorf("a wait for %s ends with %v, want the error of the object that is set aside", version, err)
	}
}

// What holds the reported version back, and for how long.
func TestWhatIsHeld(t *testing.T) {
	type step struct {
		after  time.Duration
		rv     string
		want   string                   // what the store holds
		aside  string                   // what is set aside
		held   []string                 // versions of which a wait ends with the error of what is set aside
		beyond map[string]time.Duration // versions for which a wait goes on for so long
		log    []string                 // all requests until now
	}
	relisted := []string{"list limit 500", "watch 10", "list limit 500", "watch 20"}
	old := listed("5", "a2@4")
	for name, tc := range map[string]struct {
		lists   []rig.Reply
		watches []rig.Stream
		epoch   int
		steps   []step
	}{
		// A list that still lacks what an event before it could not apply: the object in the store is
		// older than the list. The next list that has it moves the version.
		"a list that still lacks it": {
			lists: []rig.Reply{listed("10", "a1@9 b1@8"), badList("20", "b", "a2@15"), listed("30", "a2@15 b3@11")},
			watches: []rig.Stream{
				expiring(0, rig.BadEvent("b", "11")),
				rig.Forever(), rig.ExpiredAfter(20 * time.Second), rig.Forever(),
			},
			steps: []step{
				// The wait has the next watch begin.
				{30 * time.Second, "10", "a2 b1", "b", []string{"11", "20"}, map[string]time.Duration{"21": time.Second}, relisted},
				{time.Minute, "30", "a2 b3", "", nil, nil, nil},
			},
		},
		// A bad object that only a list has: nothing in the store is older than the list says, but for
		// that object. Nor does one hold it that was held and is gone.
		"a list's own": {
			lists:   []rig.Reply{badList("10", "b", "a1@9"), listed("20", "a1@9")},
			watches: []rig.Stream{expiring(time.Minute, rig.BadEvent("c", "11")), rig.Forever()},
			steps: []step{
				{time.Second, "10", "a1", "b c", []string{"11"}, nil, nil},
				{2 * time.Minute, "20", "a1", "", nil, nil, nil},
			},
		},
		// A list that has the same version of it leaves it as it was.
		"an index panics at an event": {
			lists: []rig.Reply{listed("10", "a1@9 b1@8"), listed("20", "a1@9 b-1@11"), listed("30", "a1@9 b2@25")},
			watches: []rig.Stream{
				expiring(time.Minute, modified("b-1@11"), rig.Added("c", "12")),
				rig.ExpiredAfter(time.Minute), rig.Forever(),
			},
			steps: []step{
				{time.Second, "10", "a1 b1 c1", "b", []string{"11", "12"}, nil, nil},
				{time.Minute, "10", "a1 b1", "b", nil, nil, relisted},
				{time.Minute, "30", "a1 b2", "", nil, nil, nil},
			},
		},
		"an event, and an index at what a list has of it": {
			lists:   []rig.Reply{listed("10", "a1@9"), listed("20", "a1@9 b-1@11"), listed("30", "a1@9 b2@25")},
			watches: []rig.Stream{expiring(time.Minute, rig.BadEvent("b", "11")), rig.ExpiredAfter(time.Minute), rig.Forever()},
			steps: []step{
				{90 * time.Second, "10", "a1", "b", []string{"11"}, nil, relisted},
				{time.Minute, "30", "a1 b2", "", nil, nil, nil},
			},
		},
		// A version that was held means nothing in a new epoch.
		"a new epoch": {
			lists:   []rig.Reply{listed("10", "a1@9 b1@8"), old, old, old, old, listed("6", "a3@6")},
			watches: []rig.Stream{expiring(0, rig.BadEvent("b", "50")), rig.Events(modified("a3@6"))},
			epoch:   1,
			steps:   []step{{time.Hour, "6", "a3", "", nil, map[string]time.Duration{"30": time.Minute}, nil}},
		},
		// Otherwise a read would seem to have seen its creation.
		"it was added, and could never be decoded": {
			lists: []rig.Reply{listed("10", "a1@9"), badList("20", "b", "a2@18"), listed("30", "a2@18 b1@25")},
			watches: []rig.Stream{
				expiring(20*time.Second, widgetEvent{Type: watch.Added, ResourceVersion: "15", Err: rig.Unreadable("b")}),
				rig.ExpiredAfter(40 * time.Second), rig.Forever(),
			},
			steps: []step{
				{10 * time.Second, "10", "a1", "b", nil, nil, nil},
				{20 * time.Second, "10", "a2", "b", []string{"15"}, nil, nil},
				{40 * time.Second, "30", "a2 b1", "", nil, nil, nil},
			},
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: tc.lists, Watches: tc.watches}
			opts := &lw.Options{List: lw.ListPages, OnError: func(error) {}, OnPanic: func(*lw.Panic) {}}
			inf := lw.NewInformer(src, opts)
			lw.NewIndex(inf, rig.Positive)
			rig.Start(t, inf)
			for _, s := range tc.steps {
				rig.Sleep(s.after)
				mustHold(t, inf.Store(), s.rv, s.want)
				var aside []string
				for key := range inf.Status().SetAside {
					aside = append(aside, key.Name)
				}
				slices.Sort(aside)
				rig.Same(t, "set aside", s.aside, strings.Join(aside, " "))
				if s.log != nil {
					rig.MustLog(t, src, s.log...)
				}
				rig.OK(t, waitFor(t, inf, s.rv, 0))
				for _, version := range s.held {
					mustBeHeld(t, inf, version)
				}
				for version, d := range s.beyond {
					mustEnd(t, "a wait for what has not come", context.DeadlineExceeded, waitFor(t, inf, version, d))
				}
			}
			rig.Same(t, "epoch", tc.epoch, inf.Status().Epoch)
		})
	}
}

// Who waits for a version below one that was held and has been applied waits until it comes.
func TestWhatIsNotHeldAnyMoreIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Fed{Events: make(chan widgetEvent), Version: "10", Objs: []*rig.Widget{rig.Stamped("b", 1, "8")}}
		inf := rig.Run(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		src.Send(rig.BadEvent("b", "50"))
		mustBeHeld(t, inf, "50")
		src.Send(modified("b2@51"))
		rig.OK(t, waitFor(t, inf, "51", 0))
		src.Send(rig.BadEvent("b", "60"))
		mustBeHeld(t, inf, "60")
		mustBeHeld(t, inf, "55")
		src.Send(deleted("b2@61"))
		rig.OK(t, waitFor(t, inf, "61", 0))
	})
}
