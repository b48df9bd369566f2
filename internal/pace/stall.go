package pace

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// looks is how often a StallTimer looks for signs of life while its patience lasts.
const looks = 8

// A StallTimer cancels a request on which nothing is heard for too long. The goroutine that reads
// the request only notes that something was heard. The timer looks at that several times while its
// patience lasts.
type StallTimer struct {
	cancel context.CancelCauseFunc
	begun  time.Time
	count  atomic.Uint64 // the calls of Heard
	noted  atomic.Uint64 // those of Note
	// last is when something was heard, or Restart was called, in nanoseconds after begun.
	last atomic.Int64

	mu       sync.Mutex
	timer    *time.Timer   // guarded by mu, as all below; nil once stopped
	patience time.Duration // how long nothing may be heard
	cause    error         // what the request is cancelled with
	seen     uint64        // noted when the timer last looked
}

// NewStallTimer returns a timer that calls cancel with cause when nothing is heard for patience.
func NewStallTimer(cancel context.CancelCauseFunc, patience time.Duration, cause error) *StallTimer {
	s := &StallTimer{cancel: cancel, begun: time.Now(), patience: patience, cause: cause}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(patience/looks, s.look)
	return s
}

// Restart begins to wait anew, with another patience and cause.
func (s *StallTimer) Restart(patience time.Duration, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patience, s.cause = patience, cause
	s.last.Store(int64(time.Since(s.begun)))
	s.timer.Reset(patience / looks)
}

// look cancels the request if nothing was heard for as long as patience, and otherwise looks again
// later. It runs in a goroutine of the timer, and cancels without mu.
func (s *StallTimer) look() {
	s.mu.Lock()
	if n := s.noted.Load(); n != s.seen {
		s.seen = n
		s.last.Store(int64(time.Since(s.begun)))
	}
	cause := s.cause
	if s.timer == nil {
		cause = nil // stopped while this call was on its way
	} else if left := time.Duration(s.last.Load()) + s.patience - time.Since(s.begun); left > 0 {
		cause = nil
		s.timer.Reset(min(left, s.patience/looks))
	}
	s.mu.Unlock()
	if cause != nil {
		s.cancel(cause)
	}
}

// Heard notes n signs of life, the last of them just now.
func (s *StallTimer) Heard(n uint64) {
	if n > 0 {
		s.count.Add(n)
		s.last.Store(int64(time.Since(s.begun)))
	}
}

// Note notes a sign of life, but not when it came: a list has too many to ask for the time at each.
// That would cost a fifth of what it costs to find an object unchanged. The timer takes the time at
// which it sees the note, so it cancels up to an eighth of its patience late.
func (s *StallTimer) Note() { s.noted.Add(1) }

// Count returns how often Heard was called.
func (s *StallTimer) Count() uint64 { return s.count.Load() }

// Stop ends the waiting. The request is not cancelled by the timer any more.
func (s *StallTimer) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
	s.timer = nil
}
