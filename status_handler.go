package lw

import (
	"iter"
	"sync/atomic"
	"time"
)

// HandlerStatus is the status of one [Handler] of an [Informer] or of a [Derived].
type HandlerStatus struct {
	// Name is Handler.Name. If several handlers of one name are registered, the second is called
	// "name#2", and so on: no two have one name, and a name stays as long as its handler does.
	Name    string
	Synced  bool // as [Registration.Synced] says it
	Pending int  // changes that the handler still has to handle; see [Registration.Pending]

	// Counters. They never go down. The calls are counted in groups: those of the last few may be
	// missing, unless the handler waits for changes.

	Told   ToldCounts
	Folded uint64 // changes that waited for so long that only their net effect was told
	Panics uint64 // of its functions, where Options.OnPanic has let the program go on
	// Lag is how long changes took, from the moment when they were in the store to the end of the
	// call. One change in 64 is timed. Of changes that were folded together the first one counts.
	// Neither the objects that the handler began with, nor calls by its Resync are timed.
	Lag Histogram
}

// ToldCounts counts the calls of a [Handler]. A function that is nil is not called, and Filter and
// Synced do not count.
type ToldCounts struct {
	Added   uint64 // calls of Add
	Updated uint64 // calls of Update, including those of a Resync
	Deleted uint64 // calls of Delete
}

// histogramBounds are the upper bounds of the buckets of a Histogram but for the last one, which
// has none.
var histogramBounds = [...]time.Duration{
	50 * time.Microsecond, 200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond,
	100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute,
}

// A Histogram counts durations by how long they are. Its buckets are the same in all histograms and
// reach from 50 µs to 5 minutes.
type Histogram struct {
	Sum     time.Duration
	buckets [len(histogramBounds) + 1]uint64
}

// Count returns the number of all durations.
func (h Histogram) Count() (n uint64) {
	for _, count := range h.buckets {
		n += count
	}
	return n
}

// Buckets yields the upper bound of each bucket that has one, and how many durations are at most
// that long. The bounds ascend.
func (h Histogram) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		var n uint64
		for i, bound := range histogramBounds {
			if n += h.buckets[i]; !yield(bound, n) {
				return
			}
		}
	}
}

// Equal reports whether h and other have the same counts and the same sum.
func (h Histogram) Equal(other Histogram) bool { return h == other }

// A handlerCounter counts the calls of one handler. The handler's goroutine calls all methods but
// status, which any goroutine may call.
//
// An atomic store costs more than many a handler does for an event. So the goroutine counts calls
// in fields of its own, and publishes them every few calls and before it looks for more.
type handlerCounter struct {
	own  [3]uint64 // by EventType, from Added on; of the handler's goroutine, as uncounted is
	late int       // how many calls of own are not in told

	told   [3]atomic.Uint64
	panics atomic.Uint64
	lag    [len(histogramBounds) + 1]atomic.Uint64
	lagSum atomic.Int64
}

// publishEvery is after how many calls a handler publishes its counters, at the latest.
const publishEvery = 8

// call counts a call that is about to be made.
func (c *handlerCounter) call(typ EventType) {
	c.own[typ-Added]++
	if c.late++; c.late == publishEvery {
		c.publish()
	}
}

// publish shows what was counted to status.
func (c *handlerCounter) publish() {
	if c.late == 0 {
		return
	}
	c.late = 0
	for i, n := range c.own {
		if c.told[i].Load() != n {
			c.told[i].Store(n)
		}
	}
}

// took notes the lag of one change.
func (c *handlerCounter) took(lag time.Duration) {
	i := 0
	for i < len(histogramBounds) && lag > histogramBounds[i] {
		i++
	}
	c.lag[i].Store(c.lag[i].Load() + 1)
	c.lagSum.Store(c.lagSum.Load() + int64(lag))
}

func (c *handlerCounter) status() HandlerStatus {
	s := HandlerStatus{
		Told:   ToldCounts{Added: c.told[0].Load(), Updated: c.told[1].Load(), Deleted: c.told[2].Load()},
		Panics: c.panics.Load(),
		Lag:    Histogram{Sum: time.Duration(c.lagSum.Load())},
	}
	for i := range c.lag {
		s.Lag.buckets[i] = c.lag[i].Load()
	}
	return s
}
