package lw

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/pace"
)

const (
	// healthyAfter is how long a watch must stay open to count as progress without an event. It is
	// also how long an unverified watch may be silent, at least, before the server is asked for its
	// version; it is asked within twice that.
	healthyAfter = 10 * time.Second
	// calmAfter is how long a silent watch must stay open to be one that a proxy has cut because it
	// was idle. A server that cannot serve the position closes it sooner.
	calmAfter = time.Second
	// confirmedFor is how long a probe holds for the ends of such watches: about as long as for a
	// watch that is silent to its end.
	confirmedFor = 5 * time.Minute
	// overdue is how long the server may take to end a watch after its timeout. Without a sign of
	// life for the timeout and overdue together, the watch is cancelled.
	overdue = 30 * time.Second
	// sureAfter is the number of SyncBudgets after which only sureProgress counts as progress of a
	// streamed list. Up to then any ADDED event counts that is newer than all before, but it may be
	// a new object: a server that ignores the request for a streamed list sends such events for as
	// long as the collection is in use. A server that streams the list sends its objects in the
	// order of their names. So some have a lower version than one before, unless all were created
	// in that order and never changed.
	sureAfter = 6
)

// watch resumes at the position.
func (r *Reflector[T]) watch(ctx context.Context) outcome { return r.follow(ctx, false) }

// follow watches from the position until the watch ends. If initial is true, the watch is a
// streamed list (https://kep.k8s.io/3157): it begins with the whole list as it is now, a consistent
// read, and goes on as any other watch. The server is asked to end the watch after a random
// timeout.
//
// Its frame is on the stack as long as the watch lasts, so what comes before the request and behind
// it is in functions of its own; see HTTP.do.
func (r *Reflector[T]) follow(ctx context.Context, initial bool) outcome {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w, opts := r.newWatchSession(initial, cancel)
	defer w.stop()
	op := w.op // it changes when the initial events have ended
	err := r.src.Watch(ctx, *opts, w.event)
	return w.finish(op, causeOf(ctx, err))
}

// newWatchSession returns the session of a watch that begins now, and what to ask the server for.
//
//go:noinline
func (r *Reflector[T]) newWatchSession(initial bool, cancel context.CancelCauseFunc) (*watchSession[T], *metav1.ListOptions) {
	r.limiter.Spend(time.Now())
	timeout := r.opts.WatchTimeout + rand.N(r.opts.WatchTimeout)
	if !initial && r.hurry.open(r.position, cancel) {
		timeout = briefTimeout
	}
	opts := &metav1.ListOptions{
		AllowWatchBookmarks: true,
		TimeoutSeconds:      ptr(max(1, int64(timeout/time.Second))),
	}
	timeout = time.Duration(*opts.TimeoutSeconds) * time.Second // as the server gets it
	w := &watchSession[T]{r: r, op: opWatch, timeout: timeout, cancel: cancel}
	if initial {
		w.op, w.initial = opStream, r.newListBuilder()
		opts.SendInitialEvents = ptr(true)
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		patience := r.opts.SyncBudget
		if r.streams.proved {
			patience = max(patience, listPatience)
		}
		w.stall = pace.NewStallTimer(cancel, patience, errNoEnd)
		w.limitInitial()
		r.recorder.setMode(ListStream)
		r.recorder.setPhase(PhaseStreaming)
	} else {
		opts.ResourceVersion = r.position.version
		w.goLive()
	}
	r.recorder.requested(w.op)
	w.requested = time.Now()
	w.start = w.requested
	return w, opts
}

// finish completes the session, which began as op and has ended with err.
//
//go:noinline
func (w *watchSession[T]) finish(op string, err error) outcome {
	// Nothing may follow an event that promised More.
	w.flush()
	if !errors.Is(err, errNoStream) { // then there was no request
		w.r.recorder.ended(op, err, time.Since(w.requested))
	}
	return w.ended(err, time.Since(w.start))
}

