package lw

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A Sink takes what a [Reflector] reads. Its methods are called by one goroutine at a time, and the objects are the sink's from
// then on. [*Indexer] and [*FIFO] are Sinks.
type Sink[T Object] interface {
	// Replace makes objs the whole content, as it was at resourceVersion.
	Replace(objs []T, resourceVersion string)
	// Apply makes one change: Added, Modified, Deleted, or a Bookmark that only moves the resource version. The event's
	// resource version is empty while an object before it could not be applied.
	Apply(ev WatchEvent[T])
}

// A Reflector keeps a [Sink] in step with a [Source]: it lists, then watches, resumes a watch that ended, and lists again when
// the server has forgotten where it stood. An [Informer] is one with a store and handlers.
type Reflector[T Object] struct {
	src    Source[T]
	target target[T]
	opts   *Options

	started atomic.Bool
	pace    pacer
	board   board
	log     *failureLog

	// What follows belongs to the goroutine of Run.

	position position // where the next watch starts
	listed   bool     // the target has had a whole list
	expected int      // how many objects the last list had
	relist   bool     // the position is lost: the next step is a list
	doubt    bool     // the server may be another one: the next watch must show life
	probe    bool     // the next step is to ask for the server's version
	refused  int      // older states that were refused in a row
	relisted bool     // a list was taken over since the last progress of a watch
	failures int      // requests that failed in a row, which a list alone does not end: watches may fail after each
	stream   streamMemory
	sparse   bool      // pages were empty, one after the other: the list is asked for at once
	denials  int       // questions for the server's version that it refused to answer, in a row
	askNext  time.Time // before which it is not asked again
	aside    aside
}

// target is what a reflector writes to: an informer, or a user's Sink behind a [sinkTarget].
type target[T Object] interface {
	// replace takes over a whole list; see replacement.
	replace(l replacement[T])
	// apply makes the change ev, of which key is the key, and moves the reported version to version, if that is not empty. An
	// event with Err changes no object. It returns whether the object was there before; known is false where the target cannot
	// tell. An error means that nothing has changed, and that the object is to be set aside, which held follows.
	apply(ev *WatchEvent[T], key Key, version string) (existed, known bool, err error)
	// held notes that version has come, of an event that apply has failed at, and is not going to be reported.
	held(version string)
	// notify wakes those who wait for what was applied. It follows an apply without delay, unless more events do.
	notify()
	// get returns what the target holds under key; ok is false also where it cannot tell.
	get(key Key) (obj T, ok bool)
	// version is what the target reports.
	version() string
}

// replacement is a whole list on its way into a target.
type replacement[T Object] struct {
	objs      []T
	version   string        // to report
	reached   string        // of the list, of which something may have been set aside
	keep      map[Key]error // keys that stay as they are although objs lacks them
	epoch     bool          // the server went back in time
	distrust  bool          // equal versions may be different objects
	duplicate func(key Key) // told of a key that objs holds twice
	// failed is told of an object that could not be indexed, which stays as it was, and returns the version to report then.
	failed func(key Key, err error) (version string)
	taken  func() // called once nothing can fail any more, before anybody is told that the list is there
}

// NewReflector returns a Reflector from src to sink. It panics if either is nil.
func NewReflector[T Object](src Source[T], sink Sink[T], opts *Options) *Reflector[T] {
	if isNil(src) {
		panic("lw: NewReflector: nil source")
	}
	if isNil(sink) {
		panic("lw: NewReflector: nil sink")
	}
	return newReflector(src, target[T](&sinkTarget[T]{sink: sink}), opts.withDefaults(typeName[T]()))
}

func newReflector[T Object](src Source[T], to target[T], opts *Options) *Reflector[T] {
	r := &Reflector[T]{src: src, target: to, opts: opts, board: board{born: time.Now()}, log: newFailureLog(opts)}
	r.aside.board = &r.board
	return r
}

