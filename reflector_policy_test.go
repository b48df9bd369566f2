package lw_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// Which watches are progress: after the others the pauses grow.
func TestNoProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		watch    stream
		timeout  time.Duration
		progress bool
	}{
		"closed at once":                 {stream{}, 0, false},
		"closed soon":                    {stream{after: 9 * time.Second}, 0, false},
		"closed after a while":           {stream{after: 11 * time.Second}, 0, true},
		"closed when it was asked to be": {stream{after: time.Second}, time.Millisecond, true},
		"closed sooner than that":        {stream{after: time.Second / 2}, time.Millisecond, false},
		"a bookmark":                     {stream{events: []lw.WatchEvent[*Widget]{bookmark("20")}, after: time.Second}, 0, true},
		"a bookmark without a version":   {stream{events: []lw.WatchEvent[*Widget]{bookmark("")}, after: time.Second}, 0, false},
		"a bookmark of before":           {stream{events: []lw.WatchEvent[*Widget]{bookmark("5")}, after: time.Second}, 0, false},
		"an event":                       {stream{events: []lw.WatchEvent[*Widget]{modified(stamped("a", 2, "20"))}, after: time.Second}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{lists: []reply{list("10", stamped("a", 1, "9"))}, watches: []stream{tc.watch, tc.watch, forever()}}
				var asked []int
				inf := lw.NewInformer[*Widget](src, &lw.Options{
					List: lw.ListPages, WatchTimeout: tc.timeout, OnError: func(error) {},
					Backoff: func(n int) time.Duration { asked = append(asked, n); return 10 * time.Second },
				})
				if !tc.progress {
					start(t, inf)
					sleep(45 * time.Second)
					if diff := cmp.Diff([]int{1, 2}, asked); diff != "" {
						t.Errorf("backoffs (-want +got):\n%s", diff)
					}
					return
				}
				src.watches = src.watches[:1]
				if src.watches[0].events != nil {
					src.watches = []stream{tc.watch, forever()} // what it says is news once
				}
				start(t, inf)
				sleep(8 * time.Second)
				if len(src.watches) == 1 {
					sleep(5 * time.Minute)
				}
				if len(asked) != 0 || inf.Status().Failures != 0 {
					t.Errorf("backoffs %v, status %+v", asked, inf.Status())
				}
			})
		})
	}
}

// Also where no pause is asked for, requests are few.
func TestNoBackoffIsBounded(t *testing.T) {
	down := errors.New("down")
	full := func() reply { return list("10", stamped("a", 1, "9")) }
	for name, src := range map[string]*script{
		"lists fail":       {list: func() reply { return reply{err: down} }},
		"watches fail":     {list: full, watch: func() stream { return stream{err: down} }},
		"watches are gone": {list: full, watch: expired},
		"streams fail":     {list: func() reply { return reply{err: down} }, stream: func() stream { return stream{err: down} }},
		"probes fail": {list: full, watch: func() stream {
			return stream{after: 11 * time.Second, err: down}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mode := lw.ListPages
				if src.stream != nil {
					mode = lw.ListAuto
				}
				start(t, lw.NewInformer[*Widget](src, &lw.Options{List: mode, OnError: func(error) {}, Backoff: func(int) time.Duration { return 0 }}))
				sleep(10 * time.Minute)
				mustBeBounded(t, src.requests())
				if len(src.requests()) < 50 {
					t.Errorf("only %d requests", len(src.requests()))
				}
			})
		})
	}
}

// A list that must follow at once does so once; after progress it may again.
func TestRelistAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := func(evs ...lw.WatchEvent[*Widget]) stream {
			return stream{events: evs, after: 30 * time.Second, err: apierrors.NewResourceExpired("x")}
		}
		src := &script{
			lists: []reply{list("10", stamped("a", 1, "9")), list("20", stamped("a", 1, "9")), list("30", stamped("a", 1, "9")), list("40", stamped("a", 1, "9"))},
			watches: []stream{
				expired(),               // listed at once
				expired(),               // that has not helped
				lost(bookmark("35")),    // progress: listed at once
				{open: true}, forever(), // and well from then on
			},
		}
		var asked []int
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(n int) time.Duration {
			asked = append(asked, n)
			return 20 * time.Second
		}})
		start(t, inf)
		sleep(2 * time.Minute)
		if diff := cmp.Diff([]int{2}, asked); diff != "" {
			t.Errorf("backoffs (-want +got):\n%s", diff)
		}
		mustLog(t, src, "list limit 500", "watch 10", "list limit 500", "watch 20", "list limit 500", "watch 30", "list limit 500", "watch 40")
	})
}

