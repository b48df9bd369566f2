package serve

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/wire"
	"github.com/go-lw/lw/serve/internal/order"
)

// A history is a collection as clients see it: its present state, and the events that led to it, as
// far back as the limits allow. A watch is a place among the events. A state of the past is the
// present one with the later events undone, so only the present one is kept.
//
// Positions count the events from the first one on, and go on over a new beginning. An event that
// leaves the history is free: nobody points to it.
type history struct {
	limits HistoryLimits
	// own, if it is not nil, says that the versions are made here; see stamps. Versions of others
	// then mean nothing.
	own *stamps
	// floor returns the oldest version that the collection itself still knows, or 0. nil: it keeps
	// no history that it could lose.
	floor func() uint64

	mu      sync.Mutex        // guards the fields below
	begun   bool              // there is a state
	state   order.List[*item] // at version here
	here    uint64            // all changes up to here are in the state, and none after it
	oldest  uint64            // the oldest version whose state is known
	events  []*event          // the changes after oldest, in their order
	dropped uint64            // how many events are no longer in events
	bytes   int64             // of events: their frames, and what they alone keep of before
	// era counts the beginnings. A watch that was opened in an older one ends with 410, at once if
	// its era is before brokenEra, else when its turn has come.
	era, brokenEra int
	// replaced is the newest version that may be of a history before brokenEra. Where it is not here,
	// it is not said to be too old or too new, but that what it was of is gone.
	replaced  uint64
	gaps      []gap                // in their order
	past      []pastState          // the states that were asked for last
	changed   chan struct{}        // closed at the next change of any of these fields; may be nil
	observer  func(old, new *item) // nil: none; see observe
	ended     bool                 // by close: all watches end, nothing changes any more
	endWithin time.Duration        // in which time they end
}

// A pastState is a state that was asked for.
type pastState struct {
	position uint64 // of the event after it
	state    order.List[*item]
}

// A gap is what nobody has seen: the states between two versions whose own are known.
type gap struct{ from, to uint64 }

const (
	maxPast = 16 // how many states of the past are kept
	maxGaps = 16 // how many gaps are; versions before the others are too old
)

// begin makes items the state at version, and forgets everything before it. broken says that the
// versions of before mean nothing any more.
func (h *history) begin(state order.List[*item], version uint64, broken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.era++
	if broken {
		h.brokenEra = h.era
		if h.own == nil { // else the versions of before are lower, and mean what they meant
			h.replaced = max(h.replaced, h.here, version-min(version, 1))
		}
	}
	before := h.state
	h.begun, h.state, h.here, h.oldest = true, state, version, version
	h.observeLocked(before)
	for _, e := range h.events {
		e.drop()
	}
	h.dropped += uint64(len(h.events))
	h.events, h.bytes, h.gaps, h.past = nil, 0, nil, nil
	h.wakeLocked()
}

// observe has f called with the state, as items that are new, and with each change from then on,
// before the version of that is here. f runs under mu, and must not block.
func (h *history) observe(f func(old, new *item)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.observer = f
	h.observeLocked(order.List[*item]{})
}

// observeLocked calls the observer for a state that has come in the place of before.
func (h *history) observeLocked(before order.List[*item]) {
	if h.observer == nil {
		return
	}
	for path, was := range before.From("") {
		if now, ok := h.state.Get(path); !ok || now.uid != was.uid {
			h.observer(was, nil)
		}
	}
	for _, i := range h.state.From("") {
		h.observer(nil, i)
	}
}

// suspend says that there is no state of any version, until begin. Requests are refused, and the
// watches end soon.
func (h *history) suspend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.era++
	h.begun = false
	h.wakeLocked()
}

// commit appends events, and makes version the present one.
func (h *history) commit(events []*event, version uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commitLocked(events, version)
}

// leap is commit where others may have come before events that have left nothing behind, of objects
// that were created and deleted. The versions from the present one to version are a gap then: a
// client that is at one of them may have such an object.
func (h *history) leap(events []*event, version uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if version > h.here+1 {
		h.gaps = append(h.gaps, gap{h.here, version})
	}
	if len(h.gaps) > maxGaps {
		h.oldest = max(h.oldest, h.gaps[0].to)
		h.gaps = slices.Delete(h.gaps, 0, 1)
	}
	h.commitLocked(events, version)
}

func (h *history) commitLocked(events []*event, version uint64) {
	if len(events) == 0 && version == h.here {
		return
	}
	for _, e := range events {
		if e.new == nil {
			h.state.Delete(e.old.path)
		} else {
			h.state.Set(e.new.path, e.new)
		}
		if h.observer != nil {
			h.observer(e.old, e.new)
		}
		if e.old != nil {
			e.old.over = e
			e.bytes += e.old.encodedBytes()
		}
		h.bytes += e.bytes
	}
	h.events = append(h.events, events...)
	h.here = max(h.here, version)
	h.trimLocked()
	h.wakeLocked()
}

// grew says that a frame of n bytes was made for an event.
func (h *history) grew(e *event, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.dropped {
		return // whoever made the frame has the event, and it goes with him
	}
	e.bytes += int64(n)
	h.bytes += int64(n)
	h.trimLocked()
}

