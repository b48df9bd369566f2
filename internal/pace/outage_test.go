package pace

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Between what bounds a pause is, for each sort of failure. Two pauses of the same bounds are not the same.
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
		"told to wait":                   {ToldToWait, 1, time.Minute, s, s, 2 * s},
		"told to wait, the eighth":       {ToldToWait, 8, time.Minute, s, s, 2 * s},
		"told to wait, the ninth":        {ToldToWait, 9, time.Minute, s, s, 2 * s},
		"told to wait, the eleventh":     {ToldToWait, 11, time.Minute, s, 1600 * ms, 4800 * ms},
		"told to wait for ever":          {ToldToWait, 1000, time.Hour, s, 15 * s, 45 * s},
		"told to wait for long":          {ToldToWait, 1, 0, 5 * time.Minute, 5 * time.Minute, 330 * s},
		"for long, for ever":             {ToldToWait, 1000, time.Hour, 5 * time.Minute, 5 * time.Minute, 330 * s},
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
					if sort == ToldToWait && asked == 0 {
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
	for i, sort := range []Failure{Unreachable, ToldToWait, Other, Unreachable, ToldToWait, Unreachable} {
		o.Failed(sort, begin.Add(time.Duration(i)*time.Second))
	}
	want := Outage{since: begin, counts: [failures]int{Other: 1, Unreachable: 3, ToldToWait: 2}}
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
