package lw

import (
	"context"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lw/lw/internal/equal"
)

// A Cursor is one consumer's place in a [FIFO]. One goroutine at a time may call Next; any
// goroutine may call the other methods.
type Cursor[T Identified] struct {
	// The deltas that the consumer has not been given yet, in their order, are those of draining,
	// those of folded, and those of the log from pos on. Mostly draining and folded are nil: then
	// the consumer gets slices of the chunks themselves, and nothing is copied.
	//
	// A backlog of more than limit deltas is folded. The consumer does that when it polls (pollTo),
	// and the appender when a chunk is full (foldTo). The appender changes only chunk, pos and
	// folded; everything else is changed by the consumer's goroutine, except where a comment says
	// otherwise.

	log *log[T]
	// limit is how many deltas the cursor may be behind before its backlog is folded.
	limit uint64
	// wake has room for one token. The token says that poll may have something to return. notify
	// and Close send it without blocking, and the consumer receives it from the channel of wait.
	wake chan struct{}
	// shared says that other cursors have the same wake. A token may then be for any of them.
	shared           bool
	timing, skipTold bool // see cursorOptions

	// parked says that the cursor is in log.parked: its consumer waits to be woken, and is done
	// with all deltas that it was given. Written under log.mu, by the consumer and by whoever
	// wakes it.
	parked atomic.Bool
	// closed is written under log.mu, by Close.
	closed atomic.Bool
	// waking says that the consumer was woken and has not polled since. It has not had the
	// processor yet, so its lag does not count as slowness; see slow. Set under log.mu by whoever
	// wakes it, cleared by poll.
	waking atomic.Bool

	// delivered is the position up to which the consumer has been given all deltas, as they were or
	// folded. Written under mu by the consumer. It never goes down.
	delivered atomic.Uint64
	// lagFrom is the position from which deltas count against limit. It is the end of what the
	// consumer has been given, or of the net change that it is being given. The deltas after it
	// came while the consumer was at work. Written under mu; the appender loads it in slow without
	// mu.
	lagFrom atomic.Uint64

	// mu guards the fields below. It comes after log.mu in the order of the locks. It is held for no
	// longer than it takes to fold a few chunks.
	mu sync.Mutex
	// pos is the position from which on the log has not been read. chunk is the chunk that it is
	// in, or at whose end it is.
	chunk *chunk[T]
	pos   uint64
	// folded is the net change of a backlog, up to pos. Later deltas may still be added to it. nil:
	// there is none.
	folded *netChange[T]
	// draining is a net change that the consumer is being given, part by part. Nothing is added to
	// it any more. nil: there is none.
	draining *netChange[T]
	// buf is the last part of draining that the consumer was given. The next part reuses its
	// memory.
	buf []Delta[T]
	// timed has the arrivals of some of the deltas that the consumer was given last, in their
	// order. Only the consumer's goroutine uses it. It is empty unless timing is set.
	timed []timedDelta
	// unacked is the number of deltas that the consumer has been given and may not be done with.
	// The next poll acknowledges them.
	unacked int
	// foldings is how many deltas were ever folded.
	foldings uint64
}

// A timedDelta is when the delta at index came, by log.clock.
type timedDelta struct {
	index   int
	arrival time.Duration
}

// cursorOptions are the settings of a cursor. Subscribe uses the zero value.
type cursorOptions struct {
	everyUpdate bool // never fold, so memory grows with the backlog
	limit       int  // fold a backlog of more deltas than this; 0: defaultLimit
	// wake is the channel of several cursors that one goroutine polls in turn. It has room for one
	// token, which may be for any of them. nil: the cursor has a channel of its own.
	wake     chan struct{}
	skipTold bool // what is folded leaves out deltas with CauseTold, since the consumer does
	// timing asks for timed. The log has a clock then.
	timing bool
}

