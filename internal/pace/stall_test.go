package pace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A stall timer ends a request when its patience has gone by since the last sign of life, with its cause. Zero signs are none. The
// time of a sign that was only noted is that of the next look, which comes every 1.25 s here.
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
		"notes":         {nil, []time.Duration{5 * time.Second, 14 * time.Second, 19 * time.Second}, nil, late, 30 * time.Second},
		"a late note":   {nil, []time.Duration{9 * time.Second, 18*time.Second + 800*time.Millisecond}, nil, late, 30 * time.Second},
		"notes after":   {[]time.Duration{9 * time.Second}, []time.Duration{18 * time.Second}, nil, late, 28*time.Second + 750*time.Millisecond},
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

// A stall timer whose time was up in the moment in which it was given more has not waited for that long, and does not say so.
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
