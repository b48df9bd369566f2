package lw

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
)

// A FIFO is a log of typed deltas. Any number of consumers read it, each at its own pace through a
// [Cursor]. It is a [Sink] for a [Reflector], which is then its only writer. All methods are safe
// for concurrent use.
//
// A consumer gets every delta as long as at most 1024 come while it works on the ones that it has.
// If more come, they are folded into their net effect: one change for each object, in the order of
// each object's latest change; none if it was added and deleted meanwhile, and a Deleted and an
// Added if it has another UID. So memory is bounded by the number of objects, and no consumer
// delays another one or the writer.
type FIFO[T Identified] struct {
	log log[T]
	// write makes Replace and Apply take turns as the log's appender. It comes before log.mu in the
	// order of the locks.
	write sync.Mutex
	// known is the content: the last object of each key. Guarded by write.
	known map[Key]T
	// replaced says that Replace was called before. Guarded by write.
	replaced bool
}

// A log is the deltas that consumers have yet to read, and the cursors of these consumers. A [FIFO]
// has one, which Replace and Apply write, and each hub has one, which whoever holds the hub's mutex
// writes.
type log[T Identified] struct {
	// It is a linked list of chunks, each with up to 256 slots for deltas. A position in it is the
	// number of deltas before it. There is one appender at a time. It writes the slot at position
	// end, and then stores end+1. A reader loads end, and reads only slots before it. So neither
	// takes a lock, and an append costs one slot and one atomic store, however many readers there
	// are. A slot before end never changes, except that sweepLocked clears slots that nobody reads
	// any more.
	//
	// A cursor points to the chunk that it reads, and each chunk to the next one. Nothing points
	// back, so the garbage collector frees the chunks that all cursors have passed.
	//
	// When a chunk is full, the appender folds the backlog of each cursor that is too far behind;
	// see grow. It does not leave that to the consumer, which may be blocked in a callback for
	// ever.

	// end is the number of deltas that were ever appended, and so the position of the next one. The
	// appender stores it after it has written the slot. That publishes the slot: a goroutine that
	// loads end sees all slots before it.
	end atomic.Uint64
	// live is len(cursors), stored under mu. While it is 0 the appender stores no deltas.
	live atomic.Int32
	// sleepers is len(parked), stored under mu. While it is 0 there is nobody to wake, and notify
	// costs one load.
	sleepers atomic.Int32
	// closedAt is 0 until close, and then one more than the end at which the log was closed. So
	// whoever loads it and end, in whatever order, knows whether that end is the last one. Stored
	// under mu.
	closedAt atomic.Uint64

	// tooSlow is used by grow alone, and is empty between its calls. It is a field so that grow can
	// reuse its memory.
	tooSlow []*Cursor[T]

	// clock is what the arrivals of deltas are measured from. Zero: they are not noted. It never
	// changes.
	clock time.Time

	// same reports whether two objects of a key do not differ, so that changes which lead from one
	// to the other come to nothing when they are folded. It is called by the goroutines that poll,
	// with no lock held. It is set before the first cursor. nil: an object is the same as itself
	// only.
	same func(a, b T) bool

	// mu guards which cursors there are, and which of them wait. The appender takes it to start a
	// chunk and to wake cursors, but not for each delta.
	mu sync.Mutex
	// tail is the chunk that the appender writes. It changes under mu only. While there is a
	// cursor, only the appender changes it, and so may read it without mu.
	tail    *chunk[T]
	cursors []*Cursor[T] // the open cursors
	parked  []*Cursor[T] // those of cursors that wait to be woken
}

const (
	// chunkSize is the number of deltas in a chunk of a busy log, and firstChunk in one that was
	// calm; see nextSizeLocked.
	chunkSize  = 256
	firstChunk = 8
	// wakingGrace multiplies the limit of a cursor that waits to be woken, or was woken and has not
	// polled since; see Cursor.slow.
	wakingGrace = 256
	// timedEvery is how many deltas there are for one whose arrival is noted: those at a position
	// that it divides.
	timedEvery = 64
)

