package lw_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// What Status says in each phase.
func TestStatusOfEachPhase(t *testing.T) {
	down := errors.New("connection refused")
	born := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // the beginning of a bubble's time
	for name, tc := range map[string]struct {
		src  *script
		mode lw.ListMode
		run  bool
		stop bool
		want lw.Status
		err  error
	}{
		"idle":      {&script{}, lw.ListPages, false, false, lw.Status{Phase: lw.Idle, Mode: lw.ListPages}, nil},
		"idle auto": {&script{}, lw.ListAuto, false, false, lw.Status{Phase: lw.Idle, Mode: lw.ListAuto}, nil},
		"listing":   {&script{lists: []reply{{hang: true}}}, lw.ListWhole, true, false, lw.Status{Phase: lw.Listing, Mode: lw.ListWhole, Lists: 1}, nil},
		"streaming": {&script{stream: func() stream { return events(added("a", "9")) }}, lw.ListAuto, true, false,
			lw.Status{Phase: lw.Streaming, Mode: lw.ListStream, Watches: 1, Events: 1, LastEvent: born}, nil},
		"watching": {&script{lists: []reply{list("10", stamped("a", 1, "9"))}, watches: []stream{events(added("b", "11"), bookmark("20"))}}, lw.ListPages, true, false,
			lw.Status{Phase: lw.Watching, Mode: lw.ListPages, Synced: true, ResourceVersion: "20", Objects: 2, Lists: 1, Watches: 1, Events: 2, LastEvent: born}, nil},
		"waiting to list": {&script{lists: []reply{{err: down}}}, lw.ListPages, true, false,
			lw.Status{Phase: lw.Waiting, Mode: lw.ListPages, Lists: 1, Failures: 1, Since: born}, down},
		"waiting to watch": {&script{lists: []reply{list("10", stamped("a", 1, "9"))}, watches: []stream{{err: down}}}, lw.ListPages, true, false,
			lw.Status{Phase: lw.Waiting, Mode: lw.ListPages, Synced: true, ResourceVersion: "10", Objects: 1, Lists: 1, Watches: 1, Failures: 1, Since: born}, down},
		"stopped": {&script{lists: []reply{list("10", stamped("a", 1, "9"))}, watches: []stream{forever()}}, lw.ListPages, true, true,
			lw.Status{Phase: lw.Stopped, Mode: lw.ListPages, Synced: true, ResourceVersion: "10", Objects: 1, Lists: 1, Watches: 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := lw.NewInformer[*Widget](tc.src, &lw.Options{List: tc.mode, OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Minute }})
				ctx, cancel := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				if tc.run {
					go func() { ran <- inf.Run(ctx) }()
					synctest.Wait()
				}
				if tc.stop {
					cancel()
					synctest.Wait()
				}
				got := inf.Status()
				tc.want.Informer = "Widget"
				if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(lw.Status{}, "Err"), cmpopts.EquateApproxTime(time.Millisecond)); diff != "" {
					t.Errorf("status (-want +got):\n%s", diff)
				}
				if !errors.Is(got.Err, tc.err) || (tc.err == nil) != (got.Err == nil) {
					t.Errorf("error %v, want %v", got.Err, tc.err)
				}
				cancel()
				if tc.run {
					<-ran
				}
			})
		})
	}
}