// A watchSession is one watch: what it has seen, and the timers that may end it.
type watchSession[T Identified] struct {
	r         *Reflector[T]
	op        string                  // opStream until the initial events have ended, then opWatch
	requested time.Time               // when the request began
	start     time.Time               // when op began
	timeout   time.Duration           // that the server was asked for
	cancel    context.CancelCauseFunc // ends the request; any goroutine may call it
	stall     *pace.StallTimer
	health    []*time.Timer // see goLive

	started bool // the source has yielded an event, so hints is set
	hints   SourceHints
	// noVersions says that the watch began without a version, or that the source's versions mean
	// nothing. Its events cannot be checked, and it cannot be resumed.
	noVersions bool
	moved      bool // the position has moved, or an initial event has come

	// The fields below are used until the initial events have ended.

	initial *listBuilder[T] // nil from then on
	limits  []*time.Timer   // see limitInitial
	strict  atomic.Bool     // only sureProgress counts as a sign of life; a timer sets it

	// The fields below concern the present event, and those since the last flush.

	// ev is the event that is being handled. It is here because a pointer to a parameter would cost
	// an allocation.
	ev        WatchEvent[T]
	flushed   time.Duration      // when the last flush was, by the recorder's clock
	open      bool               // the last event was Open
	group     eventGroup[T]      // of the version whose last event has not come
	unflushed uint64             // how many there are
	kinds     [eventKinds]uint64 // of these
	lifeSigns uint64             // how many of them are a sign of life
}

// limitInitial bounds how long the initial events may take, whatever comes: the watch is cancelled
// when the server should have ended it. With ListAuto, pages can take over, so that from sureAfter
// on only sure progress counts, unless the server is known to end its streams.
func (w *watchSession[T]) limitInitial() {
	cancel := w.cancel
	w.limits = append(w.limits, time.AfterFunc(w.timeout+overdue, func() { cancel(errNoEnd) }))
	if w.r.opts.List != ListStream && !w.r.streams.proved {
		w.limits = append(w.limits, time.AfterFunc(sureAfter*w.r.opts.SyncBudget, func() { w.strict.Store(true) }))
	}
}

func (w *watchSession[T]) stopLimits() {
	for _, t := range w.limits {
		t.Stop()
	}
	w.limits = nil // a watch may wait for a long time
}

// goLive begins the part that is a plain watch: at once, or after the initial events.
//
// Two timers start. Their functions run in goroutines of their own, so they use only what this
// function has read, the counter of stall, and what is safe for any goroutine.
//
//	verify   first timer, after healthyAfter         second timer
//	false    marks the watch as healthy              none
//	true     does so only if something has come      ends a silent watch, to ask for the version:
//	                                                 up to healthyAfter later, or at askNext
//
// A server that has refused to tell its version is asked again only at askNext. Until then its
// watch counts as healthy.
func (w *watchSession[T]) goLive() {
	w.stopLimits()
	w.r.recorder.setPhase(PhaseWatching)
	w.noVersions = w.r.position.version == ""
	if w.stall == nil {
		w.stall = pace.NewStallTimer(w.cancel, w.timeout+overdue, errSilent)
	} else {
		w.stall.Restart(w.timeout+overdue, errSilent)
	}
	g, r, cancel, doubt := w.stall, w.r, w.cancel, w.r.verify
	before := g.Count()
	// All clients of a server that was away resume at the same moment. They must not ask together.
	ask, refused := healthyAfter+rand.N(healthyAfter), false
	if left := time.Until(r.askNext); left > 0 {
		ask, refused = max(healthyAfter, left), left > healthyAfter
	}
	w.health = append(w.health, time.AfterFunc(healthyAfter, func() {
		if !doubt || refused || g.Count() != before {
			r.recovered()
		}
	}))
	if doubt {
		w.health = append(w.health, time.AfterFunc(ask, func() {
			if g.Count() == before {
				cancel(errUnverified)
			}
		}))
	}
}

func (w *watchSession[T]) stop() {
	w.stopLimits()
	w.stall.Stop()
	for _, t := range w.health {
		t.Stop()
	}
}

// ended returns the outcome of the watch. took is the time since op began.
func (w *watchSession[T]) ended(err error, took time.Duration) outcome {
	r := w.r
	o := outcome{op: w.op, err: err, progress: w.moved}
	if w.op == opStream {
		if o.err == nil {
			o.err = errCut
		}
		return r.streamFailed(o)
	}
	o.heardNothing = w.stall.Count() == 0
	// The server counts the timeout from the request on, not from the end of the initial events.
	o.endedEarly = time.Since(w.requested) < w.timeout
	switch {
	case o.heardNothing && err == nil && o.endedEarly:
		r.doubt.quiet = time.Now()
	case o.heardNothing && isExpired(err): // said by a server that was there
	case o.heardNothing && err != nil && !isOwnEnd(err):
		r.doubt.lost(w.requested) // perhaps it never began
	case !o.heardNothing:
		r.doubt.lift()
		if err != errHastened && (err != nil || o.endedEarly) { // client-go reports a connection that broke as an end without an error
			r.doubt.lost(time.Now())
		}
	}
	o.noVersions = w.noVersions || HintsOf(r.src).Unversioned
	o.progress = w.moved || took >= healthyAfter || !o.endedEarly || o.noVersions && err == nil
	o.refused = refusesWatch(err)
	o.unreported = isOwnEnd(err)
	// heardNothing and endedEarly make the reflector ask whether the server went back in time. A
	// position without an order, which cannot even be compared with itself, gives no answer.
	if _, ordered := r.position.before(r.position); !ordered || o.noVersions {
		o.heardNothing, o.endedEarly = false, false
	}
	// Who has cut a watch while it was idle will cut the next one. If the server has the position,
	// nothing is wrong and nothing was missed. So it is asked, once for many of them.
	if o.calm = err == nil && o.heardNothing && o.endedEarly && took >= calmAfter; o.calm && r.isConfirmed() {
		o.progress, o.heardNothing, o.endedEarly = true, false, false
	}
	// An event has shown that this server knows the position.
	if o.progress && !o.heardNothing {
		r.verify = false
	}
	return o
}

