package store_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// What Status says in each phase.
func TestStatusOfEachPhase(t *testing.T) {
	down := errors.New("connection refused")
	born := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // the beginning of a bubble's time
	type requests = map[string]lw.RequestCount
	open := lw.RequestCount{Started: 1}
	ended := func(code int) lw.RequestCount { return lw.RequestCount{Started: 1, Ended: map[int]uint64{code: 1}} }
	one := lw.StoreStatus{Synced: true, Objects: 1}
	for name, tc := range map[string]struct {
		src  *rig.Script
		mode lw.ListMode
		run  bool
		stop bool
		want lw.Status
		err  error
	}{
		"idle": {&rig.Script{}, lw.ListPages, false, false, lw.Status{Phase: "idle", Mode: lw.ListPages,
			Requests: requests{}}, nil},
		"idle auto": {&rig.Script{}, lw.ListAuto, false, false, lw.Status{Phase: "idle", Mode: lw.ListAuto,
			Requests: requests{}}, nil},
		"listing": {&rig.Script{Lists: []rig.Reply{{Hang: true}}}, lw.ListWhole, true, false,
			lw.Status{Phase: "listing", Mode: lw.ListWhole, Requests: requests{"list": open}}, nil},
		"streaming": {&rig.Script{OnStream: func() rig.Stream { return rig.Events(rig.Added("a", "9")) }}, lw.ListAuto,
			true, false,
			lw.Status{Phase: "streaming", Mode: lw.ListStream, Requests: requests{"stream": open}, Events: counts{"added": 1},
				LastEvent: born}, nil},
		"watching": {&rig.Script{Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))},
			Watches: []rig.Stream{rig.Events(rig.Added("b", "11"), rig.Bookmark("20"))}}, lw.ListPages, true, false,
			lw.Status{Phase: "watching", Mode: lw.ListPages, StoreStatus: lw.StoreStatus{Synced: true, Objects: 2},
				ResourceVersion: "20", Events: counts{"added": 1, "bookmark": 1}, Requests: requests{"list": ended(200),
					"watch": open}, ListCauses: counts{"first": 1}, LastEvent: born, LastList: born}, nil},
		"waiting to list": {&rig.Script{Lists: []rig.Reply{{Err: down}}}, lw.ListPages, true, false,
			lw.Status{Phase: "waiting", Mode: lw.ListPages, Failed: 1, Requests: requests{"list": ended(0)}, Failures: 1,
				FailingSince: born}, down},
		"waiting to watch": {&rig.Script{Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))},
			Watches: []rig.Stream{{Err: down}}}, lw.ListPages, true, false,
			lw.Status{Phase: "waiting", Mode: lw.ListPages, StoreStatus: one, ResourceVersion: "10", Failed: 1,
				Requests: requests{"list": ended(200), "watch": ended(0)}, ListCauses: counts{"first": 1}, Failures: 1,
				FailingSince: born, LastList: born}, down},
		"stopped": {&rig.Script{Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))},
			Watches: []rig.Stream{rig.Forever()}}, lw.ListPages, true, true,
			lw.Status{Phase: "stopped", Mode: lw.ListPages, StoreStatus: one, ResourceVersion: "10", LastList: born,
				Requests: requests{"list": ended(200), "watch": ended(0)}, ListCauses: counts{"first": 1}}, nil},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			inf := lw.NewInformer[*rig.Widget](tc.src, &lw.Options{List: tc.mode, OnError: func(error) {},
				Backoff: func(int) time.Duration { return time.Minute }})
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
			tc.want.Name, tc.want.Handlers = "Widget", []lw.HandlerStatus{} // a reflector has none at all
			rig.Same(t, "status", tc.want, got, cmpopts.IgnoreFields(lw.Status{}, "Err"), missingIsZero,
				cmpopts.EquateApproxTime(time.Millisecond))
			if !errors.Is(got.Err, tc.err) || (tc.err == nil) != (got.Err == nil) {
				t.Errorf("error %v, want %v", got.Err, tc.err)
			}
			cancel()
			if tc.run {
				<-ran
			}
		})
	}
}

// What an informer has asked for and been answered is counted.
func TestStatusCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{{Err: errors.New("refused")}, rig.List("10", rig.Stamped("a", 1, "8")),
				rig.List("20", rig.Stamped("a", 1, "8"), rig.Stamped("c", 1, "20"))},
			Watches: []rig.Stream{
				{}, // the script counts the stream as the first
				{After: 20 * time.Second},
				{Events: []lw.WatchEvent[*rig.Widget]{rig.Bookmark("15")}, After: time.Second, Err: errors.New("gone")},
				rig.Expired(), rig.Forever(),
			},
			OnStream: func() rig.Stream {
				return rig.Stream{After: 3 * time.Second, Err: apierrors.NewBadRequest("no streams")}
			},
		}
		inf := rig.RunFor(t, src, &lw.Options{OnError: func(error) {},
			Backoff: func(int) time.Duration { return time.Second }}, 3*time.Minute)
		got := inf.Status()
		want := map[string]uint64{
			"list": 3, "relists": 1, // refused, the first, and after the 410
			"probe": 1, // after the watch that was silent
			"watch": 4, "stream": 1, "events": 1,
			"failed": 4, // the stream, the list, the watch that broke, and the 410
		}
		counted := map[string]uint64{"relists": rig.Relists(got), "events": rig.Heard(got), "failed": got.Failed}
		for op, n := range got.Requests {
			counted[op] = n.Started
		}
		rig.Same(t, "counts", want, counted)
	})
}

// Without OnError and a Logger failures and the sync are logged by slog's default.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		defer slog.SetDefault(before)
		rig.Run(t, &rig.Script{Lists: []rig.Reply{{Err: errors.New("connection refused")}, rig.List("10")}},
			&lw.Options{Name: "parts", List: lw.ListPages})
		rig.Sleep(time.Minute)
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "level=WARN") ||
			!strings.Contains(got, "level=INFO") ||
			!strings.Contains(got, `error="connection refused"`) {
			t.Errorf("logged %q", got)
		}
	})
}

// An informer without a name is called as its type is.
func TestNameDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, src := range map[string]interface {
			WaitForSync(context.Context) error
		}{
			"lw: Widget: ":                lw.NewInformer(lw.NewMemory[*rig.Widget](), nil),
			"lw: PartialObjectMetadata: ": lw.NewInformer(lw.NewMemory[*metav1.PartialObjectMetadata](), &lw.Options{}),
			"lw: mine: ":                  lw.NewInformer(lw.NewMemory[*rig.Widget](), &lw.Options{Name: "mine"}),
		} {
			if err := src.WaitForSync(rig.Canceled(t)); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v does not begin with %q", err, want)
			}
		}
	})
}

// One set of Options may serve many informers: none changes it.
func TestOptionsAreNotChanged(t *testing.T) {
	opts := &lw.Options{}
	lw.NewInformer(lw.NewMemory[*rig.Widget](), opts)
	rig.Same(t, "options", &lw.Options{}, opts, cmpopts.EquateComparable())
}
