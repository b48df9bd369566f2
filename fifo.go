package lw

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// An EventType says what happened to an object.
type EventType uint8

const (
	Added   EventType = iota + 1 // the object is new, or new to this consumer
	Updated                      // another version of an object that is known, of the same UID
	Deleted                      // the object is gone
)

func (t EventType) String() string {
	switch t {
	case Added:
		return "added"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	}
	return "unknown"
}

// A Cause says how a change became known.
type Cause uint8

const (
	Initial Cause = iota + 1 // the first list, or the snapshot that a late handler starts with
	Watch                    // an event of a watch
	Relist                   // the comparison of a later list with what was known
	Resync                   // nothing changed: a handler asked to be told again
)

func (c Cause) String() string {
	switch c {
	case Initial:
		return "initial"
	case Watch:
		return "watch"
	case Relist:
		return "relist"
	case Resync:
		return "resync"
	}
	return "unknown"
}

// A Delta is one change of one object. Its objects are shared and must not be changed.
type Delta[T Object] struct {
	Type            EventType
	Cause           Cause  // of a net change: the cause of its last part
	Initial         bool   // Added only: the object is of the first list
	Old             T      // what the consumer was told last; zero for Added
	New             T      // zero for Deleted
	ResourceVersion string // of the collection, after the change
}

// Object returns New, or Old of a Deleted.
func (d Delta[T]) Object() T {
	if d.Type == Deleted {
		return d.Old
	}
	return d.New
}

// Key returns the key of the object.
func (d Delta[T]) Key() Key { return KeyOf(d.Object()) }

// A FIFO is a log of typed deltas that any number of consumers read, each at its own pace through a [Cursor]. It is a [Sink]
// for those who build a controller of their own on a [Reflector]; then one that it is given to is its only writer.
//
// A consumer is told of every delta while at most 1024 of them come during its work on those it has. When more have come, they
// are told as one net change an object, in the order of each object's latest change: nothing, if it was added and deleted
// meanwhile; Deleted then Added, if it has another UID now. Memory is bounded by the number of objects, and no consumer delays
// another or the writer.
//
// The zero FIFO is not valid; use [NewFIFO]. All methods are safe for concurrent use.
type FIFO[T Object] struct {
	// end is how many deltas were ever pushed. It is stored after the slot of the last one is written, and so publishes it:
	// readers take no lock to see how far they may read, the appender takes none to let them.
	end      atomic.Uint64
	live     atomic.Int32 // len(cursors): with no reader nothing is kept
	sleepers atomic.Int32 // len(parked): with nobody to wake a push costs the appender one load
	closed   atomic.Bool

	slow []*Cursor[T] // the appender's scratch

	mu      sync.Mutex
	tail    *chunk[T] // replaced under mu, and by the appender alone once there is a cursor, which so reads it without
	cursors []*Cursor[T]
	parked  []*Cursor[T]

	// As a Sink. The lock is held while pushing, so it comes before mu.
	write    sync.Mutex
	known    map[Key]T
	replaced bool
}

const (
	chunkSize    = 256
	defaultLimit = 1024
	wakingGrace  = 256 // so many times its limit may come before a cursor that was woken has polled
)

// A chunk is a piece of the log. Cursors hold on to the chunk that they read and chunks to the next one, so that one that all
// have passed is garbage.
type chunk[T Object] struct {
	base uint64 // the position of slots[0]
	next atomic.Pointer[chunk[T]]
	// slots are apart from next, since a consumer that blocks with some of them in its hands must not hold all that comes after.
	slots *[chunkSize]Delta[T]

	// Guarded by FIFO.mu.
	swept int  // slots before it are cleared
	leaky bool // a closed cursor's consumer may still read slots, so none may be cleared
}

func newChunk[T Object](base uint64) *chunk[T] {
	return &chunk[T]{base: base, slots: new([chunkSize]Delta[T])}
}

// NewFIFO returns an empty FIFO.
func NewFIFO[T Object]() *FIFO[T] { return &FIFO[T]{} }

// Subscribe returns a cursor for what comes from now on. Close it when it is no longer read: until then the FIFO keeps what it
// has not read.
func (q *FIFO[T]) Subscribe() *Cursor[T] { return q.subscribe(cursorOptions{}) }

// Close ends the log: cursors return [ErrStopped] once they have read all that was pushed before, and what is applied later is
// ignored. It waits for a Replace or an Apply that is running.
func (q *FIFO[T]) Close() {
	q.write.Lock()
	defer q.write.Unlock()
	q.known = nil
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed.Store(true)
	q.wakeLocked()
}