// Next waits until there are deltas to read, and returns all of them in order. They are valid until
// the next call of Next, and must not be changed. The error is [ErrStopped] after the cursor was
// closed, or after the FIFO was closed and all deltas are read; and the cause of ctx when ctx is
// done.
func (c *Cursor[T]) Next(ctx context.Context) ([]Delta[T], error) {
	for {
		first, _, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		// Nearly always first has all that waits, and is returned as it is. Otherwise several parts
		// are copied into one slice, up to the present end of the log. Without that bound an
		// appender that is faster than this loop would keep Next from returning.
		end := c.log.end.Load()
		if len(first) > 0 && c.delivered.Load() >= end {
			return first, nil
		}
		all := slices.Clone(first)
		for c.delivered.Load() < end {
			part, _, err := c.poll()
			if err != nil {
				break // closed meanwhile; the next call returns the error
			}
			all = append(all, part...)
		}
		if len(all) > 0 {
			return all, nil
		}
	}
}

// pending returns how many changes wait; folded ones count as one an object.
func (c *Cursor[T]) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return 0
	}
	return c.unreadLocked()
}

// unreadLocked is pending for a cursor that is not closed.
func (c *Cursor[T]) unreadLocked() int {
	return c.draining.len() + c.folded.len() + int(c.log.end.Load()-c.pos)
}

// undone is pending plus the deltas that the consumer was given and has not acknowledged. Only the
// consumer knows how many of those it is done with, so all of them count. folded is how many deltas
// were ever folded.
func (c *Cursor[T]) undone() (pending int, folded uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return 0, c.foldings
	}
	return c.unreadLocked() + c.unacked, c.foldings
}

// Close releases the deltas that wait. Next then returns [ErrStopped].
func (c *Cursor[T]) Close() { c.close(false) }

// close is Close. done says that the consumer reads nothing more of what it was given.
func (c *Cursor[T]) close(done bool) {
	l := c.log
	l.mu.Lock()
	if !c.closed.Swap(true) {
		if !done && !c.parked.Load() {
			// The consumer may still be reading slots of the tail, and this cursor no longer keeps
			// sweepLocked from clearing them.
			l.tail.pinned = true
		}
		l.unparkLocked(c)
		l.cursors = without(l.cursors, c)
		l.live.Store(int32(len(l.cursors)))
		l.sweepLocked()
		c.signal()
	}
	l.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chunk, c.folded, c.draining, c.buf = nil, nil, nil, nil
}

// next is like poll, but waits until there is something to return: deltas, or a position that is
// later than the one before. A later position without deltas means that the changes up to it have
// cancelled out, for example because an object was added and deleted.
func (c *Cursor[T]) next(ctx context.Context) (part []Delta[T], delivered uint64, err error) {
	for {
		if ctx.Err() != nil {
			return nil, c.delivered.Load(), context.Cause(ctx)
		}
		before := c.delivered.Load()
		part, delivered, err = c.poll()
		if len(part) > 0 || delivered != before || err != nil {
			return part, delivered, err
		}
		select {
		case <-c.wait():
		case <-ctx.Done():
		}
	}
}

// poll returns the next deltas that wait, at most a chunk of them, without blocking. It also
// acknowledges the deltas that the poll before returned. part is valid until the next poll or wait,
// and is empty if nothing waits. delivered is the position up to which the consumer has now been
// given everything; it may have moved although part is empty (see next). err is ErrStopped when
// nothing will come any more.
func (c *Cursor[T]) poll() (part []Delta[T], delivered uint64, err error) {
	return c.pollTo(math.MaxUint64, true)
}

// pollTo is like poll, but reads the log only up to position bound. If the appender has folded
// deltas after bound together with deltas before it, delivered ends up beyond bound. done says that
// the caller is done with the deltas that it was given before, which acknowledges them.
func (c *Cursor[T]) pollTo(bound uint64, done bool) (part []Delta[T], delivered uint64, err error) {
	for {
		var folded bool
		part, folded, delivered, err = c.take(bound, done)
		if !folded || c.log.same == nil {
			return part, delivered, err
		}
		// No lock is held here: same may be a function of the user's.
		if part = c.dropSame(part); len(part) > 0 {
			return part, delivered, err
		}
		done = false // what is left of the backlog, or what is behind it
	}
}

