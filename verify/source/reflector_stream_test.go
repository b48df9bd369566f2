package source_test

import (
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
	"github.com/go-lw/lw/internal/verify/rig"
)

// What follows a streamed list, by how the server answers. client-go falls back for one cycle and
// then tries again, or never; this remembers what the server cannot do.
func TestStreamedList(t *testing.T) {
	full := listed("20", "a2@19")
	whole := rig.Events(rig.Added("a", "19"), rig.End("20"))
	cut := rig.Stream{Events: []widgetEvent{rig.Added("a", "9")}}
	reset := rig.Stream{Events: []widgetEvent{rig.Added("a", "9")}, Err: errors.New("reset")}
	refused := rig.Stream{Err: syscall.ECONNREFUSED}
	unknown := rig.Stream{Err: errors.New("strconv.Atoi: parsing \"\": invalid syntax")}
	invalid := rig.Stream{Err: apierrors.NewInvalid(schema.GroupKind{}, "", nil)}
	forbidden := rig.Stream{Err: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no role"))}
	busy := rig.Stream{Err: apierrors.NewTooManyRequests("later", 1)}
	internal := rig.Stream{Err: apierrors.NewInternalError(errors.New("etcd"))}
	paged := func(before ...string) []string { return append(before, "list limit 500", "watch 20") }
	for name, tc := range map[string]struct {
		streams []rig.Stream
		log     []string
		mode    lw.ListMode
	}{
		"it ends as it should": {[]rig.Stream{whole}, []string{"stream"}, lw.ListStream},
		"it is empty":          {[]rig.Stream{rig.Events(rig.End("20"))}, []string{"stream"}, lw.ListStream},
		"invalid":              {[]rig.Stream{invalid}, paged("stream"), lw.ListPages},
		"bad request": {[]rig.Stream{{Err: apierrors.NewBadRequest("no streams")}}, paged("stream"),
			lw.ListPages},
		"forbidden":                {[]rig.Stream{forbidden}, paged("stream"), lw.ListPages},
		"too many requests":        {[]rig.Stream{busy, whole}, []string{"stream", "stream"}, lw.ListStream},
		"an internal error, twice": {[]rig.Stream{internal}, paged("stream", "stream"), lw.ListPages},
		"unreachable, then there": {[]rig.Stream{refused, refused, refused, whole}, []string{"stream", "stream", "stream",
			"stream"}, lw.ListStream},
		"an error that nobody knows": {[]rig.Stream{unknown}, paged("stream", "stream"), lw.ListPages},
		"unknown, then there":        {[]rig.Stream{unknown, whole}, []string{"stream", "stream"}, lw.ListStream},
		"cut once":                   {[]rig.Stream{cut, whole}, []string{"stream", "stream"}, lw.ListStream},
		"cut without an event":       {[]rig.Stream{{}}, paged("stream", "stream"), lw.ListPages},
		"cut twice":                  {[]rig.Stream{cut}, paged("stream", "stream"), lw.ListPages},
		"reset twice": {[]rig.Stream{{Events: reset.Events, Err: syscall.ECONNRESET}},
			paged("stream", "stream"), lw.ListPages},
		"broken twice": {[]rig.Stream{reset}, paged("stream", "stream"), lw.ListPages},
		"no end bookmark": {[]rig.Stream{rig.Events(rig.Added("a", "9"), rig.Bookmark("20"))}, paged("stream"),
			lw.ListPages},
		"nothing at all": {[]rig.Stream{rig.Forever()}, paged("stream"), lw.ListPages},
		"expired":        {[]rig.Stream{rig.Expired(), whole}, []string{"stream", "stream"}, lw.ListStream},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: []rig.Reply{full}, OnStream: oneByOne(tc.streams...)}
			inf, got := told(t, src, &lw.Options{OnError: func(error) {}})
			rig.Sleep(2 * time.Minute)
			rig.MustLog(t, src, tc.log...)
			mustSay(t, inf, func(s lw.Status) bool { return s.Synced && s.Mode == tc.mode && s.ResourceVersion == "20" })
			mustSay(t, inf, func(s lw.Status) bool { return s.Phase == "watching" && s.Failures == 0 })
			if told := got.Take(); len(told) == 0 || told[len(told)-1] != "synced" {
				t.Errorf("calls: %v", told)
			}
			for _, o := range src.Options {
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
	}
}

// What a server cannot do is not tried again on a relist; what it could not do once, because it was
// cut, is not held against it.
func TestStreamIsRemembered(t *testing.T) {
	whole := expiring(time.Minute, rig.Added("a", "19"), rig.End("20"))
	for name, tc := range map[string]struct {
		streams []rig.Stream
		log     []string
	}{
		"refused": {[]rig.Stream{{Err: apierrors.NewBadRequest("x")}}, []string{"stream", "list limit 500", "watch 20",
			"list limit 500", "watch 30"}},
		// It may have been the collection that was forbidden; since pages are not, it was the stream.
		"forbidden": {[]rig.Stream{{Err: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("x"))}},
			[]string{"stream", "list limit 500", "watch 20", "list limit 500", "watch 30"}},
		"a state of before": {[]rig.Stream{whole, rig.Events(rig.Added("a", "9"), rig.End("10")),
			rig.Events(rig.Added("a", "9"), rig.End("10")), rig.Events(rig.Added("a", "39"), rig.End("40"))},
			[]string{"stream", "stream", "stream", "stream"}},
		"cut": {[]rig.Stream{{}, whole, rig.Events(rig.End("40"))}, []string{"stream", "stream", "stream"}},
		// Two cuts are too many in a row, not in a life.
		"cut now and then": {[]rig.Stream{{}, whole, {}, rig.Events(rig.Added("a", "39"), rig.End("40"))},
			[]string{"stream", "stream", "stream", "stream"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{
				Lists: []rig.Reply{rig.List("20"), rig.List("30")},
				// The script counts the stream as the first.
				Watches:  []rig.Stream{{}, rig.ExpiredAfter(time.Minute), rig.Forever()},
				OnStream: oneByOne(tc.streams...),
			}
			rig.RunFor(t, src, &lw.Options{OnError: func(error) {}}, 2*time.Minute)
			rig.MustLog(t, src, tc.log...)
		})
	}
}

