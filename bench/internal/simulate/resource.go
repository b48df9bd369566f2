package simulate

import (
	"sync"
	"time"
)

// cores are the CPUs of a server. Work is done in the order in which it is asked for, each piece on
// one core.
type cores struct {
	mu   sync.Mutex
	free []time.Time   // when each core has done all that it was asked for
	busy time.Duration // the sum of all work
}

// done returns when a piece of work that is asked for now will be done.
func (c *cores) done(work time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := 0
	for i, t := range c.free {
		if t.Before(c.free[first]) {
			first = i
		}
	}
	at := c.free[first]
	if now := time.Now(); at.Before(now) {
		at = now
	}
	c.busy += work
	c.free[first] = at.Add(work)
	return c.free[first]
}

// used returns the sum of all work so far.
func (c *cores) used() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}

// reset takes all work away.
func (c *cores) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = 0
	clear(c.free)
}

// seats are the concurrency of one priority level, as API Priority and Fairness divides it:
// requests take seats while they are served, and wait in a queue for them. The model has one queue.
type seats struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter // some may be gone
	queued  int       // how many of them are not gone
	room    int       // how many may be queued
	longest int       // the most that were queued
}

type waiter struct {
	width int
	given chan struct{} // closed when the waiter has its seats
	gone  bool          // it waits no more
}

// take returns true as soon as width seats are taken, and false if the queue is full, patience is
// over, or quit is closed before.
func (s *seats) take(width int, patience time.Duration, quit ...<-chan struct{}) bool {
	s.mu.Lock()
	if s.queued == 0 && s.free >= width {
		s.free -= width
		s.mu.Unlock()
		return true
	}
	if s.queued >= s.room {
		s.mu.Unlock()
		return false
	}
	w := &waiter{width: width, given: make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.queued++
	s.longest = max(s.longest, s.queued)
	s.mu.Unlock()

	t := time.NewTimer(patience)
	defer t.Stop()
	if wait(t.C, append(quit, w.given)...) == len(quit) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.given: // at the same moment
		return true
	default:
	}
	w.gone = true
	s.queued--
	s.serveLocked()
	return false
}

// reset sets how many seats there are, all of them free, and how many requests may wait.
func (s *seats) reset(free, room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free, s.room, s.longest = free, room, 0
}

// mostQueued returns the most requests that have waited at the same time.
func (s *seats) mostQueued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.longest
}

// give gives seats back.
func (s *seats) give(width int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += width
	s.serveLocked()
}

// serveLocked lets the first waiters have the seats that are free.
func (s *seats) serveLocked() {
	for len(s.waiting) > 0 {
		w := s.waiting[0]
		if !w.gone {
			if s.free < w.width {
				return
			}
			s.free -= w.width
			s.queued--
			close(w.given)
		}
		s.waiting = s.waiting[1:]
	}
}

// wait returns the index of the first channel of quit that is closed, and -1 if t comes first. It
// takes up to three channels.
func wait(t <-chan time.Time, quit ...<-chan struct{}) int {
	var c [3]<-chan struct{}
	copy(c[:], quit)
	select {
	case <-c[0]:
		return 0
	case <-c[1]:
		return 1
	case <-c[2]:
		return 2
	case <-t:
		return -1
	}
}