// dropSame removes from part, which take has returned, the updates that lead from an object to one
// that does not differ.
func (c *Cursor[T]) dropSame(part []Delta[T]) []Delta[T] {
	kept, timed := part[:0], c.timed[:0]
	for i, d := range part {
		differs := d.Type != Updated || !c.log.same(d.Old, d.New)
		if len(c.timed) > 0 && c.timed[0].index == i {
			if differs {
				timed = append(timed, timedDelta{len(kept), c.timed[0].arrival})
			}
			c.timed = c.timed[1:]
		}
		if differs {
			kept = append(kept, d)
		}
	}
	c.timed = timed
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unacked -= len(part) - len(kept)
	clear(part[len(kept):])
	return kept
}

// take is pollTo before it looks whether anything differs. folded says that part is of a net
// change, and in memory of the cursor's.
func (c *Cursor[T]) take(bound uint64, done bool) (part []Delta[T], folded bool, delivered uint64, err error) {
	if c.parked.Load() {
		c.log.mu.Lock()
		c.log.unparkLocked(c)
		c.log.mu.Unlock()
	}
	end, stopped := c.log.endWithin(bound)
	c.mu.Lock()
	defer c.mu.Unlock()
	if done {
		c.unacked = 0
	}
	defer func() { c.unacked += len(part) }()
	c.timed = c.timed[:0]
	// The cursor's closed is loaded after end. If it is not set, Close is still to come, and finds
	// a tail that has position end, or ends with it, or is a later one. Close pins that tail,
	// unless this consumer has parked by then and so is done with its slots. sweepLocked clears
	// slots of the tail only. So no slot before end is cleared while the consumer reads it.
	if c.closed.Load() {
		return nil, false, c.delivered.Load(), ErrStopped
	}
	// Fold the backlog if it is too long. Fold it also if the appender has folded the beginning of
	// it: then the rest is added to folded, because the consumer must get what is in folded first.
	if c.draining == nil && (c.folded != nil || c.slow(end)) {
		c.foldToLocked(end)
		c.folded.freeze()
		c.draining, c.folded = c.folded, nil
		c.lagFrom.Store(c.pos)
	}
	// If this is the first poll after a wake-up, what came while the consumer waited for the
	// processor does not count as lag.
	if c.waking.Load() {
		c.waking.Store(false)
		c.lagFrom.Store(max(end, c.pos))
	}
	if c.draining != nil {
		if part = c.drainLocked(); len(part) > 0 {
			return part, true, c.delivered.Load(), nil
		}
	}
	c.buf = nil
	part = c.readLocked(end)
	if c.timing {
		for p := range timedIn(c.pos-uint64(len(part)), c.pos) {
			c.timed = append(c.timed, timedDelta{len(part) - int(c.pos-p), *c.chunk.arrival(p)})
		}
	}
	c.lagFrom.Store(max(c.lagFrom.Load(), c.pos))
	c.delivered.Store(c.pos)
	if len(part) == 0 && stopped {
		err = ErrStopped
	}
	return part, false, c.pos, err
}

// drainLocked returns the next part of draining. It is empty if draining has no changes left.
func (c *Cursor[T]) drainLocked() []Delta[T] {
	if c.buf == nil {
		c.buf = make([]Delta[T], 0, min(c.draining.len()+1, chunkSize))
	}
	c.buf, c.timed = c.draining.drain(c.buf[:0], c.timed)
	if c.draining.len() == 0 {
		c.draining = nil
		// pollTo set lagFrom to the end of the folded deltas when it made draining.
		c.delivered.Store(c.lagFrom.Load())
	}
	if len(c.buf) == 0 {
		c.buf = nil
	}
	return c.buf
}

// readLocked moves pos on to end, or to the end of its chunk if that comes first. It returns the
// deltas that pos has passed, as a slice of the chunk's slots. The slice cannot be appended to,
// since its capacity ends with it.
func (c *Cursor[T]) readLocked(end uint64) []Delta[T] {
	if c.pos >= end {
		return nil
	}
	if c.pos == c.chunk.end() {
		c.chunk = c.chunk.next.Load()
	}
	i, n := c.pos-c.chunk.base, min(end, c.chunk.end())-c.chunk.base
	c.pos = c.chunk.base + n
	return c.chunk.slots[i:n:n]
}

