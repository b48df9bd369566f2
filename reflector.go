package lw

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A Reflector keeps a [Sink] in step with a [Source]. It lists, then watches. It resumes a watch
// that has ended, and lists again when the server cannot resume it. An [Informer] is a Reflector
// with a store and handlers.
type Reflector[T Identified] struct {
	src    Source[T]
	target target[T]
	opts   *Options
	board  *Board // nil: the informer of r is on the board, or nothing is

	started  atomic.Bool    // Run was called
	limiter  requestLimiter // only the goroutine of Run uses it
	recorder statusRecorder
	log      *failureLog

	// Only the goroutine of Run uses the fields below.

	position position // where the next watch starts
	listed   bool     // the target has had a whole list
	expected int      // how many objects the last list had
	// failures is how many requests have failed in a row. Only progress of a watch sets it to 0: a
	// server that answers every list, but no watch, must not be asked ever again without a pause.
	failures int
	outage   outage // what the pauses depend on, unless Options.Backoff is set
	// refused is how many lists and probes in a row showed a state older than the position.
	refused int

	// What the next step is. settle sets it as decide says. A list or a probe that has succeeded
	// clears it.

	relist bool      // the next step is a list
	cause  listCause // why; see wantList
	// verify says that the next watch may be on another server. It must deliver something, or it
	// ends and the server is asked for its version.
	verify          bool
	probe           bool // the next step is to ask for the server's version
	alreadyRelisted bool // there was a list since the last watch that made progress
	// rewound says that the server's history is another one than that of the position. The next
	// list begins a new epoch, whatever its version.
	rewound bool

	// What is known of the server.

	streams streamSupport
	sparse  bool      // so many pages were empty that the list is asked for in one response
	denials int       // how often in a row the server refused to say its version
	askNext time.Time // when it is asked again, at the earliest
	doubt   doubt     // whether it is still the same; see doubts

	setAside setAsideObjects
}

// NewReflector returns a Reflector from src to sink. It panics if either is nil.
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
	r := &Reflector[T]{src: src, target: to, opts: opts, recorder: statusRecorder{started: time.Now()}, log: newFailureLog(opts)}
	r.setAside.recorder = &r.recorder
	return r
}

// Run keeps the sink in step until ctx is done. It then returns nil, with all its goroutines gone.
// Run retries whatever fails. Only an [ErrPermanent] of the source, which no retry can mend, ends
// it earlier: Run returns the *[Error] that Options.OnError and Status show as well. A second call
// returns an error that wraps [ErrStarted].
func (r *Reflector[T]) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return startedError(r.opts.Name)
	}
	defer r.board.addInformer(r.opts.Name, r.Status)()
	defer r.recorder.setPhase(PhaseStopped)
	r.log.start()
	defer r.log.stop()
	ctx = r.lend(ctx)
	for ctx.Err() == nil {
		var done outcome
		switch {
		case !r.listed || r.relist:
			done = r.list(ctx)
		case r.doubts():
			done = r.testify(ctx)
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
	s := r.recorder.status(r.opts.List)
	s.Informer, s.Reflector = r.opts.Name, true
	s.ResourceVersion = r.target.version()
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