// Run keeps the sink in step until ctx is done, and then returns nil with all goroutines gone. Whatever fails is tried again for
// as long as that: only an [ErrPermanent] of the source, which no retry can mend, ends Run before, and is returned as the *[Error]
// that Options.OnError and Status tell as well. A second call returns [ErrStarted].
func (r *Reflector[T]) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return ErrStarted
	}
	defer r.board.setPhase(PhaseStopped)
	r.log.start()
	defer r.log.stop()
	for ctx.Err() == nil {
		var done outcome
		switch {
		case !r.listed || r.relist:
			done = r.list(ctx)
		case r.probe:
			done = r.ask(ctx)
		default:
			done = r.watch(ctx)
		}
		if ctx.Err() != nil {
			break
		}
		if errors.Is(done.err, ErrPermanent) {
			return r.giveUp(done)
		}
		r.settle(ctx, done)
	}
	return nil
}

// Status returns what the reflector is doing.
func (r *Reflector[T]) Status() Status {
	s := r.board.status(r.opts.List)
	s.Informer = r.opts.Name
	s.ResourceVersion = r.target.version()
	return s
}

// outcome is how a request ended.
type outcome struct {
	op       string // list, stream (until its initial events end) or watch
	err      error  // nil: as it should
	progress bool   // the position moved, or the watch stayed open for long enough
	silent   bool   // a watch on which nothing was heard
	early    bool   // a watch that ended before its timeout
	again    bool   // a list since the last progress of a watch has not helped
	opaque   bool   // a watch that cannot be resumed, because its server gives no versions
	fallback bool   // a stream that is to be tried again as pages, at once
	quiet    bool   // err is known or no failure of the server's: it is not reported
}

// verdict is what follows from an outcome.
type verdict struct {
	relist bool // the position is of no use any more
	doubt  bool // another server may be behind the next watch
	probe  bool // ask for the server's version before the next watch
	failed bool // counts as a failure in a row
	wait   bool // pause before the next attempt
}

// decide is the whole policy of what to do after a request, as a function of how it ended and how many have failed in a row
// before.
func decide(o outcome, failures int) verdict {
	switch {
	case o.fallback:
		return verdict{}
	case o.op != opWatch:
		return verdict{failed: o.err != nil, wait: o.err != nil}
	case o.opaque:
		bad := o.err != nil || !o.progress
		return verdict{relist: true, failed: bad, wait: bad}
	case o.err == nil && o.progress:
		return verdict{doubt: o.early, probe: o.silent}
	case o.err == nil:
		// The server takes watches and closes them at once. It may do so because it cannot serve from where we stand.
		return verdict{doubt: o.early, failed: true, wait: true, relist: (failures+1)%relistAfter == 0}
	case errors.Is(o.err, errDoubt):
		return verdict{probe: true}
	case isLost(o.err):
		// A list puts it right. If it has not, the next one waits.
		return verdict{relist: true, failed: true, wait: o.again}
	case isStatus(o.err):
		again := !isBusy(o.err) && (failures+1)%relistAfter == 0
		return verdict{doubt: !isBusy(o.err), failed: true, wait: true, relist: again}
	case o.progress:
		// A connection that was good broke: come back at once, but make sure that it is the same state that answers.
		return verdict{doubt: true, probe: o.silent}
	default:
		// A network that is down says nothing about the position. What else fails again and again, such as a frame that
		// nobody can read, may be passed by a list.
		return verdict{doubt: true, failed: true, wait: true, relist: !isNetwork(o.err) && (failures+1)%relistAfter == 0}
	}
}

// relistAfter is how many watches must fail in a row before the reflector suspects its position and lists.
const relistAfter = 5