func ptr[V any](v V) *V { return &v }

const (
	// briefTimeout is the timeout of a watch that is to tell the server's version soon. A
	// kube-apiserver sends a bookmark two seconds before the end of a watch, so after one second
	// here, or up to a second later. A shorter watch gets none.
	briefTimeout = 3 * time.Second
	// hastenAgain is how much later than a brief watch the next one may begin, at the earliest.
	// Then the brief one has had its bookmark, and most of the requests in a minute are left.
	hastenAgain = 3 * time.Second
	// progressGap is the least time between two calls of SourceHints.Progress.
	progressGap = 100 * time.Millisecond
)

// A hurry is what waits want of a reflector: that it learns soon of a version that the collection's
// events do not show. Then the watch is ended, and resumed as a brief one. Any goroutine may call
// its methods.
type hurry struct {
	mu     sync.Mutex
	wanted position                // the newest version that somebody waits for; zero: nobody does
	began  time.Time               // when a watch was last ended, or a brief one began
	asked  time.Time               // when SourceHints.Progress was last called
	cancel context.CancelCauseFunc // ends the watch that was opened last; nil: none was
}

// mayAsk returns 0 if SourceHints.Progress may be called now, and notes that it is. Otherwise it
// returns after how long it may be.
func (h *hurry) mayAsk() (again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if left := h.asked.Add(progressGap).Sub(now); left > 0 {
		return left
	}
	h.asked = now
	return 0
}

// hasten has the position reach version soon, if the server has: the open watch is ended, and the
// next one is brief. If the last one began not long ago, hasten does nothing and returns after how
// long it may be called again.
func (h *hurry) hasten(version string) (again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := time.Until(h.began.Add(hastenAgain)); left > 0 {
		return left
	}
	h.wanted = positionAt(version)
	h.endLocked(errHastened)
	return 0
}

// end ends the open watch with that cause, unless one was ended not long ago.
func (h *hurry) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Until(h.began.Add(hastenAgain)) <= 0 {
		h.endLocked(cause)
	}
}

func (h *hurry) endLocked(cause error) {
	h.began = time.Now()
	if h.cancel != nil {
		h.cancel(cause)
	}
}

// open notes that a watch begins at that position, which cancel ends, and reports whether it is to
// be brief. It does both under one lock: a hasten in between would end the watch before this one.
func (h *hurry) open(at position, cancel context.CancelCauseFunc) (brief bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = cancel
	if !h.dueLocked(at) {
		return false
	}
	h.wanted, h.began = position{}, time.Now()
	return true
}

// listed notes that a streamed list has become a plain watch at that position, which cancel ends.
// It cannot be brief any more. So it is ended at once if the list did not have what is wanted.
func (h *hurry) listed(at position, cancel context.CancelCauseFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = cancel
	if h.dueLocked(at) {
		h.endLocked(errHastened)
	}
}

// dueLocked reports whether somebody waits for a version that is newer than the position. If not,
// nothing is wanted any more.
func (h *hurry) dueLocked(at position) bool {
	older, ordered := at.before(h.wanted)
	if !ordered || !older {
		h.wanted = position{}
		return false
	}
	return true
}

