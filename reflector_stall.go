package lw

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A stallTimer cancels a request on which nothing is heard for too long. The goroutine that reads
// the request only notes that something was heard, and when. The timer looks at that when the
// patience would end if nothing more was heard.
type stallTimer struct {
	cancel context.CancelCauseFunc
	begun  time.Time
	count  atomic.Uint64 // the signs of life so far
	last   atomic.Int64  // when the last one came, or restart was called, in nanoseconds after begun

	mu       sync.Mutex
	timer    *time.Timer   // guarded by mu, as all below; nil once stopped
	patience time.Duration // how long nothing may be heard
	cause    error         // what the request is cancelled with
}

func newStallTimer(cancel context.CancelCauseFunc, patience time.Duration, cause error) *stallTimer {
	g := &stallTimer{cancel: cancel, begun: time.Now(), patience: patience, cause: cause}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(patience, g.check)
	return g
}

// restart begins to wait anew, with another patience and cause.
func (g *stallTimer) restart(patience time.Duration, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.patience, g.cause = patience, cause
	g.last.Store(int64(time.Since(g.begun)))
	g.timer.Reset(patience)
}

// check cancels the request if nothing was heard for as long as patience, and otherwise waits for
// the rest of it. It runs in a goroutine of the timer, and cancels without mu.
func (g *stallTimer) check() {
	g.mu.Lock()
	cause := g.cause
	if g.timer == nil {
		cause = nil // stopped while this call was on its way
	} else if left := time.Duration(g.last.Load()) + g.patience - time.Since(g.begun); left > 0 {
		cause = nil
		g.timer.Reset(left)
	}
	g.mu.Unlock()
	if cause != nil {
		g.cancel(cause)
	}
}

// heard notes n signs of life, the last of them just now.
func (g *stallTimer) heard(n uint64) {
	if n > 0 {
		g.count.Add(n)
		g.last.Store(int64(time.Since(g.begun)))
	}
}

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
