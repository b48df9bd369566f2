package source_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
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

func (d *drift) List(_ context.Context, _ metav1.ListOptions, yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
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

// What an event of a bad object costs does not depend on how many are set aside. It copied them
// all.
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
	bad := func(name, rv string) widgetEvent {
		return widgetEvent{
			Type: watch.Modified, ResourceVersion: rv, Err: &lw.Error{Op: "decode", Key: rig.Key(name), Err: errors.New("not a widget")},
		}
	}
	broken := func(rv string, objs ...*rig.Widget) rig.Reply {
		return rig.Reply{Obj: objs, Bad: []error{bad("b", "").Err}, Meta: metav1.ListMeta{ResourceVersion: rv}}
	}
	first := listed("10", "a1@8 b1@9")
	spoiled := func(evs ...widgetEvent) rig.Stream {
		return rig.Stream{Events: append([]widgetEvent{bad("b", "11")}, evs...), After: time.Second, Err: rig.Expired().Err}
	}
	for name, tc := range map[string]struct {
		lists []rig.Reply
		last  []widgetEvent // of the watch after the second list
		rv    string
		want  map[string]int
		aside int
		errs  int // of objects
	}{
		"a relist that cannot read it": {[]rig.Reply{first, broken("30", rig.Stamped("a", 3, "20"))}, nil, "10", map[string]int{"a": 3, "b": 1}, 1, 1},
		"events after that": {[]rig.Reply{first, broken("30", rig.Stamped("a", 3, "20"))},
			[]widgetEvent{modified("a4@31"), rig.Bookmark("40")}, "10", map[string]int{"a": 4, "b": 1}, 1, 1},
		"it can be read after that": {[]rig.Reply{first, broken("30", rig.Stamped("a", 3, "20"))},
			[]widgetEvent{modified("b4@31")}, "31", map[string]int{"a": 3, "b": 4}, 0, 1},
		"it is deleted after that": {[]rig.Reply{first, broken("30", rig.Stamped("a", 3, "20"))},
			[]widgetEvent{deleted("b4@31")}, "31", map[string]int{"a": 3}, 0, 1},
		"it is spoiled again": {[]rig.Reply{first, broken("30", rig.Stamped("a", 3, "20"))},
			[]widgetEvent{bad("b", "31")}, "10", map[string]int{"a": 3, "b": 1}, 1, 2},
		"a relist that can read it": {[]rig.Reply{first, listed("30", "a3@20 b4@11")}, nil, "30", map[string]int{"a": 3, "b": 4}, 0, 1},
		"a relist without it":       {[]rig.Reply{first, listed("30", "a3@20")}, nil, "30", map[string]int{"a": 3}, 0, 1},
		"one that never was there": {[]rig.Reply{listed("10", "a1@8"), broken("30", rig.Stamped("a", 3, "20"))},
			[]widgetEvent{rig.Bookmark("40")}, "10", map[string]int{"a": 3}, 1, 1},
		"one that never was there, and can be read": {[]rig.Reply{listed("10", "a1@8"), listed("30", "a3@20 b4@11")}, nil, "30", map[string]int{"a": 3, "b": 4}, 0, 1},
		// What was set aside by a list was never held: its list had no older state to keep.
		"only a list could not read it": {[]rig.Reply{broken("10", rig.Stamped("a", 1, "8")), broken("30", rig.Stamped("a", 3, "20"))}, nil, "30", map[string]int{"a": 3}, 1, 1},
		// The version of before means nothing there.
		"a new epoch that cannot read it": {[]rig.Reply{first, broken("5", rig.Stamped("a", 3, "4")), broken("5", rig.Stamped("a", 3, "4")), broken("5", rig.Stamped("a", 3, "4")), broken("5", rig.Stamped("a", 3, "4"))},
			nil, "5", map[string]int{"a": 3, "b": 1}, 1, 1},
		"events of that": {[]rig.Reply{first, broken("5", rig.Stamped("a", 3, "4")), broken("5", rig.Stamped("a", 3, "4")), broken("5", rig.Stamped("a", 3, "4")), broken("5", rig.Stamped("a", 3, "4"))},
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
			if n != tc.errs {
				t.Errorf("%d errors of objects: %v", n, errs.All())
			}
		})
	}
}

