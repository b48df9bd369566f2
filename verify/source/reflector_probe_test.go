package source_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A server that has shown that it is the same is not doubted any more: a watch on trial that ends
// in time, or says something, is left alone from then on, and so is the one after it.
func TestDoubtIsLifted(t *testing.T) {
	for name, tc := range map[string]struct {
		doubt, trial rig.Stream
		timeout, d   time.Duration
		log          []string // after the watch in doubt
		want         string
	}{
		"by its end": {
			rig.Stream{Err: apierrors.NewInternalError(errors.New("etcd"))},
			rig.Stream{Events: []widgetEvent{rig.Bookmark("20")}, After: 20 * time.Second},
			time.Second, 45 * time.Second, []string{"watch 10", "watch 20"}, "a1",
		},
		"by life": {
			rig.Stream{After: time.Minute, Err: errors.New("reset")},
			rig.Stream{Events: []widgetEvent{modified("a2@20")}, After: 20 * time.Minute},
			0, 5 * time.Minute, []string{"list limit 1", "watch 10"}, "a2",
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			watches := []rig.Stream{tc.doubt, tc.trial, rig.Forever()}
			src := &rig.Script{Lists: []rig.Reply{listed("10", "a1@9")}, Watches: watches}
			inf := rig.RunFor(t, src, &lw.Options{List: lw.ListPages, WatchTimeout: tc.timeout, OnError: func(error) {}}, tc.d)
			rig.MustLog(t, src, append([]string{"list limit 500", "watch 10"}, tc.log...)...)
			mustHold(t, inf.Store(), "20", tc.want)
		})
	}
}

// A question that the server is too busy for is asked again soon; one that hangs is given up.
func TestQuestionsThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		answer rig.Reply
		most   time.Duration
	}{
		"too many requests": {rig.Reply{Err: apierrors.NewTooManyRequests("later", 1)}, 20 * time.Second},
		"a broken network":  {rig.Reply{Err: syscall.ECONNRESET}, 20 * time.Second},
		"no answer":         {rig.Reply{Hang: true}, 4 * time.Minute},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{
				Lists:   []rig.Reply{listed("100", "a1@99"), tc.answer, listed("10", "a2@9")},
				Watches: []rig.Stream{{After: 15 * time.Second}, rig.Forever()},
			}
			inf := rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: every(time.Second)},
				15*time.Second+tc.most)
			mustSay(t, inf, func(s lw.Status) bool { return s.Epoch == 1 && s.Requests["probe"].Started >= 2 })
		})
	}
}

// A restore is a server that goes back to a backup, and what is written until it is back.
type restore struct {
	before change // after the backup
	after  change // after the restore
}

type change = func(*testing.T, *lw.Memory[*rig.Widget])

// each is do for n names with a prefix.
func each(prefix string, n int, do func(t *testing.T, m *lw.Memory[*rig.Widget], name string)) change {
	return func(t *testing.T, m *lw.Memory[*rig.Widget]) {
		for i := range n {
			do(t, m, fmt.Sprint(prefix, i))
		}
	}
}

func createAll(prefix string, n, size int) change {
	return each(prefix, n, func(t *testing.T, m *lw.Memory[*rig.Widget], name string) { rig.Create(t, m, name, size) })
}

func updateAll(prefix string, n, size int) change {
	return each(prefix, n, func(t *testing.T, m *lw.Memory[*rig.Widget], name string) { rig.Update(t, m, name, size) })
}

func inTurn(all ...change) change {
	return func(t *testing.T, m *lw.Memory[*rig.Widget]) {
		for _, f := range all {
			f(t, m)
		}
	}
}

func nothing(*testing.T, *lw.Memory[*rig.Widget]) {}

// restores are those that an informer must notice. Each begins with common0 to common49.
var restores = map[string]restore{
	"behind":             {createAll("old", 50, 1), nothing},
	"behind, written to": {createAll("old", 50, 1), createAll("new", 10, 2)},
	"to the position":    {createAll("old", 50, 1), createAll("new", 50, 2)},
	"past, new names":    {createAll("old", 50, 1), createAll("new", 60, 2)},
	"past, same names":   {createAll("old", 50, 1), createAll("old", 60, 2)},
	"past, the same objects": {updateAll("common", 50, 2), inTurn(createAll("new", 1, 1),
		updateAll("common", 50, 3))},
	"past, some versions are equal": {updateAll("common", 50, 2), inTurn(updateAll("common", 40, 3),
		createAll("new", 20, 1))},
	"past, after a deletion": {
		inTurn(createAll("old", 50, 1), func(t *testing.T, m *lw.Memory[*rig.Widget]) { rig.Remove(t, m, "old3") }),
		createAll("new", 60, 2),
	},
	"past, after the newest object was deleted": {
		inTurn(createAll("old", 50, 1), func(t *testing.T, m *lw.Memory[*rig.Widget]) { rig.Remove(t, m, "old49") }),
		createAll("new", 60, 2),
	},
	"past, nothing but deletions after it": {createAll("old", 10, 1), each("common", 30, rig.Remove)},
}

