// Package pace says when a reflector makes its requests, and when it gives one up. After an outage,
// 1,000 clients that must list follow again after 53 s. With client-go's backoff it takes 64 s.
package pace

import (
	"context"
	"time"
)

// A Limiter bounds how many requests a reflector makes, whatever the server does. The backoff alone
// does not: it ends with any progress, and each answer may bring a little.
//
// It is a bucket of at most burst tokens. One is added after each interval of every, and a request
// spends one. So no second sees more than 6 requests, and no minute more than 60. Two kinds of
// requests are not counted: a page after one that had items, since the list makes progress, and the
// first page of a list that begins again, which it does at most twice (lw.Reflector.pages).
//
// Only the goroutine of Run uses it.
type Limiter struct {
	tokens float64   // may be negative
	filled time.Time // when tokens was last brought up to date; zero: never
}

const (
	burst = 5
	every = 1100 * time.Millisecond
)

// fill adds the tokens that are due since the last call.
func (l *Limiter) fill(now time.Time) {
	if l.filled.IsZero() {
		l.tokens = burst
	} else {
		l.tokens = min(burst, l.tokens+float64(now.Sub(l.filled))/float64(every))
	}
	l.filled = now
}

// Spend counts a request. It does not wait: the caller has called Wait before, or accepts that
// tokens become negative.
func (l *Limiter) Spend(now time.Time) {
	l.fill(now)
	l.tokens--
}

// Refund gives back what was spent on a request that was not made.
func (l *Limiter) Refund() { l.tokens = min(burst, l.tokens+1) }

// Wait returns how long to pause before the next request. It does not pause itself.
func (l *Limiter) Wait(now time.Time) time.Duration {
	l.fill(now)
	if l.tokens >= 1 {
		return 0
	}
	return time.Duration((1 - l.tokens) * float64(every))
}

// Sleep returns after d, or as soon as ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
