package pace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A stall timer ends a request when its patience has gone by since the last sign of life, with its
// cause. Zero signs are none. The time of a sign that was only noted is that of the next look,
// which comes every 1.25 s here.
func TestStallTimer(t *testing.T) {
	late, later := errors.New("late"), errors.New("later")
	for name, tc := range map[string]struct {
		heard []time.Duration // since the beginning
		noted []time.Duration // after those
		do    func(*StallTimer)
		want  error
		after time.Duration
	}{
		"silence":       {nil, nil, nil, late, 10 * time.Second},
		"signs of life": {[]time.Duration{5 * time.Second, 12 * time.Second}, nil, nil, late, 22 * time.Second},
		"notes": {nil, []time.Duration{5 * time.Second, 14 * time.Second, 19 * time.Second}, nil, late,
			30 * time.Second},
		"a late note": {nil, []time.Duration{9 * time.Second, 18*time.Second + 800*time.Millisecond}, nil, late,
			30 * time.Second},
		"notes after": {[]time.Duration{9 * time.Second}, []time.Duration{18 * time.Second}, nil, late, 28*time.Second +
			750*time.Millisecond},
		"stopped":       {nil, nil, (*StallTimer).Stop, nil, 0},
		"more patience": {nil, nil, func(g *StallTimer) { g.Restart(time.Minute, later) }, later, time.Minute},
		"less patience": {nil, nil, func(g *StallTimer) { g.Restart(time.Second, later) }, later, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				begin := time.Now()
				g := NewStallTimer(cancel, 10*time.Second, late)
				if tc.do != nil {
					tc.do(g)
				}
				for _, at := range tc.heard {
					time.Sleep(at - time.Since(begin))
					g.Heard(1)
				}
				for _, at := range tc.noted {
					time.Sleep(at - time.Since(begin))
					g.Note()
				}
				time.Sleep(time.Second / 10)
				g.Heard(0)
				if tc.want == nil {
					time.Sleep(time.Hour)
					if ctx.Err() != nil {
						t.Errorf("it was ended by %v", context.Cause(ctx))
					}
					return
				}
				<-ctx.Done()
				if took := time.Since(begin); context.Cause(ctx) != tc.want || took != tc.after {
					t.Errorf("it was ended after %v by %v", took, context.Cause(ctx))
				}
				g.Stop()
			})
		})
	}
}

// A stall timer whose time was up in the moment in which it was given more has not waited for that
// long, and does not say so.
func TestStallTimerGivenMoreInTheLastMoment(t *testing.T) {
	for range 200 { // which of both comes first is a matter of chance
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			g := NewStallTimer(cancel, 10*time.Second, errors.New("late"))
			defer g.Stop()
			time.Sleep(5 * time.Second)
			g.Heard(1)
			time.Sleep(5 * time.Second)
			g.Restart(time.Minute, errors.New("later"))
			time.Sleep(59 * time.Second)
			if ctx.Err() != nil {
				t.Fatalf("it was ended by %v", context.Cause(ctx))
			}
			time.Sleep(time.Minute)
			if context.Cause(ctx).Error() != "later" {
				t.Fatalf("it was ended by %v", context.Cause(ctx))
			}
		})
	}
}

// An outage began when the server was last in touch: not at a later failure, and not before what
// has ended the doubt.
func TestDowntimeBegins(t *testing.T) {
	at := time.Now()
	before, after := at.Add(-time.Minute), at.Add(time.Minute)
	for name, tt := range map[string]struct {
		do   func(d *Downtime)
		want time.Time
	}{
		"the first failure counts":    {func(d *Downtime) { d.Lost(at); d.Lost(after) }, at},
		"a quiet watch came before":   {func(d *Downtime) { d.quiet = before; d.Lost(at) }, before},
		"a quiet watch came after":    {func(d *Downtime) { d.quiet = after; d.Lost(at) }, at},
		"lifted since the quiet one":  {func(d *Downtime) { d.quiet = before; d.Lift(); d.Lost(at) }, at},
		"a list since the quiet one":  {func(d *Downtime) { d.quiet = before; d.Listed(); d.Lost(at) }, at},
		"no answer since a quiet one": {func(d *Downtime) { d.quiet = before; d.Deny(); d.Lost(at) }, at},
		"lifted since a failure":      {func(d *Downtime) { d.Lost(before); d.Lift(); d.Lost(at) }, at},
	} {
		d := new(Downtime)
		if tt.do(d); !d.since.Equal(tt.want) {
			t.Errorf("%s: out of touch since %v, want %v", name, d.since.Sub(at), tt.want.Sub(at))
		}
	}
}

