package lw

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"
)

// A FIFO is a log of typed deltas that any number of consumers read, each at its own pace through a [Cursor]. It is a [Sink]
// for those who build a controller of their own on a [Reflector]; then one that it is given to is its only writer.
//
// A consumer is told of every delta while at most 1024 of them come during its work on those it has. When more have come, they
// are told as one net change an object, in the order of each object's latest change: nothing, if it was added and deleted
// meanwhile; Deleted then Added, if it has another UID now. Memory is bounded by the number of objects, and no consumer delays
// another or the writer.
//
// All methods are safe for concurrent use.
type FIFO[T Object] struct {
	// end is how many deltas were ever pushed. It is stored after the slot of the last one is written, and so publishes it:
	// readers take no lock to see how far they may read, the appender takes none to let them.
	end      atomic.Uint64
	live     atomic.Int32 // len(cursors): with no reader nothing is kept
	sleepers atomic.Int32 // len(parked): with nobody to wake a push costs the appender one load
	closed   atomic.Bool

	slow []*Cursor[T] // the appender's scratch

	mu      sync.Mutex
	tail    *chunk[T] // while there is a cursor only the appender replaces it, and so may read it without mu
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

// push appends d and wakes the cursors that wait.
func (q *FIFO[T]) push(d Delta[T]) {
	q.put(d)
	q.notify()
}

// put appends d. Cursors that wait learn of it at the next notify, which must follow soon, those that read at once. Callers
// take turns: there is one appender at a time.
func (q *FIFO[T]) put(d Delta[T]) {
	if q.live.Load() == 0 && q.skip() {
		return
	}
	end := q.end.Load()
	if end-q.tail.base == chunkSize {
		q.grow(end)
	}
	q.tail.slots[end-q.tail.base] = d
	q.end.Store(end + 1)
}

// notify wakes the cursors that wait.
func (q *FIFO[T]) notify() {
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
	d := Delta[T]{Type: Deleted, Cause: CauseRelist, ResourceVersion: resourceVersion}
	if !q.replaced {
		d.Cause, d.Initial, q.replaced = CauseInitial, true, true
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
	d := Delta[T]{Cause: CauseWatch, ResourceVersion: ev.ResourceVersion}
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
