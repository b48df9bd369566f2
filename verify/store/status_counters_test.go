package store_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

type counts = map[string]uint64

// missingIsZero compares counts, or the calls of a handler: one that is missing in what is wanted
// is 0.
var missingIsZero = cmp.Options{cmp.Comparer(sameCounts[string]), cmp.Comparer(sameCounts[int]),
	cmp.Comparer(sameCounts[lw.EventType])}

func sameCounts[K comparable](a, b map[K]uint64) bool {
	for _, m := range []map[K]uint64{a, b} {
		for word := range m {
			if a[word] != b[word] {
				return false
			}
		}
	}
	return true
}

// Whoever shows the counts needs no list of their words: all are there from the beginning.
func TestStatusHasEachCount(t *testing.T) {
	inf := lw.NewInformer(lw.NewMemory[*rig.Widget](), nil)
	inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) {}})
	s := inf.Status()
	want := lw.Status{
		ListCauses: counts{"first": 0, "expired": 0, "gap": 0, "older": 0, "protocol": 0, "unreadable": 0, "failing": 0,
			"unversioned": 0, "moved": 0},
		Events: counts{"added": 0, "modified": 0, "deleted": 0, "bookmark": 0},
	}
	rig.Same(t, "", want, lw.Status{ListCauses: s.ListCauses, Events: s.Events})
	rig.Same(t, "calls", map[lw.EventType]uint64{lw.Added: 0, lw.Updated: 0, lw.Deleted: 0}, s.Handlers[0].Calls)
}

// Each list that becomes the content is counted by why it was asked for.
func TestStatusListCauses(t *testing.T) {
	tooNew := apierrors.NewTimeoutError("Too large resource version", 1)
	tooNew.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	unreadable := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500,
		Reason: metav1.StatusReasonStoreReadError}}
	ends := func(evs ...lw.WatchEvent[*rig.Widget]) rig.Stream { return rig.Stream{Events: evs} }
	for name, tc := range map[string]struct {
		watch rig.Stream // repeated until there is a second list; then watches stay open
		want  counts
	}{
		"none":                  {rig.Forever(), counts{"first": 1}},
		"expired":               {rig.Expired(), counts{"first": 1, "expired": 1}},
		"the object was there":  {ends(rig.Added("a", "11")), counts{"first": 1, "gap": 1}},
		"the object was not":    {ends(rig.Modified(rig.Stamped("x", 1, "11"))), counts{"first": 1, "gap": 1}},
		"a version from before": {ends(rig.Modified(rig.Stamped("a", 1, "8"))), counts{"first": 1, "protocol": 1}},
		"of unknown type": {ends(lw.WatchEvent[*rig.Widget]{Type: "WEIRD", Object: rig.Stamped("b", 1, "11"),
			ResourceVersion: "11"}), counts{"first": 1, "protocol": 1}},
		"behind":        {rig.Stream{Err: tooNew}, counts{"first": 1, "older": 1}},
		"unreadable":    {rig.Stream{Err: unreadable}, counts{"first": 1, "unreadable": 1}},
		"ended at once": {ends(), counts{"first": 1, "failing": 1}},
		"refused":       {rig.Stream{Err: apierrors.NewBadRequest("no")}, counts{"first": 1, "failing": 1}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9")),
				rig.List("20", rig.Stamped("a", 1, "9"))}}
			src.OnWatch = func() rig.Stream {
				if src.NList > 1 {
					return rig.Forever()
				}
				return tc.watch
			}
			inf := rig.Run(t, src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
			rig.Sleep(4 * time.Minute)
			rig.Same(t, "", tc.want, inf.Status().ListCauses, missingIsZero)
		})
	}
}

