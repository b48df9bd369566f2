package lw

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// healthyAfter is how long a watch must stay open to count as progress without an event. It is
	// also how long an unverified watch may be silent, at least, before the server is asked for its
	// version; it is asked within twice that.
	healthyAfter = 10 * time.Second
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
func (r *Reflector[T]) follow(ctx context.Context, initial bool) outcome {
	r.limiter.spend(time.Now())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := r.opts.WatchTimeout + rand.N(r.opts.WatchTimeout)
	opts := metav1.ListOptions{
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
		w.stall = newStallTimer(cancel, patience, errNoEnd)
		w.limitInitial()
		r.recorder.setMode(ListStream)
		r.recorder.setPhase(PhaseStreaming)
	} else {
		opts.ResourceVersion = r.position.version
		w.goLive()
	}
	defer w.stop()
	op := w.op // it changes when the initial events have ended
	r.recorder.requested(op)
	w.requested = time.Now()
	w.start = w.requested
	err := r.src.Watch(ctx, opts, w.event)
	err = causeOf(ctx, err)
	// Nothing may follow an event that promised More.
	w.flush()
	if !errors.Is(err, errNoStream) { // then there was no request
		r.recorder.ended(op, err, time.Since(w.requested))
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
	stall     *stallTimer
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

	// The fields below concern the events since the last flush.

	// ev is the event that is being handled. It is here because a pointer to a parameter would cost
	// an allocation.
	ev        WatchEvent[T]
	flushed   time.Duration      // when the last flush was, by the recorder's clock
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
}

// goLive begins the part that is a plain watch: at once, or after the initial events.
//
// Two timers start. Their functions run in goroutines of their own, so they use only what this
// function has read, the counter of stall, and what is safe for any goroutine. The first one notes
// after healthyAfter that the server makes progress, even if no event has come. An unverified watch
// (see Reflector.verify) that is still silent then is not known to be healthy. The second timer
// ends it, so that the server is asked for its version: up to healthyAfter later, or when a server
// that has refused may be asked again. In this last case the watch counts as healthy meanwhile.
func (w *watchSession[T]) goLive() {
	w.stopLimits()
	w.r.recorder.setPhase(PhaseWatching)
	w.noVersions = w.r.position.version == ""
	if w.stall == nil {
		w.stall = newStallTimer(w.cancel, w.timeout+overdue, errSilent)
	} else {
		w.stall.restart(w.timeout+overdue, errSilent)
	}
	g, r, cancel, doubt := w.stall, w.r, w.cancel, w.r.verify
	before := g.count.Load()
	// All clients of a server that was away resume at the same moment. They must not ask together.
	ask, refused := healthyAfter+rand.N(healthyAfter), false
	if left := time.Until(r.askNext); left > 0 {
		ask, refused = max(healthyAfter, left), left > healthyAfter
	}
	w.health = append(w.health, time.AfterFunc(healthyAfter, func() {
		if !doubt || refused || g.count.Load() != before {
			r.recovered()
		}
	}))
	if doubt {
		w.health = append(w.health, time.AfterFunc(ask, func() {
			if g.count.Load() == before {
				cancel(errUnverified)
			}
		}))
	}
}

func (w *watchSession[T]) stop() {
	w.stopLimits()
	w.stall.stop()
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
	o.heardNothing = w.stall.count.Load() == 0
	if o.heardNothing && err != nil && err != errUnverified {
		r.doubt.lost(w.requested) // perhaps it never began
	} else if !o.heardNothing {
		r.doubt.lift()
		if err != nil {
			r.doubt.lost(time.Now())
		}
	}
	// The server counts the timeout from the request on, not from the end of the initial events.
	o.endedEarly = time.Since(w.requested) < w.timeout
	o.noVersions = w.noVersions || HintsOf(r.src).Unversioned
	o.progress = w.moved || took >= healthyAfter || !o.endedEarly || o.noVersions && err == nil
	o.unreported = err == errUnverified
	// heardNothing and endedEarly make the reflector ask whether the server went back in time. A
	// position without an order, which cannot even be compared with itself, gives no answer.
	if _, ordered := r.position.before(r.position); !ordered || o.noVersions {
		o.heardNothing, o.endedEarly = false, false
	}
	// An event has shown that this server knows the position.
	if o.progress && !o.heardNothing {
		r.verify = false
	}
	return o
}

func ptr[V any](v V) *V { return &v }
