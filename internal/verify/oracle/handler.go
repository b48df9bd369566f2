package oracle

import (
	"fmt"
	"time"
)

// A Handler is a registration with all calls of its callbacks.
type Handler struct {
	Name   string
	Copy   int
	Filter func(Item) bool // nil: every object
	Resync time.Duration   // 0: no resync

	// Lossless: the handler was never so far behind that its deltas may have been folded.
	Lossless bool
	// First: the handler is lossless and was registered before the copy had any object. The calls
	// of all other handlers are compared with its calls.
	First bool
	// Loop: the handler is a loop over events in a goroutine of its own. The copy does not wait for
	// the loop, so its body may still run when the copy has ended.
	Loop bool

	Call, Ret int    // the moments of the registration; Call is 0 before it
	Before    string // the copy's version at Call

	log       *Log
	calls     []*Call
	synced    []int // the moments at which its Synced was called
	removed   int   // the moment at which Remove had returned; 0: it has not
	mayRun    bool  // one call may have begun before removed and be recorded after it
	panics    int   // number of callbacks that panicked
	recovered int   // number of panics that the copy reported
}

// Kind is the kind of a callback.
type Kind string

// The kinds of callbacks.
const (
	Add    Kind = "add"
	Update Kind = "update"
	Delete Kind = "delete"
)

// A Call is one call of a callback. The callback may read the copy, to check that it shows the
// change.
type Call struct {
	Kind     Kind
	Old, New *Item
	At       time.Time
	Initial  int // 1: marked as part of the first list; -1: marked as not; 0: there is no mark

	Read    bool  // Seen and Grouped were read during the call
	Seen    *Item // the copy's object of the key; nil: none
	Grouped bool  // the copy's index and its store show the same for New's group

	// Snapshot: the call took a snapshot of the copy, which is recorded as a read, of Version.
	Snapshot bool
	Version  string

	call, ret int
}

// Handlers records that a handler is about to be registered. The methods of the result record what
// follows.
func (l *Log) Handlers(h Handler) *Handler {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.log, h.Call = l, l.next()
	l.handlers = append(l.handlers, &h)
	return &h
}

// Registered records that the registration has returned.
func (h *Handler) Registered() {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.Ret = h.log.next()
}

// Calls records the beginning of a callback. The caller calls end when the callback returns.
func (h *Handler) Calls(c Call) (end func()) {
	l := h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	c.call = l.next()
	h.calls = append(h.calls, &c)
	for _, item := range []*Item{c.Old, c.New} {
		if item != nil {
			l.remember(*item)
		}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.ret = l.next()
	}
}

// Syncs records that the handler's Synced was called.
func (h *Handler) Syncs() {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.synced = append(h.synced, h.log.next())
}

// Removed records that Remove has returned. mayRun says that a callback may have begun before that
// and not have recorded itself yet; one such call is allowed.
func (h *Handler) Removed(mayRun bool) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	if h.removed == 0 {
		h.removed, h.mayRun = h.log.next(), mayRun
	}
}

// Panics records that a callback is about to panic.
func (h *Handler) Panics() {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.panics++
}

// Recovers records that the copy reported a panic of the handler.
func (h *Handler) Recovers() {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.recovered++
}

// Falls records that the handler may be so far behind that its deltas are folded.
func (h *Handler) Falls() {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.Lossless = false
}

// fold returns the objects that the calls up to a moment add up to.
func fold(calls []*Call, until int) map[Key]Item {
	objs := map[Key]Item{}
	for _, c := range calls {
		switch {
		case c.call > until:
		case c.New != nil:
			objs[c.New.Key] = *c.New
		case c.Old != nil:
			delete(objs, c.Old.Key)
		}
	}
	return objs
}

// resyncs reports whether c is a resync: an Update whose old and new object are the same pointer.
func (h *Handler) resyncs(c *Call) bool {
	return c.Kind == Update && c.Old != nil && c.New != nil && c.Old.Ref == c.New.Ref
}

func (c *Call) String() string {
	switch {
	case c.Old != nil && c.New != nil:
		return fmt.Sprintf("%s %s to %s", c.Kind, c.Old, c.New)
	case c.New != nil:
		return fmt.Sprintf("%s %s", c.Kind, c.New)
	case c.Old != nil:
		return fmt.Sprintf("%s %s", c.Kind, c.Old)
	}
	return string(c.Kind) + " nothing"
}

