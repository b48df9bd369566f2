package lw

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/table"
	"github.com/go-lw/lw/internal/table/signal"
)

// A hub ties a collection's content to its changes. It has the store, the log of changes, and the
// subscriptions: consumers that begin with a snapshot of the store and go on with the log. It knows
// nothing of sources. One goroutine at a time, its writer, calls write, commit and notify; but see
// tell.go. An [Informer] is a hub and a [Reflector] that writes to it.
//
// mu keeps store and log together. The writer changes the store and appends to the log in one
// critical section of mu, so a goroutine that holds mu sees both at the same point. Only this file
// takes and releases mu, apart from the store, and the gate of a graph, whose hubs share its mu.
// The store takes it for each write, and calls the function that appends to the log while it holds
// it.
//
// No user code runs under mu but the methods of a T that say who it is (GetName, GetUID): the store
// calls the functions of its indexes before it takes mu. A change of one object holds mu for a few
// loads and stores, and for the folding of slow cursors if it fills a chunk of the log. A replace
// compares without mu, and holds it while it appends all differences.
//
// The writer fires the signals of h.changes (see [Informer.Changed]) in the same critical section:
// when the store shows the change, and before the log does, since a handler may read the log at
// once. It lets their contexts go after it has released mu, because that may call methods of a
// context of the user's.
//
// Several hubs may share one mu. A goroutine that holds it then sees all of them at one point.
type hub[T Identified] struct {
	*hubCore
	store *Indexer[T]
	log   *log[T]

	// followers is the number of calls of Follow. While it is 0, notified is not kept.
	followers atomic.Int32

	midCommit func() // called in the middle of a long commit of write; for tests
	afterShow func() // called when such a commit is shown, and the indexes have not settled; for tests

	entered, left func(obj T) // of a mutation detector; nil: there is none

	mu      *sync.Mutex
	marks   markSet[T]
	demand  *wantedUnits[T]    // nil: everything is wanted
	waiting []*subscription[T] // those that wait for the first content; guarded by mu, as all below
	era     era
	unseen  uint64 // lists after the first one that showed no differences
	// notified is the point of the last notify, when the writer had nothing more at hand; notifies
	// counts them.
	notified point
	notifies uint64
}

// newHub returns an empty hub. Other hubs may have the same mu.
func newHub[T Identified](opts *Options, mu *sync.Mutex) *hub[T] {
	store := table.NewOwned(KeyOf[T], versionAndUID[T], mu)
	if mayBePacked[T]() {
		store.UseMemos(func(obj T) *table.Memo {
			if p, ok := any(obj).(packedObject); ok {
				return p.memo()
			}
			return nil
		})
	}
	return &hub[T]{
		hubCore: newHubCore(opts),
		store:   &Indexer[T]{store: store},
		log:     &log[T]{clock: time.Now()},
		mu:      mu,
	}
}

// versionAndUID returns what the store remembers of each object. With it the store compares
// versions without reading the object that it has, which is rarely in the processor's cache. The
// store keeps only a 32-bit hash of the UID. A collision matters only if an object is deleted and
// created again, and the deletion is not seen: then handlers get an Update instead of a Delete and
// an Add.
func versionAndUID[T Identified](obj T) (version uint64, identity string) {
	return decimal(obj.GetResourceVersion()), string(obj.GetUID())
}

// A move is what an event of the source does to a hub, beside the writes of its batch.
type move[T Identified] struct {
	version string // that the changes lead to
	report  string // that the store reports from then on, unless it is "" or the batch has left a write out
	to      uint64 // the position
	fates   []fate[T]
}

// write makes the writes of batch and does what m says, at one point, and appends the changes to
// the log, in their order. Consumers that wait are not woken until notify. made is false, and
// nothing has changed, if the marks may be others than those that batch and m were planned with. A
// panic of an index's function that batch does not recover comes out of write, which then has
// changed nothing.
func (h *hub[T]) write(batch *table.Batch[T], m *move[T]) (made bool) {
	for {
		batch.Compute()
		h.mu.Lock()
		if h.marks.fence {
			h.mu.Unlock()
			return false
		}
		if batch.Len() == 0 || batch.ReadyLocked() {
			break
		}
		batch.AwaitLocked()
		h.mu.Unlock()
	}
	report := m.report
	if batch.Dropped() {
		report = ""
	}
	h.marks.settleLocked(m.to, m.fates)
	if h.demand != nil {
		h.demand.settleLocked(m.to, m.fates)
	}
	fired := h.commitLocked(batch, Delta[T]{Cause: CauseWatch, ResourceVersion: m.version}, report)
	h.mu.Unlock()
	fired.Release()
	return true
}

// progress is write for a move without writes.
func (h *hub[T]) progress(m *move[T]) (made bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.marks.fence {
		return false
	}
	h.marks.at = m.to
	if h.demand != nil {
		h.demand.settleLocked(m.to, nil)
	}
	h.store.store.SetVersionLocked(m.report)
	return true
}