// A server that has shown that it is the same is not doubted any more.
func TestDoubtIsLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{list("10", stamped("a", 1, "9"))},
			watches: []stream{
				{err: apierrors.NewInternalError(errors.New("etcd"))},
				{events: []lw.WatchEvent[*Widget]{bookmark("20")}, after: 2 * time.Minute}, // to its end
				forever(),
			},
		}
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, WatchTimeout: time.Minute, OnError: func(error) {}})
		start(t, inf)
		sleep(150 * time.Second)
		mustLog(t, src, "list limit 500", "watch 10", "watch 10", "watch 20")
	})
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
			map[string]int{"a": 1}, "", []string{"list limit 500", "watch", "list limit 500", "watch"}, 1},
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

// What is gone need not be read, if it is told what it is and when; otherwise it is a bad object as any, or a reason to list.
func TestDeletionThatCannotBeDecoded(t *testing.T) {
	gone := func(name, rv string) lw.WatchEvent[*Widget] {
		return lw.WatchEvent[*Widget]{Type: "DELETED", ResourceVersion: rv, Err: &lw.Error{Op: "decode", Key: lw.Key{Namespace: "default", Name: name}, Err: errors.New("not a widget")}}
	}
	first, second := list("10", stamped("a", 1, "8"), stamped("b", 1, "9")), list("30", stamped("b", 2, "20"))
	for name, tc := range map[string]struct {
		event lw.WatchEvent[*Widget]
		log   []string
		want  map[string]int
		rv    string
		aside int
	}{
		"with key and version": {gone("a", "11"), []string{"list limit 500", "watch 10"}, map[string]int{"b": 1}, "11", 0},
		"without a version":    {gone("a", ""), []string{"list limit 500", "watch 10"}, map[string]int{"a": 1, "b": 1}, "10", 1},
		"which ends the watch": {gone("a", ""), []string{"list limit 500", "watch 10", "watch 10"}, map[string]int{"a": 1, "b": 1}, "10", 1},
		"without a name":       {gone("", "11"), []string{"list limit 500", "watch 10", "list limit 500", "watch 30"}, map[string]int{"b": 2}, "30", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{lists: []reply{first, second}, watches: []stream{events(tc.event), forever()}}
				src.watches[0].open = name != "which ends the watch"
				inf, errs := paged(t, src, 5*time.Second)
				mustLog(t, src, tc.log...)
				mustHold(t, inf.Store(), tc.rv, tc.want)
				if name != "with key and version" {
					errs.mustHave(t, "not a widget")
				}
				if n := len(inf.Status().SetAside); n != tc.aside {
					t.Errorf("%d are set aside", n)
				}
			})
		})
	}
}

// An older state is refused three times, however it is found: each time the next request is a list.
func TestOlderStateIsRefused(t *testing.T) {
	older := list("5", stamped("a", 0, "4"))
	full := list("10", stamped("a", 1, "9"))
	for name, tc := range map[string]struct {
		lists  []reply
		epochs int
		rv     string
	}{
		"twice":                       {[]reply{full, older, older, list("12", stamped("a", 2, "11"))}, 0, "12"},
		"three times":                 {[]reply{full, older, older, older, list("12", stamped("a", 2, "11"))}, 0, "12"},
		"four times":                  {[]reply{full, older, older, older, older}, 1, "5"},
		"three times, and once again": {[]reply{full, older, older, older, list("12", stamped("a", 2, "11")), older, list("13", stamped("a", 3, "13"))}, 0, "13"},
	} {
		for _, probe := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", found by a question"}[probe], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first := expired()
					if probe {
						first = stream{after: 20 * time.Second} // silent, and early
					}
					src := &script{lists: tc.lists, watches: []stream{first, forever()}}
					if name == "three times, and once again" {
						src.watches = []stream{first, expiredAfter(time.Minute), forever()}
					}
					inf, _ := paged(t, src, 5*time.Minute)
					if s := inf.Status(); s.Epoch != tc.epochs || s.ResourceVersion != tc.rv {
						t.Errorf("status: %+v", s)
					}
					asked := slices.Contains(src.log(), "list limit 1")
					if asked != probe && name != "three times, and once again" {
						t.Errorf("requests: %v", src.log())
					}
				})
			})
		}
	}
}

