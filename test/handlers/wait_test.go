package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/test/internal/inside"
)

// A wait in vain, for a version or for a state of an object, says what it waits for and what the
// informer is doing instead. What it wraps is found, and nothing is left of it.
func TestWaitsSayWhy(t *testing.T) {
	down, never := errors.New("connection refused"), errors.New("out of patience")
	bad := rig.BadEvent("a", "11")
	full := []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))}
	const version, condition = "waiting for resource version 12", "waiting for a condition of default/a, which does not "
	for name, tc := range map[string]struct {
		src            *rig.Script
		run            bool
		version, state string // what the wait for each says
		is             []error
	}{
		"before Run": {&rig.Script{}, false, version + ": not synced, since Run has not been called: out of patience",
			"not synced, since Run has not been called: out of patience", []error{never}},
		"before the sync": {&rig.Script{Lists: []rig.Reply{{Err: down}}}, true,
			version + ": not synced (waiting, mode pages): list: connection refused: out of patience",
			"not synced (waiting, mode pages): list: connection refused: out of patience", []error{never, down}},
		"nothing happens": {&rig.Script{Lists: full}, true,
			version + " at 10, until an object of this collection or a bookmark has it (watching): out of patience",
			condition + "meet it at 10 (watching): out of patience", []error{never}},
		"the server is gone": {&rig.Script{Lists: []rig.Reply{rig.List("10")}, Watches: []rig.Stream{{Err: down}}}, true,
			version + " at 10, until an object of this collection or a bookmark has it (waiting): watch: connection refused: out of patience",
			condition + "exist at 10 (waiting): watch: connection refused: out of patience", []error{never, down}},
		"it cannot be read": {&rig.Script{Lists: full, Watches: []rig.Stream{rig.Events(bad)}}, true, "",
			condition + "meet it at 10 (watching): out of patience\n" + bad.Err.Error(), []error{never, bad.Err}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			opts := &lw.Options{List: lw.ListPages, OnError: func(error) {}, Backoff: func(int) time.Duration { return time.Hour }}
			inf := lw.NewInformer[*rig.Widget](tc.src, opts)
			if tc.run {
				rig.Start(t, inf)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, never)
			defer cancel()
			mustSay := func(err error, want string) {
				t.Helper()
				if got := fmt.Sprint(err); got != "lw: Widget: "+want {
					t.Errorf("it said\n%s\nwant\n%s", got, want)
				}
				for _, is := range tc.is {
					if !errors.Is(err, is) {
						t.Errorf("it is not %v", is)
					}
				}
			}
			waited := make(chan error, 1)
			go func() { waited <- inf.WaitForResourceVersion(ctx, "12") }()
			got, err := lw.WaitFor(ctx, inf, rig.Key("a"), func(w *rig.Widget) bool { return w != nil && w.Size > 1 })
			if mustSay(err, tc.state); got != nil {
				t.Errorf("it returned %v", got)
			}
			if err := <-waited; tc.version != "" {
				mustSay(err, tc.version)
			}
			mustLeaveNothing(t, inf)
		})
	}
}