// What a wait promises, Status shows, however early it is asked. OnError is called at the worst moments: when the list that makes
// the sync is in the store, and has been told of.
func TestStatusAfterWaitForSync(t *testing.T) {
	broken := &lw.Error{Op: "decode", Key: key("b"), Err: errors.New("not a widget")}
	twice := stamped("a", 1, "9")
	last := reply{obj: []*Widget{twice, twice}, bad: []error{broken}, meta: metav1.ListMeta{ResourceVersion: "10"}}
	for name, tc := range map[string]struct {
		src   *script
		epoch int
	}{
		"at first":         {&script{lists: []reply{{err: errors.New("connection refused")}, last}}, 0},
		"in another epoch": {&script{lists: []reply{list("20", twice), last}, watches: []stream{expired(), forever()}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var inf *lw.Informer[*Widget]
				looked := 0
				inf = lw.NewInformer[*Widget](tc.src, &lw.Options{List: lw.ListPages, OnError: func(err error) {
					if !strings.Contains(err.Error(), "twice") {
						return
					}
					looked++
					if err := inf.WaitForSync(canceled(t)); err != nil {
						t.Errorf("WaitForSync: %v", err)
					}
					want := lw.Status{
						Informer: "Widget", Phase: lw.Watching, Synced: true, ResourceVersion: "10", Objects: 1, Mode: lw.ListPages,
						SetAside: map[lw.Key]error{key("b"): broken}, Epoch: tc.epoch,
					}
					ignored := cmpopts.IgnoreFields(lw.Status{}, "Lists", "Watches")
					if diff := cmp.Diff(want, inf.Status(), ignored, cmpopts.EquateErrors()); diff != "" {
						t.Errorf("status (-want +got):\n%s", diff)
					}
				}})
				start(t, inf)
				sleep(time.Hour)
				if looked != 1 {
					t.Errorf("looked %d times", looked)
				}
			})
		})
	}
}

// The same of a wait for a version: an object that it covers is not set aside any more, and the server makes progress.
// DetectMutation calls OnError between the change of the store and all else.
func TestStatusAfterWaitForResourceVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := lw.WatchEvent[*Widget]{Type: watch.Modified, ResourceVersion: "11", Err: &lw.Error{Op: "decode", Key: key("a"), Err: errors.New("not a widget")}}
		good := lw.WatchEvent[*Widget]{Type: watch.Modified, Object: stamped("a", 3, "12"), ResourceVersion: "12"}
		var inf *lw.Informer[*Widget]
		watches := 0
		src := &script{lists: []reply{list("10", stamped("a", 1, "9"))}, watch: func() stream {
			switch watches++; watches {
			case 1:
				return stream{events: []lw.WatchEvent[*Widget]{broken}, err: errors.New("reset")}
			case 2, 3:
				return stream{err: errors.New("connection refused")}
			}
			if s := inf.Status(); len(s.SetAside) != 1 || s.Failures != 2 || s.Since.IsZero() {
				t.Errorf("status before: %+v", s)
			}
			w, _ := inf.Store().Get(key("a"))
			w.Size = 2 // which nobody may, and the event that follows finds
			return stream{events: []lw.WatchEvent[*Widget]{good}, open: true}
		}}
		looked := 0
		backoff := func(int) time.Duration { return 700 * time.Millisecond }
		inf = lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, DetectMutation: true, Backoff: backoff, OnError: func(err error) {
			if !strings.Contains(err.Error(), "mutation") {
				return
			}
			looked++
			if err := inf.WaitForResourceVersion(canceled(t), "12"); err != nil {
				t.Errorf("WaitForResourceVersion: %v", err)
			}
			if s := inf.Status(); s.SetAside != nil || s.Failures != 0 || s.Err != nil || !s.Since.IsZero() {
				t.Errorf("status: %+v", s)
			}
		}})
		start(t, inf)
		sleep(time.Minute)
		if looked != 1 {
			t.Errorf("looked %d times", looked)
		}
	})
}

// A wait that ends because of an object that is set aside names why, however early: also where an index panicked at it.
func TestWaitSaysWhatIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		waited := make(chan error, 1)
		var got error
		inf := lw.NewInformer(m, &lw.Options{OnPanic: func(*lw.Panic) {}, OnError: func(error) {
			// The wait may end from here on. If it has, it must have said why.
			time.Sleep(time.Millisecond)
			select {
			case got = <-waited:
			default:
			}
		}})
		lw.NewIndex(inf, func(w *Widget) int { return 1 / (w.Size - 2) })
		start(t, inf)
		synctest.Wait()
		go func() { waited <- inf.WaitForResourceVersion(t.Context(), "3") }()
		synctest.Wait()
		w := update(t, m, "a", 2)
		if w.ResourceVersion != "3" {
			t.Fatalf("the version is %s", w.ResourceVersion)
		}
		sleep(time.Second)
		if got == nil {
			got = <-waited
		}
		var p *lw.Panic
		if !errors.As(got, &p) || p.Key != key("a") {
			t.Errorf("WaitForResourceVersion: %v", got)
		}
	})
}