// A Sink that can be asked what it holds is checked against as an informer's store is.
func TestSinkThatCanBeAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		events []lw.WatchEvent[*Widget]
		log    []string
	}{
		"an object that is added twice":        {[]lw.WatchEvent[*Widget]{added("a", "11")}, []string{"list", "watch 10", "list", "watch 30"}},
		"a change of what was never there":     {[]lw.WatchEvent[*Widget]{modified(stamped("x", 1, "11"))}, []string{"list", "watch 10", "list", "watch 30"}},
		"one version of two objects":           {[]lw.WatchEvent[*Widget]{modified(stamped("a", 2, "11")), modified(stamped("b", 2, "11"))}, []string{"list", "watch 10"}},
		"one version of one object":            {[]lw.WatchEvent[*Widget]{modified(stamped("a", 2, "11")), modified(stamped("a", 3, "11"))}, []string{"list", "watch 10", "list", "watch 30"}},
		"a bookmark, and then a change by one": {[]lw.WatchEvent[*Widget]{bookmark("20"), modified(stamped("a", 2, "21"))}, []string{"list", "watch 10"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{
					lists:   []reply{list("10", stamped("a", 1, "8"), stamped("b", 1, "9")), list("30", stamped("a", 3, "20"))},
					watches: []stream{events(tc.events...), forever()},
				}
				store := lw.NewIndexer[*Widget]()
				r := lw.NewReflector[*Widget](src, store, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				sleep(5 * time.Second)
				mustLog(t, src, tc.log...)
				if want := store.ResourceVersion(); r.Status().ResourceVersion != want {
					t.Errorf("the reflector reports %s, the store %s", r.Status().ResourceVersion, want)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A connection that was good and broke is no failure in a row: what Status says stays well.
func TestBrokenConnectionIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists: []reply{list("10", stamped("a", 1, "9"))},
			watches: []stream{
				{events: []lw.WatchEvent[*Widget]{modified(stamped("a", 2, "20"))}, after: time.Second, err: errors.New("reset")}, forever(),
			},
		}
		inf, errs := paged(t, src, 2*time.Second)
		if s := inf.Status(); s.Failures != 0 || s.Err != nil || s.Phase != lw.PhaseWatching || len(errs.all()) != 1 {
			t.Errorf("status %+v, errors %v", s, errs.all())
		}
	})
}

// The server counts a watch's timeout from the request on: one that has streamed its list for a while ends no earlier for that.
func TestTimeoutOfAStream(t *testing.T) {
	for range 20 { // the timeout is drawn
		synctest.Test(t, func(t *testing.T) {
			src := &sprinkler{script: script{lists: []reply{list("10")}}, gap: 5 * time.Second, event: func(n int) lw.WatchEvent[*Widget] {
				switch n {
				case 0, 1, 2:
					return added("w"+strconv.Itoa(n), strconv.Itoa(9-n))
				case 3:
					return end("10")
				default:
					return bookmark(strconv.Itoa(10 + n))
				}
			}}
			ended := &closing{sprinkler: src, after: 42 * time.Second}
			inf := lw.NewInformer[*Widget](ended, &lw.Options{WatchTimeout: 20 * time.Second, OnError: func(err error) { t.Error(err) }})
			start(t, inf)
			sleep(58 * time.Second)
			if s := inf.Status(); s.Probes != 0 || s.Watches != 2 || s.Phase != lw.PhaseWatching {
				t.Errorf("status: %+v", s)
			}
		})
	}
}

// closing is a sprinkler whose stream the server closes.
type closing struct {
	*sprinkler
	after time.Duration
}

func (c *closing) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	if opts.SendInitialEvents == nil {
		return c.sprinkler.Watch(ctx, opts, yield)
	}
	in, cancel := context.WithTimeout(ctx, c.after)
	defer cancel()
	if err := c.sprinkler.Watch(in, opts, yield); ctx.Err() != nil || in.Err() == nil {
		return err
	}
	return nil
}

