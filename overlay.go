package lw

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-lw/lw/internal/demand"
	"github.com/go-lw/lw/internal/equal"
)

// The store shows at once what the program tells an informer ([Informer.Tell]): as an overlay over
// what lists and watches have seen. The key gets a mark. The hub keeps the marks, below handlers
// and graphs, so there is one state, and one story of an object. A mark remembers the base of its
// key, which is what lists and watches see meanwhile. A mark ends when they have seen its version,
// or have passed that version without the key. The key then goes back to its base.
//
// The methods of mark decide what becomes of one mark. They know nothing of locks. The hub's writer
// asks them before it makes the writes of an event or compares a list, and it computes without mu.
// If Tell runs meanwhile, it raises the fence, and the writer, when it has mu again, plans anew.
// While there is no mark, an event costs one load and two stores more.

// base returns what lists and watches have seen of key.
func (h *hub[T]) base(key Key) (obj T, ok bool) {
	obj, ok = h.store.Get(key)
	if h.marks.count.Load() == 0 && h.demand == nil { // an overlay's mark comes before its object
		return obj, ok
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.demand != nil && h.demand.ahead[h.demand.UnitOf(key)].version != 0 {
		return *new(T), false // nobody knows
	}
	if m := h.marks.of[key]; m != nil {
		return m.base, !equal.IsZero(m.base)
	}
	return h.store.store.Get(key)
}

// bases returns what is shown, and the base of each marked key.
func (h *hub[T]) bases() (shown *Snapshot[T], bases map[Key]T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	bases = make(map[Key]T, len(h.marks.of))
	for key, m := range h.marks.of {
		bases[key] = m.base
	}
	if h.demand != nil && len(h.demand.ahead) > 0 {
		for key := range h.shownLocked(h.demand.ahead) {
			bases[key] = *new(T) // nobody knows
		}
	}
	return h.store.snapshotLocked(), bases
}

// beginAsking reports whether the caller is to ask for the server's version, for the bounds of
// marks. endAsking takes that back.
func (h *hub[T]) beginAsking() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	begin := !h.marks.asking && len(h.marks.asked) > 0
	h.marks.asking = h.marks.asking || begin
	return begin
}

func (h *hub[T]) endAsking() {
	h.mu.Lock()
	h.marks.asking = false
	h.mu.Unlock()
}

// isAhead reports whether something is shown that lists and watches have not reached.
func (h *hub[T]) isAhead() bool {
	if h.demand == nil {
		return h.marks.count.Load() > 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.marks.of)+len(h.demand.ahead) > 0
}

// oldest returns the newest version of what is ahead for longer than longest, and since when the
// oldest is. If nothing is ahead, since is zero, and age does not run any more.
func (h *hub[T]) oldest() (version uint64, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	look := func(v uint64, from time.Time) {
		if time.Since(from) > longest {
			version = max(version, v)
		}
		if since.IsZero() || from.Before(since) {
			since = from
		}
	}
	for _, m := range h.marks.of {
		look(max(m.version, m.bound), m.since)
	}
	if h.demand != nil {
		for _, read := range h.demand.ahead {
			look(read.version, read.since)
		}
	}
	if since.IsZero() {
		h.marks.aging.Store(false)
	}
	return version, since
}

// unbound returns the keys of the marks that need a bound. If there are none, nobody asks any more.
func (h *hub[T]) unbound() []Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := h.marks.asked[:0]
	for _, key := range h.marks.asked {
		if m := h.marks.of[key]; m != nil && m.loose && m.bound == 0 {
			keys = append(keys, key)
		}
	}
	h.marks.asked = keys
	h.marks.asking = len(keys) > 0 && !h.marks.over
	if !h.marks.asking {
		return nil
	}
	return slices.Clone(keys)
}

// follow counts a follower, until the caller counts it down. A follower passes on what the server
// shows to everybody. So follow first waits until all marks have ended, and Tell fails while there
// is a follower.
func (h *hub[T]) follow(over <-chan struct{}) {
	h.followers.Add(1)
	h.mu.Lock()
	if len(h.marks.of) == 0 {
		h.mu.Unlock()
		return
	}
	if h.marks.none == nil {
		h.marks.none = make(chan struct{})
	}
	none := h.marks.none
	h.mu.Unlock()
	select {
	case <-none:
	case <-h.stopped:
	case <-over:
	}
}

var (
	errFollowed  = fmt.Errorf("the collection is followed, as by package serve: %w", errors.ErrUnsupported)
	errNoNews    = errors.New("what is told is not newer than what is shown")
	errNoTeller  = fmt.Errorf("the source is no Teller: %w", errors.ErrUnsupported)
	errStrange   = fmt.Errorf("it was told at a version that the server has not had for %v: it is shown as listed", longest)
	errUnordered = fmt.Errorf("the resource version is no decimal number: %w", errors.ErrUnsupported)
)