// What a readiness probe sees while a server goes away and comes back.
func TestStatusHealthy(t *testing.T) {
	down := errors.New("connection refused")
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		m.Fail(down)
		inf := lw.NewInformer(m, &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(int) time.Duration { return 7 * time.Second }})
		healthy := func(when, want string, is error) {
			t.Helper()
			synctest.Wait()
			err := inf.Status().Healthy()
			if got := fmt.Sprint(err); got != want || is != nil && !errors.Is(err, is) {
				t.Errorf("%s:\n%s\nwant\n%s", when, got, want)
			}
		}
		healthy("before Run", "lw: Widget: not synced, since Run has not been called", nil)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		healthy("never synced", "lw: Widget: not synced (waiting, mode pages): list: connection refused", down)
		m.Fail(nil)
		sleep(8 * time.Second)
		healthy("synced", "<nil>", nil)
		sleep(time.Minute)

		m.Fail(down)
		m.Disconnect()
		since := time.Now().Format(time.RFC3339)
		sleep(59 * time.Second)
		healthy("a blip", "<nil>", nil)
		if s := inf.Status(); s.Failures == 0 || !errors.Is(s.Err, down) {
			t.Errorf("status in a blip: %+v", s)
		}
		sleep(2 * time.Second)
		healthy("an outage", "lw: Widget: out of date since "+since+": list (failure 9 in a row): connection refused", down)
		m.Fail(nil)
		sleep(20 * time.Second)
		healthy("after it", "<nil>", nil)
		cancel()
		<-ran
		healthy("stopped", "lw: Widget: stopped", lw.ErrStopped)
	})
}

// A whole list is progress: what failed before is over. The pauses go on to grow where watches fail after each list.
func TestListEndsFailures(t *testing.T) {
	for _, mode := range []lw.ListMode{lw.ListPages, lw.ListStream} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := 0
				var pauses []int
				fails := func() bool { refused++; return refused <= 3 }
				end := bookmark("10")
				end.InitialEventsEnd = true
				src := &script{
					list: func() reply {
						if fails() {
							return reply{err: errors.New("connection refused")}
						}
						return list("10", stamped("a", 1, "9"))
					},
					stream: func() stream {
						if fails() {
							return stream{err: errors.New("connection refused")}
						}
						return stream{events: []lw.WatchEvent[*Widget]{end}, after: 5 * time.Second, err: apierrors.NewResourceExpired("too old")}
					},
					watch: func() stream { return expiredAfter(5 * time.Second) },
				}
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: mode, OnError: func(error) {}, Backoff: func(n int) time.Duration {
					pauses = append(pauses, n)
					return time.Second
				}})
				start(t, inf)
				if err := inf.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if s := inf.Status(); s.Failures != 0 || s.Err != nil || !s.Since.IsZero() || s.Healthy() != nil {
					t.Errorf("status after a whole list: %+v, %v", s, s.Healthy())
				}
				sleep(20 * time.Second)
				if len(pauses) < 5 || !slices.IsSorted(pauses) || pauses[0] != 1 || pauses[4] < 5 {
					t.Errorf("pauses after so many failures: %v", pauses)
				}
			})
		})
	}
}

// A Status is its caller's: what happens later, or to its map, changes nothing.
func TestStatusIsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{lists: []reply{{obj: []*Widget{stamped("a", 1, "9")}, bad: []error{&lw.Error{Op: "decode", Key: key("b"), Err: errors.New("x")}}, meta: metav1.ListMeta{ResourceVersion: "10"}}}}
		inf, _ := paged(t, src, time.Second)
		delete(inf.Status().SetAside, key("b"))
		if len(inf.Status().SetAside) != 1 {
			t.Error("a caller changed the informer's own map")
		}
	})
}

