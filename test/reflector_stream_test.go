package lw_test

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
)

// What follows a streamed list, by how the server answers. client-go falls back for one cycle and then tries again, or never;
// this remembers what the server cannot do.
func TestStreamedList(t *testing.T) {
	full := list("20", stamped("a", 2, "19"))
	whole := events(added("a", "19"), end("20"))
	cut := stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}}
	reset := stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}, err: errors.New("reset")}
	refused := stream{err: syscall.ECONNREFUSED}
	unknown := stream{err: errors.New("strconv.Atoi: parsing \"\": invalid syntax")}
	invalid := stream{err: apierrors.NewInvalid(schema.GroupKind{}, "", nil)}
	forbidden := stream{err: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no role"))}
	busy := stream{err: apierrors.NewTooManyRequests("later", 1)}
	internal := stream{err: apierrors.NewInternalError(errors.New("etcd"))}
	paged := func(before ...string) []string { return append(before, "list limit 500", "watch 20") }
	for name, tc := range map[string]struct {
		streams []stream
		log     []string
		mode    lw.ListMode
	}{
		"it ends as it should":       {[]stream{whole}, []string{"stream"}, lw.ListStream},
		"it is empty":                {[]stream{events(end("20"))}, []string{"stream"}, lw.ListStream},
		"invalid":                    {[]stream{invalid}, paged("stream"), lw.ListPages},
		"bad request":                {[]stream{{err: apierrors.NewBadRequest("no streams")}}, paged("stream"), lw.ListPages},
		"forbidden":                  {[]stream{forbidden}, paged("stream"), lw.ListPages},
		"too many requests":          {[]stream{busy, whole}, []string{"stream", "stream"}, lw.ListStream},
		"an internal error, twice":   {[]stream{internal}, paged("stream", "stream"), lw.ListPages},
		"unreachable, then there":    {[]stream{refused, refused, refused, whole}, []string{"stream", "stream", "stream", "stream"}, lw.ListStream},
		"an error that nobody knows": {[]stream{unknown}, paged("stream", "stream"), lw.ListPages},
		"unknown, then there":        {[]stream{unknown, whole}, []string{"stream", "stream"}, lw.ListStream},
		"cut once":                   {[]stream{cut, whole}, []string{"stream", "stream"}, lw.ListStream},
		"cut without an event":       {[]stream{{}}, paged("stream", "stream"), lw.ListPages},
		"cut twice":                  {[]stream{cut}, paged("stream", "stream"), lw.ListPages},
		"reset twice":                {[]stream{{events: reset.events, err: syscall.ECONNRESET}}, paged("stream", "stream"), lw.ListPages},
		"broken twice":               {[]stream{reset}, paged("stream", "stream"), lw.ListPages},
		"no end bookmark":            {[]stream{events(added("a", "9"), bookmark("20"))}, paged("stream"), lw.ListPages},
		"nothing at all":             {[]stream{forever()}, paged("stream"), lw.ListPages},
		"expired":                    {[]stream{expired(), whole}, []string{"stream", "stream"}, lw.ListStream},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				src := &script{lists: []reply{full}, stream: func() stream { n++; return tc.streams[min(n, len(tc.streams))-1] }}
				inf := lw.NewInformer[*Widget](src, &lw.Options{OnError: func(error) {}})
				got := &calls{}
				inf.AddHandler(got.handler())
				start(t, inf)
				sleep(2 * time.Minute)
				mustLog(t, src, tc.log...)
				s := inf.Status()
				if !s.Synced || s.Mode != tc.mode || s.Phase != lw.PhaseWatching || s.Failures != 0 || s.ResourceVersion != "20" {
					t.Errorf("status: %+v", s)
				}
				if told := got.take(); len(told) == 0 || told[len(told)-1] != "synced" {
					t.Errorf("calls: %v", told)
				}
				for _, o := range src.options {
					if o.SendInitialEvents == nil {
						continue
					}
					want := metav1.ListOptions{
						AllowWatchBookmarks: true, SendInitialEvents: o.SendInitialEvents,
						ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, TimeoutSeconds: o.TimeoutSeconds,
					}
					if diff := cmp.Diff(want, o); diff != "" || !*o.SendInitialEvents {
						t.Errorf("options of the stream (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

// What a server cannot do is not tried again on a relist; what it could not do once, because it was cut, is not held against it.
func TestStreamIsRemembered(t *testing.T) {
	whole := stream{events: []lw.WatchEvent[*Widget]{added("a", "19"), end("20")}, after: time.Minute, err: apierrors.NewResourceExpired("x")}
	for name, tc := range map[string]struct {
		streams []stream
		log     []string
	}{
		"refused": {[]stream{{err: apierrors.NewBadRequest("x")}}, []string{"stream", "list limit 500", "watch 20", "list limit 500", "watch 30"}},
		// It may have been the collection that was forbidden; since pages are not, it was the stream.
		"forbidden":         {[]stream{{err: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("x"))}}, []string{"stream", "list limit 500", "watch 20", "list limit 500", "watch 30"}},
		"a state of before": {[]stream{whole, events(added("a", "9"), end("10")), events(added("a", "9"), end("10")), events(added("a", "39"), end("40"))}, []string{"stream", "stream", "stream", "stream"}},
		"cut":               {[]stream{{}, whole, events(end("40"))}, []string{"stream", "stream", "stream"}},
		// Two cuts are too many in a row, not in a life.
		"cut now and then": {[]stream{{}, whole, {}, events(added("a", "39"), end("40"))}, []string{"stream", "stream", "stream", "stream"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				src := &script{
					lists: []reply{list("20"), list("30")},
					// The script counts the stream as the first.
					watches: []stream{{}, expiredAfter(time.Minute), forever()},
					stream:  func() stream { n++; return tc.streams[min(n, len(tc.streams))-1] },
				}
				start(t, lw.NewInformer[*Widget](src, &lw.Options{OnError: func(error) {}}))
				sleep(2 * time.Minute)
				mustLog(t, src, tc.log...)
			})
		})
	}
}

// What is streamed is seen as one state, not before its end; the watch goes on from there on the same stream.
func TestStreamIsOneState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{stream: func() stream {
			return events(added("a", "15"), added("b", "16"), modified(stamped("a", 2, "17")), deleted(stamped("b", 1, "18")), end("20"),
				modified(stamped("a", 3, "21")), bookmark("30"))
		}}
		inf := lw.NewInformer[*Widget](src, nil)
		got := &calls{}
		inf.AddHandler(got.handler())
		start(t, inf)
		sleep(time.Second)
		got.mustBe(t, "add a2", "synced", "update a2 a3")
		mustHold(t, inf.Store(), "30", map[string]int{"a": 3})
		mustLog(t, src, "stream")
		if s := inf.Status(); s.Events != 7 || s.Watches != 1 || s.Lists != 0 || s.LastEvent.IsZero() {
			t.Errorf("status: %+v", s)
		}
	})
}