// badList is a list of which so many objects cannot be decoded.
func badList(rv string, bad string, objs ...*rig.Widget) rig.Reply {
	return rig.Reply{Obj: objs, Bad: []error{rig.Unreadable(bad)}, Meta: metav1.ListMeta{ResourceVersion: rv}}
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
	if err := waitFor(t, inf, version, time.Second); !errors.As(err, &e) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait for %s ends with %v, want the error of the object that is set aside", version, err)
	}
}

// A list that still lacks what an event before it could not apply does not move the reported
// version: the object in the store is older than the list. The next list that has it does.
func TestRelistDoesNotPassWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{listed("10", "a1@9 b1@8"), badList("20", "b", rig.Stamped("a", 2, "15")), listed("30", "a2@15 b3@11")},
			Watches: []rig.Stream{
				{Events: []widgetEvent{rig.BadEvent("b", "11")}, Err: rig.Expired().Err}, rig.Forever(), rig.ExpiredAfter(20 * time.Second), rig.Forever(),
			},
		}
		inf, _ := rig.Paged(t, src, 30*time.Second)
		rig.MustLog(t, src, "list limit 500", "watch 10", "list limit 500", "watch 20")
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 2, "b": 1})
		mustBeHeld(t, inf, "11")
		mustBeHeld(t, inf, "20")
		if err := waitFor(t, inf, "21", time.Second); !errors.Is(err, context.DeadlineExceeded) { // and has the next watch begin
			t.Errorf("a wait for what has not come ends with %v", err)
		}
		rig.Sleep(time.Minute)
		rig.MustHold(t, inf.Store(), "30", map[string]int{"a": 2, "b": 3})
		rig.OK(t, waitFor(t, inf, "30", 0))
	})
}

// A bad object that only a list has does not hold the version of that list: nothing in the store is
// older than it says, but for that object. Nor does one that was held and is gone.
func TestListWithABadObjectIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists:   []rig.Reply{badList("10", "b", rig.Stamped("a", 1, "9")), listed("20", "a1@9")},
			Watches: []rig.Stream{{Events: []widgetEvent{rig.BadEvent("c", "11")}, After: time.Minute, Err: rig.Expired().Err}, rig.Forever()},
		}
		inf, _ := rig.Paged(t, src, time.Second)
		mustBeHeld(t, inf, "11")
		rig.OK(t, waitFor(t, inf, "10", 0))
		rig.Sleep(2 * time.Minute)
		rig.MustHold(t, inf.Store(), "20", map[string]int{"a": 1})
		rig.Same(t, "objects set aside", 0, len(inf.Status().SetAside))
		rig.OK(t, waitFor(t, inf, "20", 0))
	})
}

// An object at which an index panics, in an event, is one of those: it holds the version, and a
// list that has the same version of it leaves it as it was.
func TestPanicOfAnIndexHoldsTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{listed("10", "a1@9 b1@8"), listed("20", "a1@9 b-1@11"), listed("30", "a1@9 b2@25")},
			Watches: []rig.Stream{
				{Events: []widgetEvent{modified("b-1@11"), rig.Added("c", "12")}, After: time.Minute, Err: rig.Expired().Err}, rig.ExpiredAfter(time.Minute), rig.Forever(),
			},
		}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, OnPanic: func(*lw.Panic) {}})
		lw.NewIndex(inf, rig.Positive)
		rig.Start(t, inf)
		rig.Sleep(time.Second)
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1, "b": 1, "c": 1})
		mustBeHeld(t, inf, "11")
		mustBeHeld(t, inf, "12")
		if inf.Status().SetAside[rig.Key("b")] == nil {
			t.Error("b is not set aside")
		}
		rig.Sleep(time.Minute)
		rig.MustLog(t, src, "list limit 500", "watch 10", "list limit 500", "watch 20")
		if w, ok := inf.Store().Get(rig.Key("b")); !ok || w.Size != 1 {
			t.Errorf("after a list with the bad version the store holds %v, want b as it was", w)
		}
		if inf.Status().SetAside[rig.Key("b")] == nil {
			t.Error("after a list with the bad version b is not set aside")
		}
		rig.Sleep(time.Minute)
		rig.MustHold(t, inf.Store(), "30", map[string]int{"a": 1, "b": 2})
		rig.Same(t, "objects set aside", 0, len(inf.Status().SetAside))
	})
}