// Failures are of one kind if only their numbers differ.
func TestKindOf(t *testing.T) {
	signed := func(text string) string {
		return KindOf("watch", "a", text)
	}
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"dial 10.0.0.1:443 (2s)", "dial 10.0.10.21:6443 (30s)", true},
		{"at byte 100", "at byte 7", true},
		{"at byte 100", "at byte -100", false},
		{"a b", "a/b", false},
		{"a b", "a  b", false},
		{"1 2", "12", false},
		{"a:b", "a;b", false},
		{"no route", "no host", false},
		{strings.Repeat("x", maxSignature) + "a", strings.Repeat("x", maxSignature) + "b", true},
	} {
		if same := signed(tt.a) == signed(tt.b); same != tt.same {
			t.Errorf("%q and %q are of one kind: %v, want %v", tt.a, tt.b, same, tt.same)
		}
	}
	if got, want := signed("dial 10.0.0.1: (2s) é"), "watch a dial #.#.#.#: (#s) é"; got != want {
		t.Errorf("signature %q, want %q", got, want)
	}
}

// However fast it is asked, the limiter lets through 5 at once and then one each 1.1 s; time that
// nobody used is not saved up.
func TestLimiter(t *testing.T) {
	var p Limiter
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begin
	var at []time.Duration
	ask := func(n int) {
		for range n {
			now = now.Add(p.Wait(now))
			p.Spend(now)
			at = append(at, now.Sub(begin).Round(time.Millisecond))
		}
	}
	ask(7)
	now = now.Add(time.Hour)
	ask(6)
	ms := time.Millisecond
	later := time.Hour + 2200*ms
	want := []time.Duration{0, 0, 0, 0, 0, 1100 * ms, 2200 * ms, later, later, later, later, later, later + 1100*ms}
	if diff := cmp.Diff(want, at); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// Between what bounds a pause is, for each sort of failure. Two pauses of the same bounds are not
// the same.
func TestPauseAfter(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, tc := range map[string]struct {
		sort         Failure
		n            int
		lasts, asked time.Duration
		least, most  time.Duration
	}{
		"the first":                      {Other, 1, 0, 0, 400 * ms, 2 * s},
		"the second":                     {Other, 2, s, 0, 800 * ms, 2400 * ms},
		"the fifth":                      {Other, 5, 20 * s, 0, 6400 * ms, 19200 * ms},
		"the sixth":                      {Other, 6, time.Minute, 0, 12800 * ms, 38400 * ms},
		"the seventh":                    {Other, 7, time.Minute, 0, 15 * s, 45 * s},
		"one of very many":               {Other, math.MaxInt, time.Hour, 0, 15 * s, 45 * s},
		"another one, and asked to wait": {Other, 2, s, 5 * s, 5 * s, 10 * s},
		"asked to wait a little":         {Other, 7, s, 5 * s, 15 * s, 45 * s},
		"the first refused":              {Unreachable, 1, 0, 0, 400 * ms, 2 * s},
		"the second refused":             {Unreachable, 2, s, 0, 800 * ms, 2400 * ms},
		"the third refused":              {Unreachable, 3, 3 * s, 0, s, 3 * s},
		"refused for ten seconds":        {Unreachable, 6, 10 * s, 0, s, 3 * s},
		"refused for 20 seconds":         {Unreachable, 9, 20 * s, 0, 2 * s, 6 * s},
		"refused for 40 seconds":         {Unreachable, 11, 40 * s, 0, 4 * s, 12 * s},
		"refused for an hour":            {Unreachable, 400, time.Hour, 0, 4 * s, 12 * s},
		"the second refused, late":       {Unreachable, 2, time.Minute, 0, 4 * s, 12 * s},
		"the first refused, late":        {Unreachable, 1, time.Minute, 0, 4 * s, 12 * s},
		"a watch is refused":             {WatchRefused, 1, 0, 0, 400 * ms, 2 * s},
		"a watch is refused for ever":    {WatchRefused, 1000, time.Hour, 0, 10 * s, 30 * s},
		"told to wait":                   {Busy, 1, time.Minute, s, s, 2 * s},
		"told to wait, the eighth":       {Busy, 8, time.Minute, s, s, 2 * s},
		"told to wait, the ninth":        {Busy, 9, time.Minute, s, s, 2 * s},
		"told to wait, the eleventh":     {Busy, 11, time.Minute, s, 1600 * ms, 4800 * ms},
		"told to wait for ever":          {Busy, 1000, time.Hour, s, 15 * s, 45 * s},
		"told to wait for long":          {Busy, 1, 0, 5 * time.Minute, 5 * time.Minute, 330 * s},
		"for long, for ever":             {Busy, 1000, time.Hour, 5 * time.Minute, 5 * time.Minute, 330 * s},
	} {
		t.Run(name, func(t *testing.T) {
			least, most := pauseAfter(tc.sort, tc.n, tc.lasts, tc.asked)
			if least != tc.least || most != tc.most {
				t.Errorf("from %v to %v, want from %v to %v", least, most, tc.least, tc.most)
			}
		})
	}
}

// Whatever has failed before, there is a pause, and its bounds are in order.
func TestBoundsOfPauses(t *testing.T) {
	const longest = 5 * time.Minute // what a server may ask for
	for sort := range failures {
		for _, n := range []int{1, 2, 3, 6, 7, 8, 9, 10, 50, math.MaxInt} {
			for _, lasts := range []time.Duration{0, 1, time.Second, 15 * time.Second, time.Minute, 24 * time.Hour} {
				for _, asked := range []time.Duration{0, time.Second, 20 * time.Second, longest} {
					if sort == Busy && asked == 0 {
						continue
					}
					least, most := pauseAfter(sort, n, lasts, asked)
					if least <= 0 || most <= least || most > longest+45*time.Second {
						t.Errorf("sort %d, failure %d after %v, asked for %v: from %v to %v", sort, n, lasts, asked, least, most)
					}
				}
			}
		}
	}
}

// Each sort of failures has a count of its own. The pauses are random, and within their bounds.
func TestOutage(t *testing.T) {
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	var o Outage
	for i, sort := range []Failure{Unreachable, Busy, Other, Unreachable, Busy, Unreachable} {
		o.Failed(sort, begin.Add(time.Duration(i)*time.Second))
	}
	want := Outage{since: begin, counts: [failures]int{Other: 1, Unreachable: 3, Busy: 2}}
	if diff := cmp.Diff(want, o, cmp.AllowUnexported(Outage{})); diff != "" {
		t.Errorf("outage (-want +got):\n%s", diff)
	}
	seen := map[time.Duration]bool{} // 1 to 3 s for a third refusal
	for range 100 {
		d := o.Pause(Unreachable, 0, begin.Add(6*time.Second))
		if seen[d] = true; d < time.Second || d >= 3*time.Second {
			t.Fatalf("pause %v", d)
		}
	}
	if len(seen) < 90 {
		t.Errorf("%d different pauses of 100", len(seen))
	}
}

// A wait ends the watch that is there, or the next one is brief, whenever it asks.
func TestRefresher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Refresher
		hastened := errors.New("hastened")
		var ended []string
		lacks := func(at string) func(string) bool { return func(version string) bool { return version > at } }
		watch := func(name string) context.CancelCauseFunc {
			return func(cause error) { ended = append(ended, fmt.Sprint(name, ": ", cause)) }
		}
		hasten := func(want time.Duration) {
			t.Helper()
			if again := h.Hasten("20", hastened); again != want {
				t.Errorf("hasten returned %v, want %v", again, want)
			}
		}
		open := func(at, name string, want bool) {
			t.Helper()
			if brief := h.Open(lacks(at), watch(name)); brief != want {
				t.Errorf("watch %s: brief is %v, want %v", name, brief, want)
			}
		}
		open("10", "first", false)
		hasten(0)
		time.Sleep(time.Second) // the pause before a watch
		hasten(2 * time.Second)
		open("10", "second", true)
		hasten(3 * time.Second)
		time.Sleep(3 * time.Second) // the second has ended, and the third begins
		open("10", "third", false)
		hasten(0)
		open("10", "fourth", true)
		time.Sleep(3 * time.Second)
		hasten(0)
		h.Listed(lacks("20"), watch("a list that has it"), hastened)
		time.Sleep(3 * time.Second)
		hasten(0)
		h.Listed(lacks("19"), watch("a list that does not"), hastened)
		open("19", "fifth", true)
		open("19", "sixth", false)
		want := []string{"first", "third", "fourth", "a list that has it", "a list that does not"}
		for i := range want {
			want[i] += ": " + hastened.Error()
		}
		if diff := cmp.Diff(want, ended); diff != "" {
			t.Error(diff)
		}
	})
}
