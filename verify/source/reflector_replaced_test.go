package source_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A 410 that says that the history was replaced begins a new epoch, whichever request it answers:
// equal versions are not believed, and an older list is.
func TestReplacedHistory(t *testing.T) {
	replaced, rewound := listopts.Replaced(10, 20), fmt.Errorf("another cluster: %w", lw.ErrRewound)
	before := listed("10", "a1@8 b1@9")
	page := listed("20", "a2@8")
	page.Meta.Continue = "next"
	for _, to := range []struct {
		version, objs string
		want          map[string]int
	}{
		// That an object is older than before, as of a backup, tells the same once more.
		{"20", "a2@8 b2@4", map[string]int{"a": 2, "b": 2}}, {"5", "a2@8 b2@4", map[string]int{"a": 2, "b": 2}},
		{"12", "a2@8", map[string]int{"a": 2}}, {"9", "a2@8", map[string]int{"a": 2}},
	} {
		after := listed(to.version, to.objs)
		for name, tc := range map[string]struct {
			lists   []rig.Reply
			watches []rig.Stream
			had     error
		}{
			"a watch": {lists: []rig.Reply{before, after}, watches: []rig.Stream{{After: time.Minute, Err: replaced},
				rig.Forever()}},
			"a page": {lists: []rig.Reply{before, page, {Err: replaced}, after}, watches: []rig.Stream{rig.Expired(),
				rig.Forever()}},
			"a list": {lists: []rig.Reply{before, {Err: replaced}, after}, watches: []rig.Stream{rig.Expired(),
				rig.Forever()}},
			"a witness's": {lists: []rig.Reply{before, after}, watches: away(1), had: replaced},
			"a source's list": {lists: []rig.Reply{before, {Err: rewound}, after}, watches: []rig.Stream{rig.Expired(),
				rig.Forever()}},
			"a source's watch": {lists: []rig.Reply{before, after}, watches: []rig.Stream{{After: time.Minute, Err: rewound},
				rig.Forever()}},
			"a source's answer": {lists: []rig.Reply{before, after}, watches: []rig.Stream{{Err: lw.ErrRewound}, rig.Forever()}},
		} {
			rig.Subtest(t, name+" at "+to.version, func(t *testing.T) {
				src := &questioned{Script: &rig.Script{Lists: tc.lists, Watches: tc.watches},
					had: func(int) (bool, error) { return false, tc.had }}
				errs := &rig.Errors{}
				inf := rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add, Backoff: every(2 * time.Second)},
					5*time.Minute)
				rig.MustHold(t, inf.Store(), to.version, to.want)
				mustSay(t, inf, func(s lw.Status) bool { return s.Epoch == 1 && rig.Relists(s) == 1 && s.Failures == 0 })
				errs.MustBe(t, lw.ErrRewound)
				rig.Same(t, "times that it was told that the server went back", 1, errs.Count(lw.ErrRewound))
				rig.MustBeBounded(t, src.Requests())
				mustSay(t, inf, func(s lw.Status) bool { return s.ListCauses["older"]+s.ListCauses["expired"] == 1 })
			})
		}
	}
}

// A cause does not outlive the list that it led to.
func TestReplacedHistoryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{listed("10", "a1@8"), listed("20", "a2@8"), listed("30", "a3@8")},
			Watches: []rig.Stream{{After: time.Minute, Err: listopts.Replaced(10, 20)}, rig.ExpiredAfter(time.Minute),
				rig.Forever()},
		}
		inf, _ := rig.Paged(t, src, 5*time.Minute)
		// The third list has a version of a that is known: in one epoch that is the same object.
		rig.MustHold(t, inf.Store(), "30", map[string]int{"a": 2})
		mustSay(t, inf, func(s lw.Status) bool { return s.Epoch == 1 && rig.Relists(s) == 2 })
	})
}