// event handles each event that the source yields, in the goroutine of Run. It flushes when the
// source says that no other event follows at once, or when handlers have waited long enough.
func (w *watchSession[T]) event(ev WatchEvent[T]) error {
	if !w.started {
		// The hints are read only now: a ListWatch may recognize a client-go fake by its watch.
		w.started, w.hints = true, HintsOf(w.r.src)
		w.r.recorder.decodedBy(w.hints.Decoder)
		w.noVersions = w.noVersions || w.hints.Unversioned
	}
	w.unflushed++
	w.kinds[kindOf(ev.Type)]++
	ev.More = ev.More || ev.Open
	if ev.More && w.unflushed%lookEvery == 0 {
		ev.More = w.unflushed < maxUnflushed && w.r.recorder.now()-w.flushed < maxDelay
	}
	w.ev = ev
	switch {
	case ev.Err == nil:
	case !isKeep(ev.Err):
		w.r.recorder.undecoded.Add(1)
		w.ev = withoutBody(ev)
	case w.initial == nil && ev.ResourceVersion != "":
		if !w.r.setAside.empty() {
			w.r.setAside.remove(ev.Key())
		}
		w.ev = WatchEvent[T]{Type: watch.Bookmark, ResourceVersion: ev.ResourceVersion, Open: ev.Open}
	}
	err := w.handle(&w.ev)
	if !ev.More || err != nil {
		w.flush()
	}
	return err
}

const (
	// maxUnflushed bounds how many events are applied before the handlers are woken, while the
	// source says that more follow at once. It is the limit of a cursor: with more, handlers could
	// count as slow only because nobody has woken them.
	maxUnflushed = defaultLimit
	// maxDelay bounds how long handlers wait in the same case. The clock, and the bound above, are
	// looked at every lookEvery events.
	maxDelay  = 500 * time.Microsecond
	lookEvery = 16
)

// flush does what need not be done for each event: it counts the events and wakes whoever waits for
// changes.
func (w *watchSession[T]) flush() {
	if w.unflushed == 0 {
		return
	}
	w.ev = WatchEvent[T]{} // so that w does not keep the object alive
	w.r.target.notify()
	w.flushed = w.r.recorder.heard(&w.kinds)
	w.stall.Heard(w.lifeSigns)
	w.unflushed, w.lifeSigns, w.kinds = 0, 0, [eventKinds]uint64{}
}

// handle applies ev: to the list while the initial events come in, and to the target after that. It
// also counts the signs of life. On a plain watch every event is one. A streamed list must come
// nearer to its end, so a change or a bookmark is none; see progress.
func (w *watchSession[T]) handle(ev *WatchEvent[T]) error {
	if w.initial == nil {
		w.lifeSigns++
		return w.apply(ev)
	}
	r := w.r
	before := w.open
	w.open = ev.Open
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		w.moved = true
		made, err := w.initial.applyEvent(ev, w.hints)
		if made == sureProgress || made == someProgress && !w.strict.Load() {
			w.lifeSigns++
		}
		return err
	case watch.Bookmark:
		if !ev.InitialEventsEnd {
			w.initial.changes = w.initial.changes || ev.ResourceVersion != ""
			return nil // no progress of the list
		}
		if before {
			return protocolErrorf("the initial events end at resource version %s, amid the events of one version", ev.ResourceVersion)
		}
		if newest := w.initial.newest; !w.hints.Unversioned && newest.after(ev.ResourceVersion) {
			// The store would report a version that is older than what it shows.
			return protocolErrorf("the initial events end at resource version %s, but %s came before", ev.ResourceVersion, newest.version)
		}
		// The list is whole. From here on this is a plain watch.
		w.lifeSigns++
		w.stall.Heard(w.lifeSigns) // before goLive, which notes the count
		w.lifeSigns = 0
		w.initial.version = ev.ResourceVersion
		if err := r.takeOver(opStream, w.initial); err != nil {
			return err
		}
		r.streams.brokenStreams = 0
		r.streams.proved = true
		w.initial, w.op, w.moved, w.start = nil, opWatch, false, time.Now()
		r.hurry.listed(r.position, w.cancel)
		w.goLive()
	default:
		return protocolErrorf("event of unknown type %q", ev.Type)
	}
	return nil
}

// withoutBody turns a DELETED event whose object could not be decoded into one that has only the
// object's identity. The content of a deleted object is not needed.
func withoutBody[T Identified](ev WatchEvent[T]) WatchEvent[T] {
	if ev.Type != watch.Deleted || ev.ResourceVersion == "" {
		return ev
	}
	key := ev.Key()
	if key.Name == "" {
		return ev
	}
	id := &Meta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: ev.ResourceVersion}
	return WatchEvent[T]{Type: watch.Deleted, ResourceVersion: ev.ResourceVersion, Identity: id, More: ev.More, Open: ev.Open}
}