// checkHandlers checks the calls of each handler: H1 to H7, H9, H10, H12, M3 by Lossless, Z1, Z2,
// G4.
func (l *Log) checkHandlers(r *Result) {
	for _, h := range l.handlers {
		s := &story{l: l, r: r, h: h, present: map[Key]*Call{}, deleted: map[Key]*Item{}, resyncTimes: map[Key][]time.Time{}}
		for i, c := range h.calls {
			if i > 0 {
				s.checkSequential(h.calls[i-1], c)
			}
			s.checkCall(c)
		}
		r.met("H12")
		if h.panics != h.recovered {
			r.fail(l.seq, "H12", "%s panicked %d times, which was reported %d times", h.Name, h.panics, h.recovered)
		}
	}
}

// A story is the state that a handler's calls so far add up to.
type story struct {
	l           *Log
	r           *Result
	h           *Handler
	present     map[Key]*Call       // the last Add or Update of each object that exists
	deleted     map[Key]*Item       // the last Delete of each key
	resyncTimes map[Key][]time.Time // when each object that exists was resynced
	lastRan     bool                // a call ended after Remove had returned: no other may begin
}

// checkSequential checks that c began after the call before it had returned.
func (s *story) checkSequential(before, c *Call) {
	s.r.met("H1")
	if before.ret == 0 || before.ret > c.call {
		s.r.fail(c.call, "H1", "%s: %s during %s", s.h.Name, c, before)
	}
}

func (s *story) fail(c *Call, id, format string, args ...any) {
	s.r.fail(c.call, id, "%s: %s: %s", s.h.Name, c, fmt.Sprintf(format, args...))
}

// checkCall checks one call against the calls before it and against the server, and adds it to the
// story.
func (s *story) checkCall(c *Call) {
	s.checkAfterEnd(c)
	wellFormed := map[Kind]bool{
		Add:    c.Old == nil && c.New != nil,
		Update: c.Old != nil && c.New != nil,
		Delete: c.Old != nil && c.New == nil,
	}
	if !wellFormed[c.Kind] {
		s.fail(c, "H1", "has no such objects")
		return
	}
	switch c.Kind {
	case Add:
		s.add(c)
	case Update:
		s.update(c)
	case Delete:
		s.delete(c)
	}
	if c.New != nil {
		s.r.met("H6")
		if !s.l.wasTold(*c.New) && !s.l.truth.wrote(*c.New) {
			s.fail(c, "H6", "the server never had that")
		}
		s.checkInitial(c)
	}
	s.checkVisible(c)
	s.checkTogether(c)
}

// checkAfterEnd checks that no call begins after Remove has returned, or after the end of the copy:
// H9, G4.
func (s *story) checkAfterEnd(c *Call) {
	if s.h.removed != 0 {
		s.r.met("H9")
		ran := s.h.mayRun && !s.lastRan
		s.lastRan = s.lastRan || c.ret == 0 || c.ret > s.h.removed
		if c.call > s.h.removed && !ran {
			s.fail(c, "H9", "after Remove had returned")
		}
	}
	for _, stop := range s.l.stops {
		if stop.Copy == s.h.Copy && !s.h.Loop {
			s.r.met("G4")
			if c.call > stop.Ret {
				s.fail(c, "G4", "after the end of the copy")
			}
		}
	}
}

func (s *story) add(c *Call) {
	key := c.New.Key
	s.r.met("H1")
	if before := s.present[key]; before != nil {
		s.fail(c, "H1", "was told already: %s", before)
	}
	if last := s.deleted[key]; last != nil && s.versionsRise(c) && s.h.Filter == nil && last.Version >= c.New.Version {
		s.fail(c, "H2", "was deleted at version %d", last.Version)
	}
	s.present[key] = c
}

func (s *story) update(c *Call) {
	key := c.New.Key
	before := s.present[key]
	s.r.met("H1")
	s.r.met("H3")
	s.r.met("H4")
	switch {
	case before == nil:
		s.fail(c, "H1", "was never added")
	case c.Old.UID != c.New.UID || c.Old.Key != key:
		s.fail(c, "H3", "these are two objects")
	case before.New.Ref != c.Old.Ref:
		s.fail(c, "H4", "the handler was told last: %s", before)
	case s.h.resyncs(c):
		s.resync(c)
	case s.versionsRise(c) && c.Old.Version >= c.New.Version:
		s.fail(c, "H2", "versions do not rise")
	}
	s.present[key] = c
}