// timedIn yields the positions from from to before end whose deltas are timed.
func timedIn(from, end uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for p := (from + timedEvery - 1) / timedEvery * timedEvery; p < end; p += timedEvery {
			if !yield(p) {
				return
			}
		}
	}
}

// slow reports whether the cursor is more than its limit behind a log that ends at end, so that its
// backlog must be folded.
//
// Folding a delta costs many times as much as reading it. A consumer that waits for a wake-up, or
// was woken and has not had the processor yet, is behind only because processor time is short, and
// folding would make that worse. Such a consumer has a much higher limit, which only bounds memory.
func (c *Cursor[T]) slow(end uint64) bool {
	behind := end - min(end, c.lagFrom.Load())
	if c.waking.Load() || c.parked.Load() {
		behind /= wakingGrace
	}
	return behind > c.limit
}

// foldTo folds the backlog up to position end, on behalf of a consumer that may be blocked. The
// appender calls it.
func (c *Cursor[T]) foldTo(end uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() || !c.slow(end) {
		return // since grow looked at it, it was closed or has caught up
	}
	c.foldToLocked(end)
	// The consumer may never come back, so c should not keep a chunk alive that it has passed.
	if next := c.chunk.next.Load(); next != nil && c.pos == next.base {
		c.chunk = next
	}
}

// foldToLocked adds the deltas of the log up to position end to folded.
func (c *Cursor[T]) foldToLocked(end uint64) {
	if c.folded == nil {
		c.folded = newNetChange[T]()
	}
	for c.pos < end {
		part := c.readLocked(end)
		for _, d := range part {
			if !c.skipTold || d.Cause != CauseTold {
				c.folded.add(d)
			}
		}
		c.foldings += uint64(len(part))
		if c.timing {
			for p := range timedIn(c.pos-uint64(len(part)), c.pos) {
				c.folded.came(part[len(part)-int(c.pos-p)].Key(), *c.chunk.arrival(p))
			}
		}
	}
}

// wait returns a channel that has a value as soon as poll may have something to return. It always
// returns the same channel. Only the goroutine that polls may call wait. By calling it, that
// goroutine says that it is done with the deltas that it was given: their slots may be cleared.
func (c *Cursor[T]) wait() <-chan struct{} {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.shared { // a token of a shared channel may be for another cursor
		select {
		case <-c.wake: // a token that was sent for an earlier wait
		default:
		}
	}
	// Park first and then load end. The appender does the reverse: it stores end and then looks for
	// parked cursors. So no wake-up is lost; see notify.
	l.parkLocked(c)
	if c.closed.Load() || l.closed() || c.delivered.Load() != l.end.Load() {
		l.unparkLocked(c)
		c.signal()
		return c.wake
	}
	l.sweepLocked()
	return c.wake
}

// signal sends the token of wake.
func (c *Cursor[T]) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // there is a token already
	}
}

// A netChange is the net effect of a run of deltas: for each key that changed, the object before
// the run and the object after it. What was between is forgotten. Its size depends on the number of
// keys that changed, not on the number of deltas; that is what bounds the memory of a consumer that
// is blocked.
//
// Its life has three stages: add is called for each delta, then freeze once, then drain until it is
// empty. The mutex of the cursor that has it guards it.
type netChange[T Identified] struct {
	// entries has one delta for each key that changed, from the object before the run (Old) to the
	// object after it (New). They are in the order of each key's latest change: the object that
	// changed last comes last. That is as near to the order of the log as one change for each
	// object can come.
	//
	// When a key changes again, its entry moves to the end: its old place becomes the zero Delta,
	// and a new entry is appended. That costs the same for every change, while closing the gap
	// would move all entries after it. compact removes the empty places when there are too many.
	//
	// The Type of an entry is that of the last delta, not of the net change. drain computes the
	// type from Old and New.
	entries []Delta[T]
	// places has the index in entries of each key's entry. It is nil once the run is frozen.
	places map[Key]int
	// arrivals has when the first timed change of a key came, for each key that has one. It is nil
	// once the run is frozen.
	arrivals map[Key]time.Duration
	// timed has the arrivals once the run is frozen, by their indexes in entries as it was then.
	// drained is how many of these entries are gone.
	timed   []timedDelta
	drained int
	// live is the number of entries that are not empty.
	live int
}

