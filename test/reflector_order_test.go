package lw_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// Versions are numbers of any length: those of 20 digits and more do not fit a word, and are ordered all the same.
func TestLongVersions(t *testing.T) {
	const before, first, next, last = "18446744073709551609", "18446744073709551610", "18446744073709551617", "100000000000000000000"
	synctest.Test(t, func(t *testing.T) {
		src := &fed{events: make(chan lw.WatchEvent[*Widget]), version: first, objs: []*Widget{stamped("a", 1, before)}}
		errs := &errorLog{}
		inf := run(t, src, &lw.Options{List: lw.ListWhole, OnError: errs.add})
		got := &calls{}
		inf.AddHandler(got.handler())
		src.send(modified(stamped("a", 2, next)))
		mustHold(t, inf.Store(), next, map[string]int{"a": 2})
		src.send(bookmark(last))
		src.send(bookmark(next)) // lags
		mustHold(t, inf.Store(), last, map[string]int{"a": 2})
		for _, version := range []string{first, next, last} {
			if err := waitFor(t, inf, version, 0); err != nil {
				t.Error(err)
			}
		}
		if err := waitFor(t, inf, "100000000000000000001", time.Second); err == nil {
			t.Error("a wait for a version to come has ended")
		}
		if n := len(errs.all()); n != 0 {
			t.Errorf("errors: %v", errs.all())
		}
		src.send(modified(stamped("a", 3, next))) // of before
		errs.mustHave(t, "came after")
		got.mustBe(t, "add a1", "synced", "update a1 a2")
	})
}

// Versions of 20 digits in lists: what a list has in an older version than the store is of a server that has gone back, and is
// refused; what it has in the same version is no news.
func TestLongVersionsOfLists(t *testing.T) {
	const first, older, next = "18446744073709551617", "9446744073709551618", "18446744073709551618"
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{
				list(first, stamped("a", 1, "18446744073709551616"), stamped("b", 1, "7")),
				list(older, stamped("a", 3, "9446744073709551617")),
				list(next, stamped("a", 1, "18446744073709551616"), stamped("b", 2, next)),
			},
			watches: []stream{expired(), forever()},
		}
		errs := &errorLog{}
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListWhole, OnError: errs.add})
		got := &calls{}
		inf.AddHandler(got.handler())
		start(t, inf)
		sleep(time.Minute)
		mustHold(t, inf.Store(), next, map[string]int{"a": 1, "b": 2})
		errs.mustHave(t, older)
		got.sorted(t, "add a1", "add b1", "synced", "update b1 b2")
		if inf.Status().Epoch != 0 {
			t.Error("an older list was believed")
		}
	})
}

// A server whose versions have no order cannot be asked where it stands: short watches are just resumed, and no wait for a
// version ends well.
func TestWatchesWithoutAnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{list("abc", stamped("a", 1, "xyz"))},
			watches: []stream{
				{after: time.Minute}, {after: time.Minute}, {events: []lw.WatchEvent[*Widget]{modified(stamped("a", 2, "aaa"))}},
				{after: 4 * time.Minute}, forever(),
			},
		}
		inf, errs := paged(t, src, 10*time.Minute)
		mustHold(t, inf.Store(), "aaa", map[string]int{"a": 2})
		mustLog(t, src, "list limit 500", "watch abc", "watch abc", "watch abc", "watch aaa", "watch aaa")
		if n := len(errs.all()); n != 0 {
			t.Errorf("errors: %v", errs.all())
		}
		if err := waitFor(t, inf, "10", time.Second); err == nil || !strings.Contains(err.Error(), "aaa") {
			t.Errorf("a wait for a number ends with %v", err)
		}
	})
}

// A bookmark does not change an object, and an old one nothing at all; one of a set aside object's version neither.
func TestBookmarksOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fed{events: make(chan lw.WatchEvent[*Widget]), version: "10", objs: []*Widget{stamped("a", 1, "9")}}
		errs := &errorLog{}
		inf := run(t, src, &lw.Options{List: lw.ListWhole, OnError: errs.add})
		for _, rv := range []string{"", "5", "10", ""} {
			src.send(bookmark(rv))
			mustHold(t, inf.Store(), "10", map[string]int{"a": 1})
		}
		src.send(modified(stamped("a", 2, "11")))
		mustHold(t, inf.Store(), "11", map[string]int{"a": 2})
		if n := len(errs.all()); n != 0 {
			t.Errorf("errors: %v", errs.all())
		}
	})
}