// rewindDuring takes m back to version while it cannot be reached.
func rewindDuring(t *testing.T, m *lw.Memory[*rig.Widget], version string, outage time.Duration, then change) {
	t.Helper()
	m.Fail(syscall.ECONNREFUSED)
	rig.Sleep(outage)
	rig.OK(t, m.Rewind(version))
	then(t, m)
	m.Fail(nil)
	rig.Sleep(10 * time.Minute)
}

// allSizes are the objects of m.
func allSizes(m *lw.Memory[*rig.Widget]) map[lw.Key]int {
	out := map[lw.Key]int{}
	for w := range m.All() {
		out[lw.KeyOf(w)] = w.Size
	}
	return out
}

// A server that was restored during an outage is noticed, however much was written to it since, and
// whatever stands between it and the informer.
func TestRestoredServer(t *testing.T) {
	sources := map[string]func(m *lw.Memory[*rig.Widget]) lw.Source[*rig.Widget]{
		"Memory": func(m *lw.Memory[*rig.Widget]) lw.Source[*rig.Widget] { return m },
		"by lists": func(m *lw.Memory[*rig.Widget]) lw.Source[*rig.Widget] { // as one over an API server
			return &hinted{m, lw.SourceHints{StillHas: func(ctx context.Context, obj lw.Meta, version string) (bool, error) {
				return lw.StillHasByList(ctx, m, obj, version)
			}}}
		},
		"WithListOptions": func(m *lw.Memory[*rig.Widget]) lw.Source[*rig.Widget] {
			return lw.WithListOptions(lw.Shard(m, 0, 1),
				func(o *metav1.ListOptions) { o.FieldSelector = "metadata.namespace=default" })
		},
		"Transform": func(m *lw.Memory[*rig.Widget]) lw.Source[*rig.Widget] {
			return lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) {
				return &rig.Widget{Meta: lw.MetaOf(w), Size: w.Size}, nil
			})
		},
	}
	for name, r := range restores {
		for by, over := range sources {
			rig.Subtest(t, name+"/"+by, func(t *testing.T) {
				m := lw.NewMemory[*rig.Widget]()
				createAll("common", 50, 1)(t, m)
				backup := m.ResourceVersion()
				errs := &rig.Errors{}
				inf := rig.Run(t, over(m), &lw.Options{OnError: errs.Add})
				told := map[lw.Key]int{}
				note := func(w *rig.Widget) { told[lw.KeyOf(w)] = w.Size }
				inf.AddHandler(lw.Handler[*rig.Widget]{
					Add: note, Update: func(_, w *rig.Widget) { note(w) },
					Delete: func(w *rig.Widget) { delete(told, lw.KeyOf(w)) },
				})
				r.before(t, m)
				rig.Sleep(time.Minute)
				rewindDuring(t, m, backup, time.Minute, r.after)
				want := allSizes(m)
				rig.Same(t, "store", want, rig.Sizes(inf.Store()))
				rig.Same(t, "what a handler was told adds up to", want, told)
				mustSay(t, inf, func(s lw.Status) bool { return s.Epoch == 1 && rig.Relists(s) == 1 })
				errs.MustBe(t, lw.ErrRewound)
				// What comes after that is followed.
				rig.Create(t, m, "last", 7)
				synctest.Wait()
				rig.Same(t, "size of what was written since", 7, rig.Sizes(inf.Store())[rig.Key("last")])
			})
		}
	}
}

// A questioned is a script that is a witness.
type questioned struct {
	*rig.Script
	had       func(n int) (bool, error) // of the nth question, from 1 on
	questions []lw.Meta
}

func (q *questioned) Hints() lw.SourceHints { return lw.SourceHints{StillHas: q.ask} }

func (q *questioned) ask(_ context.Context, obj lw.Meta, version string) (bool, error) {
	if version != "10" {
		return false, fmt.Errorf("asked about version %s", version)
	}
	q.questions = append(q.questions, obj)
	q.Mu.Lock()
	q.At = append(q.At, time.Now())
	q.Mu.Unlock()
	return q.had(len(q.questions))
}

