package lw

import (
	"sync"

	"github.com/go-lw/lw/internal/table"
)

// A hub is the room where a collection's content and its changes meet: the store, the log of changes, and the consumers that
// begin with a snapshot of the store and go on with the log. It knows no source: its writer calls set, remove, progress and
// replace, one at a time. An [Informer] is a hub and a [Reflector] that writes to it.
//
// mu ties the store to the log. The writer changes the store and appends to the log under mu, so whoever holds mu sees both at
// one point. mu is held for a few loads and stores, and no user code runs under it: the store calls the functions of its
// indexes before it takes mu. Only this file takes and releases mu; the store, which it owns, does so for each write.
//
// Hubs may share one mu. Then whoever holds it sees all of them at one point.
type hub[T Object] struct {
	*hubCore
	store *Indexer[T]
	log   *FIFO[T]

	mu      *sync.Mutex
	waiting []*subscription[T] // consumers that came before the first content; guarded by mu
}

func newHub[T Object](opts *Options, mu *sync.Mutex) *hub[T] {
	return &hub[T]{
		hubCore: newHubCore(opts),
		store:   &Indexer[T]{store: table.NewOwned(KeyOf[T], versionAndUID[T], mu)},
		log:     NewFIFO[T](),
		mu:      mu,
	}
}

// versionAndUID returns what the store remembers of an object, so that it can compare versions without reading the object. The
// store keeps a 32-bit hash of the UID. A collision matters only where an object is deleted and created again and nobody sees
// the deletion: then handlers are told an Update in place of a Delete and an Add.
func versionAndUID[T Object](obj T) (version uint64, identity string) {
	return decimal(obj.GetResourceVersion()), string(obj.GetUID())
}

// set stores obj under key, and moves the reported version to report unless that is "". Version is the one that the change
// leads to. Consumers that wait are woken by notify.
func (h *hub[T]) set(key Key, obj T, version, report string) (old T, existed bool) {
	return h.store.store.Put(key, obj, report, func(old T, existed, identical bool) {
		d := Delta[T]{Type: Updated, Cause: CauseWatch, Old: old, New: obj, ResourceVersion: version}
		if existed && identical {
			// The fast path: emit would read old's UID, which is rarely in the cache.
			h.log.put(d)
			return
		}
		emit(d, h.log.put)
	})
}

// remove removes the object of key, and moves the reported version to report unless that is "".
func (h *hub[T]) remove(key Key, version, report string) (old T, existed bool) {
	return h.store.store.Remove(key, report, func(old T) {
		h.log.put(Delta[T]{Type: Deleted, Cause: CauseWatch, Old: old, ResourceVersion: version})
	})
}

// progress moves only the reported version.
func (h *hub[T]) progress(report string) { h.store.progress(report) }

// notify wakes the consumers that wait for changes.
func (h *hub[T]) notify() { h.log.notify() }

// change is one difference that a replace makes. Old or new is zero.
type change[T Object] struct{ old, new T }

// replace makes objs the whole content and report the reported version, as to asks for. Version is the one that the changes
// lead to. To.Done is called with mu held, when the store has the list and nobody knows of it yet.
//
// The first replace tells the log nothing: each consumer walks a snapshot, whether it came before or comes later. Later ones
// tell their differences, deletions first. Differences are returned after the first replace, or always if wanted is true.
func (h *hub[T]) replace(objs []T, version, report string, wanted bool, to table.Changes[T]) (changes []change[T]) {
	first := !isClosed(h.synced)
	if !first || wanted {
		to.Change = func(old, new T) { changes = append(changes, change[T]{old, new}) }
	}
	done := to.Done
	to.Done = func() {
		if done != nil {
			done() // before anybody learns of it
		}
		if first {
			h.syncLocked()
			return
		}
		d := Delta[T]{Cause: CauseRelist, ResourceVersion: version}
		for _, c := range changes {
			d.Old, d.New = c.old, c.new
			emit(d, h.log.put)
		}
	}
	h.store.store.Replace(objs, report, to)
	h.log.notify()
	return changes
}

// syncLocked lets all waits for sync end, and the consumers that wait begin.
func (h *hub[T]) syncLocked() {
	close(h.synced)
	for _, s := range h.waiting {
		h.beginLocked(s)
	}
	h.waiting = nil
}

// A subscription is a consumer's place at a hub: a snapshot of the store, and a cursor for the changes after it.
type subscription[T Object] struct {
	opts     cursorOptions
	starting func(snap *Snapshot[T]) // called under the hub's mu just before started is closed; nil: nobody asks
	started  chan struct{}           // closed when snapshot and cursor are set
	snapshot *Snapshot[T]
	cursor   *Cursor[T]
}

// subscribe starts s: now, or with the first content.
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

func (h *hub[T]) beginLocked(s *subscription[T]) {
	s.snapshot, s.cursor = h.store.snapshotLocked(), h.log.subscribe(s.opts)
	if s.starting != nil {
		s.starting(s.snapshot)
	}
	close(s.started)
}

// unsubscribe closes the subscription's cursor, or removes the subscription from those that wait.
func (h *hub[T]) unsubscribe(s *subscription[T]) {
	h.mu.Lock()
	h.waiting = without(h.waiting, s)
	h.mu.Unlock()
	if isClosed(s.started) {
		s.cursor.Close()
	}
}

// A cut is one point of a collection: its content, and the log position up to which changes are in it.
type cut[T Object] struct {
	snapshot *Snapshot[T]
	position uint64
}

// cut returns the present point. It costs the same however many objects and changes there are.
func (h *hub[T]) cut() cut[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cut[T]{h.store.snapshotLocked(), h.log.position()}
}

// readToCut reads what waits at c up to the cut at, and returns that cut, or a later one that it has read up to. An error is
// that of the cursor, which then has nothing more to say.
func (h *hub[T]) readToCut(c *Cursor[T], at cut[T]) (backlog []Delta[T], reached cut[T], err error) {
	for {
		told := c.told.Load()
		for told < at.position {
			var part []Delta[T]
			if part, told, err = c.pollTo(at.position, len(backlog) == 0); err != nil {
				return backlog, at, err
			}
			backlog = append(backlog, part...)
		}
		if told == at.position {
			return backlog, at, nil
		}
		// The appender has folded what came after the cut into what waited before it: only a newer cut has all of that.
		at = h.cut()
	}
}