// A stream that was cut leaves nothing behind: what the store had stays, and is replaced by the next whole list.
func TestCutStreamLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := []stream{
			{events: []lw.WatchEvent[*Widget]{added("a", "9"), end("10")}, after: time.Second, err: apierrors.NewResourceExpired("x")},
			{events: []lw.WatchEvent[*Widget]{added("wrong", "12")}, err: errors.New("reset")},
			events(added("b", "19"), end("20")),
		}
		n := 0
		src := &script{stream: func() stream { n++; return streams[n-1] }}
		inf := lw.NewInformer[*Widget](src, &lw.Options{OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Minute }})
		got := &calls{}
		inf.AddHandler(got.handler())
		start(t, inf)
		sleep(30 * time.Second)
		mustHold(t, inf.Store(), "10", map[string]int{"a": 1})
		sleep(time.Minute)
		mustHold(t, inf.Store(), "20", map[string]int{"b": 1})
		got.mustBe(t, "add a1", "synced", "delete a1", "add b1")
	})
}

// Where only streams are allowed there is no other way, and the pauses grow for as long as they are cut.
func TestStreamOnly(t *testing.T) {
	for name, s := range map[string]stream{
		"cut":     {events: []lw.WatchEvent[*Widget]{added("a", "9")}},
		"broken":  {events: []lw.WatchEvent[*Widget]{added("a", "9")}, err: errors.New("reset")},
		"refused": {err: apierrors.NewBadRequest("no streams")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{stream: func() stream { return s }}
				var asked []int
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListStream, OnError: func(error) {}, Backoff: func(n int) time.Duration {
					asked = append(asked, n)
					return time.Duration(n) * time.Minute
				}})
				start(t, inf)
				sleep(16 * time.Minute)
				if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 6}, asked); diff != "" {
					t.Errorf("backoffs (-want +got):\n%s", diff)
				}
				if s := inf.Status(); s.Synced || s.Lists != 0 || s.Failures != 6 {
					t.Errorf("status: %+v", s)
				}
			})
		})
	}
}

