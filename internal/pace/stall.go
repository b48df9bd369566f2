package pace

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A StallTimer cancels a request on which nothing is heard for too long. The goroutine that reads
// the request only notes that something was heard, and when. The timer looks at that when the
// patience would end if nothing more was heard.
type StallTimer struct {
	cancel context.CancelCauseFunc
	begun  time.Time
	count  atomic.Uint64 // the signs of life so far
	last   atomic.Int64  // when the last one came, or Restart was called, in nanoseconds after begun

	mu       sync.Mutex
	timer    *time.Timer   // guarded by mu, as all below; nil once stopped
	patience time.Duration // how long nothing may be heard
	cause    error         // what the request is cancelled with
}

// NewStallTimer returns a timer that calls cancel with cause when nothing is heard for patience.
func NewStallTimer(cancel context.CancelCauseFunc, patience time.Duration, cause error) *StallTimer {
	s := &StallTimer{cancel: cancel, begun: time.Now(), patience: patience, cause: cause}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(patience, s.check)
	return s
}

// Restart begins to wait anew, with another patience and cause.
func (s *StallTimer) Restart(patience time.Duration, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patience, s.cause = patience, cause
	s.last.Store(int64(time.Since(s.begun)))
	s.timer.Reset(patience)
}

// check cancels the request if nothing was heard for as long as patience, and otherwise waits for
// the rest of it. It runs in a goroutine of the timer, and cancels without mu.
func (s *StallTimer) check() {
	s.mu.Lock()
	cause := s.cause
	if s.timer == nil {
		cause = nil // stopped while this call was on its way
	} else if left := time.Duration(s.last.Load()) + s.patience - time.Since(s.begun); left > 0 {
		cause = nil
		s.timer.Reset(left)
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

// Count returns how many signs of life there were.
func (s *StallTimer) Count() uint64 { return s.count.Load() }

// Stop ends the waiting. The request is not cancelled by the timer any more.
func (s *StallTimer) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
	s.timer = nil
}
