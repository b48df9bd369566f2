package lw

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/pace"
	"github.com/go-lw/lw/internal/request"
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
	sparse  bool // so many pages were empty that the list is asked for in one response
	// confirmed is when a probe last showed that the server has the position, if no request has
	// failed since; see watchSession.ended.
	confirmed time.Time
	// distrust says that an event was not newer than the position, and that no newer version has
	// come since. A server that gives one version to every state does so: what it lists is compared
	// whole.
	distrust bool
	denials  int       // how often in a row the server refused to say its version
	askNext  time.Time // when it is asked again, at the earliest
	doubt    doubt     // whether it is still the same; see doubts

	setAside setAsideObjects

	// Any goroutine may use the fields below.

	hurry hurry
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
	r := &Reflector[T]{src: src, target: to, opts: opts, recorder: statusRecorder{started: time.Now()}, log: newFailureLog(opts)}
	r.setAside.recorder = &r.recorder
	return r
}

// Run keeps the sink in step until ctx is done, as [Informer.Run] does.
func (r *Reflector[T]) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return startedError(r.opts.Name)
	}
	defer r.board.addInformer(r.opts.Name, r.Status, noObject)()
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
	s := r.status()
	s.Reflector = true
	return s
}

// status returns what Informer.Status and Status have in common.
func (r *Reflector[T]) status() Status {
	s := r.recorder.status(r.opts.List)
	s.Informer, s.ResourceVersion = r.opts.Name, r.target.version()
	if polled := HintsOf(r.src).Polled; polled != nil && !s.LastList.IsZero() {
		last, due := polled()
		s.LastList = last
		if s.ListDue.IsZero() && time.Since(due) > 0 {
			s.ListDue = due
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

// ask asks the server for its version, by a consistent list of at most one object, and compares it
// with the position. Run calls it after a watch that was silent. A server that was restored from a
// backup may be older than the position, and answers a watch from there with silence.
//
// If the server is older, the next step is a list, whose takeOver decides whether that is the
// truth. If the request fails, asking stays the next step, unless the server refuses to answer at
// all.
func (r *Reflector[T]) ask(ctx context.Context) outcome {
	r.limiter.Spend(time.Now())
	begun := time.Now()
	version, err := r.askVersion(ctx)
	o := outcome{op: opList, err: err}
	if err != nil {
		if isStatus(err) && !isBusy(err) {
			r.denied()
			r.doubt.reached()
		}
		r.doubt.lost(begun)
		return o
	}
	r.doubt.reached()
	r.answered()
	r.probe, r.verify = false, false
	if r.position.after(version) {
		r.wantList(listOlder)
		r.refused++
		o.err = &olderError{got: version, seen: r.position.version}
		return o
	}
	r.confirmed = time.Now()
	return o
}

// isConfirmed reports whether the server need not be asked whether it has the position: it has said
// so not long ago, or it refuses to say.
func (r *Reflector[T]) isConfirmed() bool {
	return !r.confirmed.IsZero() && time.Since(r.confirmed) < confirmedFor || time.Now().Before(r.askNext)
}

// moveTo moves the position.
func (r *Reflector[T]) moveTo(to position) {
	if r.distrust {
		newer, ordered := r.position.before(to)
		r.distrust = ordered && !newer
	}
	r.position = to
}

// askVersion makes the request of ask. Any goroutine may call it.
func (r *Reflector[T]) askVersion(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := pace.NewStallTimer(cancel, listPatience, errStalled)
	defer g.Stop()
	var ignored listBuilder[T] // the object is of no use: it may be one of many
	meta, err := r.page(request.AsProbe(ctx), opProbe, metav1.ListOptions{Limit: 1}, &ignored, g)
	return meta.ResourceVersion, err
}

// serverVersion returns the version that the server has now. Any goroutine may call it, while Run
// does something else. The server must not be older than what the target has. If it is, it went
// back in time, or lags: the open watch is ended, so that Run asks too, and finds that out.
func (r *Reflector[T]) serverVersion(ctx context.Context) (string, error) {
	seen := positionAt(r.target.version())
	version, err := r.askVersion(ctx)
	if err == nil && seen.after(version) {
		r.hurry.end(errUnverified)
		err = &olderError{got: version, seen: seen.version}
	}
	if err != nil {
		if ctx.Err() == nil {
			r.recorder.requestFailed()
		}
		return "", &Error{Informer: r.opts.Name, Op: opList, Err: err}
	}
	return version, nil
}

// hasten has the position reach version soon: the source's Progress does that, or else hurry. It
// does nothing if the versions mean nothing. It returns as hurry.hasten does.
func (r *Reflector[T]) hasten(version string) (again time.Duration) {
	hints := HintsOf(r.src)
	switch {
	case hints.Unversioned:
		return hastenAgain
	case hints.Progress == nil:
		return r.hurry.hasten(version)
	}
	if again = r.hurry.mayAsk(); again == 0 {
		hints.Progress()
	}
	return again
}

const (
	// askAgain is the pause before a server that refused to answer is asked again. It doubles with
	// each refusal, up to askSeldom, which is about once per watch that is quiet all the time.
	askAgain  = 30 * time.Second
	askSeldom = 5 * time.Minute
)

// denied notes that the server refused to answer ask. It may permit watches but no lists. The watch
// goes on, unverified.
func (r *Reflector[T]) denied() {
	r.probe = false
	r.askNext = time.Now().Add(min(askAgain<<min(r.denials, 10), askSeldom))
	r.denials++
}

// answered notes that the server permits lists.
func (r *Reflector[T]) answered() { r.denials, r.askNext = 0, time.Time{} }

const (
	// outageAfter is how long a server may be out of touch without being asked whether it is still
	// the same. Nobody restores a server within it, but many connections break and come back.
	outageAfter = time.Second
	// maxUnanswered is how many times in a row the witness's question may break with the
	// connection, although the server can be reached. Then something is wrong with the question.
	maxUnanswered = 3
)

// A doubt is what a reflector must know to decide when to ask its witness, SourceHints.Had. A
// server that was restored may have passed the position: only what it had at the position tells
// that.
type doubt struct {
	since      time.Time // when the server was last in touch; zero: it is
	quiet      time.Time // when a silent watch ended early, without an error: an outage may follow
	askNext    time.Time // when the witness is asked again, at the earliest
	unproved   bool      // since the last list there was an outage after which nobody could tell
	unanswered int       // how often in a row the question has broken with the connection
	reachable  bool      // the server has answered another question meanwhile
}

// lost notes that a request has failed. The server was in touch until that time, at least.
func (d *doubt) lost(at time.Time) {
	if !d.since.IsZero() {
		return
	}
	if d.since = at; !d.quiet.IsZero() && d.quiet.Before(at) {
		d.since = d.quiet
	}
}

// reached notes that the server has answered a question other than the witness's.
func (d *doubt) reached() { d.unanswered, d.reachable = 0, true }

// lift ends the doubt: the server is known to be the same, or goes on from the position.
func (d *doubt) lift() { *d = doubt{askNext: d.askNext, unproved: d.unproved} }

// deny ends the doubt, since the server does not answer the question. It is asked again after a
// later outage, but not before askSeldom.
func (d *doubt) deny() { *d = doubt{askNext: time.Now().Add(askSeldom), unproved: true} }

// listed ends the doubt: what the server had before no longer matters.
func (d *doubt) listed() { *d = doubt{askNext: d.askNext} }

// outage reports whether the server was out of touch for so long that it may be another one.
func (d *doubt) outage() bool { return !d.since.IsZero() && time.Since(d.since) > outageAfter }

// remains reports whether a list may be of another history than what was read before, because of an
// outage after which the witness did not say that it is not.
func (d *doubt) remains() bool { return d.unproved || d.outage() }

// doubts reports whether the server must be asked, before the next watch, whether it is still the
// same. Without an order of versions there is no newest object to ask about.
func (r *Reflector[T]) doubts() bool {
	d := &r.doubt
	if !d.outage() || time.Now().Before(d.askNext) {
		return false
	}
	if r.probe && d.unanswered >= maxUnanswered {
		return false // first the other question
	}
	_, ordered := r.position.before(r.position)
	return ordered && !HintsOf(r.src).Unversioned
}

// testify asks whether the server still has, at the position, the newest object that the target
// has. Run calls it after an outage, before the next watch. If the answer is yes, the server has
// reached the position as well, so there is nothing left to probe. If it is no, the next step is a
// list, with which a new epoch begins. If the server cannot tell, the watch goes on.
func (r *Reflector[T]) testify(ctx context.Context) outcome {
	o := outcome{op: opList, asked: true}
	had := HintsOf(r.src).Had
	obj := r.target.newest(r.setAside.has)
	if had == nil || obj.ResourceVersion == "" {
		r.doubt.unproved = r.doubt.unproved || had == nil
		r.doubt.lift()
		return o
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer pace.NewStallTimer(cancel, listPatience, errStalled).Stop()
	begun := r.recorder.now()
	is, err := had(ctx, obj, r.position.version)
	err = causeOf(ctx, err)
	r.limiter.Spend(time.Now())
	r.recorder.requested(opProbe)
	r.recorder.ended(opProbe, err, r.recorder.now()-begun)
	o.err = err
	switch {
	case err == nil && is:
		r.answered()
		r.doubt.lift()
		r.probe, r.verify = false, false
	case err == nil:
		r.answered()
		o.err = fmt.Errorf("%w: at resource version %s it has not %s at %s, which was there",
			ErrRewound, r.position.version, keyString(obj.key()), obj.ResourceVersion)
	case errors.Is(err, ErrRewound):
		r.answered()
	case errors.Is(err, errors.ErrUnsupported): // a good answer, of no use
		r.doubt.deny()
		o.err = nil
	case isExpired(err) || isTooLarge(err): // decide says what follows
	case isBusy(err):
	case isNetwork(err) || errors.Is(err, errStalled):
		if r.doubt.unanswered++; r.doubt.unanswered >= maxUnanswered {
			o.denied = r.doubt.reachable
			r.probe = r.probe || !o.denied
		}
	default:
		o.denied = true
	}
	if o.denied {
		r.doubt.deny()
	}
	return o
}

// newestOf returns the identity of the object with the newest version; the zero Meta if there is
// none, or no version has an order. It passes over the keys of which skip is true.
func newestOf[T Identified](objs iter.Seq[T], skip func(Key) bool) (id Meta) {
	var newest position
	for obj := range objs {
		at := positionAt(obj.GetResourceVersion())
		than := newest
		if than.version == "" {
			than = at
		}
		older, ordered := than.before(at)
		if ordered && (older || newest.version == "") && !skip(KeyOf(obj)) {
			newest, id = at, MetaOf(obj)
		}
	}
	return id
}
