package lw

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-lw/lw/internal/pace"
)

// A Reflector keeps a [Sink] in step with a [Source]. It lists, then watches, and lists again when
// the server cannot resume the watch. An [Informer] is a Reflector with a store and handlers.
type Reflector[T Identified] struct {
	src    Source[T]
	target target[T]
	opts   *Options
	board  *Board // nil: the informer of r is on the board, or nothing is

	started  atomic.Bool  // Run was called
	limiter  pace.Limiter // only the goroutine of Run uses it
	recorder statusRecorder
	log      *failureLog

	// Only the goroutine of Run uses the fields below.

	next     step
	cause    listCause // why next is a list; see wantList
	at       checkpoint
	server   server
	outage   outage
	setAside setAsideObjects

	// Any goroutine may use the field below.

	refresher pace.Refresher
}

// A step is what a reflector does next. Whatever wants a step sets next to the later one of both, in
// the order of the constants. The step itself goes back to stepWatch when it has succeeded.
type step int

const (
	stepWatch   step = iota // resume the watch at the position
	stepAsk                 // ask the server for its version; see Reflector.ask
	stepTestify             // ask the witness whether the server is the same; see Reflector.testify
	stepList                // bring a whole list into the target
)

// A checkpoint is how far a reflector has come.
type checkpoint struct {
	position position // where the next watch starts
	listed   bool     // the target has had a whole list
	objects  int      // how many the last one had
	// distrust says that an event was not newer than the position, and that no newer version has
	// come since. A server that gives one version to every state does so: what it lists is compared
	// whole.
	distrust bool
}

// moveTo moves the position.
func (c *checkpoint) moveTo(to position) {
	if c.distrust {
		newer, ordered := c.position.before(to)
		c.distrust = ordered && !newer
	}
	c.position = to
}

// An outage is what has failed since a watch last made progress. A server that answers every list,
// but no watch, must not be asked ever again without a pause, so a list does not end it.
type outage struct {
	pace.Outage      // what the pauses depend on, unless Options.Backoff is set
	failures    int  // how many requests have failed in a row
	relisted    bool // there was a list
}

// NewReflector returns a Reflector. It panics if src or sink is nil.
func NewReflector[T Object](src Source[T], sink Sink[T], opts *Options) *Reflector[T] {
	if isNil(src) {
		panic("lw: NewReflector: nil source")
	}
	if isNil(sink) {
		panic("lw: NewReflector: nil sink")
	}
	r := newReflector(src, target[T](&sinkTarget[T]{sink: sink}), opts.withDefaults(typeName[T]()))
	r.board = r.opts.Board
	return r
}

func newReflector[T Identified](src Source[T], to target[T], opts *Options) *Reflector[T] {
	r := &Reflector[T]{src: src, target: to, opts: opts, next: stepList, recorder: statusRecorder{started: time.Now(), requests: map[string]*RequestCount{}}, log: newFailureLog(opts)}
	r.setAside.recorder = &r.recorder
	return r
}

// Run keeps the sink in step until ctx is done, as [Informer.Run] does.
func (r *Reflector[T]) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return startedError(r.opts.Name)
	}
	defer r.board.addInformer(r.opts.Name, r.Status, noObject)()
	defer r.recorder.setPhase(phaseStopped)
	r.log.start()
	defer r.log.stop()
	ctx = r.lend(ctx)
	for ctx.Err() == nil {
		var done outcome
		switch max(r.next, r.doubted()) {
		case stepList:
			done = r.list(ctx)
		case stepTestify:
			done = r.testify(ctx)
		case stepAsk:
			done = r.ask(ctx)
		default:
			done = r.follow(ctx, false)
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
	s := r.recorder.status(r.opts.List)
	s.Name, s.ResourceVersion = r.opts.Name, r.target.version()
	if polled := HintsOf(r.src).polled; polled != nil && !s.LastList.IsZero() {
		last, due := polled()
		s.LastList = last
		if s.NeedsListSince.IsZero() && time.Since(due) > 0 {
			s.NeedsListSince = due
		}
	}
	return s
}

// recovered notes that the server makes progress. It is called in the goroutine of Run and in those
// of a watch's timers.
func (r *Reflector[T]) recovered() {
	r.recorder.recovered()
	r.log.recovered()
}

// report writes the informer's name into err and calls OnError with it.
func (r *Reflector[T]) report(err *Error) {
	err.Informer = r.opts.Name
	r.opts.OnError(err)
}

// hasten has the position reach version soon: the source's Progress does that, or else refresher. It
// does nothing if the versions mean nothing. It returns as Refresher.Hasten does.
func (r *Reflector[T]) hasten(version string) (again time.Duration) {
	hints := HintsOf(r.src)
	switch {
	case hints.Unversioned:
		return pace.HastenAgain
	case hints.Progress == nil:
		return r.refresher.Hasten(version, errHastened)
	}
	if again = r.refresher.MayAsk(); again == 0 {
		hints.Progress()
	}
	return again
}
