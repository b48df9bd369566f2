package lw

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// healthyAfter is how long a watch is open until it counts as progress without an event, and how long a watch on what
	// may be another server may be silent until that is asked for its version.
	healthyAfter = 10 * time.Second
	// overdue is how long after its timeout a watch may still end by itself.
	overdue = 30 * time.Second
	// sureAfter is for how many SyncBudgets a streamed list may go on with events that may be of its objects, but may also
	// tell of new ones. A server that does not know of streamed lists sends these for as long as the collection is in use;
	// one that does sends its objects in an order that is not that of their versions, but for those that were all
	// created in the order of their names and never changed.
	sureAfter = 6
)

func (r *Reflector[T]) watch(ctx context.Context) outcome { return r.follow(ctx, false) }

// follow watches from the position. With initial, the watch begins with the whole list as it is now, and goes on as any.
func (r *Reflector[T]) follow(ctx context.Context, initial bool) outcome {
	r.pace.spend(time.Now())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := r.opts.WatchTimeout + rand.N(r.opts.WatchTimeout)
	opts := metav1.ListOptions{
		AllowWatchBookmarks: true,
		TimeoutSeconds:      ptr(max(1, int64(timeout/time.Second))),
	}
	timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	w := &watching[T]{r: r, op: opWatch, timeout: timeout, cancel: cancel}
	if initial {
		w.op, w.initial = opStream, r.gather()
		opts.SendInitialEvents = ptr(true)
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		w.guard = newGuard(cancel, r.opts.SyncBudget, errNoEnd)
		w.limit()
		r.board.setMode(ListStream)
		r.board.setPhase(PhaseStreaming)
	} else {
		opts.ResourceVersion = r.position.version
		w.live()
	}
	defer w.stop()
	r.board.requested(w.op)
	w.requested = time.Now()
	w.start = w.requested
	err := r.src.Watch(ctx, opts, w.event)
	err = causeOf(ctx, err)
	w.flush()
	return w.ended(err, time.Since(w.start))
}

// watching is one watch: what it has seen, and what watches over it.
type watching[T Object] struct {
	r         *Reflector[T]
	op        string
	requested time.Time
	start     time.Time     // of op
	timeout   time.Duration // that the server was asked for
	cancel    context.CancelCauseFunc
	guard     *guard
	health    []*time.Timer // that note that it stays open, and doubt that it should

	hints   SourceHints
	started bool
	opaque  bool          // it began without a version: what it sends cannot be checked, and it cannot be resumed
	ev      WatchEvent[T] // the one at hand: here, since a pointer to a parameter would cost an allocation each
	flushed time.Duration // when the last flush was, by the board's clock
	held    uint64        // events since
	signs   uint64        // those of them that are a sign of life
	initial *gathered[T]  // nil once the initial events have ended
	limits  []*time.Timer // of the initial events
	strict  atomic.Bool   // only what is certainly an object of the list is a sign of life
	moved   bool          // the position, or an initial event came
}

// limit bounds the time of the initial events, whatever comes.
func (w *watching[T]) limit() {
	cancel := w.cancel
	w.limits = append(w.limits, time.AfterFunc(w.timeout+overdue, func() { cancel(errNoEnd) }))
	if w.r.opts.List != ListStream { // where there is another way to list
		w.limits = append(w.limits, time.AfterFunc(sureAfter*w.r.opts.SyncBudget, func() { w.strict.Store(true) }))
	}
}

func (w *watching[T]) unlimit() {
	for _, t := range w.limits {
		t.Stop()
	}
}

// live watches over what is a plain watch from now on.
func (w *watching[T]) live() {
	w.unlimit()
	w.r.board.setPhase(PhaseWatching)
	w.opaque = w.r.position.version == ""
	if w.guard == nil {
		w.guard = newGuard(w.cancel, w.timeout+overdue, errSilent)
	} else {
		w.guard.change(w.timeout+overdue, errSilent)
	}
	g, r, cancel, doubt := w.guard, w.r, w.cancel, w.r.doubt
	before := g.count.Load()
	ask := max(healthyAfter, time.Until(r.askNext))
	w.health = append(w.health, time.AfterFunc(healthyAfter, func() {
		if !doubt || ask > healthyAfter || g.count.Load() != before {
			r.recovered()
		}
	}))
	if doubt {
		w.health = append(w.health, time.AfterFunc(ask, func() {
			if g.count.Load() == before {
				cancel(errDoubt)
			}
		}))
	}
}