// A cancel during a stream's backoff, or during its initial events, is heeded at once.
func TestCancelDuringStream(t *testing.T) {
	for name, s := range map[string]stream{
		"backoff":        {err: apierrors.NewTooManyRequests("later", 60)},
		"initial events": events(added("a", "9")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{stream: func() stream { return s }}
				inf := lw.NewInformer[*Widget](src, &lw.Options{OnError: func(error) {}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- inf.Run(ctx) }()
				sleep(5 * time.Second)
				cancel()
				before := time.Now()
				if err := <-done; err != nil || time.Since(before) != 0 {
					t.Errorf("Run: %v after %v", err, time.Since(before))
				}
			})
		})
	}
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

// Two cut streams in a row are enough to ask for pages, and at once; but one cut does not count any more once a stream was
// whole.
func TestCutStreamsAreCountedInARow(t *testing.T) {
	cut := stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}}
	whole := stream{events: []lw.WatchEvent[*Widget]{added("a", "9"), end("10")}, after: time.Minute, err: expired().err}
	corrupt := stream{err: apierrors.NewInternalError(errors.New("etcd"))}
	for name, tc := range map[string]struct {
		streams []stream
		lists   []reply
		want    []string
	}{
		"one, then whole, then one": {
			[]stream{cut, whole, cut, whole, cut, forever()}, []reply{list("10", stamped("a", 1, "9"))},
			[]string{"stream", "stream", "stream", "stream", "stream", "stream"},
		},
		"two in a row": {
			[]stream{cut, cut}, []reply{list("10", stamped("a", 1, "9"))},
			[]string{"stream", "stream", "list limit 500", "watch 10"},
		},
		"two that the server failed at, and pages that fail": {
			[]stream{corrupt, corrupt, corrupt, whole}, []reply{{err: apierrors.NewInternalError(errors.New("etcd"))}},
			[]string{"stream", "stream", "list limit 500", "stream", "stream"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				src := &script{lists: tc.lists, watches: []stream{forever()}}
				src.stream = func() stream { n++; return tc.streams[min(n, len(tc.streams))-1] }
				streamed(t, src, 4*time.Minute)
				got := src.log()
				mustBegin(t, got, tc.want)
				at := src.requests()
				for i, what := range got[:len(tc.want)] {
					if i > 0 && what == "list limit 500" && at[i].Sub(at[i-1]) > 5*time.Second {
						t.Errorf("pages were asked for %v after the stream was cut, want at once", at[i].Sub(at[i-1]))
					}
				}
			})
		})
	}
}

// A streamed list that ends at a version before one of its events is refused: the store would report less than it shows.
func TestStreamEndsBeforeItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := 0
		src := &script{
			stream: func() stream {
				if streams++; streams == 1 {
					return events(added("a", "9"), end("5"))
				}
				return events(added("a", "9"), end("9"))
			},
			watch: forever,
		}
		var errs errorLog
		inf := lw.NewInformer[*Widget](src, &lw.Options{OnError: errs.add, Backoff: func(int) time.Duration { return time.Second }})
		start(t, inf)
		sleep(time.Minute)
		errs.mustHave(t, "the initial events end at resource version 5, but 9 came before")
		mustHold(t, inf.Store(), "9", map[string]int{"a": 1})
	})
}