// A list after the server went back in time, and those of a source without versions.
func TestStatusListCausesOfSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		inf := rig.Run(t, m, rig.Quiet())
		before := inf.Status().ResourceVersion
		rig.Update(t, m, "a", 2)
		synctest.Wait()
		rig.OK(t, m.Rewind(before))
		m.Disconnect()
		rig.Sleep(30 * time.Minute)
		rig.Same(t, "back in time", counts{"first": 1, "older": 1}, inf.Status().ListCauses, missingIsZero)
		old := &rig.Script{Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "8")),
			rig.List("5", rig.Stamped("a", 1, "3"))}, Watches: []rig.Stream{{After: 20 * time.Second}, rig.Forever()}}
		probed := rig.Run(t, old, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		rig.Sleep(30 * time.Minute)
		rig.Same(t, "an older answer to a question", counts{"first": 1, "older": 1}, probed.Status().ListCauses,
			missingIsZero)
		src := &rig.Script{Lists: []rig.Reply{rig.List("", rig.Stamped("a", 1, ""))},
			Watches: []rig.Stream{{After: 20 * time.Second}, rig.Forever()}}
		unversioned := rig.Run(t, src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		rig.Sleep(time.Minute)
		rig.Same(t, "no versions", counts{"first": 1, "unversioned": 1}, unversioned.Status().ListCauses, missingIsZero)
	})
}

// Requests are counted by operation and code when they end, with the time that they took; events by
// type; and the pauses after failures.
func TestStatusCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("no widget")
		watches := []rig.Stream{
			{Events: []lw.WatchEvent[*rig.Widget]{
				rig.Added("b", "11"), rig.Modified(rig.Stamped("b", 2, "12")), rig.Modified(rig.Stamped("b", 3, "13")),
				rig.Deleted(rig.Stamped("b", 3, "14")), rig.Bookmark("15"),
				{Type: watch.Modified, Err: bad, ResourceVersion: "16", Identity: &lw.Meta{Namespace: "default", Name: "a",
					ResourceVersion: "16"}},
			}, After: time.Minute},
			{After: 5 * time.Second, Err: apierrors.NewResourceExpired("too old")},
			rig.Forever(),
		}
		down := errors.New("connection refused")
		src := &rig.Script{Lists: []rig.Reply{{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "",
			nil)}, {Err: down}, rig.List("10", rig.Stamped("a", 1, "9")), rig.List("20", rig.Stamped("a", 1, "9"))},
			Watches: watches}
		src.Lists[2].Bad = []error{&lw.Error{Op: "decode", Key: rig.Key("c"), Err: bad},
			&lw.Error{Op: "decode", Key: rig.Key("d"), Err: bad}}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {},
			Backoff: func(n int) time.Duration { return time.Duration(n) * time.Second }})
		defer rig.Begin(t, inf)()
		if got := inf.Status(); got.Backoff != 0 ||
			cmp.Diff(map[string]lw.RequestCount{"list": {Started: 1, Ended: map[int]uint64{403: 1}}}, got.Requests) != "" {
			t.Errorf("in the first pause: %v, %v", got.Backoff, got.Requests)
		}
		rig.Sleep(5 * time.Minute)
		got := inf.Status()
		want := lw.Status{
			Requests: map[string]lw.RequestCount{
				"list":  {Started: 4, Ended: map[int]uint64{0: 1, 200: 2, 403: 1}},
				"watch": {Started: 3, Ended: map[int]uint64{200: 1, 410: 1}, Time: 65 * time.Second},
			}, Events: counts{"added": 1, "modified": 3, "deleted": 1, "bookmark": 1}, Undecoded: 3, Backoff: 3 * time.Second,
			ListCauses: counts{"first": 1, "expired": 1},
		}
		counters := lw.Status{
			Requests: got.Requests, Events: got.Events, Undecoded: got.Undecoded, Backoff: got.Backoff,
			ListCauses: got.ListCauses,
		}
		rig.Same(t, "", want, counters, missingIsZero)
		got.Requests["list"].Ended[0] = 99
		if inf.Status().Requests["list"].Ended[0] == 99 {
			t.Error("a Status is not its caller's own")
		}
	})
}

// A server's code that is no HTTP status is none: it cannot make up any number of codes.
func TestStatusOfMadeUpCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := int32(600)
		src := &rig.Script{OnList: func() rig.Reply {
			code++
			return rig.Reply{Err: &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code}}}
		}}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
		defer rig.Begin(t, inf)()
		rig.Sleep(time.Hour)
		if got := inf.Status().Requests["list"].Ended; len(got) != 1 || got[0] < 10 {
			t.Errorf("%+v", got)
		}
	})
}