func (w *watching[T]) stop() {
	w.unlimit()
	w.guard.stop()
	for _, t := range w.health {
		t.Stop()
	}
}

const (
	// maxHeld is how many events handlers may have to wait for while the source says that more are coming: no more than
	// makes them slow.
	maxHeld = defaultLimit
	// maxDelay is for how long, as far as a look at the clock after each so many events can tell.
	maxDelay  = 500 * time.Microsecond
	lookEvery = 16
)

// event takes what the source yields.
func (w *watching[T]) event(ev WatchEvent[T]) error {
	if !w.started {
		w.started, w.hints = true, HintsOf(w.r.src)
		w.opaque = w.opaque || w.hints.Unversioned
	}
	w.held++
	if ev.More && w.held%lookEvery == 0 {
		ev.More = w.held < maxHeld && w.r.board.now()-w.flushed < maxDelay
	}
	w.ev = ev
	if ev.Err != nil {
		w.ev = withoutBody(ev)
	}
	err := w.take(&w.ev)
	if !ev.More || err != nil {
		w.flush()
	}
	return err
}

// flush does what is enough once for several events: it notes them, and wakes those who are told.
func (w *watching[T]) flush() {
	if w.held == 0 {
		return
	}
	w.ev = WatchEvent[T]{} // so that the object is not kept
	w.r.target.notify()
	w.flushed = w.r.board.heard(w.held)
	w.guard.heard(w.signs)
	w.held, w.signs = 0, 0
}

func (w *watching[T]) take(ev *WatchEvent[T]) error {
	if w.initial == nil {
		w.signs++
		return w.apply(ev)
	}
	r := w.r
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		w.moved = true
		made, err := w.initial.change(ev, w.hints)
		if made == sureProgress || made == someProgress && !w.strict.Load() {
			w.signs++
		}
		return err
	case watch.Bookmark:
		if !ev.InitialEventsEnd {
			w.initial.changes = w.initial.changes || ev.ResourceVersion != ""
			return nil // no progress of the list
		}
		w.signs++
		w.guard.heard(w.signs) // before live looks at it
		w.signs = 0
		w.initial.version = ev.ResourceVersion
		if err := r.takeOver(opStream, w.initial); err != nil {
			return err
		}
		r.stream.cuts = 0
		w.initial, w.op, w.moved, w.start = nil, opWatch, false, time.Now()
		w.live()
	default:
		return protocolErrorf("event of unknown type %q", ev.Type)
	}
	return nil
}

// withoutBody is ev, but for a deletion of which only the object could not be decoded: what is gone need not be read.
func withoutBody[T Object](ev WatchEvent[T]) WatchEvent[T] {
	if ev.Type != watch.Deleted || ev.ResourceVersion == "" {
		return ev
	}
	key := ev.Key()
	if key.Name == "" {
		return ev
	}
	id := &Meta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: ev.ResourceVersion}
	return WatchEvent[T]{Type: watch.Deleted, ResourceVersion: ev.ResourceVersion, Identity: id}
}

// apply makes one change of a live watch.
func (w *watching[T]) apply(ev *WatchEvent[T]) error {
	r := w.r
	to := positionAt(ev.ResourceVersion)
	if ev.Type == watch.Bookmark {
		older, ordered := r.position.before(to)
		if ev.ResourceVersion == "" || ordered && !older {
			return nil // a bookmark that lags promises nothing new
		}
		return w.advance(ev, Key{}, to)
	}
	key := ev.Key()
	if ev.Err != nil {
		if key.Name == "" {
			// Set aside it would hold back the version until a list comes by chance: only a list can say what it was about.
			return fmt.Errorf("%w: %w", protocolErrorf("%s event of an object that cannot be told", ev.Type), ev.Err)
		}
		if ev.ResourceVersion != "" {
			if err := w.check(ev, key, to); err != nil {
				return err
			}
		}
		r.aside.add(key, ev.Err, true, r.report)
		return w.advance(ev, key, to)
	}
	if err := w.check(ev, key, to); err != nil {
		return err
	}
	return w.advance(ev, key, to)
}