// Whatever brings the version ends the wait: an event, one that changes nothing here, a bookmark,
// or a later list.
func TestWhatEndsAWaitForResourceVersion(t *testing.T) {
	at := func(rv string, ev lw.WatchEvent[*rig.Widget]) rig.Stream {
		ev.ResourceVersion = rv
		return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{ev}, Open: true}
	}
	full := rig.List("10", rig.Stamped("a", 1, "9"))
	for name, tc := range map[string]struct {
		lists []rig.Reply
		then  rig.Stream
	}{
		"an object":             {[]rig.Reply{full}, at("12", rig.Added("b", "12"))},
		"a later object":        {[]rig.Reply{full}, at("13", rig.Added("b", "13"))},
		"a deletion":            {[]rig.Reply{full}, at("12", lw.WatchEvent[*rig.Widget]{Type: watch.Deleted, Object: rig.Stamped("a", 1, "9")})},
		"a bookmark":            {[]rig.Reply{full}, at("12", lw.WatchEvent[*rig.Widget]{Type: watch.Bookmark})},
		"a later one":           {[]rig.Reply{full}, at("100", lw.WatchEvent[*rig.Widget]{Type: watch.Bookmark})},
		"a list":                {[]rig.Reply{full, rig.List("12", rig.Stamped("a", 1, "9"))}, rig.Expired()},
		"a list with a bad one": {[]rig.Reply{full, {Obj: full.Obj, Bad: []error{&lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("bad")}}, Meta: metav1.ListMeta{ResourceVersion: "12"}}}, rig.Expired()},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			watches := 0
			src := &rig.Script{Lists: tc.lists, OnWatch: func() rig.Stream {
				switch watches++; watches {
				case 1:
					return rig.Stream{After: time.Minute}
				case 2:
					return tc.then
				}
				return rig.Forever()
			}}
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
			rig.Start(t, inf)
			synctest.Wait()
			before := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := inf.WaitForResourceVersion(ctx, "12"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(before); took != 200*time.Millisecond { // then the wait has the next watch begin
				t.Errorf("it took %v", took)
			}
			if err := inf.WaitForResourceVersion(rig.Canceled(t), "12"); err != nil {
				t.Errorf("a second wait: %v", err)
			}
			if err := inf.WaitForResourceVersion(rig.Canceled(t), "101"); !errors.Is(err, context.Canceled) {
				t.Errorf("a wait for more: %v", err)
			}
			if n, _ := inside.VersionWaits(inf); n != 0 {
				t.Errorf("%d waits are left", n)
			}
		})
	}
}

// What a wait promises, Status shows, however early it is asked. OnError is called at the worst
// moments: when the list that makes the sync is in the store, and has been told of.
func TestStatusAfterWaitForSync(t *testing.T) {
	broken := &lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("not a widget")}
	twice := rig.Stamped("a", 1, "9")
	last := rig.Reply{Obj: []*rig.Widget{twice, twice}, Bad: []error{broken}, Meta: metav1.ListMeta{ResourceVersion: "10"}}
	for name, tc := range map[string]struct {
		src   *rig.Script
		epoch int
	}{
		"at first":         {&rig.Script{Lists: []rig.Reply{{Err: errors.New("connection refused")}, last}}, 0},
		"in another epoch": {&rig.Script{Lists: []rig.Reply{rig.List("20", twice), last}, Watches: []rig.Stream{rig.Expired(), rig.Forever()}}, 1},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			var inf *lw.Informer[*rig.Widget]
			looked := 0
			inf = lw.NewInformer[*rig.Widget](tc.src, &lw.Options{List: lw.ListPages, OnError: func(err error) {
				if !strings.Contains(err.Error(), "twice") {
					return
				}
				looked++
				if err := inf.WaitForSync(rig.Canceled(t)); err != nil {
					t.Errorf("WaitForSync: %v", err)
				}
				want := lw.Status{
					StoreStatus: lw.StoreStatus{Name: "Widget", Synced: true, Objects: 1, SetAside: map[lw.Key]error{rig.Key("b"): broken}, Handlers: []lw.HandlerStatus{}},
					Phase:       "watching", ResourceVersion: "10", Mode: lw.ListPages, Epoch: tc.epoch,
				}
				ignored := cmpopts.IgnoreFields(lw.Status{}, "LastList", "Failed", "Requests", "ListCauses", "Events", "Undecoded", "Backoff")
				if diff := cmp.Diff(want, inf.Status(), ignored, cmpopts.EquateErrors()); diff != "" {
					t.Errorf("status (-want +got):\n%s", diff)
				}
			}})
			rig.Start(t, inf)
			rig.Sleep(time.Hour)
			if looked != 1 {
				t.Errorf("looked %d times", looked)
			}
		})
	}
}

