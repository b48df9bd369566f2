package lw

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/pace"
)

const (
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
	if !initial && r.refresher.Open(r.at.position.lacks, cancel) {
		timeout = pace.Brief
	}
	opts := &metav1.ListOptions{
		AllowWatchBookmarks: true,
		TimeoutSeconds:      new(max(1, int64(timeout/time.Second))),
	}
	timeout = time.Duration(*opts.TimeoutSeconds) * time.Second // as the server gets it
	w := &watchSession[T]{r: r, op: opWatch, timeout: timeout, cancel: cancel}
	if initial {
		w.op, w.initial = opStream, r.newListBuilder()
		opts.SendInitialEvents = new(true)
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		patience := r.opts.SyncBudget
		if r.server.streams.proved {
			patience = max(patience, listPatience)
		}
		w.stall = pace.NewStallTimer(cancel, patience, errNoEnd)
		w.limitInitial()
		r.recorder.setMode(ListStream)
		r.recorder.setPhase(phaseStreaming)
	} else {
		opts.ResourceVersion = r.at.position.version
		w.goLive()
	}
	r.recorder.requested(w.op)
	w.requested = time.Now()
	w.start = w.requested
	return w, opts
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
	atStart   uint64        // the count of stall when op began
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
	if w.r.opts.List != ListStream && !w.r.server.streams.proved {
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
//	unverified   first timer, after healthyAfter       second timer
//	false        marks the watch as healthy            none
//	true         does so only if something has come    ends a silent watch, to ask for the version:
//	                                                   up to healthyAfter later, or at askNext
//
// A server that has refused to tell its version is asked again only at askNext. Until then its
// watch counts as healthy.
func (w *watchSession[T]) goLive() {
	w.stopLimits()
	w.r.recorder.setPhase(phaseWatching)
	w.noVersions = w.r.at.position.version == ""
	if w.stall == nil {
		w.stall = pace.NewStallTimer(w.cancel, w.timeout+overdue, errSilent)
	} else {
		w.stall.Restart(w.timeout+overdue, errSilent)
	}
	r, stall, cancel, unverified := w.r, w.stall, w.cancel, w.r.server.unverified
	before := stall.Count()
	w.atStart = before
	// All clients of a server that was away resume at the same moment. They must not ask together.
	ask, refused := healthyAfter+rand.N(healthyAfter), false
	if left := time.Until(r.server.askNext); left > 0 {
		ask, refused = max(healthyAfter, left), left > healthyAfter
	}
	w.health = append(w.health, time.AfterFunc(healthyAfter, func() {
		if !unverified || refused || stall.Count() != before {
			r.recovered()
		}
	}))
	if unverified {
		w.health = append(w.health, time.AfterFunc(ask, func() {
			if stall.Count() == before {
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

// finish returns the outcome of the session, which began as op and has ended with err.
//
//go:noinline
func (w *watchSession[T]) finish(op string, err error) outcome {
	w.flush() // nothing may follow an event that promised More
	r, took := w.r, time.Since(w.start)
	if !errors.Is(err, errNoStream) { // then there was no request
		r.recorder.ended(op, err, time.Since(w.requested))
	}
	o := outcome{op: w.op, err: err, progress: w.moved}
	if w.op == opStream {
		if o.err == nil {
			o.err = errCut
		}
		o.fallback = r.opts.List == ListAuto && r.server.streams.failed(o.err, o.progress)
		o.unreported = o.fallback && errors.Is(o.err, errNoStream) // the server is not at fault
		o.progress = false                                         // a list that is not whole must not end the backoff
		return o
	}
	o.heardNothing = w.stall.Count() == 0
	// The server counts the timeout from the request on, not from the end of the initial events.
	o.endedEarly = time.Since(w.requested) < w.timeout
	r.server.watched(&o, w.requested)
	o.noVersions = w.noVersions || HintsOf(r.src).Unversioned
	o.progress = w.moved || took >= healthyAfter || !o.endedEarly || o.noVersions && err == nil
	o.refused = refusesWatch(err)
	o.unreported = isOwnEnd(err)
	r.suspect(&o, took, w.stall.Count() == w.atStart)
	return o
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
		if ev.Type != watch.Deleted {
			w.r.target.coming(ev.Object)
		}
	case !isKeep(ev.Err):
		w.r.recorder.undecoded.Add(1)
		w.ev = withoutBody(ev)
	case w.initial == nil && ev.ResourceVersion != "":
		if !w.r.setAside.empty() {
			w.r.setAside.remove(ev.Key())
		}
		key := ev.Key()
		w.ev = WatchEvent[T]{
			Type: watch.Bookmark, ResourceVersion: ev.ResourceVersion, More: ev.More, Open: ev.Open,
			Identity: &Meta{Namespace: key.Namespace, Name: key.Name},
		}
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
			if ev.Filtered {
				w.lifeSigns++
				w.initial.leaveOut()
				return nil
			}
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
		r.server.streams.brokenStreams = 0
		r.server.streams.proved = true
		w.initial, w.op, w.moved, w.start = nil, opWatch, false, time.Now()
		r.refresher.Listed(r.at.position.lacks, w.cancel, errHastened)
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
	case !amid && ev.Type == watch.Bookmark && (at.version == "" || w.r.at.position.covers(at)):
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
	} else if ev.Identity != nil {
		g.kept = append(g.kept, ev.Identity.key())
	}
	g.whole = g.whole || ev.Open
	g.more = ev.More
	if w.open = ev.Open; w.open {
		return nil
	}
	err := w.advance(g)
	g.reset()
	return err
}

// check refuses an event that no correct server sends at this position. An event must have a known
// type and a name. Unless the source has no versions, it must also have a version, which is newer
// than the position if the two have an order. An event with an Err need not have one.
func (w *watchSession[T]) check(ev *WatchEvent[T], key Key, to position) error {
	if ev.Err != nil && key.Name == "" {
		// Nobody knows which object failed, so no later event could end its being set aside. It
		// would hold back the reported version until a list happens to come. A protocol error
		// makes the list come now.
		return fmt.Errorf("%w: %w", protocolErrorf("%s event of an object without a name", ev.Type), ev.Err)
	}
	if ev.Err != nil && ev.ResourceVersion == "" {
		return nil
	}
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return protocolErrorf("event of unknown type %q", ev.Type)
	}
	switch {
	case key.Name == "" && !w.hints.unnamed:
		return protocolErrorf("%s event of an object without a name", ev.Type)
	case ev.Type != watch.Deleted && ev.Err == nil && equal.IsZero(ev.Object):
		return protocolErrorf("%s event of %s without an object", ev.Type, keyString(key))
	case w.noVersions:
		return nil
	case ev.ResourceVersion == "":
		return protocolErrorf("%s event of %s without a resource version", ev.Type, keyString(key))
	}
	return w.checkOrder(ev, key, to)
}

// checkOrder refuses an event that is not newer than the position.
func (w *watchSession[T]) checkOrder(ev *WatchEvent[T], key Key, to position) error {
	at := w.r.at.position
	if !at.covers(to) {
		return nil
	}
	if to.version == at.version {
		// One transaction of the server's store may give several objects the same version, but not
		// one object twice. An object that is not there may be one that a partial source leaves
		// out.
		held, ok := w.r.target.base(key)
		if ok && held.GetResourceVersion() != to.version || !ok && (ev.Type == watch.Added || w.hints.Partial) {
			return nil
		}
	}
	err := tooOld(ev, key, at)
	err.old = true
	return err
}

// advance hands g to the target and moves the position. It moves the reported version as well,
// unless an object is set aside whose event was not applied.
func (w *watchSession[T]) advance(g *eventGroup[T]) (gap error) {
	r, to := w.r, g.at
	if to.version == "" || w.hints.Unversioned {
		// The position stays. The event has no version, or one that is not a version of the
		// collection: those of a fake's objects are whatever the test wrote into them.
		to = r.at.position
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
	g.to = to
	r.target.apply(g, report)
	r.at.moveTo(to)
	held := false
	for i := range g.events {
		if e := &g.events[i]; e.err != nil {
			r.setAside.add(e.key, e.err, true, r.report)
			held = true
		} else if gap == nil && g.known {
			gap = w.gapAt(e)
		}
	}
	if held {
		r.target.heldBack(g.at.version)
	}
	return gap
}

// gapAt returns an error if e, which the target has applied, shows that earlier events were not
// sent, so that a list has to follow.
func (w *watchSession[T]) gapAt(e *groupEvent[T]) error {
	switch added := e.first == watch.Added; {
	// In these cases existed proves nothing about the server: the store lacked the newest version of
	// the object, may rightly not have the object, or was not changed.
	case e.wasAside || e.way == wayBack || w.noVersions || w.hints.Partial || e.ev.Err != nil:
	case added && e.existed:
		return gapErrorf("ADDED event of %s, which was there already", keyString(e.key))
	case !added && !e.existed:
		return gapErrorf("%s event of %s, which was not there", e.first, keyString(e.key))
	}
	return nil
}