// check refuses an event that no server may send where this watch stands.
func (w *watching[T]) check(ev *WatchEvent[T], key Key, to position) error {
	r := w.r
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return protocolErrorf("event of unknown type %q", ev.Type)
	}
	if key.Name == "" {
		return protocolErrorf("%s event of an object without a name", ev.Type)
	}
	if w.opaque {
		return nil
	}
	if ev.ResourceVersion == "" {
		return protocolErrorf("%s event of %s without a resource version", ev.Type, keyString(key))
	}
	if older, ordered := r.position.before(to); !ordered || older {
		return nil
	}
	if ev.ResourceVersion == r.position.version {
		// One transaction of the server's store may give several objects one version, but not one object twice.
		if held, ok := r.target.get(key); ok && held.GetResourceVersion() != ev.ResourceVersion || !ok && ev.Type == watch.Added {
			return nil
		}
	}
	return protocolErrorf("%s event of %s at resource version %s came after %s", ev.Type, keyString(key), ev.ResourceVersion, r.position.version)
}

// advance hands ev to the target, and moves the position, and the version that is reported as well unless something before it
// has not been applied.
func (w *watching[T]) advance(ev *WatchEvent[T], key Key, to position) error {
	r := w.r
	if to.version == "" || w.hints.Unversioned {
		to = r.position // what a fake stamps on its objects is no version of its collection
	}
	if !w.moved {
		w.moved = true
		r.recovered()
	}
	// Who waits for the version learns of it in apply, and then what Status says is true already.
	wasAside := false
	if ev.Type != watch.Bookmark && ev.Err == nil && !r.aside.empty() {
		wasAside = r.aside.remove(key)
	}
	report := to.version
	if r.aside.holds() {
		report = ""
	}
	existed, known, err := r.target.apply(ev, key, report)
	r.position = to
	switch {
	case err != nil:
		r.aside.add(key, err, true, r.report)
		r.target.held(ev.ResourceVersion)
	case wasAside || !known || w.opaque || w.hints.Partial || ev.Err != nil || ev.Type == watch.Bookmark:
	case ev.Type == watch.Added && existed:
		// What the event says is true and was applied; that it was sent this way means that others were not sent.
		return protocolErrorf("ADDED event of %s, which was there already", keyString(key))
	case ev.Type != watch.Added && !existed:
		return protocolErrorf("%s event of %s, which was not there", ev.Type, keyString(key))
	}
	return nil
}

// ended says how the watch went.
func (w *watching[T]) ended(err error, took time.Duration) outcome {
	r := w.r
	o := outcome{op: w.op, err: err, progress: w.moved}
	if w.op == opStream {
		if o.err == nil {
			o.err = errCut
		}
		return r.streamFailed(o)
	}
	o.silent = w.guard.count.Load() == 0
	// The server counts the timeout from the request on, not from the end of the initial events.
	o.early = time.Since(w.requested) < w.timeout
	o.progress = w.moved || took >= healthyAfter || !o.early
	o.quiet = err == errDoubt
	o.opaque = w.opaque || HintsOf(r.src).Unversioned
	if _, ordered := r.position.before(r.position); !ordered || o.opaque {
		o.silent, o.early = false, false // without an order there is nothing to find out
	}
	if o.progress && !o.silent {
		r.doubt = false
	}
	return o
}

// guard ends a request on which nothing is heard for too long: after between patience and twice that.
type guard struct {
	cancel context.CancelCauseFunc
	count  atomic.Uint64 // of what was heard

	mu       sync.Mutex
	timer    *time.Timer   // guarded by mu, as all below; nil once stopped
	patience time.Duration //
	cause    error         //
	seen     uint64        // count when the timer was set
	due      time.Time     // when it is to look
}

func newGuard(cancel context.CancelCauseFunc, patience time.Duration, cause error) *guard {
	g := &guard{cancel: cancel, patience: patience, cause: cause}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = time.Now().Add(patience)
	g.timer = time.AfterFunc(patience, g.look)
	return g
}

// change makes the guard wait for so long from now on.
func (g *guard) change(patience time.Duration, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.patience, g.cause, g.seen, g.due = patience, cause, g.count.Load(), time.Now().Add(patience)
	g.timer.Reset(patience)
}

func (g *guard) look() {
	g.mu.Lock()
	cause := g.cause
	switch n := g.count.Load(); {
	case g.timer == nil || time.Now().Before(g.due):
		cause = nil // stopped, or given more patience while this was on its way
	case n != g.seen:
		g.seen, g.due, cause = n, time.Now().Add(g.patience), nil
		g.timer.Reset(g.patience)
	}
	g.mu.Unlock()
	if cause != nil {
		g.cancel(cause)
	}
}

func (g *guard) heard(n uint64) { g.count.Add(n) }

func (g *guard) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
	g.timer = nil
}

// causeOf is err, or why ctx was cancelled if that ended the request.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func ptr[V any](v V) *V { return &v }