// keep keeps data as the encoding of an item. That of an item of the past counts.
func (h *history) keep(i *item, f wire.Format, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i.keep(f, data)
	if i.over != nil {
		n := i.adds(data)
		i.over.bytes += n
		h.bytes += n
		h.trimLocked()
	}
}

// trimLocked drops the oldest events while there are too many. The events of one version are
// dropped together, because a watch may start at a version only.
func (h *history) trimLocked() {
	n := 0
	bytes := h.bytes
	for n < len(h.events) && (len(h.events)-n > h.limits.Events || bytes > h.limits.Bytes) {
		version := h.events[n].version
		for n < len(h.events) && h.events[n].version == version {
			bytes -= h.events[n].bytes
			h.events[n].drop()
			n++
		}
		h.oldest = max(h.oldest, version)
	}
	if n == 0 {
		return
	}
	h.gaps = slices.DeleteFunc(h.gaps, func(g gap) bool { return g.to <= h.oldest })
	h.bytes = bytes
	h.dropped += uint64(n)
	clear(h.events[:n])
	h.events = h.events[n:]
	// Nobody may ask for these any more, and each keeps what it has of before.
	h.past = slices.DeleteFunc(h.past, func(s pastState) bool { return s.position < h.dropped })
}

// unlessEnded calls begin, unless the history has ended. It does not end meanwhile.
func (h *history) unlessEnded(begin func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		begin()
	}
	return !h.ended
}

// An extent is how much a history has.
type extent struct {
	synced          bool
	objects, events int
	bytes           int64
	here, oldest    uint64
}

func (h *history) extent() extent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return extent{h.begun, h.state.Len(), len(h.events), h.bytes, h.here, h.oldestLocked()}
}

// close ends all watches, at random within a while from now on.
func (h *history) close(within time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended, h.endWithin = true, within
	}
	h.wakeLocked()
}

func (h *history) wakeLocked() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// waitChannel returns a channel that is closed at the next change.
func (h *history) waitChannel() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waitLocked()
}