// A chunk is a piece of the log: up to chunkSize deltas in a row.
type chunk[T Identified] struct {
	base uint64                   // the position of slots[0]; restartLocked alone changes it
	next atomic.Pointer[chunk[T]] // nil for the tail
	// slots are allocated apart from the chunk. A consumer gets some of them as a slice, and may
	// block while it has it. If slots were part of the chunk, the slice would keep next alive, and
	// with it all of the log that follows.
	slots []Delta[T]
	// arrivals has the time by log.clock at which each timed delta of the chunk came, written and
	// read as its slot is.
	arrivals [chunkSize / timedEvery]time.Duration

	// Guarded by log.mu; see sweepLocked.
	swept  int  // the slots before it are cleared
	pinned bool // the consumer of a closed cursor may still read slots: none may be cleared
}

func newChunk[T Identified](base uint64, size int) *chunk[T] {
	return &chunk[T]{base: base, slots: make([]Delta[T], size)}
}

// end is the position behind the last slot.
func (c *chunk[T]) end() uint64 { return c.base + uint64(len(c.slots)) }

// arrival returns where the arrival of the timed delta at position is.
func (c *chunk[T]) arrival(position uint64) *time.Duration {
	return &c.arrivals[(position-c.base)/timedEvery]
}

// close ends the log: nothing is appended any more.
func (l *log[T]) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closedAt.Store(l.end.Load() + 1)
	l.wakeLocked()
}

// closed reports whether close was called.
func (l *log[T]) closed() bool { return l.closedAt.Load() != 0 }

// subscribe returns a cursor that starts at the end of the log. Its cost does not depend on the
// length of the log. A hub calls it under its mutex, so that nothing is appended meanwhile: the
// cursor then starts exactly after the changes that the store has.
func (l *log[T]) subscribe(opts cursorOptions) *Cursor[T] {
	c := &Cursor[T]{log: l, limit: defaultLimit, wake: opts.wake, shared: opts.wake != nil, timing: opts.timing, skipTold: opts.skipTold}
	if !c.shared {
		c.wake = make(chan struct{}, 1)
	}
	switch {
	case opts.everyUpdate:
		c.limit = math.MaxUint64
	case opts.limit > 0:
		c.limit = uint64(opts.limit)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// An append may run at the same time. But the appender needs mu to leave the tail, so position
	// end is in the tail or right after its last slot.
	end := l.end.Load()
	if l.tail == nil {
		l.tail = newChunk[T](end, firstChunk)
	}
	c.chunk, c.pos = l.tail, end
	c.lagFrom.Store(end)
	c.delivered.Store(end)
	l.cursors = append(l.cursors, c)
	l.live.Store(int32(len(l.cursors)))
	return c
}

// position returns the number of deltas that were ever appended. It is exact if no append runs at
// the same time.
func (l *log[T]) position() uint64 { return l.end.Load() }

// endWithin returns the end, or bound if that comes first. last says that nothing will come after
// it.
func (l *log[T]) endWithin(bound uint64) (end uint64, last bool) {
	end, closedAt := l.end.Load(), l.closedAt.Load()
	if bound < end {
		return bound, false
	}
	// The log may have been closed after end was loaded, and deltas may have come before that. So
	// nothing will come any more only if end is the one that it was closed at.
	return end, closedAt != 0 && end >= closedAt-1
}

// push appends d and wakes the cursors that wait.
func (l *log[T]) push(d Delta[T]) {
	l.put(d)
	l.notify()
}

// put appends d. A consumer that polls sees d at once. A consumer that waits is woken by notify,
// which must follow soon. The caller is the appender: it must hold a lock that keeps others from
// calling put.
func (l *log[T]) put(d Delta[T]) {
	// From here on l.tail is set, and nobody else changes it: either live was not 0, and subscribe
	// stores live after tail, or skip has found a cursor under mu. The tail stays even if the last
	// cursor is closed now.
	if l.live.Load() == 0 && l.skip() {
		return
	}
	end := l.end.Load()
	if end == l.tail.end() {
		l.grow(end)
	}
	if end%timedEvery == 0 && !l.clock.IsZero() {
		*l.tail.arrival(end) = time.Since(l.clock)
	}
	// First the slot, then end: readers look only at slots before end.
	l.tail.slots[end-l.tail.base] = d
	l.end.Store(end + 1)
}

// notify wakes the cursors that wait. It may be called from any goroutine.
func (l *log[T]) notify() {
	// No wake-up is lost. The appender stores end and then loads sleepers. A cursor that is about
	// to wait stores sleepers and then loads end (see wait). Go's atomic operations are
	// sequentially consistent, so at least one of the two sees the store of the other.
	if l.sleepers.Load() != 0 {
		l.mu.Lock()
		l.wakeLocked()
		l.mu.Unlock()
	}
}

// skip counts a delta without storing it, because nobody would read it. live was 0, but a cursor
// may have come since, so skip looks again under mu. If there is a cursor it does nothing and
// returns false.
func (l *log[T]) skip() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.cursors) > 0 {
		return false
	}
	l.tail = nil // the next subscribe makes a chunk, at the position that end then has
	l.end.Add(1)
	return true
}