// The same of a wait for a version: an object that it covers is not set aside any more, and the
// server makes progress. DetectMutation calls OnError between the change of the store and all else.
func TestStatusAfterWaitForResourceVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := lw.WatchEvent[*rig.Widget]{Type: watch.Modified, ResourceVersion: "11", Err: &lw.Error{Op: "decode", Key: rig.Key("a"), Err: errors.New("not a widget")}}
		good := lw.WatchEvent[*rig.Widget]{Type: watch.Modified, Object: rig.Stamped("a", 3, "12"), ResourceVersion: "12"}
		var inf *lw.Informer[*rig.Widget]
		watches := 0
		src := &rig.Script{Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))}, OnWatch: func() rig.Stream {
			switch watches++; watches {
			case 1:
				return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{broken}, Err: errors.New("reset")}
			case 2, 3:
				return rig.Stream{Err: errors.New("connection refused")}
			}
			if s := inf.Status(); len(s.SetAside) != 1 || s.Failures != 2 || s.FailingSince.IsZero() {
				t.Errorf("status before: %+v", s)
			}
			w, _ := inf.Store().Get(rig.Key("a"))
			w.Size = 2 // which nobody may, and the event that follows finds
			return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{good}, Open: true}
		}}
		looked := 0
		// The event comes before the first look at all that is cached, which would race with the change.
		backoff := func(int) time.Duration { return 200 * time.Millisecond }
		inf = lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, DetectMutation: true, Backoff: backoff, OnError: func(err error) {
			if !strings.Contains(err.Error(), "mutation") {
				return
			}
			looked++
			if err := inf.WaitForResourceVersion(rig.Canceled(t), "12"); err != nil {
				t.Errorf("WaitForResourceVersion: %v", err)
			}
			if s := inf.Status(); s.SetAside != nil || s.Failures != 0 || s.Err != nil || !s.FailingSince.IsZero() {
				t.Errorf("status: %+v", s)
			}
		}})
		rig.Start(t, inf)
		rig.Sleep(time.Minute)
		if looked != 1 {
			t.Errorf("looked %d times", looked)
		}
	})
}

// A list with an object that nobody can read does not end waits for its writing while the store
// shows what it was before, in the same epoch. Where there was nothing before, nobody can have
// waited.
func TestVersionOfAListWithABadObject(t *testing.T) {
	bad := func(rv string, objs ...*rig.Widget) rig.Reply {
		r := rig.List(rv, objs...)
		r.Bad = []error{&lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("not a widget")}}
		return r
	}
	a, b := rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9")
	for name, tc := range map[string]struct {
		lists []rig.Reply
		want  []string // after each list
	}{
		"it was not there":     {[]rig.Reply{rig.List("10", a), bad("20", a)}, []string{"10", "20"}},
		"at first":             {[]rig.Reply{bad("10", a), bad("20", a)}, []string{"10", "20"}},
		"it stays as it was":   {[]rig.Reply{rig.List("10", a, b), bad("20", a), bad("30", a)}, []string{"10", "10", "10"}},
		"it can be read again": {[]rig.Reply{rig.List("10", a, b), bad("20", a), rig.List("30", a, rig.Stamped("b", 2, "18"))}, []string{"10", "10", "30"}},
		"it is gone":           {[]rig.Reply{rig.List("10", a, b), bad("20", a), rig.List("30", a)}, []string{"10", "10", "30"}},
		"in another epoch":     {[]rig.Reply{rig.List("30", a, b), bad("20", a), bad("20", a), bad("20", a), bad("20", a)}, []string{"30", "30", "30", "30", "20"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: tc.lists, OnWatch: func() rig.Stream { return rig.ExpiredAfter(time.Hour) }}
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{
				List: lw.ListWhole, OnError: func(error) {}, WatchTimeout: 3 * time.Hour, Backoff: func(int) time.Duration { return time.Hour },
			})
			rig.Start(t, inf)
			var got []string
			for n := range tc.want {
				for src.Listed() <= n {
					rig.Sleep(time.Minute)
				}
				synctest.Wait()
				got = append(got, inf.Store().ResourceVersion())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
		})
	}
}