// newsLocked reports whether m says more of key than is shown. An error says why Tell fails.
func (h *hub[T]) newsLocked(key Key, m *mark[T]) (bool, error) {
	s := &h.marks
	switch {
	case s.over:
		return false, ErrStopped
	case h.followers.Load() > 0:
		return false, errFollowed
	case s.opaque:
		return false, errUnordered
	case h.demand != nil && !h.demand.acceptsLocked(key, m.version, isClosed(h.synced)):
		return false, nil
	case m.loose:
		was, shown := s.of[key], *new(T)
		if was != nil {
			shown = was.shown
		} else {
			shown, _ = h.store.store.Get(key)
		}
		return !equal.IsZero(shown) && shown.GetUID() == m.gone, nil
	case m.version <= s.at:
		return false, nil
	}
	was := s.of[key]
	return was == nil || m.version > was.version && (was.gone == "" || equal.IsZero(m.shown) || m.shown.GetUID() != was.gone), nil
}

// isNews is newsLocked for a mark whose object has not been made yet.
func (h *hub[T]) isNews(key Key, m *mark[T]) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.demand != nil {
		h.awaitListLocked() // it may have the unit, which is then not read again
	}
	return h.newsLocked(key, m)
}

// awaitListLocked waits while a list has looked at the marks and at what is wanted, and is not
// shown yet. It releases mu meanwhile.
func (h *hub[T]) awaitListLocked() {
	for b := h.store.store.NewBatch(); !b.ReadyLocked(); {
		b.AwaitLocked()
	}
}

// tell marks key with m, and shows what m says, unless that is no news.
func (h *hub[T]) tell(key Key, m *mark[T]) (news bool, err error) {
	err = h.commitOverlay(CauseTold, func(plan []overlayWrite[T]) ([]overlayWrite[T], error) {
		news, err := h.newsLocked(key, m)
		if err == nil && !news {
			err = errNoNews
		}
		return append(plan, overlayWrite[T]{key, m.shown}), err
	}, func() {
		shown, _ := h.store.store.Get(key)
		was := h.marks.of[key]
		if m.base = shown; was != nil {
			m.base = was.base
		}
		if m.loose {
			m.version = h.marks.at
			if was != nil {
				m.version = was.version
			} else if v := decimal(shown.GetResourceVersion()); v != 0 && (v < m.version || m.version == 0) {
				m.version = v // an object that is kept from before a restore may be past the position
			}
			h.marks.asked = append(h.marks.asked, key)
		}
		h.marks.setLocked(key, m)
	})
	if err == errNoNews {
		return false, nil
	}
	return err == nil, err
}

// bind notes that the server had a version after the objects of keys were deleted. A key goes back
// to its base if lists and watches have seen that version.
func (h *hub[T]) bind(keys []Key, at uint64) error {
	h.mu.Lock()
	h.awaitListLocked()
	for _, key := range keys {
		if m := h.marks.of[key]; m != nil && m.loose && m.bound == 0 {
			m.bound = at
			h.marks.dueLocked(at, key, m)
		}
	}
	h.marks.fence = true
	h.mu.Unlock()
	var ended []overlayWrite[T]
	return h.commitOverlay(CauseWatch, func(plan []overlayWrite[T]) ([]overlayWrite[T], error) {
		if h.marks.over {
			return plan, ErrStopped
		}
		h.marks.passedLocked(h.marks.at, false, func(key Key, m *mark[T]) {
			if m.loose {
				plan = append(plan, overlayWrite[T]{key, m.base})
			}
		})
		ended = plan
		return plan, nil
	}, func() {
		for _, w := range ended {
			delete(h.marks.of, w.key)
		}
		h.marks.shrunkLocked()
	})
}

// commitOverlay makes the writes that plan appends to its argument, at one point and with that
// cause. At the same point it calls mark, also if there are no writes. mark changes the marks and
// the state of what is wanted. commitOverlay calls both under mu, plan perhaps more than once:
// in between it calls the functions of indexes, without a lock, and they may take long.
//
// No list is staged at that point, since it would not know of the change. A writer that has planned
// before plans anew. If plan fails or an index panics, nothing has changed, and the error says so.
// Before the first list commitOverlay only calls mark.
func (h *hub[T]) commitOverlay(cause Cause, plan func([]overlayWrite[T]) ([]overlayWrite[T], error), mark func()) (err error) {
	batch := h.store.store.NewBatch()
	defer batch.Release()
	batch.Recover = func(key Key, v any) bool {
		p := &Panic{Informer: h.opts.Name, Handler: "index", Key: key, Value: v, Stack: debug.Stack()}
		if err = p; h.opts.OnPanic != nil {
			h.opts.OnPanic(p)
		}
		return true
	}
	var writes []overlayWrite[T]
	for {
		h.mu.Lock()
		h.awaitListLocked()
		if writes, err = plan(nil); err != nil {
			h.mu.Unlock()
			return err
		}
		if len(writes) == 0 {
			break
		}
		h.mu.Unlock()
		h.enter(writes)
		for _, w := range writes {
			batch.Put(w.key, w.obj)
		}
		batch.Compute()
		h.mu.Lock()
		for err == nil && !batch.ReadyLocked() {
			batch.AwaitLocked()
			h.mu.Unlock()
			batch.Compute()
			h.mu.Lock()
		}
		if again, failed := plan(nil); err == nil && failed == nil && slices.EqualFunc(writes, again, sameOverlay) {
			break
		}
		h.mu.Unlock()
		h.leave(writes)
		if batch.Release(); err != nil {
			return err
		}
	}
	mark()
	h.marks.fence = true
	if len(writes) == 0 || !isClosed(h.synced) { // the first list shows it
		h.mu.Unlock()
		h.leave(writes)
		return nil
	}
	fired := h.commitLocked(batch, Delta[T]{Cause: cause, ResourceVersion: h.store.store.VersionLocked()}, "")
	h.mu.Unlock()
	fired.Release()
	for i := range writes {
		writes[i].obj = batch.Old(i)
	}
	h.leave(writes)
	h.log.notify()
	return nil
}