// commitLocked commits the writes of batch, makes report the reported version unless it is "", and
// appends the changes to the log as deltas with the cause and the version of d.
func (h *hub[T]) commitLocked(batch *table.Batch[T], d Delta[T], report string) signal.Fired {
	switch batch.Len() {
	case 0:
		h.store.store.SetVersionLocked(report)
		return nil
	case 1: // a read sees the one write or not, so none has to wait
		h.store.store.SetVersionLocked(report)
		batch.CommitLocked(false)
	default:
		h.commitTogetherLocked(batch, report)
	}
	return h.appendLocked(batch, d)
}

// commitTogetherLocked commits the writes of batch at one point. Readers see all or nothing, and
// wait for no more than a brief commit; see gate.
func (h *hub[T]) commitTogetherLocked(batch *table.Batch[T], report string) {
	g, long := h.store.gate, batch.LongLocked()
	g.look.Lock()
	if long {
		h.store.before = h.store.store.SnapshotLocked()
	}
	g.seq.Add(1)
	if long {
		g.look.Unlock()
	}
	h.store.store.SetVersionLocked(report)
	batch.CommitLocked(long)
	if long {
		if h.midCommit != nil {
			h.midCommit()
		}
		g.look.Lock()
	}
	batch.ShowLocked()
	h.store.before = nil
	g.seq.Add(1)
	g.look.Unlock()
	if long && h.afterShow != nil {
		h.afterShow()
	}
	batch.SettleLocked()
}

// object returns the object of key that readers see, for a board.
func (h *hub[T]) object(key Key) (Identified, bool) {
	if obj, ok := h.store.Get(key); ok {
		return obj, true
	}
	return nil, false
}

// notify wakes the consumers that wait for changes. The writer calls it after a change, or after
// the last of several changes that follow each other at once.
func (h *hub[T]) notify() {
	// notified comes first: a follower asks to be woken, and then looks at it.
	if h.followers.Load() > 0 {
		h.mu.Lock()
		h.notifies++
		h.notified = h.pointLocked()
		h.mu.Unlock()
	}
	h.log.notify()
}

// A change is one difference that a replace makes: old is zero for a new object, new for one that
// is gone.
type change[T Identified] struct{ old, new T }

func (c change[T]) key() Key {
	if equal.IsZero(c.new) {
		return KeyOf(c.old)
	}
	return KeyOf(c.new)
}

// commit makes the list that is staged in list the content and report the reported version, and
// appends the differences to the log, deletions first. version is the resource version that the
// changes lead to. shown is called under mu, when the store has the content and no consumer or wait
// has learned of it.
//
// The first commit appends nothing to the log. Every consumer begins with a snapshot, also those
// that have waited for the content, and would find all of it in the log a second time.
func (h *hub[T]) commit(list *table.Replacement[T], version, report string, shown func()) {
	h.mu.Lock()
	list.CommitLocked(report)
	shown()
	var fired signal.Fired
	if !isClosed(h.synced) {
		fired = h.firstLocked()
	} else {
		fired = h.relistedLocked(list, version)
	}
	h.mu.Unlock()
	list.Release()
	fired.Release()
	h.notify()
}

// relistedLocked fires the signals of the differences that list has made, and appends them to the
// log.
func (h *hub[T]) relistedLocked(list *table.Replacement[T], version string) (fired signal.Fired) {
	if h.changes.Waiting() {
		var keys []Key
		for old, obj := range list.All() {
			keys = append(keys, change[T]{old, obj}.key())
		}
		fired = h.changes.Fire(keys...)
	}
	if list.Len() > 0 {
		h.era.relists++
	} else {
		h.unseen++
	}
	d := Delta[T]{Cause: CauseRelist, ResourceVersion: version}
	for old, obj := range list.All() {
		d.Old, d.New = old, obj
		emit(d, h.log.put)
	}
	return fired
}

// publishLocked fires the signals of what the batch of a graph's step has changed, and appends the
// changes to the log. first says that this is the first content. The caller has shown the changes,
// and holds mu, which is the gate's. After it has released mu it releases what is returned, and
// calls notify of the log.
func (h *hub[T]) publishLocked(batch *table.Batch[T], version string, first bool) (fired signal.Fired) {
	if first {
		return h.firstLocked()
	}
	return h.appendLocked(batch, Delta[T]{Cause: CauseDerived, ResourceVersion: version})
}

// appendLocked fires the signals of what batch has changed, and appends the changes to the log, as
// deltas with the cause and the version of d.
func (h *hub[T]) appendLocked(batch *table.Batch[T], d Delta[T]) (fired signal.Fired) {
	batch.All(func(old, obj T, same bool) {
		d.Old, d.New = old, obj
		if h.changes.Waiting() {
			fired = append(fired, h.changes.Fire(change[T]{old, obj}.key())...)
		}
		if same {
			// The fast path: the store knows that the UID is the same, so this is an Updated. emit
			// would read the UID of old, which is rarely in the processor's cache.
			d.Type = Updated
			h.log.put(d)
			return
		}
		emit(d, h.log.put)
	})
	return fired
}