// A wait that ends because of an object that is set aside names why, however early: also where an
// index panicked at it.
func TestWaitSaysWhatIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
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
		lw.NewIndex(inf, func(w *rig.Widget) int { return 1 / (w.Size - 2) })
		rig.Start(t, inf)
		synctest.Wait()
		go func() { waited <- inf.WaitForResourceVersion(t.Context(), "3") }()
		synctest.Wait()
		w := rig.Update(t, m, "a", 2)
		if w.ResourceVersion != "3" {
			t.Fatalf("the version is %s", w.ResourceVersion)
		}
		rig.Sleep(time.Second)
		if got == nil {
			got = <-waited
		}
		var p *lw.Panic
		if !errors.As(got, &p) || p.Key != rig.Key("a") {
			t.Errorf("WaitForResourceVersion: %v", got)
		}
	})
}

// A bookmark is as good as an event to those who wait for its version.
func TestBookmarkEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, inf := fed(t)
		ended := make(chan error, 2)
		for _, version := range []string{"15", "20"} {
			go func() { ended <- inf.WaitForResourceVersion(t.Context(), version) }()
		}
		synctest.Wait()
		src.Send(rig.Bookmark("14"))
		src.Send(rig.Bookmark("")) // it says nothing, and moves nothing
		if len(ended) != 0 || inf.Store().ResourceVersion() != "14" {
			t.Fatalf("%d waits have ended at %s", len(ended), inf.Store().ResourceVersion())
		}
		src.Send(rig.Bookmark("15"))
		if len(ended) != 1 {
			t.Fatalf("%d waits have ended at %s, want one", len(ended), inf.Store().ResourceVersion())
		}
		src.Send(rig.Bookmark("100"))
		if len(ended) != 2 {
			t.Fatalf("%d waits have ended at %s, want both", len(ended), inf.Store().ResourceVersion())
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// While an object is set aside a bookmark moves neither the version nor those who wait, but tells
// them why.
func TestBookmarkPastWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, inf := fed(t)
		src.Send(rig.BadEvent("b", "11"))
		ended := make(chan error, 1)
		go func() { ended <- inf.WaitForResourceVersion(t.Context(), "20") }()
		synctest.Wait()
		if len(ended) != 0 {
			t.Fatalf("a wait for what has not come has ended: %v", <-ended)
		}
		src.Send(rig.Bookmark("20"))
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1})
		var e *lw.Error
		if err := <-ended; !errors.As(err, &e) || e.Key != rig.Key("b") {
			t.Errorf("the wait ended with %v", err)
		}
	})
}

// An object that is set aside ends no wait for what the store has reported before it.
func TestWaitForWhatWasReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, inf := fed(t)
		src.Send(rig.BadEvent("b", "11"))
		for version, want := range map[string]bool{"9": true, "10": true, "11": false} {
			if err := inf.WaitForResourceVersion(t.Context(), version); (err == nil) != want {
				t.Errorf("a wait for %s at 10, while 11 is held: %v", version, err)
			}
		}
	})
}

// A wait that has ended leaves nothing behind.
func TestWaitsAreForgotten(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, _ memory, inf informer) {
		for i := range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			version := "1"
			if i%2 == 0 {
				version = "1000"
			}
			if err := inf.WaitForResourceVersion(ctx, version); (err == nil) != (version == "1") {
				t.Errorf("a wait for %s: %v", version, err)
			}
			cancel()
			if n, noted := inside.VersionWaits(inf); n != 0 || noted != 0 {
				t.Fatalf("%d waits are left, %d of them noted", n, noted)
			}
		}
	})
}