func TestPhaseAndModeStrings(t *testing.T) {
	var got []string
	for p := lw.Idle; p <= lw.Stopped+1; p++ {
		got = append(got, p.String())
	}
	for m := lw.ListAuto; m <= lw.ListWhole+1; m++ {
		got = append(got, m.String())
	}
	want := []string{"idle", "listing", "streaming", "watching", "waiting", "stopped", "unknown", "auto", "stream", "pages", "whole", "unknown"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// meter is a Metrics that writes down what it is told.
type meter struct{ got []string }

func (m *meter) Request(informer, op string, took time.Duration, err error) {
	m.got = append(m.got, fmt.Sprintf("%s %s %v %v", informer, op, took, err))
}

func (m *meter) Replaced(informer string, objects, changed int) {
	m.got = append(m.got, fmt.Sprintf("%s replaced %d %d", informer, objects, changed))
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("refused")
		errNoStreams := apierrors.NewBadRequest("no streams")
		src := &script{
			lists: []reply{{err: down}, list("10", stamped("a", 1, "8"), stamped("b", 1, "9")), list("20", stamped("a", 1, "8"), stamped("b", 2, "19"), stamped("c", 1, "20"))},
			watches: []stream{
				{}, // the script counts the stream as the first
				{after: 20 * time.Second},
				{events: []lw.WatchEvent[*Widget]{bookmark("15")}, after: time.Second, err: errors.New("gone")},
				expired(), forever(),
			},
			stream: func() stream { return stream{after: 3 * time.Second, err: errNoStreams} },
		}
		m := &meter{}
		inf := lw.NewInformer[*Widget](src, &lw.Options{Metrics: m, OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Second }})
		start(t, inf)
		sleep(3 * time.Minute)
		want := []string{
			"Widget stream 3s " + errNoStreams.Error(),
			"Widget list 0s refused",
			"Widget list 0s <nil>", "Widget replaced 2 2",
			"Widget watch 20s <nil>", "Widget list 0s <nil>", // it was silent, so the server is asked for its version
			"Widget watch 1s gone",
			"Widget watch 0s too old",
			"Widget list 0s <nil>", "Widget replaced 3 2",
		}
		if diff := cmp.Diff(want, m.got); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
	})
}

// Without OnError failures are logged, by Options.Logger if there is one, else by slog's default.
func TestLogger(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint("own ", own), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&out, nil))
				opts := &lw.Options{Name: "parts", List: lw.ListPages}
				if own {
					opts.Logger = logger
				} else {
					before := slog.Default()
					slog.SetDefault(logger)
					defer slog.SetDefault(before)
				}
				src := &script{lists: []reply{{err: errors.New("connection refused")}, list("10")}}
				start(t, lw.NewInformer[*Widget](src, opts))
				sleep(time.Minute)
				if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") ||
					!strings.Contains(got, "lw: parts: list: connection refused") {
					t.Errorf("logged %q", got)
				}
			})
		})
	}
}

// An informer without a name is called as its type is.
func TestNameDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, src := range map[string]interface {
			WaitForSync(context.Context) error
		}{
			"lw: Widget: ":                lw.NewInformer(lw.NewMemory[*Widget](), nil),
			"lw: PartialObjectMetadata: ": lw.NewInformer(lw.NewMemory[*metav1.PartialObjectMetadata](), &lw.Options{}),
			"lw: mine: ":                  lw.NewInformer(lw.NewMemory[*Widget](), &lw.Options{Name: "mine"}),
		} {
			if err := src.WaitForSync(canceled(t)); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v does not begin with %q", err, want)
			}
		}
	})
}

// One set of Options may serve many informers: none changes it.
func TestOptionsAreNotChanged(t *testing.T) {
	opts := &lw.Options{}
	lw.NewInformer(lw.NewMemory[*Widget](), opts)
	if diff := cmp.Diff(&lw.Options{}, opts, cmpopts.EquateComparable()); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}