func newNetChange[T Identified]() *netChange[T] { return &netChange[T]{places: map[Key]int{}} }

// len returns the number of keys that have a net change. A nil netChange has none.
func (n *netChange[T]) len() int {
	if n == nil {
		return 0
	}
	return n.live
}

// add appends d to the run. If its key has an entry, Old of that entry stays, because it is the
// object before the run, and New becomes that of d. If both are the same then, usually zero, the
// key has no net change and loses its entry.
func (n *netChange[T]) add(d Delta[T]) {
	key := d.Key()
	place, again := n.places[key]
	if again {
		before := n.entries[place]
		// Initial belongs to the Added that stored the object, and an Updated does not take it
		// away. An Added has its own, and a Deleted has none.
		if d.Type == Updated {
			d.Initial = before.Initial
		}
		if d.Cause == CauseTold { // the program knows this one, but not the rest
			d.Cause = before.Cause
		}
		d.Old = before.Old
		n.entries[place] = Delta[T]{} // empty for now; filled again below if it is the last place
		n.live--
	}
	if equal.Same(d.Old, d.New) {
		if again {
			delete(n.places, key)
			delete(n.arrivals, key)
		}
		return
	}
	if again && place == len(n.entries)-1 {
		n.entries[place] = d
	} else {
		n.places[key] = len(n.entries)
		n.entries = append(n.entries, d)
	}
	n.live++
	// There may be chunkSize more empty places than entries in use: fewer are not worth the work.
	// So memory follows the number of keys.
	if len(n.entries) > 2*n.live+chunkSize {
		n.compact()
	}
}

// compact removes the empty places. Since the last time, add was called at least as often as
// compact moves entries now. So the cost for each delta is constant.
func (n *netChange[T]) compact() {
	n.entries = slices.DeleteFunc(n.entries, func(d Delta[T]) bool { return equal.IsZero(d.Old) && equal.IsZero(d.New) })
	if cap(n.entries) > 8*(len(n.entries)+chunkSize) {
		n.entries = slices.Clone(n.entries) // gives back memory after a burst
	}
	for i, d := range n.entries {
		n.places[d.Key()] = i
	}
}

// came notes when a change of key came, which was added just now.
func (n *netChange[T]) came(key Key, arrival time.Duration) {
	if _, known := n.arrivals[key]; known {
		return
	}
	if n.arrivals == nil {
		n.arrivals = map[Key]time.Duration{}
	}
	n.arrivals[key] = arrival
}

// freeze ends the run: no delta is added any more. It releases the maps, which only add needs.
func (n *netChange[T]) freeze() {
	for key, arrival := range n.arrivals {
		if place, ok := n.places[key]; ok {
			n.timed = append(n.timed, timedDelta{place, arrival})
		}
	}
	slices.SortFunc(n.timed, func(a, b timedDelta) int { return a.index - b.index })
	n.places, n.arrivals = nil, nil
}

// drain appends to buf the deltas of the first entries, as many as fit without growing buf, and
// removes these entries. buf needs room for two deltas: an entry makes two, a Deleted and an Added,
// if its objects have different UIDs. To timed it appends the arrivals of those in buf.
func (n *netChange[T]) drain(buf []Delta[T], timed []timedDelta) ([]Delta[T], []timedDelta) {
	drained := 0
	for ; drained < len(n.entries) && len(buf) < cap(buf)-1; drained++ {
		d := n.entries[drained]
		var at *timedDelta
		if len(n.timed) > 0 && n.timed[0].index == n.drained+drained {
			at, n.timed = &n.timed[0], n.timed[1:]
		}
		if equal.Same(d.Old, d.New) {
			continue
		}
		n.live--
		emit(d, func(d Delta[T]) { buf = append(buf, d) })
		if at != nil {
			timed = append(timed, timedDelta{len(buf) - 1, at.arrival})
		}
	}
	clear(n.entries[:drained]) // so that their objects can be freed
	n.entries = n.entries[drained:]
	n.drained += drained
	return buf, timed
}