// What is streamed is seen as one state, at its end; the watch goes on on the same stream.
func TestStreamIsOneState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{OnStream: func() rig.Stream {
			return rig.Events(rig.Added("a", "15"), rig.Added("b", "16"), modified("a2@17"), deleted("b1@18"), rig.End("20"),
				modified("a3@21"), rig.Bookmark("30"))
		}}
		inf, got := told(t, src, nil)
		rig.Sleep(time.Second)
		got.MustBe(t, "add a2", "synced", "update a2 a3")
		rig.MustHold(t, inf.Store(), "30", map[string]int{"a": 3})
		rig.MustLog(t, src, "stream")
		mustSay(t, inf, func(s lw.Status) bool { return rig.Heard(s) == 7 && rig.Watches(s) == 1 && !s.LastEvent.IsZero() })
		rig.Same(t, "lists", 0, inf.Status().Requests["list"].Started)
	})
}

// A stream that was cut leaves nothing: what the store had stays until the next whole list.
func TestCutStreamLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{OnStream: oneByOne(
			expiring(time.Second, rig.Added("a", "9"), rig.End("10")),
			rig.Stream{Events: []widgetEvent{rig.Added("wrong", "12")}, Err: errors.New("reset")},
			rig.Events(rig.Added("b", "19"), rig.End("20")),
		)}
		inf, got := told(t, src, &lw.Options{OnError: func(error) {}, Backoff: every(time.Minute)})
		rig.Sleep(30 * time.Second)
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1})
		rig.Sleep(time.Minute)
		rig.MustHold(t, inf.Store(), "20", map[string]int{"b": 1})
		got.MustBe(t, "add a1", "synced", "delete a1", "add b1")
	})
}