func (s *story) resync(c *Call) {
	s.r.met("Z1")
	if s.h.Resync == 0 {
		s.fail(c, "Z1", "nothing changed, and the handler asked for no resync")
		return
	}
	s.r.met("Z2")
	at := append(s.resyncTimes[c.New.Key], c.At)
	s.resyncTimes[c.New.Key] = at
	// One round of resyncs may be late and the next not, and the order of the objects differs from
	// round to round. So two resyncs may come soon after each other, but not five in one period.
	const most = 4
	if n := len(at); n > most && at[n-1].Sub(at[n-1-most]) < s.h.Resync {
		s.fail(c, "Z2", "%d resyncs within %v, the period is %v", most+1, at[n-1].Sub(at[n-1-most]), s.h.Resync)
	}
}

func (s *story) delete(c *Call) {
	key := c.Old.Key
	s.r.met("H5")
	switch before := s.present[key]; {
	case before == nil:
		s.fail(c, "H1", "was never added")
	case before.New.Ref != c.Old.Ref:
		s.fail(c, "H5", "the handler was told last: %s", before)
	}
	delete(s.present, key)
	delete(s.resyncTimes, key)
	s.deleted[key] = c.Old
}

// versionsRise reports whether the versions of an object must rise. They must until the server goes
// back in time, or what the copy was told of turns out not to be in the collection.
func (s *story) versionsRise(c *Call) bool {
	s.r.met("H2")
	return s.l.truth.at(c.call).epoch == 0 && !s.l.takenBack(c.key())
}

// checkVisible checks that during the call the copy showed the change, or a later one: H7.
func (s *story) checkVisible(c *Call) {
	if !c.Read || s.l.truth.at(c.call).epoch > 0 || s.l.takenBack(c.key()) {
		return
	}
	s.r.met("H7")
	item := c.New
	if item == nil {
		item = c.Old
	}
	switch {
	case c.Seen == nil && c.New != nil && !s.deletedByNow(c):
		s.fail(c, "H7", "the copy does not have it")
	case c.Seen != nil && c.Seen.Version < item.Version:
		s.fail(c, "H7", "the copy has %s", c.Seen)
	case c.Seen != nil && c.Kind == Delete && c.Seen.Version == item.Version && s.h.Filter == nil:
		s.fail(c, "H7", "the copy still has it")
	case !c.Grouped:
		s.fail(c, "H7", "the index does not have what the copy has, %s", show([]Item{*c.Seen}))
	}
}

// checkTogether checks that during the call the copy showed all that the server wrote at the
// version of the change: H13. That the snapshot is one state of the server is checked with the
// other reads.
func (s *story) checkTogether(c *Call) {
	if !c.Snapshot || c.New == nil || s.l.truth.at(c.call).epoch > 0 || !s.l.truth.together(c.New.Version) {
		return
	}
	if s.l.wasTold(*c.New) {
		return
	}
	s.r.met("H13")
	version, err := ParseVersion(c.Version)
	if err != nil || version < c.New.Version && !s.l.truth.badSince(point{0, version}, c.call) {
		s.fail(c, "H13", "the copy is at version %q, without the other objects of the same write", c.Version)
	}
}

// deletedByNow reports whether the server had deleted the object of c.New by the end of the call.
// The server may have gone back in time during the call, to a state from before the deletion.
func (s *story) deletedByNow(c *Call) bool {
	t, end := &s.l.truth, max(c.ret, c.call)
	for i := t.at(c.call).epoch; i <= t.at(end).epoch; i++ {
		for _, rev := range t.epochs[i].revisions[c.New.Key] {
			if rev.version > c.New.Version && t.reached(point{i, rev.version}, end) && rev.item == nil && !rev.bad {
				return true
			}
		}
	}
	return false
}

// checkInitial checks that calls are marked as initial before Synced and not after it: H10.
func (s *story) checkInitial(c *Call) {
	if c.Initial == 0 || len(s.h.synced) == 0 {
		return
	}
	s.r.met("H10")
	if first := c.call < s.h.synced[0]; first != (c.Initial > 0) {
		s.fail(c, "H10", "initial is %v", c.Initial > 0)
	}
}

// IsSynced reports whether the handler's Synced was called.
func (h *Handler) IsSynced() bool {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return len(h.synced) > 0
}