// grow makes room for a delta at position end, at which the tail ends. It starts a new chunk, or
// begins anew with the tail; see restartLocked. It then folds the backlog of the cursors that are
// more than their limit behind, so that a blocked consumer cannot make memory grow with the number
// of deltas. The next call finds only the deltas since then to fold. So each delta is folded at
// most once for each slow cursor.
func (l *log[T]) grow(end uint64) {
	l.mu.Lock()
	if l.restartLocked(end) {
		l.mu.Unlock()
		return
	}
	next := newChunk[T](end, l.nextSizeLocked(end))
	l.tail.next.Store(next)
	l.tail = next
	for _, c := range l.cursors {
		if c.slow(end) {
			l.tooSlow = append(l.tooSlow, c)
		}
	}
	l.mu.Unlock()
	// Folding takes a while. Without mu, cursors can wait, start and close meanwhile.
	for _, c := range l.tooSlow {
		c.foldTo(end)
	}
	clear(l.tooSlow)
	l.tooSlow = l.tooSlow[:0]
}

// calmLocked reports whether the deltas come one by one: all consumers wait for more, and have been
// given all but lag deltas of a log that ends at end.
func (l *log[T]) calmLocked(end, lag uint64) bool {
	if len(l.parked) < len(l.cursors) {
		return false
	}
	for _, c := range l.parked {
		if end-min(end, c.delivered.Load()) > lag {
			return false
		}
	}
	return true
}

// restartLocked makes end the first position of the tail, and reports whether it has. It does so if
// the tail is small and all consumers wait at its end: they are done with its slots, and take mu
// before they read further. So a log with a delta now and then stays small and allocates nothing.
func (l *log[T]) restartLocked(end uint64) bool {
	if len(l.tail.slots) > firstChunk || l.tail.pinned || !l.calmLocked(end, 0) {
		return false
	}
	clear(l.tail.slots[l.tail.swept:])
	l.tail.base, l.tail.swept = end, 0
	return true
}

// nextSizeLocked returns the size of the chunk that follows the tail, which ends at end. The chunks
// of a busy log grow, so that an append costs nearly nothing. For a calm one a small chunk will do,
// and a program may have hundreds of such logs.
func (l *log[T]) nextSizeLocked(end uint64) int {
	if l.calmLocked(end, firstChunk/4) {
		return firstChunk
	}
	return min(2*len(l.tail.slots), chunkSize)
}

// wakeLocked wakes all cursors that wait.
func (l *log[T]) wakeLocked() {
	for _, c := range l.parked {
		c.parked.Store(false)
		c.waking.Store(true)
		c.signal()
	}
	clear(l.parked)
	l.parked = l.parked[:0]
	l.sleepers.Store(0)
}

// parkLocked adds c to the cursors that wait.
func (l *log[T]) parkLocked(c *Cursor[T]) {
	if c.parked.Load() {
		return
	}
	c.parked.Store(true)
	l.parked = append(l.parked, c)
	l.sleepers.Store(int32(len(l.parked)))
}

// unparkLocked removes c from the cursors that wait, without waking it.
func (l *log[T]) unparkLocked(c *Cursor[T]) {
	if !c.parked.Load() {
		return
	}
	c.parked.Store(false)
	l.parked = without(l.parked, c)
	l.sleepers.Store(int32(len(l.parked)))
}

