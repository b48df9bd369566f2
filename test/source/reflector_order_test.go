package source_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// Versions are numbers of any length: those of 20 digits and more do not fit a word, and are
// ordered all the same.
func TestLongVersions(t *testing.T) {
	const before, first, next, last = "18446744073709551609", "18446744073709551610", "18446744073709551617", "100000000000000000000"
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Fed{Events: make(chan lw.WatchEvent[*rig.Widget]), Version: first, Objs: []*rig.Widget{rig.Stamped("a", 1, before)}}
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
		if err := waitFor(t, inf, "100000000000000000001", time.Second); err == nil {
			t.Error("a wait for a version to come has ended")
		}
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
				rig.List(first, rig.Stamped("a", 1, "18446744073709551616"), rig.Stamped("b", 1, "7")),
				rig.List(older, rig.Stamped("a", 3, "9446744073709551617")),
				rig.List(next, rig.Stamped("a", 1, "18446744073709551616"), rig.Stamped("b", 2, next)),
			},
			Watches: []rig.Stream{rig.Expired(), rig.Forever()},
		}
		errs := &rig.Errors{}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListWhole, OnError: errs.Add})
		got := &rig.Calls{}
		inf.AddHandler(got.Handler())
		rig.Start(t, inf)
		rig.Sleep(time.Minute)
		rig.MustHold(t, inf.Store(), next, map[string]int{"a": 1, "b": 2})
		errs.MustHave(t, older)
		got.Sorted(t, "add a1", "add b1", "synced", "update b1 b2")
		if inf.Status().Epoch != 0 {
			t.Error("an older list was believed")
		}
	})
}

// A deletion that cannot be decoded, and does not say of what, is a protocol error that says so.
func TestBadEventWithoutAName(t *testing.T) {
	for _, typ := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		for _, rv := range []string{"", "11"} {
			synctest.Test(t, func(t *testing.T) {
				src := &rig.Script{
					Lists:   []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), rig.List("20", rig.Stamped("a", 2, "12"))},
					Watches: []rig.Stream{rig.Events(lw.WatchEvent[*rig.Widget]{Type: typ, ResourceVersion: rv, Err: errors.New("no widget")}), rig.Forever()},
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
			Lists: []rig.Reply{rig.List("ten", rig.Stamped("a", 1, "xyz"))},
			Watches: []rig.Stream{
				{After: time.Minute}, {After: 15 * time.Second}, {Events: []lw.WatchEvent[*rig.Widget]{rig.Modified(rig.Stamped("a", 2, "aaa"))}}, {After: 4 * time.Minute}, rig.Forever(),
			},
		}, map[string]int{"a": 2}, "aaa", []string{"list limit 500", "watch ten", "watch ten", "watch ten", "watch aaa", "watch aaa"}, 10 * time.Minute},
		"none": {&rig.Script{
			Lists: []rig.Reply{rig.List("", unversioned("a", 1)), rig.List("", unversioned("a", 3), unversioned("b", 1))},
			Watches: []rig.Stream{{Events: []lw.WatchEvent[*rig.Widget]{
				{Type: "ADDED", Object: unversioned("a", 1)}, rig.Modified(unversioned("a", 2)), {Type: "MODIFIED", Object: unversioned("c", 2)},
			}, After: 15 * time.Second}, rig.Forever()},
		}, map[string]int{"a": 3, "b": 1}, "", []string{"list limit 500", "watch", "list limit 500", "watch"}, time.Minute},
		"none, and each watch is short": {&rig.Script{Lists: []rig.Reply{rig.List("", unversioned("a", 1))}, Watches: []rig.Stream{{}, rig.Forever()}},
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
		last lw.WatchEvent[*rig.Widget]
		log  []string
	}{
		"two":         {rig.Bookmark("12"), []string{"list limit 500", "watch 10"}},
		"three":       {rig.Added("d", "11"), []string{"list limit 500", "watch 10"}},
		"one of them": {rig.Added("c", "11"), []string{"list limit 500", "watch 10", "list limit 500", "watch 20"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{
				Lists:   []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")), rig.List("20", rig.Stamped("a", 1, "9"))},
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