// away is a server that cannot be reached for so many requests, as watches of a script.
func away(n int) (watches []rig.Stream) {
	return append(slices.Repeat([]rig.Stream{{Err: syscall.ECONNREFUSED}}, n), rig.Forever())
}

// The witness is asked once after an outage, about the newest object, and what it says counts.
func TestWitness(t *testing.T) {
	yes := func(int) (bool, error) { return true, nil }
	fails := func(err error) func(int) (bool, error) { return func(int) (bool, error) { return false, err } }
	after := func(failures int, err error, had bool) func(int) (bool, error) {
		return func(n int) (bool, error) {
			if n <= failures {
				return false, err
			}
			return had, nil
		}
	}
	objects := listed("10", "a1@8 b1@9 c1@7")
	again := listed("12", "a1@8 b2@9")
	silence := time.Minute
	says := []widgetEvent{rig.Bookmark("10")}
	blink := []rig.Stream{{Err: syscall.ECONNREFUSED}, rig.Events(says...)}
	for name, tc := range map[string]struct {
		watches   []rig.Stream
		first     rig.Reply // instead of objects
		had       func(n int) (bool, error)
		questions int
		asks      int    // how often the server is asked for its version: never beside a yes
		asked     string // about which object; "": b
		epoch     int
		relists   uint64
		pause     time.Duration // of Backoff; 0: 2 s
		reports   string        // what OnError must be told; "": nothing but of watches that were refused
	}{
		"a watch that breaks, and goes on": {watches: []rig.Stream{{After: silence, Events: says, Err: io.ErrUnexpectedEOF},
			rig.Events(says...)}},
		"a watch that breaks, then silence": {watches: []rig.Stream{{After: silence, Events: says, Err: io.ErrUnexpectedEOF},
			rig.Forever()}, had: yes, questions: 1},
		"a watch that ends": {watches: []rig.Stream{{After: silence}, rig.Forever()}, asks: 1},
		"an end that was a break": {watches: []rig.Stream{{After: silence, Events: says}, rig.Forever()}, had: yes,
			questions: 1},
		"an outage": {watches: append([]rig.Stream{{After: silence, Events: says, Err: io.EOF}},
			away(1)...), had: yes, questions: 1},
		"an outage after a silent watch": {watches: append([]rig.Stream{{After: silence, Err: io.EOF}}, away(1)...),
			had: yes, questions: 2},
		"an outage after a quiet end": {watches: append([]rig.Stream{{After: silence}}, away(1)...), had: yes,
			questions: 1, asks: 1},
		"two outages": {watches: append(append([]rig.Stream{{After: silence}}, away(1)[:1]...),
			append([]rig.Stream{{After: silence, Events: says, Err: io.EOF}}, away(1)...)...), had: yes, questions: 2, asks: 1},
		"an empty collection":     {watches: away(1), first: rig.List("10"), asks: 1},
		"no version has an order": {watches: away(1), first: listed("10", "a1@x"), asks: 1},
		"the newest one cannot be read": {watches: append([]rig.Stream{{Events: []widgetEvent{{Type: watch.Modified,
			ResourceVersion: "10", Err: &lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("sick")}}}, Err: io.EOF}},
			away(1)...), first: listed("9", "a1@8 b1@9"), had: yes, questions: 1, asked: "a", reports: "sick"},
		// Nobody restores a server within a second, but many connections break and come back.
		"a short outage":      {watches: blink, pause: 900 * time.Millisecond},
		"a little longer one": {watches: blink, pause: 1100 * time.Millisecond, had: yes, questions: 1},
		"no": {watches: away(1), had: fails(nil), questions: 1, epoch: 1, relists: 1,
			reports: "went back in time"},
		"too old": {watches: away(1), had: fails(apierrors.NewResourceExpired("too old")),
			questions: 1, relists: 1, reports: "too old"},
		"forbidden": {watches: away(4), had: fails(apierrors.NewForbidden(schema.GroupResource{},
			"", errors.New("no"))), questions: 1, reports: "forbidden", asks: 1},
		"nonsense": {watches: away(4), had: fails(errors.New("an HTML page")), questions: 1,
			reports: "an HTML page", asks: 1},
		"it cannot tell": {watches: away(4), had: fails(fmt.Errorf("%w here", errors.ErrUnsupported)),
			questions: 1, asks: 1},
		"the network is down, then it is yes": {watches: away(1), had: after(2, syscall.ECONNREFUSED, true), questions: 3},
		"the network is down for long": {watches: away(1), had: after(4, syscall.ECONNREFUSED, true),
			questions: 5, asks: 1},
		"only the question breaks": {watches: away(1), had: fails(syscall.ECONNRESET), questions: 6, asks: 1},
		"busy for a while": {watches: away(1), had: after(5, apierrors.NewTooManyRequests("later", 1),
			false), questions: 6, epoch: 1, relists: 1, reports: "later"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			if tc.first.Meta.ResourceVersion == "" {
				tc.first = objects
			}
			src := &questioned{Script: &rig.Script{Lists: []rig.Reply{tc.first, again}, Watches: tc.watches}, had: tc.had}
			if tc.epoch == 0 && tc.relists == 0 {
				src.Lists[1].Meta.ResourceVersion = "10" // of a probe
			}
			errs := &rig.Errors{}
			inf := rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: errs.Add,
				Backoff: every(cmp.Or(tc.pause, 2*time.Second))}, 4*time.Minute)
			rig.Same(t, "questions", tc.questions, len(src.questions))
			for _, q := range src.questions {
				if want := cmp.Or(tc.asked, "b"); q.Name != want || q.UID != types.UID("uid-"+want) {
					t.Errorf("asked about %+v, want %s", q, want)
				}
			}
			s := inf.Status()
			mustSay(t, inf, func(s lw.Status) bool { return s.Epoch == tc.epoch && rig.Relists(s) == tc.relists })
			mustSay(t, inf, func(s lw.Status) bool { return s.Phase == "watching" && s.Failures == 0 })
			probes := uint64(0)
			for _, n := range s.Requests["probe"].Ended {
				probes += n
			}
			rig.Same(t, "probes that have ended", uint64(tc.questions+tc.asks), probes)
			rig.Same(t, "probes", probes, s.Requests["probe"].Started)
			if tc.reports != "" {
				errs.MustHave(t, tc.reports)
			} else {
				for _, err := range errs.All() {
					if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) &&
						!errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("reported: %v", err)
					}
				}
			}
			if tc.epoch == 1 {
				rig.Same(t, "size of b in a new epoch", 2, rig.Sizes(inf.Store())[rig.Key("b")])
			}
			rig.MustBeBounded(t, src.Requests())
		})
	}
}