// apply adds one event of a plain watch to the group of its version, and hands the group to the
// target if ev is its last event.
func (w *watchSession[T]) apply(ev *WatchEvent[T]) error {
	g, at, amid := &w.group, positionAt(ev.ResourceVersion), w.open
	switch {
	case !amid && ev.Type == watch.Bookmark && (at.version == "" || w.isOld(at)):
		return nil // it says nothing new
	case g.at.version == "":
		g.at = at
	case ev.ResourceVersion != g.at.version && (ev.ResourceVersion != "" || ev.Err == nil) && !w.noVersions:
		return protocolErrorf("%s event of %s at resource version %s came amid the events of %s", ev.Type, keyString(ev.Key()), ev.ResourceVersion, g.at.version)
	}
	if ev.Type != watch.Bookmark {
		key := ev.Key()
		if err := w.check(ev, key, at); err != nil {
			return err
		}
		g.add(key, ev)
	}
	g.more = ev.More
	if w.open = ev.Open; w.open {
		return nil
	}
	err := w.advance(g)
	g.reset()
	return err
}

// isOld reports whether at is certainly not newer than the position.
func (w *watchSession[T]) isOld(at position) bool {
	newer, ordered := w.r.position.before(at)
	return ordered && !newer
}

// check refuses an event that no correct server sends at this position. An event must have a known
// type and a name. Unless the source has no versions, it must also have a version, which is newer
// than the position if the two have an order. An event with an Err need not have one.
func (w *watchSession[T]) check(ev *WatchEvent[T], key Key, to position) error {
	r := w.r
	if ev.Err != nil {
		if key.Name == "" {
			// Nobody knows which object failed, so no later event could end its being set aside. It
			// would hold back the reported version until a list happens to come. A protocol error
			// makes the list come now.
			return fmt.Errorf("%w: %w", protocolErrorf("%s event of an object without a name", ev.Type), ev.Err)
		}
		if ev.ResourceVersion == "" {
			return nil
		}
	}
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return protocolErrorf("event of unknown type %q", ev.Type)
	}
	if key.Name == "" && !w.hints.Unnamed {
		return protocolErrorf("%s event of an object without a name", ev.Type)
	}
	if w.noVersions {
		return nil
	}
	if ev.ResourceVersion == "" {
		return protocolErrorf("%s event of %s without a resource version", ev.Type, keyString(key))
	}
	if !w.isOld(to) {
		return nil
	}
	if ev.ResourceVersion == r.position.version {
		// One transaction of the server's store may give several objects the same version, but not
		// one object twice. An object that is not there may be one that a partial source leaves
		// out.
		held, ok := r.target.get(key)
		if ok && held.GetResourceVersion() != ev.ResourceVersion || !ok && (ev.Type == watch.Added || w.hints.Partial) {
			return nil
		}
	}
	msg := fmt.Sprintf("%s event of %s at resource version %s came after %s", ev.Type, keyString(key), ev.ResourceVersion, r.position.version)
	return &protocolError{msg: msg, old: true}
}

// advance hands g to the target and moves the position. It moves the reported version as well,
// unless an object is set aside whose event was not applied.
func (w *watchSession[T]) advance(g *eventGroup[T]) (gap error) {
	r, to := w.r, g.at
	if to.version == "" || w.hints.Unversioned {
		// The position stays. The event has no version, or one that is not a version of the
		// collection: those of a fake's objects are whatever the test wrote into them.
		to = r.position
	}
	// A goroutine that waits for this version is woken within apply, and may then look at
	// Status.SetAside. So a key that is no longer set aside is removed before.
	for i := range g.events {
		if e := &g.events[i]; e.ev.Err != nil {
			r.setAside.add(e.key, e.ev.Err, true, r.report)
		} else if !r.setAside.empty() {
			e.wasAside = r.setAside.remove(e.key)
		}
	}
	if !w.moved {
		w.moved = true
		r.recovered()
	}
	report := to.version
	if r.setAside.holds() {
		report = ""
	}
	r.target.apply(g, report)
	r.moveTo(to)
	held := false
	for i := range g.events {
		e := &g.events[i]
		switch {
		case e.err != nil:
			r.setAside.add(e.key, e.err, true, r.report)
			held = true
		// In these cases existed proves nothing about the server: the store lacked the newest version
		// of the object, cannot tell, may rightly not have the object, or was not changed.
		case e.wasAside || !g.known || w.noVersions || w.hints.Partial || e.ev.Err != nil || gap != nil:
		case e.first == watch.Added && e.existed:
			// The event is true, and was applied. But it shows that earlier events were not sent, so
			// a list has to follow.
			gap = gapErrorf("ADDED event of %s, which was there already", keyString(e.key))
		case e.first != watch.Added && !e.existed:
			gap = gapErrorf("%s event of %s, which was not there", e.first, keyString(e.key))
		}
	}
	if held {
		r.target.heldBack(g.at.version)
	}
	return gap
}