// After an outage of which nobody can tell whether the server is the same, its list is looked at:
// it may show that it is another one, and equal versions are not believed.
func TestListAfterAnOutage(t *testing.T) {
	before := listed("10", "a1@8 b1@9 c1@7")
	tooOld := apierrors.NewResourceExpired("too old")
	refused := rig.Reply{Err: syscall.ECONNREFUSED}
	for name, tc := range map[string]struct {
		after   rig.Reply
		watches []rig.Stream // instead of an outage
		lists   []rig.Reply  // before after
		had     error        // instead of tooOld; errNoWitness: there is none
		want    map[string]int
		epoch   int
		told    []string
	}{
		"the same": {after: rig.List("20", before.Obj...), want: map[string]int{"a": 1, "b": 1, "c": 1}},
		"changed since": {after: rig.List("20", rig.Stamped("a", 2, "12"), before.Obj[1], before.Obj[2]),
			want: map[string]int{"a": 2, "b": 1, "c": 1}, told: []string{"update a1 a2"}},
		"an older object": {after: rig.List("20", before.Obj[0], rig.Stamped("b", 3, "5"), rig.Stamped("c", 2, "7")),
			want: map[string]int{"a": 1, "b": 3, "c": 2}, epoch: 1, told: []string{"update b1 b3", "update c1 c2"}},
		"another object": {after: rig.List("20", before.Obj[0],
			&rig.Widget{Meta: lw.Meta{Namespace: "default", Name: "b", UID: "new", ResourceVersion: "5"}, Size: 3}),
			want: map[string]int{"a": 1, "b": 3}, told: []string{"add b3", "delete b1", "delete c1"}},
		"equal versions": {after: rig.List("20", before.Obj[0], rig.Stamped("b", 2, "9"), before.Obj[2]),
			want: map[string]int{"a": 1, "b": 2, "c": 1}, told: []string{"update b1 b2"}},
		"it cannot tell": {after: rig.List("20", before.Obj[0], rig.Stamped("b", 2, "9"), before.Obj[2]),
			had: errors.ErrUnsupported, watches: append(away(1)[:1], rig.Expired(), rig.Forever()),
			want: map[string]int{"a": 1, "b": 2, "c": 1}, told: []string{"update b1 b2"}},
		"it has no witness": {after: rig.List("20", before.Obj[0], rig.Stamped("b", 2, "9"), before.Obj[2]),
			had: errNoWitness, watches: append(away(1)[:1], rig.Expired(), rig.Forever()), want: map[string]int{"a": 1, "b": 2,
				"c": 1}, told: []string{"update b1 b2"}},
		"an outage before a list": {after: rig.List("20", before.Obj[0], rig.Stamped("b", 2, "9"), before.Obj[2]),
			lists: []rig.Reply{refused, refused}, watches: []rig.Stream{rig.Expired(), rig.Forever()},
			want: map[string]int{"a": 1, "b": 2, "c": 1}, told: []string{"update b1 b2"}},
		"no outage": {after: rig.List("20", before.Obj[0], rig.Stamped("b", 2, "9"), before.Obj[2]),
			watches: []rig.Stream{rig.Expired(), rig.Forever()}, want: map[string]int{"a": 1, "b": 1, "c": 1}},
		"an outage that is proved": {after: rig.List("20", before.Obj[0], rig.Stamped("b", 2, "9"), before.Obj[2]),
			had: errWitnessSaysYes, watches: append(away(1)[:1], rig.Expired(), rig.Forever()),
			want: map[string]int{"a": 1, "b": 1, "c": 1}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			if tc.watches == nil {
				tc.watches = away(1)
			}
			scripted := &rig.Script{Lists: append(append([]rig.Reply{before}, tc.lists...), tc.after), Watches: tc.watches}
			var src lw.Source[*rig.Widget] = &questioned{Script: scripted, had: func(int) (bool, error) {
				switch tc.had {
				case nil:
					return false, tooOld
				case errWitnessSaysYes:
					return true, nil
				}
				return false, tc.had
			}}
			if tc.had == errNoWitness {
				src = scripted
			}
			errs := &rig.Errors{}
			inf := lw.NewInformer(src, &lw.Options{List: lw.ListPages, OnError: errs.Add, Backoff: every(2 * time.Second)})
			told := &rig.Calls{}
			rig.Start(t, inf)
			synctest.Wait()
			inf.AddHandler(told.Handler())
			synctest.Wait()
			told.Take()
			rig.Sleep(5 * time.Minute)
			rig.MustHold(t, inf.Store(), "20", tc.want)
			mustSay(t, inf, func(s lw.Status) bool { return s.Epoch == tc.epoch && rig.Relists(s) == 1 })
			told.Sorted(t, tc.told...)
			rig.Same(t, "times that it was told that the server went back", tc.epoch, errs.Count(lw.ErrRewound))
		})
	}
}

var (
	errNoWitness      = errors.New("no witness")
	errWitnessSaysYes = errors.New("yes")
)

// A Memory that was restored, is past the position, and has forgotten what it had there: the copy
// is right all the same, and is told if an object shows it.
func TestRestoredServerThatForgot(t *testing.T) {
	for name, r := range restores {
		rig.Subtest(t, name, func(t *testing.T) {
			m := lw.NewMemory[*rig.Widget]()
			createAll("common", 50, 1)(t, m)
			backup := m.ResourceVersion()
			inf := rig.Run(t, m, &lw.Options{OnError: func(error) {}})
			r.before(t, m)
			rig.Sleep(time.Minute)
			rewindDuring(t, m, backup, time.Minute, inTurn(r.after, createAll("past", 60, 4),
				func(_ *testing.T, m *lw.Memory[*rig.Widget]) { m.Compact() }))
			rig.Same(t, "store", allSizes(m), rig.Sizes(inf.Store()))
		})
	}
}

// A server that was restored and written to again may give a version that was seen to another
// object: in a new epoch versions are not believed, only what an object holds.
func TestVersionsOfAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists:   []rig.Reply{listed("9", "a1@7 b1@8 c1@9"), listed("8", "a2@7 b1@8")},
			Watches: []rig.Stream{rig.Expired(), rig.Forever()},
		}
		inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		var told []string
		inf.AddHandler(lw.Handler[*rig.Widget]{
			Update: func(old, w *rig.Widget) { told = append(told, "update "+w.Name) },
			Delete: func(w *rig.Widget) { told = append(told, "delete "+w.Name) },
		})
		rig.Start(t, inf)
		time.Sleep(time.Hour)
		synctest.Wait()
		rig.Same(t, "epoch", 1, inf.Status().Epoch)
		rig.Same(t, "told", []string{"delete c", "update a"}, told)
		rig.Same(t, "size of a", 2, rig.Sizes(inf.Store())[rig.Key("a")])
	})
}

// The same for an object that was kept because nobody could read what the new epoch's first list
// had in its place.
func TestVersionsOfAnotherEpochOfWhatWasKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := badList("8", "a", "b1@8")
		src := &rig.Script{
			Lists: []rig.Reply{
				listed("9", "a1@9 b1@8"),
				broken, broken, broken, broken, // believed the fourth time
				listed("9", "a2@9 b1@8"),
			},
			Watches: []rig.Stream{rig.Expired(), rig.ExpiredAfter(time.Minute), rig.Forever()},
		}
		inf := rig.RunFor(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}}, time.Hour)
		rig.Same(t, "epoch", 1, inf.Status().Epoch)
		rig.Same(t, "store", sizes("a2 b1"), rig.Sizes(inf.Store()))
	})
}
