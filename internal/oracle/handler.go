package oracle

import (
	"fmt"
	"time"
)

// A Handler is a registration with all that it was told.
type Handler struct {
	Name   string
	Copy   int
	Filter func(Item) bool // nil: everything
	Resync time.Duration   // 0: it did not ask for that
	// Lossless: it was never so far behind that changes may have been told as their net effect.
	Lossless bool
	// First: it was there before the copy held anything, and is lossless: what it was told is the story that others are held to.
	First bool
	// Loop: it is a loop in a goroutine that the copy does not wait for, which may be in its body when the copy has ended.
	Loop bool

	Call, Ret int    // of the registration; Call is 0 before it
	Before    string // the copy's version at Call

	log       *Log
	told      []*Call
	synced    []int // when its Synced was called
	removed   int   // when Remove had returned; 0: it has not
	mayRun    bool  // a call may have started before that and be recorded after it
	panics    int   // callbacks that panicked
	recovered int   // panics that were reported
}

// Kind is what a callback says.
type Kind string

// The kinds of callbacks.
const (
	Add    Kind = "add"
	Update Kind = "update"
	Delete Kind = "delete"
)

// A Call is one callback. During it the copy is read, to see that it shows the change.
type Call struct {
	Kind     Kind
	Old, New *Item
	At       time.Time
	Initial  int // 1: it says that it is of the first list; -1: that it is not; 0: it does not say

	Read    bool  // Seen and Grouped were read during the call
	Seen    *Item // what the copy had under the key
	Grouped bool  // the index of New's group has what the copy has
	Version string

	call, ret int
}

// Handlers records that a handler is about to be registered; it is told by the methods of what is returned.
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

// Calls records the beginning of a callback. Its result ends it.
func (h *Handler) Calls(c Call) (end func()) {
	l := h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	c.call = l.next()
	h.told = append(h.told, &c)
	for _, item := range []*Item{c.Old, c.New} {
		if item != nil {
			l.see(*item)
		}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.ret = l.next()
	}
}

// Syncs records that the handler was told that it has been told all.
func (h *Handler) Syncs() {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.synced = append(h.synced, h.log.next())
}

// Removed records that Remove has returned. Where a call may have started that has not come to record itself, one is let pass.
func (h *Handler) Removed(mayRun bool) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	if h.removed == 0 {
		h.removed, h.mayRun = h.log.next(), mayRun
	}
}

// Panics records that a callback is about to panic, and Recovers that a panic of the handler was reported.
func (h *Handler) Panics() {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.panics++
}

// Recovers records that a panic of the handler was reported.
func (h *Handler) Recovers() {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.recovered++
}

// Falls records that the handler may have fallen so far behind that what it is told is the net effect.
func (h *Handler) Falls() {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.Lossless = false
}

// Told returns what the calls so far add up to.
func (h *Handler) Told() map[Key]Item {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return fold(h.told, h.log.seq)
}

// fold is what calls before a moment add up to.
func fold(calls []*Call, until int) map[Key]Item {
	told := map[Key]Item{}
	for _, c := range calls {
		switch {
		case c.call > until:
		case c.New != nil:
			told[c.New.Key] = *c.New
		case c.Old != nil:
			delete(told, c.Old.Key)
		}
	}
	return told
}

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

// checkHandlers checks each handler's story: H1 to H7, H9, H10, H12, M3 by Lossless, Z1, Z2, G4.
func (l *Log) checkHandlers(r *Result) {
	for _, h := range l.handlers {
		s := &story{l: l, r: r, h: h, told: map[Key]*Call{}, gone: map[Key]*Item{}, again: map[Key][]time.Time{}}
		for i, c := range h.told {
			if i > 0 {
				s.turn(h.told[i-1], c)
			}
			s.tell(c)
		}
		r.met("H12")
		if h.panics != h.recovered {
			r.fail(l.seq, "H12", "%s panicked %d times, which was reported %d times", h.Name, h.panics, h.recovered)
		}
	}
}

// A story is a handler's callbacks up to one of them.
type story struct {
	l     *Log
	r     *Result
	h     *Handler
	told  map[Key]*Call // the call that told what is there
	gone  map[Key]*Item
	again map[Key][]time.Time // resyncs
	open  bool                // a call had not returned when Remove had
}

// turn checks that c came after the call before it had returned.
func (s *story) turn(before, c *Call) {
	s.r.met("H1")
	if before.ret == 0 || before.ret > c.call {
		s.r.fail(c.call, "H1", "%s: %s during %s", s.h.Name, c, before)
	}
}