// cursorOptions tune a cursor; the zero value is what Subscribe uses.
type cursorOptions struct {
	everyUpdate bool // never fold, whatever the memory
	limit       int  // fold when further behind than so many deltas; default: 1024
}

// subscribe returns a cursor that starts at position, in O(1).
func (q *FIFO[T]) subscribe(opts cursorOptions) *Cursor[T] {
	c := &Cursor[T]{q: q, limit: defaultLimit, wake: make(chan struct{}, 1)}
	switch {
	case opts.everyUpdate:
		c.limit = math.MaxUint64
	case opts.limit > 0:
		c.limit = uint64(opts.limit)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// The appender does not take mu for each push, but it cannot leave the tail without.
	end := q.end.Load()
	if q.tail == nil {
		q.tail = newChunk[T](end)
	}
	c.chunk, c.pos = q.tail, end
	c.taken.Store(end)
	c.told.Store(end)
	q.cursors = append(q.cursors, c)
	q.live.Store(int32(len(q.cursors)))
	return c
}

// position returns how many deltas were ever pushed; it is exact when the appender calls it.
func (q *FIFO[T]) position() uint64 { return q.end.Load() }

// push appends d and wakes the cursors that wait. Callers take turns: there is one appender at a time.
func (q *FIFO[T]) push(d Delta[T]) {
	if q.live.Load() == 0 && q.skip() {
		return
	}
	end := q.end.Load()
	if end-q.tail.base == chunkSize {
		q.grow(end)
	}
	q.tail.slots[end-q.tail.base] = d
	q.end.Store(end + 1)
	// A cursor counts itself as a sleeper before it looks at end for the last time, so one of the two sees the other.
	if q.sleepers.Load() != 0 {
		q.mu.Lock()
		q.wakeLocked()
		q.mu.Unlock()
	}
}

// skip moves the position without keeping anything, if there is nobody to read it.
func (q *FIFO[T]) skip() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.cursors) > 0 {
		return false
	}
	q.tail = nil
	q.end.Add(1)
	return true
}

// grow starts a new chunk at position end, and folds what cursors that are too slow have left behind: they may be blocked, and
// memory must not grow with the number of deltas until they are not.
func (q *FIFO[T]) grow(end uint64) {
	q.mu.Lock()
	next := newChunk[T](end)
	q.tail.next.Store(next)
	q.tail = next
	for _, c := range q.cursors {
		if c.slow(end) {
			q.slow = append(q.slow, c)
		}
	}
	q.mu.Unlock()
	for _, c := range q.slow {
		c.foldTo(end)
	}
	clear(q.slow)
	q.slow = q.slow[:0]
}

func (q *FIFO[T]) wakeLocked() {
	for _, c := range q.parked {
		c.parked.Store(false)
		c.waking.Store(true)
		c.signal()
	}
	clear(q.parked)
	q.parked = q.parked[:0]
	q.sleepers.Store(0)
}

func (q *FIFO[T]) parkLocked(c *Cursor[T]) {
	if c.parked.Load() {
		return
	}
	c.parked.Store(true)
	q.parked = append(q.parked, c)
	q.sleepers.Store(int32(len(q.parked)))
}

func (q *FIFO[T]) unparkLocked(c *Cursor[T]) {
	if !c.parked.Load() {
		return
	}
	c.parked.Store(false)
	q.parked = without(q.parked, c)
	q.sleepers.Store(int32(len(q.parked)))
}

// sweepLocked clears what everybody has read of the tail. A parked cursor holds no deltas, so while all are parked nobody looks
// at the slots before the first of them. Without it an idle log would keep the objects of its last 256 deltas.
func (q *FIFO[T]) sweepLocked() {
	if q.tail == nil || q.tail.leaky || len(q.parked) < len(q.cursors) {
		return
	}
	low := q.end.Load()
	for _, c := range q.parked {
		low = min(low, c.told.Load())
	}
	// A cursor that has not been woken yet may be a chunk behind.
	if low = min(low, q.tail.base+chunkSize); low <= q.tail.base+uint64(q.tail.swept) {
		return
	}
	upTo := int(low - q.tail.base)
	clear(q.tail.slots[q.tail.swept:upTo])
	q.tail.swept = upTo
}

func without[T comparable](s []T, v T) []T {
	if i := slices.Index(s, v); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}