// So is one that the store does not have: an event of it could not be read, and a list has a
// version at which an index panics.
func TestPanicOfAnIndexAtAnObjectThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{listed("10", "a1@9"), listed("20", "a1@9 b-1@11"), listed("30", "a1@9 b2@25")},
			Watches: []rig.Stream{
				{Events: []widgetEvent{rig.BadEvent("b", "11")}, After: time.Minute, Err: rig.Expired().Err}, rig.ExpiredAfter(time.Minute), rig.Forever(),
			},
		}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, OnPanic: func(*lw.Panic) {}})
		lw.NewIndex(inf, rig.Positive)
		rig.Start(t, inf)
		rig.Sleep(90 * time.Second)
		rig.MustLog(t, src, "list limit 500", "watch 10", "list limit 500", "watch 20")
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1})
		mustBeHeld(t, inf, "11")
		rig.Sleep(time.Minute)
		rig.MustHold(t, inf.Store(), "30", map[string]int{"a": 1, "b": 2})
		rig.Same(t, "objects set aside", 0, len(inf.Status().SetAside))
	})
}

// A version that was held means nothing in a new epoch: who waits for one below it waits until it
// comes.
func TestNewEpochForgetsWhatWasHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := listed("5", "a2@4")
		src := &rig.Script{
			Lists: []rig.Reply{listed("10", "a1@9 b1@8"), old, old, old, old, listed("6", "a3@6")},
			Watches: []rig.Stream{
				{Events: []widgetEvent{rig.BadEvent("b", "50")}, Err: rig.Expired().Err},
				{Events: []widgetEvent{modified("a3@6")}, Open: true},
			},
		}
		inf, _ := rig.Paged(t, src, time.Hour)
		if s := inf.Status(); s.Epoch != 1 || len(s.SetAside) != 0 {
			t.Fatalf("status: %+v", s)
		}
		rig.MustHold(t, inf.Store(), "6", map[string]int{"a": 3})
		mustEnd(t, "a wait for a version to come", context.DeadlineExceeded, waitFor(t, inf, "30", time.Minute))
	})
}

// The same where what was held has been applied since.
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

// An object that was added, and could never be decoded, holds the reported version back: also past
// a list in which it still cannot be. Otherwise a read would seem to have seen its creation.
func TestAddedAndNeverDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("not a widget")}
		src := &rig.Script{
			Lists: []rig.Reply{
				listed("10", "a1@9"),
				{Obj: []*rig.Widget{rig.Stamped("a", 2, "18")}, Bad: []error{bad}, Meta: metav1.ListMeta{ResourceVersion: "20"}},
				listed("30", "a2@18 b1@25"),
			},
			Watches: []rig.Stream{
				{Events: []widgetEvent{{Type: watch.Added, ResourceVersion: "15", Err: bad}}, After: 20 * time.Second, Err: apierrors.NewResourceExpired("x")},
				rig.ExpiredAfter(40 * time.Second), rig.Forever(),
			},
		}
		inf, _ := rig.Paged(t, src, 10*time.Second)
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1})
		rig.Sleep(20 * time.Second) // after the second list
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 2})
		mustEnd(t, "the wait for the version of its creation", bad, inf.WaitForResourceVersion(t.Context(), "15"))
		rig.Same(t, "set aside", []lw.Key{rig.Key("b")}, slices.Collect(maps.Keys(inf.Status().SetAside)))
		rig.Sleep(40 * time.Second) // after the third
		rig.MustHold(t, inf.Store(), "30", map[string]int{"a": 2, "b": 1})
	})
}