func (s *story) fail(c *Call, id, format string, args ...any) {
	s.r.fail(c.call, id, "%s: %s: %s", s.h.Name, c, fmt.Sprintf(format, args...))
}

func (s *story) tell(c *Call) {
	s.ended(c)
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
		if !s.l.truth.had(*c.New) {
			s.fail(c, "H6", "the server never had that")
		}
		s.initial(c)
	}
	s.first(c)
}

// ended checks that nothing is told after the end: H9, G4.
func (s *story) ended(c *Call) {
	if s.h.removed != 0 {
		s.r.met("H9")
		ran := s.h.mayRun && !s.open
		s.open = s.open || c.ret == 0 || c.ret > s.h.removed
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
	if before := s.told[key]; before != nil {
		s.fail(c, "H1", "was told already: %s", before)
	}
	if last := s.gone[key]; last != nil && s.ordered(c) && s.h.Filter == nil && last.Version >= c.New.Version {
		s.fail(c, "H2", "was deleted at version %d", last.Version)
	}
	s.told[key] = c
}

func (s *story) update(c *Call) {
	key := c.New.Key
	before := s.told[key]
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
	case s.ordered(c) && c.Old.Version >= c.New.Version:
		s.fail(c, "H2", "versions do not rise")
	}
	s.told[key] = c
}

func (s *story) resync(c *Call) {
	s.r.met("Z1")
	if s.h.Resync == 0 {
		s.fail(c, "Z1", "nothing changed, and the handler asked for no resync")
		return
	}
	s.r.met("Z2")
	at := append(s.again[c.New.Key], c.At)
	s.again[c.New.Key] = at
	// A round may be late and the next one not, and within a round an object's turn differs.
	const most = 4
	if n := len(at); n > most && at[n-1].Sub(at[n-1-most]) < s.h.Resync {
		s.fail(c, "Z2", "%d resyncs within %v, the period is %v", most+1, at[n-1].Sub(at[n-1-most]), s.h.Resync)
	}
}

func (s *story) delete(c *Call) {
	key := c.Old.Key
	s.r.met("H5")
	switch before := s.told[key]; {
	case before == nil:
		s.fail(c, "H1", "was never added")
	case before.New.Ref != c.Old.Ref:
		s.fail(c, "H5", "the handler was told last: %s", before)
	}
	delete(s.told, key)
	delete(s.again, key)
	s.gone[key] = c.Old
}

// ordered reports whether versions have to rise, as they do until the server goes back in time.
func (s *story) ordered(c *Call) bool {
	s.r.met("H2")
	return s.l.truth.at(c.call).epoch == 0
}

// first checks that the copy showed the change, or a later one, during the call: H7.
func (s *story) first(c *Call) {
	if !c.Read || s.l.truth.at(c.call).epoch > 0 {
		return
	}
	s.r.met("H7")
	item := c.New
	if item == nil {
		item = c.Old
	}
	switch {
	case c.Seen == nil && c.New != nil && !s.missing(c):
		s.fail(c, "H7", "the copy does not have it")
	case c.Seen != nil && c.Seen.Version < item.Version:
		s.fail(c, "H7", "the copy has %s", c.Seen)
	case c.Seen != nil && c.Kind == Delete && c.Seen.Version == item.Version && s.h.Filter == nil:
		s.fail(c, "H7", "the copy still has it")
	case !c.Grouped:
		s.fail(c, "H7", "the index does not have what the copy has, %s", show([]Item{*c.Seen}))
	}
}

// missing reports whether the server has deleted the object of c.New, by the end of the call.
func (s *story) missing(c *Call) bool {
	top := s.l.truth.at(max(c.ret, c.call))
	for _, cell := range s.l.truth.epochs[top.epoch].cells[c.New.Key] {
		if cell.version > c.New.Version && cell.version <= top.version && cell.item == nil && !cell.bad {
			return true
		}
	}
	return false
}

// initial checks that the objects of the first list say so, and no others: H10.
func (s *story) initial(c *Call) {
	if c.Initial == 0 || len(s.h.synced) == 0 {
		return
	}
	s.r.met("H10")
	if first := c.call < s.h.synced[0]; first != (c.Initial > 0) {
		s.fail(c, "H10", "initial is %v", c.Initial > 0)
	}
}

// IsSynced reports whether the handler was told that it is synced.
func (h *Handler) IsSynced() bool {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return len(h.synced) > 0
}