// A witness that does not answer is asked again after five minutes, however many outages there are.
func TestWitnessThatIsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &questioned{Script: &rig.Script{Lists: []rig.Reply{listed("10", "a1@8")}}}
		src.had = func(int) (bool, error) {
			return false, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
		}
		n := 0
		src.OnWatch = func() rig.Stream { // an outage each minute
			switch n++; n % 3 {
			case 0:
				return rig.Stream{Events: []widgetEvent{rig.Bookmark("10")}, After: time.Minute, Err: io.EOF}
			}
			return rig.Stream{Err: syscall.ECONNREFUSED}
		}
		rig.RunFor(t, src, &lw.Options{List: lw.ListPages, OnError: func(error) {}}, time.Hour)
		within(t, "questions in an hour", 8, len(src.questions), 12)
		rig.MustBeBounded(t, src.Requests())
	})
}

// A Sink is asked about what it was told last; nothing can be asked once that was deleted.
func TestWitnessOfASink(t *testing.T) {
	for name, tc := range map[string]struct {
		says []widgetEvent
		want []string // about which objects
	}{
		"the list":               {nil, []string{"b"}},
		"a change":               {[]widgetEvent{modified("a2@10")}, []string{"a"}},
		"a change and a delete":  {[]widgetEvent{modified("a2@9"), deleted("a2@10")}, nil},
		"another one is deleted": {[]widgetEvent{deleted("a1@10")}, []string{"b"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &questioned{Script: &rig.Script{
				Lists:   []rig.Reply{listed("8", "a1@6 b1@8 c1@7")},
				Watches: append([]rig.Stream{{Events: append(tc.says, rig.Bookmark("10")), Err: io.EOF}}, away(1)...),
			}, had: func(int) (bool, error) { return true, nil }}
			opts := &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: every(2 * time.Second)}
			rig.Start(t, lw.NewReflector(src, lw.Sink[*rig.Widget](lw.NewIndexer[*rig.Widget]()), opts))
			rig.Sleep(time.Minute)
			var got []string
			for _, q := range src.questions {
				got = append(got, q.Name)
			}
			rig.Same(t, "asked about", tc.want, got)
		})
	}
}