// What follows a stream that failed for no known reason is believed only if it works: pages that fail as well say nothing of
// streams.
func TestStreamIsTriedAgainWherePagesFail(t *testing.T) {
	for name, err := range map[string]error{"an unknown error": errors.New("what"), "an internal error": apierrors.NewInternalError(errors.New("etcd"))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				src := &script{lists: []reply{{err: errors.New("down")}}, stream: func() stream {
					if n++; n <= 2 {
						return stream{err: err}
					}
					return events(added("a", "19"), end("20"))
				}}
				inf := lw.NewInformer[*Widget](src, &lw.Options{OnError: func(error) {}})
				start(t, inf)
				sleep(time.Minute)
				mustLog(t, src, "stream", "stream", "list limit 500", "stream")
				if s := inf.Status(); !s.Synced || s.Mode != lw.ListStream {
					t.Errorf("status: %+v", s)
				}
			})
		})
	}
}

// A question that the server is too busy for is asked again soon; one on which it hangs is given up.
func TestQuestionsThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		answer reply
		most   time.Duration
	}{
		"too many requests": {reply{err: apierrors.NewTooManyRequests("later", 1)}, 20 * time.Second},
		"a broken network":  {reply{err: syscall.ECONNRESET}, 20 * time.Second},
		"no answer":         {reply{hang: true}, 4 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{
					lists:   []reply{list("100", stamped("a", 1, "99")), tc.answer, list("10", stamped("a", 2, "9"))},
					watches: []stream{{after: 15 * time.Second}, forever()},
				}
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Second }})
				start(t, inf)
				sleep(15*time.Second + tc.most)
				if s := inf.Status(); s.Epoch != 1 || s.Probes < 2 {
					t.Errorf("status: %+v, requests %v", s, src.log())
				}
			})
		})
	}
}

// An outage in which streams are cut and pages fail is one: its pauses grow.
func TestCutStreamsAreNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			list: func() reply { return reply{err: syscall.ECONNREFUSED} },
			stream: func() stream {
				return stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}, err: syscall.ECONNRESET}
			},
		}
		var asked []int
		inf := lw.NewInformer[*Widget](src, &lw.Options{OnError: func(error) {}, Backoff: func(n int) time.Duration {
			asked = append(asked, n)
			return time.Minute
		}})
		start(t, inf)
		sleep(5*time.Minute + time.Second)
		if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 6}, asked); diff != "" {
			t.Errorf("backoffs (-want +got):\n%s", diff)
		}
	})
}

// After its list a stream is a watch as any: counted once, and ended when it outlives its time in silence.
func TestStreamBecomesAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &sprinkler{script: script{lists: []reply{list("10")}}, gap: 3 * time.Second, event: func(n int) lw.WatchEvent[*Widget] {
			switch n {
			case 0:
				return added("a", "9")
			case 1:
				return end("10")
			}
			time.Sleep(time.Hour)
			return bookmark("20")
		}}
		inf := lw.NewInformer[*Widget](&closing{sprinkler: src, after: 36 * time.Second}, &lw.Options{OnError: func(error) {}})
		start(t, inf)
		sleep(20 * time.Second)
		if s := inf.Status(); s.Streams != 1 || s.Watches != 1 || s.Phase != lw.PhaseWatching || s.ResourceVersion != "10" {
			t.Errorf("after its list: %+v", s)
		}
		sleep(2 * time.Hour)
		if s := inf.Status(); s.Watches < 3 {
			t.Errorf("after some silence: %+v", s)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		src := &script{lists: []reply{list("10")}, stream: func() stream { return events(added("a", "9"), end("10")) }}
		inf := lw.NewInformer[*Widget](src, &lw.Options{OnError: func(error) {}})
		start(t, inf)
		sleep(11 * time.Minute)
		if s := inf.Status(); s.Watches < 2 || s.Watches > 4 {
			t.Errorf("status: %+v", s)
		}
	})
}