// waitLocked returns a channel that is closed at the next change.
func (h *history) waitLocked() <-chan struct{} {
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// oldestLocked returns the oldest version whose state a client may ask for.
func (h *history) oldestLocked() uint64 {
	if h.floor == nil {
		return h.oldest
	}
	return min(h.here, max(h.oldest, h.floor()))
}

// afterLocked returns the index of the first event after version.
func (h *history) afterLocked(version uint64) int {
	return sort.Search(len(h.events), func(i int) bool { return h.events[i].version > version })
}

// foreignLocked reports whether version is none that this history has given out and still knows. It
// is looked up, because a process whose clock is ahead, or that drew the same number of a replica,
// may have given out any number between two versions of this one.
func (h *history) foreignLocked(version uint64) bool {
	if h.own == nil || version == h.oldest {
		return false
	}
	i := h.afterLocked(version)
	return i == 0 || h.events[i-1].version != version
}

// doubts reports whether version, which is not here, may be of a history that was replaced, or may
// be one to which the server has come again since.
func (h *history) doubts(version uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun && h.own == nil && version > h.here && version <= h.replaced
}

// isAhead reports whether version may be here later.
func (h *history) isAhead(version uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.own == nil && version > h.here && version > h.replaced
}

// gapLocked returns the first version after the gap in which version is, or 0 if it is in none.
func (h *history) gapLocked(version uint64) uint64 {
	for _, g := range h.gaps {
		if g.from < version && version < g.to {
			return g.to
		}
	}
	return 0
}

// missingLocked returns the error for a version that is not from the oldest one to the present one,
// or is in a gap.
func (h *history) missingLocked(version uint64) error {
	switch oldest := max(h.oldestLocked(), h.gapLocked(version)); {
	case version <= h.replaced:
		return listopts.Replaced(version, oldest)
	case version > h.here && h.own == nil:
		return listopts.TooLarge(version, h.here)
	default:
		return listopts.TooOld(version, oldest)
	}
}

// present returns the present state, and its version. ok is false before the first one.
func (h *history) present() (state order.List[*item], version uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.Copy(), h.here, h.begun
}

// at returns the state at version. The errors are those of an API server: 410 if it is not known
// any more, and a timeout with the cause ResourceVersionTooLarge if it is not known yet.
func (h *history) at(version uint64) (order.List[*item], error) {
	h.mu.Lock()
	if h.foreignLocked(version) || version < h.oldestLocked() || version > h.here || h.gapLocked(version) > 0 {
		defer h.mu.Unlock()
		return order.List[*item]{}, h.missingLocked(version)
	}
	i := h.afterLocked(version)
	if i == len(h.events) {
		defer h.mu.Unlock()
		return h.state.Copy(), nil
	}
	position := h.dropped + uint64(i)
	if p := slices.IndexFunc(h.past, func(s pastState) bool { return s.position == position }); p >= 0 {
		defer h.mu.Unlock()
		return h.past[p].state.Copy(), nil
	}
	state, later := h.state.Copy(), slices.Clone(h.events[i:])
	h.mu.Unlock()

	// Undoing many events takes a while, and the list and the events are this goroutine's own.
	for _, e := range slices.Backward(later) {
		if e.old == nil {
			state.Delete(e.new.path)
		} else {
			state.Set(e.old.path, e.old)
		}
	}
	h.remember(position, state.Copy())
	return state, nil
}

// remember keeps the state before the event at position, unless that is gone meanwhile: then nobody
// may ask for it.
func (h *history) remember(position uint64, state order.List[*item]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if position < h.dropped {
		return
	}
	if len(h.past) == maxPast {
		h.past = slices.Delete(h.past, 0, 1)
	}
	h.past = append(h.past, pastState{position, state})
}

// waitFor waits until everything up to version is here, at most for patience. The error is a
// timeout that says how far the history is.
func (h *history) waitFor(ctx context.Context, version uint64, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for late := false; ; {
		h.mu.Lock()
		here, reached, changed := h.here, h.begun && h.here >= version, h.waitLocked()
		h.mu.Unlock()
		switch {
		case reached:
			return nil
		case late:
			return listopts.TooLarge(version, here)
		}
		select {
		case <-changed:
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waitForBegin waits until there is a state.
func (h *history) waitForBegin(ctx context.Context) error {
	for {
		h.mu.Lock()
		begun, ended, changed := h.begun, h.ended, h.waitLocked()
		h.mu.Unlock()
		switch {
		case begun:
			return nil
		case ended:
			return errClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// currentEra returns the number of the present era.
func (h *history) currentEra() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.era
}

// current returns the present item of a key.
func (h *history) current(key lw.Key) (*item, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.Get(listopts.Path(key))
}

// A place is where a watch is in a history. It holds no event, so an event that leaves the history
// is free.
type place struct {
	era      int
	position uint64 // of the next event
	// after is the version from which the watch was asked for. Events up to it are left out: it may
	// be one that was not here yet. Events after it are never left out by their version, because
	// several may have the same, those of one transaction of the server's store.
	after uint64
}

// open returns the place of a watch that begins after version. A version that is not here yet is
// fine: nothing is sent until it is passed. The error is 410 if what came after version is not
// known, be it any more or in a gap, or if version may be of a history that was replaced.
func (h *history) open(version uint64) (place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if version < h.oldestLocked() || h.foreignLocked(version) || h.gapLocked(version) > 0 || version > h.here && version <= h.replaced {
		return place{}, h.missingLocked(version)
	}
	return place{h.era, h.dropped + uint64(h.afterLocked(version)), version}, nil
}

// openNow returns the present state, and the place after it.
func (h *history) openNow() (place, order.List[*item]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return place{h.era, h.dropped + uint64(len(h.events)), h.here}, h.state.Copy()
}

// A watch takes so many events at a time, and no more after so many bytes: as long as it sends
// them, it keeps what the history may have dropped.
const (
	maxRead      = 128
	maxReadBytes = 256 << 10
)

// A reading is what a watch finds at its place.
type reading struct {
	events    []*event
	here      uint64          // if there are no events: the version up to which there are none
	wait      <-chan struct{} // if there are no events: closed when there may be more
	stale     bool            // the history has begun anew; the watch must end soon
	ended     bool            // the watch must end within endWithin
	endWithin time.Duration
}

// read appends the events at p to buf, at most maxRead. The caller moves p on, and clears buf when
// the events are sent. The error is 410: events that p has not reached are gone.
func (h *history) read(p place, buf []*event) (reading, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.era < h.brokenEra && h.own == nil:
		return reading{}, listopts.Replaced(p.after, h.oldestLocked())
	case p.era < h.brokenEra, p.era == h.era && p.position < h.dropped:
		return reading{}, listopts.TooOld(p.after, h.oldestLocked())
	case p.era != h.era:
		return reading{stale: true, wait: h.waitLocked(), ended: h.ended, endWithin: h.endWithin}, nil
	case h.gapLocked(p.after) > 0: // the watch has waited for its version, which was passed unseen
		return reading{}, h.missingLocked(p.after)
	}
	if h.floor != nil {
		// The collection has forgotten these events, and its watches must not know more than it.
		if floor := h.floor(); p.position < h.dropped+uint64(h.afterLocked(floor)) {
			return reading{}, listopts.TooOld(p.after, h.oldestLocked())
		}
	}
	from := int(p.position - h.dropped)
	to := from
	for bytes := int64(0); to < len(h.events) && to < from+maxRead && bytes < maxReadBytes; to++ {
		bytes += h.events[to].bytes
	}
	r := reading{events: append(buf, h.events[from:to]...), here: h.here}
	if from == to {
		r.wait, r.ended, r.endWithin = h.waitLocked(), h.ended, h.endWithin
	}
	return r, nil
}

func newHistory(limits HistoryLimits) *history {
	return &history{limits: HistoryLimits{
		Events: positive(limits.Events, 10_000),
		Bytes:  positive(limits.Bytes, 64<<20),
	}}
}

var errClosed = errors.New("serve: the server is shutting down")