// Where only streams are allowed the pauses grow for as long as they are cut.
func TestStreamOnly(t *testing.T) {
	for name, s := range map[string]rig.Stream{
		"cut":     {Events: []widgetEvent{rig.Added("a", "9")}},
		"broken":  {Events: []widgetEvent{rig.Added("a", "9")}, Err: errors.New("reset")},
		"refused": {Err: apierrors.NewBadRequest("no streams")},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{OnStream: func() rig.Stream { return s }}
			var asked rig.Pacer
			inf := rig.RunFor(t, src, &lw.Options{List: lw.ListStream, OnError: func(error) {},
				Backoff: asked.Grow(time.Minute)}, 16*time.Minute)
			asked.MustBe(t, 1, 2, 3, 4, 5, 6)
			mustSay(t, inf, func(s lw.Status) bool { return !s.Synced && s.Failures == 6 && s.Requests["list"].Started == 0 })
		})
	}
}

// A cancel during a stream's backoff, or during its initial events, is heeded at once.
func TestCancelDuringStream(t *testing.T) {
	for name, s := range map[string]rig.Stream{
		"backoff":        {Err: apierrors.NewTooManyRequests("later", 60)},
		"initial events": rig.Events(rig.Added("a", "9")),
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{OnStream: func() rig.Stream { return s }}
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{OnError: func(error) {}})
			stop := rig.Begin(t, inf)
			rig.Sleep(5 * time.Second)
			before := time.Now()
			stop()
			rig.Same(t, "time until Run ended", 0, time.Since(before))
		})
	}
}

// The server counts a watch's timeout from the request on: one that has streamed its list for a
// while ends no earlier for that.
func TestTimeoutOfAStream(t *testing.T) {
	for range 20 { // the timeout is drawn
		synctest.Test(t, func(t *testing.T) {
			src := &sprinkler{Script: rig.Script{Lists: []rig.Reply{rig.List("10")}}, gap: 5 * time.Second,
				event: func(n int) widgetEvent {
					switch n {
					case 0, 1, 2:
						return rig.Added("w"+strconv.Itoa(n), strconv.Itoa(9-n))
					case 3:
						return rig.End("10")
					default:
						return rig.Bookmark(strconv.Itoa(10 + n))
					}
				}}
			inf := rig.RunFor(t, closing(src, 42*time.Second), &lw.Options{WatchTimeout: 20 * time.Second,
				OnError: func(err error) { t.Error(err) }}, 58*time.Second)
			mustSay(t, inf, func(s lw.Status) bool { return rig.Watches(s) == 2 && s.Phase == "watching" })
			rig.Same(t, "probes", 0, inf.Status().Requests["probe"].Started)
		})
	}
}

// What follows a stream that failed for no known reason is believed only if it works: pages that
// fail as well say nothing of streams.
func TestStreamIsTriedAgainWherePagesFail(t *testing.T) {
	for name, err := range map[string]error{"an unknown error": errors.New("what"),
		"an internal error": apierrors.NewInternalError(errors.New("etcd"))} {
		rig.Subtest(t, name, func(t *testing.T) {
			failing, whole := rig.Stream{Err: err}, rig.Events(rig.Added("a", "19"), rig.End("20"))
			src := &rig.Script{Lists: []rig.Reply{{Err: errors.New("down")}}, OnStream: oneByOne(failing, failing, whole)}
			inf := rig.RunFor(t, src, &lw.Options{OnError: func(error) {}}, time.Minute)
			rig.MustLog(t, src, "stream", "stream", "list limit 500", "stream")
			mustSay(t, inf, func(s lw.Status) bool { return s.Synced && s.Mode == lw.ListStream })
		})
	}
}

// An outage in which streams are cut and pages fail is one: its pauses grow.
func TestCutStreamsAreNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			OnList: func() rig.Reply { return rig.Reply{Err: syscall.ECONNREFUSED} },
			OnStream: func() rig.Stream {
				return rig.Stream{Events: []widgetEvent{rig.Added("a", "9")}, Err: syscall.ECONNRESET}
			},
		}
		var asked rig.Pacer
		rig.RunFor(t, src, &lw.Options{OnError: func(error) {}, Backoff: asked.Pause(time.Minute)}, 5*time.Minute+time.Second)
		asked.MustBe(t, 1, 2, 3, 4, 5, 6)
	})
}

