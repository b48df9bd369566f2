package pace

import (
	"math/rand/v2"
	"time"
)

// A Failure is what a failure says about when to try again.
type Failure int

const (
	// Other may have cost the server as much as a request that succeeds.
	Other Failure = iota
	// Unreachable: no connection was made, so the attempt has cost the server nothing.
	Unreachable
	// WatchRefused: the server refuses watches, and the list before may have succeeded.
	WatchRefused
	// Busy: the server is busy, and has said how long to wait.
	Busy
	failures
)

// An Outage is the failures since the last progress. Each sort is counted by itself: a server that
// was away for long, and is busy when it comes back, is asked again when it has said, not when the
// pauses of its absence would end. A server whose failures alternate gains nothing by that, since
// no count ends before there is progress.
type Outage struct {
	since  time.Time // the first failure
	counts [failures]int
}

// Failed counts a failure.
func (o *Outage) Failed(sort Failure, now time.Time) {
	if o.since.IsZero() {
		o.since = now
	}
	o.counts[sort]++
}

// Pause returns how long to wait after the last failure, which is of that sort. The server has
// asked for a pause of asked; 0: it has not. When a server fails, all its informers fail at the
// same moment. The random part of the pause keeps them from coming back at the same moment.
func (o *Outage) Pause(sort Failure, asked time.Duration, now time.Time) time.Duration {
	least, most := pauseAfter(sort, o.counts[sort], now.Sub(o.since), asked)
	return least + rand.N(most-least)
}

const (
	firstPause       = 800 * time.Millisecond // the base of the first pause
	firstMost        = 2 * time.Second        // the longest first pause: all clients begin together
	longestPause     = 30 * time.Second       // the longest base
	unreachablePause = 8 * time.Second        // the longest base where no connection was made
	refusedPause     = 20 * time.Second       // the longest base where only lists are answered
	// patientAnswers is how many answers in a row may ask for a pause before the pauses grow beyond
	// what they ask for.
	patientAnswers = 8
)

// pauseAfter returns between what bounds a pause is. It follows the nth failure of its sort in an
// outage that has lasted for that long. The server has asked for a pause of asked; 0: it has not.
func pauseAfter(sort Failure, n int, lasts, asked time.Duration) (least, most time.Duration) {
	base := firstPause << min(n-1, 6)
	switch sort {
	case Unreachable:
		// The base is a fifth of the outage, but less at its beginning and from 40 s on.
		base = min(max(min(base, 2*time.Second), lasts/5), unreachablePause)
	case WatchRefused:
		base = min(base, refusedPause)
	case Busy:
		if n <= patientAnswers {
			return asked, asked + min(asked, longestPause)
		}
		base = firstPause << min(n-patientAnswers-1, 6)
	}
	base = min(base, longestPause)
	least, most = base/2, base+base/2
	if n == 1 {
		most = max(most, firstMost)
	}
	return max(least, asked), max(most, asked+min(asked, longestPause))
}