// A wantedUnits is what a hub knows of the units that somebody wants; see package demand. hub.mu
// guards all but the Demand.
type wantedUnits[T Identified] struct {
	*demand.Demand
	// since has, for each unit that has not been read, the last event of each of its keys.
	since map[Key]map[Key]sinceWanted[T]
	// ahead has the version at which a unit was read, while the position has not reached it. The read
	// has all that lists and watches see of the unit up to that version.
	ahead map[Key]readAt
	next  uint64 // no version of ahead is older
	// bad has why objects that were read cannot be used, while nothing newer is known of them.
	bad map[Key]error
}

// A sinceWanted is the object of the last event of a key; zero: it was deleted.
type sinceWanted[T Identified] struct {
	obj T
	at  uint64
}

type readAt struct {
	version uint64
	since   time.Time
}

// hidesLocked reports whether an event of that version changes nothing: because nobody wants its
// object, the unit has not been read, or the unit was read at a later version.
func (w *wantedUnits[T]) hidesLocked(key Key, at uint64) bool {
	unit := w.UnitOf(key)
	return w.State(unit) != demand.Ready || at != 0 && at <= w.ahead[unit].version
}

// settleLocked moves to a version.
func (w *wantedUnits[T]) settleLocked(at uint64, fates []fate[T]) {
	if len(w.ahead) > 0 && at >= w.next {
		w.next = math.MaxUint64
		for unit, read := range w.ahead {
			if at >= read.version {
				delete(w.ahead, unit)
			} else {
				w.next = min(w.next, read.version)
			}
		}
	}
	for i := range fates {
		f := &fates[i]
		if unit := w.UnitOf(f.key); f.waits && w.State(unit) == demand.Coming {
			if w.since[unit] == nil {
				w.since[unit] = map[Key]sinceWanted[T]{}
			}
			w.since[unit][f.key] = sinceWanted[T]{f.base, at}
		}
	}
}

// listedLocked notes that a whole list is shown, and forgets what was known of units before.
func (w *wantedUnits[T]) listedLocked() {
	w.Listed()
	clear(w.since)
	w.forgetBadLocked(func(unit Key) bool { return w.ahead[unit].version == 0 }) // else the list is older
}

// forgetBadLocked forgets why objects of some units cannot be used.
func (w *wantedUnits[T]) forgetBadLocked(of func(unit Key) bool) {
	maps.DeleteFunc(w.bad, func(key Key, _ error) bool { return of(w.UnitOf(key)) })
}

// acceptsLocked reports whether Tell can show the object of key at a version. Before the first list
// it can if somebody wants the unit. If the unit is being read, it is read once more, since that
// read may be older.
func (w *wantedUnits[T]) acceptsLocked(key Key, version uint64, synced bool) bool {
	unit := w.UnitOf(key)
	switch state := w.State(unit); {
	case state == demand.Ready:
		return version == 0 || version > w.ahead[unit].version
	case !synced:
		return w.Set.Wants(unit)
	case state == demand.Coming:
		w.Again(unit)
	}
	return false
}

// shownLocked returns what is shown of units.
func (h *hub[T]) shownLocked(units map[Key]readAt) map[Key]T {
	shown := map[Key]T{}
	many := false
	for unit := range units {
		if many = unit.Name == ""; many {
			break
		}
		if obj, ok := h.store.store.Get(unit); ok {
			shown[unit] = obj
		}
	}
	if many {
		for obj := range h.store.snapshotLocked().All() {
			key := KeyOf(obj)
			if _, ok := units[h.demand.UnitOf(key)]; ok {
				shown[key] = obj
			}
		}
	}
	return shown
}

func sameOverlay[T Identified](a, b overlayWrite[T]) bool {
	return a.key == b.key && equal.Same(a.obj, b.obj)
}