// After its list a stream is a watch as any: counted once, and ended if silent beyond its time.
func TestStreamBecomesAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &sprinkler{Script: rig.Script{Lists: []rig.Reply{rig.List("10")}}, gap: 3 * time.Second,
			event: func(n int) widgetEvent {
				switch n {
				case 0:
					return rig.Added("a", "9")
				case 1:
					return rig.End("10")
				}
				time.Sleep(time.Hour)
				return rig.Bookmark("20")
			}}
		inf := rig.RunFor(t, closing(src, 36*time.Second), rig.Quiet(), 20*time.Second)
		mustSay(t, inf, func(s lw.Status) bool { return s.Requests["stream"].Started == 1 && rig.Watches(s) == 1 })
		mustSay(t, inf, func(s lw.Status) bool { return s.Phase == "watching" && s.ResourceVersion == "10" })
		rig.Sleep(2 * time.Hour)
		mustSay(t, inf, func(s lw.Status) bool { return rig.Watches(s) >= 3 })
	})
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{Lists: []rig.Reply{rig.List("10")},
			OnStream: func() rig.Stream { return rig.Events(rig.Added("a", "9"), rig.End("10")) }}
		inf := rig.RunFor(t, src, &lw.Options{OnError: func(error) {}}, 11*time.Minute)
		mustSay(t, inf, func(s lw.Status) bool { return rig.Watches(s) >= 2 && rig.Watches(s) <= 4 })
	})
}

// Two cut streams in a row are enough to ask for pages, and at once; but one cut does not count any
// more once a stream was whole.
func TestCutStreamsAreCountedInARow(t *testing.T) {
	cut := rig.Stream{Events: []widgetEvent{rig.Added("a", "9")}}
	whole := expiring(time.Minute, rig.Added("a", "9"), rig.End("10"))
	corrupt := rig.Stream{Err: apierrors.NewInternalError(errors.New("etcd"))}
	for name, tc := range map[string]struct {
		streams []rig.Stream
		lists   []rig.Reply
		want    []string
	}{
		"one, then whole, then one": {
			[]rig.Stream{cut, whole, cut, whole, cut, rig.Forever()}, []rig.Reply{listed("10", "a1@9")},
			[]string{"stream", "stream", "stream", "stream", "stream", "stream"},
		},
		"two in a row": {[]rig.Stream{cut, cut}, []rig.Reply{listed("10", "a1@9")},
			[]string{"stream", "stream", "list limit 500", "watch 10"}},
		"two that the server failed at, and pages that fail": {
			[]rig.Stream{corrupt, corrupt, corrupt, whole}, []rig.Reply{{Err: apierrors.NewInternalError(errors.New("etcd"))}},
			[]string{"stream", "stream", "list limit 500", "stream", "stream"},
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: tc.lists, Watches: []rig.Stream{rig.Forever()}, OnStream: oneByOne(tc.streams...)}
			rig.RunFor(t, src, &lw.Options{OnError: func(error) {}, Backoff: every(20 * time.Second)}, 4*time.Minute)
			got := src.Log()
			mustBegin(t, got, tc.want)
			at := src.Requests()
			for i, what := range got[:len(tc.want)] {
				if i > 0 && what == "list limit 500" && at[i].Sub(at[i-1]) > 5*time.Second {
					t.Errorf("pages were asked for %v after the stream was cut, want at once", at[i].Sub(at[i-1]))
				}
			}
		})
	}
}

// A streamed list that ends before one of its events is refused.
func TestStreamEndsBeforeItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{OnStream: oneByOne(
			rig.Events(rig.Added("a", "9"), rig.End("5")), rig.Events(rig.Added("a", "9"), rig.End("9")),
		)}
		var errs rig.Errors
		inf := rig.RunFor(t, src, &lw.Options{OnError: errs.Add, Backoff: every(time.Second)}, time.Minute)
		errs.MustHave(t, "the initial events end at resource version 5, but 9 came before")
		rig.MustHold(t, inf.Store(), "9", map[string]int{"a": 1})
	})
}
