package lw_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
)

// A 410 that says that the history was replaced begins a new epoch, whichever request it answers: equal versions are not believed,
// and an older list is.
func TestReplacedHistory(t *testing.T) {
	replaced := listopts.Replaced(10, 20)
	before := list("10", stamped("a", 1, "8"), stamped("b", 1, "9"))
	page := list("20", stamped("a", 2, "8"))
	page.meta.Continue = "next"
	for _, version := range []string{"20", "5"} {
		// That an object is older than before, as of a backup, tells the same once more.
		after := list(version, stamped("a", 2, "8"), stamped("b", 2, "4"))
		for name, tc := range map[string]struct {
			lists   []reply
			watches []stream
			had     error
		}{
			"a watch":           {lists: []reply{before, after}, watches: []stream{{after: time.Minute, err: replaced}, forever()}},
			"a page":            {lists: []reply{before, page, {err: replaced}, after}, watches: []stream{expired(), forever()}},
			"a list":            {lists: []reply{before, {err: replaced}, after}, watches: []stream{expired(), forever()}},
			"a witness's":       {lists: []reply{before, after}, watches: away(1), had: replaced},
			"a source's answer": {lists: []reply{before, after}, watches: []stream{{err: lw.ErrRewound}, forever()}},
		} {
			t.Run(name+" at "+version, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src := &questioned{script: &script{lists: tc.lists, watches: tc.watches}, had: func(int) (bool, error) { return false, tc.had }}
					errs := &errorLog{}
					inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: errs.add, Backoff: func(int) time.Duration { return 2 * time.Second }})
					start(t, inf)
					sleep(5 * time.Minute)
					mustHold(t, inf.Store(), version, map[string]int{"a": 2, "b": 2})
					if s := inf.Status(); s.Epoch != 1 || s.Relists != 1 || s.Failures != 0 {
						t.Errorf("status %+v, want epoch 1, 1 relist", s)
					}
					errs.mustBe(t, lw.ErrRewound)
					told := 0
					for _, err := range errs.all() {
						if errors.Is(err, lw.ErrRewound) {
							told++
						}
					}
					if told != 1 {
						t.Errorf("told %d times that the server went back in time: %v", told, errs.all())
					}
					mustBeBounded(t, src.requests())
				})
			})
		}
	}
}

// A cause does not outlive the list that it led to.
func TestReplacedHistoryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{
				list("10", stamped("a", 1, "8")), list("20", stamped("a", 2, "8")), list("30", stamped("a", 3, "8")),
			},
			watches: []stream{{after: time.Minute, err: listopts.Replaced(10, 20)}, expiredAfter(time.Minute), forever()},
		}
		inf, _ := paged(t, src, 5*time.Minute)
		// The third list has a version of a that is known: in one epoch that is the same object.
		mustHold(t, inf.Store(), "30", map[string]int{"a": 2})
		if s := inf.Status(); s.Epoch != 1 || s.Relists != 2 {
			t.Errorf("status %+v, want epoch 1, 2 relists", s)
		}
	})
}