// Replace makes objs the content: it tells what is missing as Deleted, with the last object, then what is new or has another
// resource version in the order of objs. Of two objects with one key the one with the higher resource version counts.
func (q *FIFO[T]) Replace(objs []T, resourceVersion string) {
	q.write.Lock()
	defer q.write.Unlock()
	if q.closed.Load() {
		return
	}
	next := make(map[Key]T, len(objs))
	for _, obj := range objs {
		key := KeyOf(obj)
		if other, twice := next[key]; !twice || !older(obj, other) {
			next[key] = obj
		}
	}
	d := Delta[T]{Type: Deleted, Cause: Relist, ResourceVersion: resourceVersion}
	if !q.replaced {
		d.Cause, d.Initial, q.replaced = Initial, true, true
	}
	for _, key := range q.missing(next) {
		q.tell(key, *new(T), d)
	}
	if q.known == nil {
		q.known = make(map[Key]T, len(next))
	}
	for _, obj := range objs {
		if key := KeyOf(obj); next[key] == obj {
			q.tell(key, obj, d)
		}
	}
}

// missing returns the known keys that next lacks, sorted, so that one history is always told in one way.
func (q *FIFO[T]) missing(next map[Key]T) []Key {
	var keys []Key
	for key := range q.known {
		if _, ok := next[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return keys
}

// Apply tells of one event. Added and Modified mean that the object is there now, whatever was known; Deleted of an object that
// is not known, a Bookmark, and an event that carries an error say nothing.
func (q *FIFO[T]) Apply(ev WatchEvent[T]) {
	var zero T
	q.write.Lock()
	defer q.write.Unlock()
	if q.closed.Load() || ev.Err != nil {
		return
	}
	d := Delta[T]{Cause: Watch, ResourceVersion: ev.ResourceVersion}
	switch ev.Type {
	case watch.Added, watch.Modified:
		if ev.Object == zero {
			return
		}
		if q.known == nil {
			q.known = map[Key]T{}
		}
		q.tell(KeyOf(ev.Object), ev.Object, d)
	case watch.Deleted:
		q.tell(ev.Key(), zero, d)
	}
}

// tell pushes what it takes to get from the object that is known under key to obj, which is zero when it is gone. The cause, the
// resource version and, for an Added, the initial flag are those of d.
func (q *FIFO[T]) tell(key Key, obj T, d Delta[T]) {
	var zero T
	old, known := q.known[key]
	if known && obj != zero && unchanged(old, obj) {
		return
	}
	if obj == zero {
		delete(q.known, key)
	} else {
		q.known[key] = obj
	}
	d.Old, d.New = old, obj
	emit(d, q.push)
}

// emit calls yield with the deltas that d's Old and New make: none, one, or two where they are different objects of one name.
func emit[T Object](d Delta[T], yield func(Delta[T])) {
	var zero T
	switch {
	case d.Old == d.New:
	case d.Old == zero:
		d.Type = Added
		yield(d)
	case d.New == zero:
		d.Type, d.Initial = Deleted, false
		yield(d)
	case d.Old.GetUID() == d.New.GetUID():
		d.Type, d.Initial = Updated, false
		yield(d)
	default:
		gone, came := d, d
		gone.Type, gone.Initial, gone.New = Deleted, false, zero
		came.Type, came.Old = Added, zero
		yield(gone)
		yield(came)
	}
}

// unchanged reports whether b says nothing that a did not. Objects of a source that stamps no resource versions are always
// news, since a change would be lost otherwise.
func unchanged[T Object](a, b T) bool {
	return a == b || a.GetResourceVersion() != "" && a.GetResourceVersion() == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}

// older reports whether a is certainly older than b.
func older[T Object](a, b T) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}

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
	chunk    *chunk[T]  // where pos is; nil once closed
	pos      uint64     // the deltas from taken to pos are in folded, those from pos on in the log
	folded   *netChange[T]
	draining *netChange[T] // the batch that is being handed out
	buf      []Delta[T]    // the part of it that was handed out last
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
	if c.chunk == nil {
		return 0
	}
	return c.draining.len() + c.folded.len() + int(c.q.end.Load()-c.pos)
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
	if c.parked.Load() {
		c.q.mu.Lock()
		c.q.unparkLocked(c)
		c.q.mu.Unlock()
	}
	stopped := c.q.closed.Load() // before end, so that what was pushed before Close is seen
	end := c.q.end.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chunk == nil {
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
		c.taken.Store(end)
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
	clear(c.buf)
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

// slow reports whether what waits is to be folded, where end is the position of the log. A consumer that was woken and has not
// had the processor yet is not slow: folding costs many times what it takes to read the deltas, so it would make a shortage of
// processor time worse. It is held to a limit that only guards the memory.
func (c *Cursor[T]) slow(end uint64) bool {
	behind := end - min(end, c.taken.Load())
	if c.waking.Load() {
		behind /= wakingGrace
	}
	return behind > c.limit
}

// foldTo folds the log up to position end, for a consumer that may be blocked. The appender calls it.
func (c *Cursor[T]) foldTo(end uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chunk == nil || c.folded == nil && !c.slow(end) {
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
