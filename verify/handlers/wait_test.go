package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
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
			opts := &lw.Options{List: lw.ListPages, OnError: func(error) {},
				Backoff: func(int) time.Duration { return time.Hour }}
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
	gone := rig.Deleted(rig.Stamped("a", 1, "9"))
	gone.ResourceVersion = "12"
	full := rig.List("10", rig.Stamped("a", 1, "9"))
	for name, tc := range map[string]struct {
		lists []rig.Reply
		then  rig.Stream
	}{
		"an object":             {[]rig.Reply{full}, rig.Events(rig.Added("b", "12"))},
		"a later object":        {[]rig.Reply{full}, rig.Events(rig.Added("b", "13"))},
		"a deletion":            {[]rig.Reply{full}, rig.Events(gone)},
		"a bookmark":            {[]rig.Reply{full}, rig.Events(rig.Bookmark("12"))},
		"a later one":           {[]rig.Reply{full}, rig.Events(rig.Bookmark("100"))},
		"a list":                {[]rig.Reply{full, rig.List("12", full.Obj...)}, rig.Expired()},
		"a list with a bad one": {[]rig.Reply{full, badList("12", full.Obj...)}, rig.Expired()},
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
			inf := rig.RunFor(t, lw.Source[*rig.Widget](src), &lw.Options{List: lw.ListPages, OnError: func(error) {}}, 0)
			before := time.Now()
			rig.OK(t, inf.WaitForResourceVersion(within(t, time.Hour), "12"))
			if took := time.Since(before); took != 200*time.Millisecond { // then the wait has the next watch begin
				t.Errorf("it took %v", took)
			}
			rig.OK(t, inf.WaitForResourceVersion(rig.Canceled(t), "12"))
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
	twice := rig.Stamped("a", 1, "9")
	last := badList("10", twice, twice)
	for name, tc := range map[string]struct {
		src   *rig.Script
		epoch int
	}{
		"at first": {&rig.Script{Lists: []rig.Reply{{Err: errors.New("connection refused")}, last}}, 0},
		"in another epoch": {&rig.Script{Lists: []rig.Reply{rig.List("20", twice), last}, Watches: []rig.Stream{rig.Expired(),
			rig.Forever()}}, 1},
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
					StoreStatus: lw.StoreStatus{Name: "Widget", Synced: true, Objects: 1,
						SetAside: map[lw.Key]error{rig.Key("b"): last.Bad[0]}, Handlers: []lw.HandlerStatus{}},
					Phase: "watching", ResourceVersion: "10", Mode: lw.ListPages, Epoch: tc.epoch,
				}
				ignored := cmpopts.IgnoreFields(lw.Status{}, "LastList", "Failed", "Requests", "ListCauses", "Events",
					"Undecoded", "Backoff")
				rig.Same(t, "status", want, inf.Status(), ignored, cmpopts.EquateErrors())
			}})
			rig.Start(t, inf)
			rig.Sleep(time.Hour)
			rig.Same(t, "how often it looked", 1, looked)
		})
	}
}

// The same of a wait for a version: an object that it covers is not set aside any more, and the
// server makes progress. DetectMutation calls OnError between the change of the store and all else.
func TestStatusAfterWaitForResourceVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inf *lw.Informer[*rig.Widget]
		watches := 0
		src := &rig.Script{Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "9"))}, OnWatch: func() rig.Stream {
			switch watches++; watches {
			case 1:
				return rig.Stream{Events: []lw.WatchEvent[*rig.Widget]{rig.BadEvent("a", "11")}, Err: errors.New("reset")}
			case 2, 3:
				return rig.Stream{Err: errors.New("connection refused")}
			}
			if s := inf.Status(); len(s.SetAside) != 1 || s.Failures != 2 || s.FailingSince.IsZero() {
				t.Errorf("status before: %+v", s)
			}
			w, _ := inf.Store().Get(rig.Key("a"))
			w.Size = 2 // which nobody may, and the event that follows finds
			return rig.Events(rig.Modified(rig.Stamped("a", 3, "12")))
		}}
		looked := 0
		// The event comes before the first look at all that is cached, which would race with the change.
		backoff := func(int) time.Duration { return 200 * time.Millisecond }
		inf = lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, DetectMutation: true, Backoff: backoff,
			OnError: func(err error) {
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
		rig.Same(t, "how often it looked", 1, looked)
	})
}

// badList is a list that has b as well, which nobody can read.
func badList(rv string, objs ...*rig.Widget) rig.Reply {
	r := rig.List(rv, objs...)
	r.Bad = []error{rig.Unreadable("b")}
	return r
}

// A list with an object that nobody can read does not end waits for its writing while the store
// shows what it was before, in the same epoch. Where there was nothing before, nobody can have
// waited.
func TestVersionOfAListWithABadObject(t *testing.T) {
	a, b := rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9")
	for name, tc := range map[string]struct {
		lists []rig.Reply
		want  []string // after each list
	}{
		"it was not there": {[]rig.Reply{rig.List("10", a), badList("20", a)}, []string{"10", "20"}},
		"at first":         {[]rig.Reply{badList("10", a), badList("20", a)}, []string{"10", "20"}},
		"it stays as it was": {[]rig.Reply{rig.List("10", a, b), badList("20", a), badList("30", a)},
			[]string{"10", "10", "10"}},
		"it can be read again": {[]rig.Reply{rig.List("10", a, b), badList("20", a),
			rig.List("30", a, rig.Stamped("b", 2, "18"))}, []string{"10", "10", "30"}},
		"it is gone": {[]rig.Reply{rig.List("10", a, b), badList("20", a), rig.List("30", a)},
			[]string{"10", "10", "30"}},
		"in another epoch": {[]rig.Reply{rig.List("30", a, b), badList("20", a), badList("20", a), badList("20", a),
			badList("20", a)}, []string{"30", "30", "30", "30", "20"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: tc.lists, OnWatch: func() rig.Stream { return rig.ExpiredAfter(time.Hour) }}
			inf := lw.NewInformer[*rig.Widget](src, &lw.Options{
				List: lw.ListWhole, OnError: func(error) {}, WatchTimeout: 3 * time.Hour,
				Backoff: func(int) time.Duration { return time.Hour },
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
			rig.Same(t, "versions", tc.want, got)
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
		rig.Same(t, "the version", "3", rig.Update(t, m, "a", 2).ResourceVersion)
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
		for _, step := range []struct {
			bookmark, at string
			ended        int
		}{
			{"14", "14", 0}, {"", "14", 0}, {"15", "15", 1}, {"100", "100", 2}, // "" says nothing, and moves nothing
		} {
			src.Send(rig.Bookmark(step.bookmark))
			if at := inf.Store().ResourceVersion(); len(ended) != step.ended || at != step.at {
				t.Fatalf("%d waits have ended at %s, want %d at %s", len(ended), at, step.ended, step.at)
			}
		}
		rig.OK(t, errors.Join(<-ended, <-ended))
	})
}

// While an object is set aside a bookmark moves neither the version nor those who wait, but tells
// them why. It ends no wait for what the store has reported before it.
func TestBookmarkPastWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, inf := fed(t)
		src.Send(rig.BadEvent("b", "11"))
		for version, want := range map[string]bool{"9": true, "10": true, "11": false} {
			if err := inf.WaitForResourceVersion(t.Context(), version); (err == nil) != want {
				t.Errorf("a wait for %s at 10, while 11 is held: %v", version, err)
			}
		}
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