// After an outage of which nobody can tell whether the server is the same, its list is looked at: it may show that it is another
// one, and equal versions are not believed.
func TestListAfterAnOutage(t *testing.T) {
	before := list("10", stamped("a", 1, "8"), stamped("b", 1, "9"), stamped("c", 1, "7"))
	tooOld := apierrors.NewResourceExpired("too old")
	refused := reply{err: syscall.ECONNREFUSED}
	for name, tc := range map[string]struct {
		after   reply
		watches []stream // instead of an outage
		lists   []reply  // before after
		had     error    // instead of tooOld; errNoWitness: there is none
		want    map[string]int
		epoch   int
		told    []string
	}{
		"the same":                 {after: list("20", before.obj...), want: map[string]int{"a": 1, "b": 1, "c": 1}},
		"changed since":            {after: list("20", stamped("a", 2, "12"), before.obj[1], before.obj[2]), want: map[string]int{"a": 2, "b": 1, "c": 1}, told: []string{"update a1 a2"}},
		"an older object":          {after: list("20", before.obj[0], stamped("b", 3, "5"), stamped("c", 2, "7")), want: map[string]int{"a": 1, "b": 3, "c": 2}, epoch: 1, told: []string{"update b1 b3", "update c1 c2"}},
		"another object":           {after: list("20", before.obj[0], &Widget{Meta: lw.Meta{Namespace: "default", Name: "b", UID: "new", ResourceVersion: "5"}, Size: 3}), want: map[string]int{"a": 1, "b": 3}, told: []string{"add b3", "delete b1", "delete c1"}},
		"equal versions":           {after: list("20", before.obj[0], stamped("b", 2, "9"), before.obj[2]), want: map[string]int{"a": 1, "b": 2, "c": 1}, told: []string{"update b1 b2"}},
		"it cannot tell":           {after: list("20", before.obj[0], stamped("b", 2, "9"), before.obj[2]), had: errors.ErrUnsupported, watches: append(away(1)[:1], expired(), forever()), want: map[string]int{"a": 1, "b": 2, "c": 1}, told: []string{"update b1 b2"}},
		"it has no witness":        {after: list("20", before.obj[0], stamped("b", 2, "9"), before.obj[2]), had: errNoWitness, watches: append(away(1)[:1], expired(), forever()), want: map[string]int{"a": 1, "b": 2, "c": 1}, told: []string{"update b1 b2"}},
		"an outage before a list":  {after: list("20", before.obj[0], stamped("b", 2, "9"), before.obj[2]), lists: []reply{refused, refused}, watches: []stream{expired(), forever()}, want: map[string]int{"a": 1, "b": 2, "c": 1}, told: []string{"update b1 b2"}},
		"no outage":                {after: list("20", before.obj[0], stamped("b", 2, "9"), before.obj[2]), watches: []stream{expired(), forever()}, want: map[string]int{"a": 1, "b": 1, "c": 1}},
		"an outage that is proved": {after: list("20", before.obj[0], stamped("b", 2, "9"), before.obj[2]), had: errWitnessSaysYes, watches: append(away(1)[:1], expired(), forever()), want: map[string]int{"a": 1, "b": 1, "c": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.watches == nil {
					tc.watches = away(1)
				}
				scripted := &script{lists: append(append([]reply{before}, tc.lists...), tc.after), watches: tc.watches}
				var src lw.Source[*Widget] = &questioned{script: scripted, had: func(int) (bool, error) {
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
				errs := &errorLog{}
				inf := lw.NewInformer(src, &lw.Options{List: lw.ListPages, OnError: errs.add, Backoff: func(int) time.Duration { return 2 * time.Second }})
				told := &calls{}
				start(t, inf)
				synctest.Wait()
				inf.AddHandler(told.handler())
				synctest.Wait()
				told.take()
				sleep(5 * time.Minute)
				mustHold(t, inf.Store(), "20", tc.want)
				if s := inf.Status(); s.Epoch != tc.epoch || s.Relists != 1 {
					t.Errorf("status %+v, want epoch %d, 1 relist; requests %q", s, tc.epoch, scripted.log())
				}
				told.sorted(t, tc.told...)
				rewound := 0
				for _, err := range errs.all() {
					if errors.Is(err, lw.ErrRewound) {
						rewound++
					}
				}
				if rewound != tc.epoch {
					t.Errorf("told %d times that the server went back in time, want %d", rewound, tc.epoch)
				}
			})
		})
	}
}

var (
	errNoWitness      = errors.New("no witness")
	errWitnessSaysYes = errors.New("yes")
)

// A Memory that was restored, is past the position, and has forgotten what it had there: the copy is right all the same, and is
// told if an object shows it.
func TestRestoredServerThatForgot(t *testing.T) {
	for name, r := range restores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory[*Widget]()
				createAll("common", 50, 1)(t, m)
				backup := m.ResourceVersion()
				inf := run(t, m, &lw.Options{OnError: func(error) {}})
				r.before(t, m)
				sleep(time.Minute)
				rewindDuring(t, m, backup, time.Minute, inTurn(r.after, createAll("past", 60, 4), func(_ *testing.T, m *lw.Memory[*Widget]) { m.Compact() }))
				if diff := gocmp.Diff(allSizes(m), sizes(inf.Store())); diff != "" {
					t.Errorf("store (-want +got):\n%s", diff)
				}
			})
		})
	}
}