// sweepLocked clears the slots of the tail that all consumers are done with. Without it an idle log
// would keep the objects of its last deltas alive. It leaves other chunks alone: the garbage
// collector frees them.
//
// It clears nothing unless all cursors are parked. The consumer of a parked cursor is done with the
// deltas that it was given, and takes mu before it reads others. So nobody looks at a slot before
// the position of the parked cursor that is furthest behind.
func (l *log[T]) sweepLocked() {
	if l.tail == nil || l.tail.pinned || len(l.parked) < len(l.cursors) {
		return
	}
	low := l.end.Load()
	for _, c := range l.parked {
		low = min(low, c.delivered.Load())
	}
	// A cursor that notify has not woken yet may still be in the chunk before. Then low is in that
	// chunk as well, and nothing of the tail can be cleared.
	if low = min(low, l.tail.end()); low <= l.tail.base+uint64(l.tail.swept) {
		return
	}
	upTo := int(low - l.tail.base)
	clear(l.tail.slots[l.tail.swept:upTo])
	l.tail.swept = upTo
}

// NewFIFO returns an empty FIFO.
func NewFIFO[T Object]() *FIFO[T] { return &FIFO[T]{} }

// Subscribe returns a cursor for the deltas that are appended from now on. The FIFO keeps what it
// has not read until it is closed.
func (f *FIFO[T]) Subscribe() *Cursor[T] { return f.log.subscribe(cursorOptions{}) }

// Close ends the log. Cursors return [ErrStopped] after they have read all of it. Later calls of
// Replace and Apply do nothing.
func (f *FIFO[T]) Close() {
	f.write.Lock()
	defer f.write.Unlock()
	f.known = nil
	f.log.close()
}

// Replace makes objs the content. It appends a Deleted for each object that objs lacks, and then an
// Added or Updated for each that is new or has another resource version. Of objs with the same key
// the one with the highest resource version counts, or the last.
func (f *FIFO[T]) Replace(objs []T, resourceVersion string) {
	f.write.Lock()
	defer f.write.Unlock()
	if f.log.closed() {
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
	if !f.replaced {
		d.Cause, d.Initial, f.replaced = CauseInitial, true, true
	}
	for _, key := range f.missing(next) {
		f.pushChange(key, *new(T), d)
	}
	if f.known == nil {
		f.known = make(map[Key]T, len(next))
	}
	for _, obj := range objs {
		if key := KeyOf(obj); equal.Same(next[key], obj) {
			f.pushChange(key, obj, d)
		}
	}
}

// missing returns the known keys that next lacks. They are sorted, so that the same input always
// makes the same log.
func (f *FIFO[T]) missing(next map[Key]T) []Key {
	var keys []Key
	for key := range f.known {
		if _, ok := next[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// Apply appends the change that ev makes. Added and Modified mean the same. There is none for a
// Bookmark, an event with an Err, a Deleted of an object that the content lacks, or a version that
// the content has.
func (f *FIFO[T]) Apply(ev WatchEvent[T]) {
	var zero T
	f.write.Lock()
	defer f.write.Unlock()
	if f.log.closed() || ev.Err != nil {
		return
	}
	d := Delta[T]{Cause: CauseWatch, ResourceVersion: ev.ResourceVersion}
	switch ev.Type {
	case watch.Added, watch.Modified:
		if equal.IsZero(ev.Object) {
			return
		}
		if f.known == nil {
			f.known = map[Key]T{}
		}
		f.pushChange(KeyOf(ev.Object), ev.Object, d)
	case watch.Deleted:
		f.pushChange(ev.Key(), zero, d)
	}
}

// pushChange makes obj the object of key, or removes key if obj is zero, and appends the deltas of
// that change. They have the cause and the resource version of d, and an Added has its initial
// flag. The caller holds write.
func (f *FIFO[T]) pushChange(key Key, obj T, d Delta[T]) {
	old, known := f.known[key]
	if known && !equal.IsZero(obj) && unchanged(old, obj) {
		return
	}
	if equal.IsZero(obj) {
		delete(f.known, key)
	} else {
		f.known[key] = obj
	}
	d.Old, d.New = old, obj
	emit(d, f.log.push)
}
