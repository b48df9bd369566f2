package lw

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A Cursor is one consumer's place in a [FIFO]. Next is for one goroutine at a time, the other methods for any.
type Cursor[T Object] struct {
	q     *FIFO[T]
	limit uint64
	wake  chan struct{} // one token: something may have changed since wait

	parked atomic.Bool // in q.parked; written under q.mu
	closed atomic.Bool // written under q.mu
	waking atomic.Bool // it was woken, and has not polled yet: its consumer is not slow, it has not had the processor

	// Positions, written under mu. Deltas before told have been handed out; those from taken on are counted against limit.
	told  atomic.Uint64
	taken atomic.Uint64

	mu       sync.Mutex // taken after q.mu, and never held for longer than it takes to fold a few chunks
	chunk    *chunk[T]  // where pos is
	pos      uint64     // deltas before it that were not handed out are in draining and folded, those from it on in the log
	folded   *netChange[T]
	draining *netChange[T] // the batch that is being handed out
	buf      []Delta[T]    // the part of it that was handed out last
	out      int           // deltas that were handed out and that no later call has said are done
}

// cursorOptions tune a cursor; the zero value is what Subscribe uses.
type cursorOptions struct {
	everyUpdate bool // never fold, whatever the memory
	limit       int  // fold when further behind than so many deltas; default: 1024
}

// Next returns all that waits, in order, and waits until there is something. The deltas are valid until the next call of Next
// and must not be changed. The error is [ErrStopped] after Close, or the cause of ctx; with an error nothing is consumed.
func (c *Cursor[T]) Next(ctx context.Context) ([]Delta[T], error) {
	for {
		first, _, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		// Nearly always all that waits is one part. Otherwise the parts are joined, up to where the log ends now: an
		// appender that is faster than this loop must not keep it here.
		end := c.q.end.Load()
		if len(first) > 0 && c.told.Load() >= end {
			return first, nil
		}
		all := slices.Clone(first)
		for c.told.Load() < end {
			part, _, err := c.poll()
			if err != nil {
				break // closed meanwhile: the next call says so
			}
			all = append(all, part...)
		}
		if len(all) > 0 {
			return all, nil
		}
	}
}

// Pending returns how many changes wait to be read, of which those that are folded count one an object.
func (c *Cursor[T]) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return 0
	}
	return c.unreadLocked()
}

func (c *Cursor[T]) unreadLocked() int {
	return c.draining.len() + c.folded.len() + int(c.q.end.Load()-c.pos)
}

// undone is Pending and what was handed out last, of which nobody knows how much is done.
func (c *Cursor[T]) undone() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return 0
	}
	return c.unreadLocked() + c.out
}

// Close lets go of all that waits. A Next that waits, and every later one, returns [ErrStopped].
func (c *Cursor[T]) Close() {
	q := c.q
	q.mu.Lock()
	if !c.closed.Swap(true) {
		if !c.parked.Load() {
			q.tail.leaky = true
		}
		q.unparkLocked(c)
		q.cursors = without(q.cursors, c)
		q.live.Store(int32(len(q.cursors)))
		q.sweepLocked()
		c.signal()
	}
	q.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chunk, c.folded, c.draining, c.buf = nil, nil, nil, nil
}

// next is poll that waits for something to return: deltas, or a position that has moved because changes cancelled out.
func (c *Cursor[T]) next(ctx context.Context) (part []Delta[T], told uint64, err error) {
	for {
		if ctx.Err() != nil {
			return nil, c.told.Load(), context.Cause(ctx)
		}
		before := c.told.Load()
		part, told, err = c.poll()
		if len(part) > 0 || told != before || err != nil {
			return part, told, err
		}
		select {
		case <-c.wait():
		case <-ctx.Done():
		}
	}
}

// poll returns what waits, or the first part of it, without blocking: at most a chunk. With it, everything before the position
// told has been handed out. The part is valid until the next poll or wait; it is empty if nothing waits, though told may have
// moved. The error is ErrStopped when nothing will come.
func (c *Cursor[T]) poll() (part []Delta[T], told uint64, err error) {
	return c.pollTo(math.MaxUint64, true)
}