// settle reports how a request ended, and pauses as long as that asks for.
func (r *Reflector[T]) settle(ctx context.Context, o outcome) {
	if o.progress {
		r.recovered()
		r.failures, r.relisted = 0, false
	}
	o.again = r.relisted
	v := decide(o, r.failures)
	r.relist = r.relist || v.relist
	r.doubt = r.doubt || v.doubt
	r.probe = r.probe || v.probe
	if r.probe && time.Now().Before(r.askNext) {
		r.probe, r.doubt = false, true // later
	}
	if v.failed {
		r.failures++
		if o.err == nil {
			o.err = errEmptyWatch
		}
	}
	if o.err != nil && !errors.Is(o.err, errDoubt) {
		r.board.requestFailed()
	}
	if o.err != nil && !o.quiet {
		err := &Error{Informer: r.opts.Name, Op: o.op, Failures: r.failures, Err: o.err}
		if v.failed {
			r.board.fail(r.failures, err)
		}
		r.opts.OnError(err)
	}
	pause := r.pace.due(time.Now())
	if v.wait {
		r.board.setPhase(PhaseWaiting)
		pause = max(pause, r.opts.Backoff(r.failures), retryAfter(o.err))
	}
	r.pause(ctx, pause)
}

// giveUp reports what no retry can mend, and returns it.
func (r *Reflector[T]) giveUp(o outcome) error {
	r.failures++
	r.board.requestFailed()
	err := &Error{Informer: r.opts.Name, Op: o.op, Failures: r.failures, Err: o.err}
	r.board.fail(r.failures, err)
	r.opts.OnError(err)
	return err
}

// recovered notes that the server makes progress.
func (r *Reflector[T]) recovered() {
	r.board.recovered()
	r.log.recovered()
}

// report hands err to OnError, with the informer's name.
func (r *Reflector[T]) report(err *Error) {
	err.Informer = r.opts.Name
	r.opts.OnError(err)
}

func (r *Reflector[T]) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// position is a resource version with its order, which only decimal versions have.
type position struct {
	version string
	number  uint64 // decimal(version)
}

func positionAt(version string) position { return position{version, decimal(version)} }

// decimal returns the number that version is, or 0 if it is none or does not fit.
func decimal(version string) (n uint64) {
	const fits = 19 // digits, whatever they are
	if version == "" || len(version) > fits || version[0] == '0' {
		return 0
	}
	for i := range len(version) {
		digit := version[i] - '0'
		if digit > 9 {
			return 0
		}
		n = 10*n + uint64(digit)
	}
	return n
}

// before reports whether p is older than q; known is false where one of them has no order.
func (p position) before(q position) (older, known bool) {
	// Each event is compared, and nearly every version fits a word.
	if p.number != 0 && q.number != 0 {
		return p.number < q.number, true
	}
	c, err := resourceversion.CompareResourceVersion(p.version, q.version)
	return c < 0, err == nil
}

// after reports whether p is newer than version and both have an order.
func (p position) after(version string) bool {
	c, err := resourceversion.CompareResourceVersion(p.version, version)
	return err == nil && c > 0
}

// pacer bounds the requests of a reflector whatever the server does, also where each of them brings a little progress: a
// bucket of pacerBurst requests that fills by one each pacerEvery, so that no second sees more than 6 and no minute more
// than 60.
type pacer struct {
	tokens float64
	at     time.Time
}

const (
	pacerBurst = 5
	pacerEvery = 1100 * time.Millisecond
)

func (p *pacer) fill(now time.Time) {
	if p.at.IsZero() {
		p.tokens = pacerBurst
	} else {
		p.tokens = min(pacerBurst, p.tokens+float64(now.Sub(p.at))/float64(pacerEvery))
	}
	p.at = now
}

func (p *pacer) spend(now time.Time) {
	p.fill(now)
	p.tokens--
}

// due returns how long the next request has to wait.
func (p *pacer) due(now time.Time) time.Duration {
	p.fill(now)
	if p.tokens >= 1 {
		return 0
	}
	return time.Duration((1 - p.tokens) * float64(pacerEvery))
}