// A deletion that cannot be decoded, and does not say of what, is a protocol error that says so.
func TestBadEventWithoutAName(t *testing.T) {
	for _, typ := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		for _, rv := range []string{"", "11"} {
			synctest.Test(t, func(t *testing.T) {
				src := &script{
					lists:   []reply{list("10", stamped("a", 1, "9")), list("20", stamped("a", 2, "12"))},
					watches: []stream{events(lw.WatchEvent[*Widget]{Type: typ, ResourceVersion: rv, Err: errors.New("no widget")}), forever()},
				}
				inf, errs := paged(t, src, time.Minute)
				errs.mustHave(t, fmt.Sprintf("%s event of an object without a name", typ))
				errs.mustHave(t, "no widget")
				mustHold(t, inf.Store(), "20", map[string]int{"a": 2})
				if diff := cmp.Diff(map[lw.Key]error(nil), inf.Status().SetAside); diff != "" {
					t.Errorf("set aside (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Versions without an order are resumed from as any, but nobody can be asked what they mean. Without a version a watch cannot be
// resumed, and each is followed by a list.
func TestVersionsWithoutAnOrder(t *testing.T) {
	unversioned := func(name string, size int) *Widget { return stamped(name, size, "") }
	for name, tc := range map[string]struct {
		src  *script
		want map[string]int
		rv   string
		log  []string
		errs int
	}{
		"words": {&script{
			lists:   []reply{list("ten", stamped("a", 1, "nine"))},
			watches: []stream{{after: 15 * time.Second}, {events: []lw.WatchEvent[*Widget]{modified(stamped("a", 2, "eleven"))}, after: 15 * time.Second}, forever()},
		}, map[string]int{"a": 2}, "eleven", []string{"list limit 500", "watch ten", "watch ten", "watch eleven"}, 0},
		"none": {&script{
			lists: []reply{list("", unversioned("a", 1)), list("", unversioned("a", 3), unversioned("b", 1))},
			watches: []stream{{events: []lw.WatchEvent[*Widget]{
				{Type: "ADDED", Object: unversioned("a", 1)}, modified(unversioned("a", 2)), {Type: "MODIFIED", Object: unversioned("c", 2)},
			}, after: 15 * time.Second}, forever()},
		}, map[string]int{"a": 3, "b": 1}, "", []string{"list limit 500", "watch", "list limit 500", "watch"}, 0},
		"none, and each watch is short": {&script{lists: []reply{list("", unversioned("a", 1))}, watches: []stream{{}, forever()}},
			map[string]int{"a": 1}, "", []string{"list limit 500", "watch", "list limit 500", "watch"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf, errs := paged(t, tc.src, time.Minute)
				mustHold(t, inf.Store(), tc.rv, tc.want)
				mustLog(t, tc.src, tc.log...)
				if len(errs.all()) != tc.errs {
					t.Errorf("errors: %v", errs.all())
				}
			})
		})
	}
}

// A transaction of the server's store may create several objects at one version. The same object twice is no such thing.
func TestTwoObjectsCreatedAtOneVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		last lw.WatchEvent[*Widget]
		log  []string
	}{
		"two":         {bookmark("12"), []string{"list limit 500", "watch 10"}},
		"three":       {added("d", "11"), []string{"list limit 500", "watch 10"}},
		"one of them": {added("c", "11"), []string{"list limit 500", "watch 10", "list limit 500", "watch 20"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{
					lists:   []reply{list("10", stamped("a", 1, "9")), list("20", stamped("a", 1, "9"))},
					watches: []stream{events(added("b", "11"), added("c", "11"), tc.last), forever()},
				}
				inf, errs := paged(t, src, time.Second)
				mustLog(t, src, tc.log...)
				if relisted := len(tc.log) > 2; relisted != (len(errs.all()) > 0) || !relisted && inf.Store().Len() < 3 {
					t.Errorf("%d objects, errors %v", inf.Store().Len(), errs.all())
				}
			})
		})
	}
}