// firstLocked fires the signals of all objects, since there may be no list of the changes, and all
// that has come is new. Then it begins with the first content.
func (h *hub[T]) firstLocked() signal.Fired {
	fired := h.changes.FireWhere(func(key Key) bool {
		_, ok := h.store.store.Get(key)
		return ok
	})
	h.syncLocked()
	return fired
}

// syncLocked ends all waits for sync, and starts the subscriptions that wait for the first content.
func (h *hub[T]) syncLocked() {
	close(h.synced)
	for _, s := range h.waiting {
		h.beginLocked(s)
	}
	h.waiting = nil
}

// A subscription is a consumer's place at a hub: a snapshot of the store, and a cursor for the
// changes after it. Both are taken at one point, so no change is missed or seen twice.
type subscription[T Identified] struct {
	opts     cursorOptions
	starting func(snap *Snapshot[T]) // called under hub.mu before started is closed; may be nil
	started  chan struct{}           // closed when snapshot and cursor are set
	snapshot *Snapshot[T]
	cursor   *Cursor[T]
}

// subscribe starts s at once if the hub has its first content, else when that comes. The consumer
// waits for started, and must call unsubscribe in the end.
func (h *hub[T]) subscribe(s *subscription[T]) {
	s.started = make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	if isClosed(h.synced) {
		h.beginLocked(s)
	} else {
		h.waiting = append(h.waiting, s)
	}
}

// beginLocked starts s at the present point.
func (h *hub[T]) beginLocked(s *subscription[T]) {
	s.snapshot, s.cursor = h.store.snapshotLocked(), h.log.subscribe(s.opts)
	if s.starting != nil {
		s.starting(s.snapshot)
	}
	close(s.started)
	if s.cursor.shared {
		s.cursor.signal() // the goroutine that polls it does not wait for started
	}
}

// unsubscribe closes the cursor of s, or removes s from the subscriptions that wait. The consumer
// calls it when it reads no more, so the log keeps none of its objects. No delta comes meanwhile:
// one that does not see yet that its last reader has gone would stay in the log.
func (h *hub[T]) unsubscribe(s *subscription[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = without(h.waiting, s)
	if isClosed(s.started) {
		s.cursor.close(true)
	}
}

// An era is a stretch of the log whose changes are all that happened. The next one begins with a
// list that shows differences, since nobody knows what happened before it, and with an epoch.
type era struct{ relists, epochs uint64 }

// A point is a position of the log: the version that the store reports there, the era that it is
// in, how many lists have shown no differences, and how many notifies there were before.
type point struct {
	position uint64
	version  string
	era      era
	unseen   uint64
	notifies uint64
}

// point returns the present point.
func (h *hub[T]) point() point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pointLocked()
}

func (h *hub[T]) pointLocked() point {
	return point{h.log.position(), h.store.store.VersionLocked(), h.era, h.unseen, h.notifies}
}

// look returns the present point, and the point at which the writer last called notify. That is an
// old one if there was no follower since.
func (h *hub[T]) look() (now, notified point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pointLocked(), h.notified
}

// A cut is one point of a collection: its content, and the position of the log up to which all
// changes are in that content.
type cut[T Identified] struct {
	snapshot *Snapshot[T]
	point
}

// cut returns the present point. Its cost does not depend on the number of objects or changes.
func (h *hub[T]) cut() cut[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cut[T]{h.store.snapshotLocked(), h.pointLocked()}
}

// readToCut reads the deltas that wait at c, up to the cut at. Only the consumer of c calls it.
// It returns the deltas in a slice of the caller's own, and the cut that it has reached. That is
// at, or a later cut if deltas from before and after at were folded together. The error is that of
// the cursor, which has no more deltas then.
func (h *hub[T]) readToCut(c *Cursor[T], at cut[T]) (backlog []Delta[T], reached cut[T], err error) {
	for {
		delivered := c.delivered.Load()
		for delivered < at.position {
			// The first poll acknowledges what was read before. What is read here stays
			// unacknowledged until the next poll of the caller.
			var part []Delta[T]
			if part, delivered, err = c.pollTo(at.position, len(backlog) == 0); err != nil {
				return backlog, at, err
			}
			backlog = append(backlog, part...)
		}
		if delivered == at.position {
			return backlog, at, nil
		}
		// The net change that was read has changes from after the cut. A newer cut has them all.
		at = h.cut()
	}
}

// enter and leave note for a mutation detector that objects are about to be shown, and are not
// shown any more.
func (h *hub[T]) enter(objs []overlayWrite[T]) { each(objs, h.entered) }
func (h *hub[T]) leave(objs []overlayWrite[T]) { each(objs, h.left) }

func each[T Identified](objs []overlayWrite[T], call func(T)) {
	for i := 0; call != nil && i < len(objs); i++ {
		if !equal.IsZero(objs[i].obj) {
			call(objs[i].obj)
		}
	}
}
