package lw

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A stallTimer cancels a request on which nothing is heard for too long. The goroutine that reads
// the request only adds to a counter. The timer looks at the counter once per patience, so a silent
// request ends after one to two times the patience.
type stallTimer struct {
	cancel context.CancelCauseFunc
	count  atomic.Uint64 // the signs of life so far

	mu       sync.Mutex
	timer    *time.Timer   // guarded by mu, as all below; nil once stopped
	patience time.Duration // how long nothing may be heard
	cause    error         // what the request is cancelled with
	seen     uint64        // count at the last check
	due      time.Time     // of the next check
}

func newStallTimer(cancel context.CancelCauseFunc, patience time.Duration, cause error) *stallTimer {
	g := &stallTimer{cancel: cancel, patience: patience, cause: cause}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = time.Now().Add(patience)
	g.timer = time.AfterFunc(patience, g.check)
	return g
}

// restart begins to wait anew, with another patience and cause.
func (g *stallTimer) restart(patience time.Duration, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.patience, g.cause = patience, cause
	g.seen, g.due = g.count.Load(), time.Now().Add(patience)
	g.timer.Reset(patience)
}

// check cancels the request if count has not changed since the last check, and waits for the next
// check if it has. It runs in a goroutine of the timer, and cancels without mu.
func (g *stallTimer) check() {
	g.mu.Lock()
	cause := g.cause
	switch n := g.count.Load(); {
	case g.timer == nil || time.Now().Before(g.due):
		cause = nil // stopped or restarted while this call was on its way
	case n != g.seen:
		g.seen, g.due, cause = n, time.Now().Add(g.patience), nil
		g.timer.Reset(g.patience)
	}
	g.mu.Unlock()
	if cause != nil {
		g.cancel(cause)
	}
}

// heard notes n signs of life.
func (g *stallTimer) heard(n uint64) { g.count.Add(n) }

func (g *stallTimer) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
	g.timer = nil
}

// causeOf returns why ctx was cancelled, if that ended the request, or else err.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