// pollTo is poll that reads the log up to position bound only. If the appender has folded what comes after bound into what
// waits before it, told ends beyond bound. Done says that the caller has processed what it was handed before.
func (c *Cursor[T]) pollTo(bound uint64, done bool) (part []Delta[T], told uint64, err error) {
	if c.parked.Load() {
		c.q.mu.Lock()
		c.q.unparkLocked(c)
		c.q.mu.Unlock()
	}
	stopped := c.q.closed.Load() // before end, so that what was pushed before Close is seen
	end := c.q.end.Load()
	if bound < end {
		end, stopped = bound, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if done {
		c.out = 0
	}
	defer func() { c.out += len(part) }()
	if c.closed.Load() { // after end: a chunk that Close has not seen may be swept under the consumer
		return nil, c.told.Load(), ErrStopped
	}
	if c.draining == nil && (c.folded != nil || c.slow(end)) {
		c.foldToLocked(end)
		c.folded.freeze()
		c.draining, c.folded = c.folded, nil
		c.taken.Store(c.pos)
	}
	if c.waking.Load() {
		c.waking.Store(false)
		c.taken.Store(max(end, c.pos))
	}
	if c.draining != nil {
		if part = c.drainLocked(); len(part) > 0 {
			return part, c.told.Load(), nil
		}
	}
	c.buf = nil
	part = c.readLocked(end)
	c.taken.Store(max(c.taken.Load(), c.pos))
	c.told.Store(c.pos)
	if len(part) == 0 && stopped {
		err = ErrStopped
	}
	return part, c.pos, err
}

// drainLocked returns the next part of the batch, and none if there is no more.
func (c *Cursor[T]) drainLocked() []Delta[T] {
	if c.buf == nil {
		c.buf = make([]Delta[T], 0, min(c.draining.len()+1, chunkSize))
	}
	c.buf = c.draining.drain(c.buf[:0])
	if c.draining.len() == 0 {
		c.draining = nil
		c.told.Store(c.taken.Load())
	}
	if len(c.buf) == 0 {
		c.buf = nil
	}
	return c.buf
}

// readLocked moves pos on to the end of its chunk, or to end, and returns the deltas between.
func (c *Cursor[T]) readLocked(end uint64) []Delta[T] {
	if c.pos >= end {
		return nil
	}
	if c.pos == c.chunk.base+chunkSize {
		c.chunk = c.chunk.next.Load()
	}
	i, n := c.pos-c.chunk.base, min(end-c.chunk.base, chunkSize)
	c.pos = c.chunk.base + n
	return c.chunk.slots[i:n:n]
}

// slow reports whether what waits is to be folded, where end is the position of the log. A consumer that is about to be woken,
// or was and has not had the processor yet, is not slow: folding costs many times what it takes to read the deltas, so it would
// make a shortage of processor time worse. It is held to a limit that only guards the memory.
func (c *Cursor[T]) slow(end uint64) bool {
	behind := end - min(end, c.taken.Load())
	if c.waking.Load() || c.parked.Load() {
		behind /= wakingGrace
	}
	return behind > c.limit
}

// foldTo folds the log up to position end, for a consumer that may be blocked. The appender calls it.
func (c *Cursor[T]) foldTo(end uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() || !c.slow(end) {
		return // closed, or caught up in the meantime
	}
	c.foldToLocked(end)
	// Its consumer may be blocked for good, so it should not hold on to a chunk that it has passed.
	if next := c.chunk.next.Load(); next != nil && c.pos == next.base {
		c.chunk = next
	}
}

func (c *Cursor[T]) foldToLocked(end uint64) {
	if c.folded == nil {
		c.folded = newNetChange[T]()
	}
	for c.pos < end {
		for _, d := range c.readLocked(end) {
			c.folded.add(d)
		}
	}
}

// wait returns a channel that receives once poll may have something to return, or at once if it has. It is the same channel at
// each call, and it is for the goroutine that calls poll.
func (c *Cursor[T]) wait() <-chan struct{} {
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-c.wake:
	default:
	}
	q.parkLocked(c)
	if c.closed.Load() || q.closed.Load() || c.told.Load() != q.end.Load() {
		q.unparkLocked(c)
		c.signal()
		return c.wake
	}
	q.sweepLocked()
	return c.wake
}

func (c *Cursor[T]) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // it has a token already
	}
}
