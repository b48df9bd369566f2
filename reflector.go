package lw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/listopts"
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

	next     step
	cause    listCause // why next is a list; see wantList
	at       checkpoint
	server   server
	outage   outage
	setAside setAsideObjects

	// Any goroutine may use the field below.

	refresher pace.Refresher
}

// A step is what a reflector does next. Whatever wants a step sets next to the later one of both,
// in the order of the constants. The step itself goes back to stepWatch when it has succeeded.
type step int

const (
	stepWatch  step = iota // resume the watch at the position
	stepAsk                // ask the server for its version; see Reflector.ask
	stepVerify             // ask the witness whether the server is the same; see Reflector.verify
	stepList               // bring a whole list into the target
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
	answered    bool // a list was answered, and every watch since was refused
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
	defer request.MemoOf(ctx).End()
	for ctx.Err() == nil {
		var done outcome
		switch max(r.next, r.doubted()) {
		case stepList:
			done = r.list(ctx)
		case stepVerify:
			done = r.verify(ctx)
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
	s.Name, s.ResourceVersion, s.Packed = r.opts.Name, r.target.version(), r.recorder.usage()
	hints := HintsOf(r.src)
	if s.Unserved = hints.Unserved; s.Unserved != "" && (s.Phase == phaseListing || s.Phase == phaseWatching) {
		s.Phase = phaseUnserved
	}
	if polled := hints.polled; polled != nil && !s.LastList.IsZero() {
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

// hasten has the position reach version soon: the source's Progress does that, or else refresher.
// It does nothing if the versions mean nothing. It returns as Refresher.Hasten does.
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

// A failureLog writes what an informer logs. It is called for every failure and logs few of them:
// an outage of an hour has the same few causes again and again.
//
// Several goroutines call it: that of Run, the timers of a watch, and the mutation detector's. It
// calls the logger while it holds mu. So records come in order, and stop can wait for the last one.
type failureLog struct {
	logger *slog.Logger // nil: nothing is logged
	name   string
	warn   bool // failures are logged, because the user has set no OnError

	mu       sync.Mutex
	stopped  bool      // guarded by mu, as all below
	born     time.Time // when Run was called
	synced   bool
	requests pace.Ledger
	objects  pace.Ledger
}

// newFailureLog returns the log that opts ask for. It replaces opts.OnError by a function that
// notes the failure in the log and then calls the user's OnError, if there is one.
func newFailureLog(opts *Options) *failureLog {
	user := opts.OnError
	l := &failureLog{logger: opts.Logger, name: opts.Name, warn: user == nil}
	switch {
	case l.logger == nil:
	case user == nil:
		opts.OnError = l.failed
	default:
		opts.OnError = func(err error) {
			l.failed(err)
			user(err)
		}
	}
	return l
}

// start notes the time when Run was called. The first sync is logged with how long it took.
func (l *failureLog) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.born = time.Now()
}

// stop waits for a record that is being written. No record is written after it.
func (l *failureLog) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

// failed notes a failure, and logs it if it is due. It has the signature of Options.OnError.
func (l *failureLog) failed(err error) {
	e := err.(*Error) // as all that lw reports
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Op == opMutation || errors.Is(err, ErrRewound):
		l.writeLocked(e, " failed", nil) // always logged: these are rare, and each one matters
	case e.Key != (Key{}) || e.Op == opDecode || e.Op == opTransform || e.Op == opIndex:
		l.noteLocked(&l.objects, e)
	default:
		g := &l.requests
		g.Watch = g.Watch || e.Op == opWatch
		g.Logged = l.noteLocked(g, e) || g.Logged
	}
}

// noteLocked counts e in g, and logs it if it is due and warn is set. It returns whether it was
// due.
func (l *failureLog) noteLocked(g *pace.Ledger, e *Error) bool {
	now := time.Now()
	due, again := g.Note(pace.KindOf(e.Op, keyString(e.Key), e.Err.Error()), now)
	if !due {
		return false
	}
	verb := " failed"
	if again {
		verb = " still fails"
	}
	l.writeLocked(e, verb, []slog.Attr{slog.Int("failures", g.Count), slog.Duration("for", now.Sub(g.Since))})
	return true
}

func (l *failureLog) writeLocked(e *Error, verb string, extra []slog.Attr) {
	if !l.warn || l.stopped {
		return
	}
	warn(l.logger, e, l.name, verb, []slog.Attr{slog.String("informer", l.name)}, extra)
}

// warn writes the record of e, an error of what is called name. Its attributes are: subject, those
// of e, extra. The attribute error is the cause alone, as the message and the other attributes say
// what the text of e says beside it.
func warn(logger *slog.Logger, e *Error, name, verb string, subject, extra []slog.Attr) {
	msg, attrs := "lw: "+name+": "+e.Op, append(subject, slog.String("op", e.Op))
	if e.Key != (Key{}) {
		msg += " of " + keyString(e.Key)
		attrs = append(attrs, slog.String("key", keyString(e.Key)))
	}
	attrs = append(append(attrs, slog.Any("error", e.Err)), extra...)
	logger.LogAttrs(context.Background(), slog.LevelWarn, msg+verb, attrs...)
}

// listed notes that a whole list was taken over. It ends an outage in which no watch has failed. If
// a watch has failed, only a watch that makes progress ends the outage.
func (l *failureLog) listed(op string, objects int, version string, hints SourceHints) {
	if l.logger == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if hints.Unserved != "" {
		l.waitsLocked(hints.Unserved)
		return
	}
	first := !l.synced
	l.synced = true
	if !first {
		if !l.requests.Watch {
			l.recoveredLocked()
		}
		return
	}
	attrs := []slog.Attr{slog.String("op", op), slog.Int("objects", objects), slog.String("version", version)}
	if hints.Decoder != "" {
		attrs = append(attrs, slog.String("decoder", hints.Decoder))
	}
	l.infoLocked("synced", time.Since(l.born), l.requests.Count, attrs...)
	if !l.requests.Watch {
		l.requests.End()
	}
}

// waitsLocked logs that nobody serves the kind. It ends an outage, too.
func (l *failureLog) waitsLocked(why string) {
	if !l.stopped {
		attrs := []slog.Attr{slog.String("informer", l.name), slog.String("why", why)}
		l.logger.LogAttrs(context.Background(), slog.LevelInfo, "lw: "+l.name+": waits", attrs...)
	}
	l.requests.End()
}

// recovered notes that the server makes progress.
func (l *failureLog) recovered() {
	if l.logger == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recoveredLocked()
}

// recoveredLocked logs the end of the present outage, if one of its failures was due to be logged.
func (l *failureLog) recoveredLocked() {
	if g := &l.requests; g.Logged {
		l.infoLocked("works again", time.Since(g.Since), g.Count)
		g.End()
	}
}

func (l *failureLog) infoLocked(what string, took time.Duration, failures int, more ...slog.Attr) {
	if l.stopped {
		return
	}
	attrs := append([]slog.Attr{slog.String("informer", l.name)}, more...)
	attrs = append(attrs, slog.Int("failures", failures), slog.Duration("took", took))
	l.logger.LogAttrs(context.Background(), slog.LevelInfo, "lw: "+l.name+": "+what, attrs...)
}

var (
	errEmptyWatch = errors.New("the server closed the watch early, without an event")
	// errSilent ends a watch on which nothing was heard.
	errSilent = errors.New("nothing was heard on the watch")
	// errStalled ends a list that makes no progress.
	errStalled = errors.New("the server made no progress")
	errNoEnd   = errors.New("the server did not end the initial events of the streamed list")
	errCut     = errors.New("the stream ended before its initial events did")
)

// An olderError says that the server answered with an older state than one that was seen before.
type olderError struct{ got, seen string }

func (e *olderError) Error() string {
	return fmt.Sprintf("the server answered with resource version %s, which is older than %s seen before", e.got, e.seen)
}

// ServerIsOlder is what package serve looks for: a client that is sent to that server would go
// back.
func (e *olderError) ServerIsOlder() {}

// isLost reports whether a watch cannot go on from the position, so that only a list can help. The
// server has no history from there on, or has not reached the position yet. Or it has an object
// that it cannot read: every watch that starts before the removal of that object fails. Or it has
// sent what no correct server sends. Or its objects are of another kind: only a list shows whether
// the resource was defined anew.
func isLost(err error) bool {
	var proto *protocolError
	if _, other := errors.AsType[*decode.KindError](err); other {
		return true
	}
	return pace.IsExpired(err) || pace.IsTooLarge(err) || apierrors.IsStoreReadError(err) || errors.As(err, &proto)
}

// isOutOfOrder reports whether an event was not newer than the position.
func isOutOfOrder(err error) bool {
	proto, ok := errors.AsType[*protocolError](err)
	return ok && proto.old
}

// isFinal reports whether err is how the request has ended, and not that nothing more comes from
// it: the server has said it, or no connection was made.
func isFinal(err error) bool {
	_, garbled := errors.AsType[*decode.SyntaxError](err)
	return pace.IsStatus(err) || garbled || pace.IsUnreachable(err) && !errors.Is(err, context.Canceled)
}

// refusesWatch reports whether err is a refusal of a watch that says nothing about lists: a right
// that is missing, or a server or a proxy that has no watches.
func refusesWatch(err error) bool {
	refused, _ := pace.IsRefusal(err)
	return refused || codeOf(err) == http.StatusNotImplemented
}

// A watchRefusedError says what follows from a refusal of the watch. A role may be taken away from
// one who watches, and who then has not asked for a list: listed says that one was answered.
type watchRefusedError struct {
	err    error
	listed bool
}

func (e *watchRefusedError) Error() string {
	if !e.listed {
		return e.err.Error()
	}
	return fmt.Sprintf("the list is answered, but the watch is refused, so that only lists show changes: %v", e.err)
}

func (e *watchRefusedError) Unwrap() error { return e.err }

// A finalError is an [ErrPermanent] that has ended Run. Other failures have the same texts, and are
// retried.
type finalError struct{ err error }

func (e *finalError) Error() string {
	return fmt.Sprintf("%v (no retry can help, so Run has ended)", e.err)
}

func (e *finalError) Unwrap() error { return e.err }

// isOwnCause reports whether err is why the reflector itself ends a request, be it a failure or
// not.
func isOwnCause(err error) bool {
	return isOwnEnd(err) || errors.Is(err, errSilent) || errors.Is(err, errStalled) || errors.Is(err, errNoEnd)
}

// causeOf returns why ctx was cancelled, if that ended the request, or else err. What the server
// has said stands, even if the reflector was about to end the request for a reason of its own: the
// next one may be to a server that does not know it, and only err says what was wrong. So do an
// answer that cannot be read and a server that cannot be reached. The answer of a server that has
// another history is an [ErrRewound] too.
func causeOf(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err != nil && cause != nil && !(isOwnCause(cause) && isFinal(err)):
		return cause
	case apierrors.HasStatusCause(err, listopts.CauseReplaced):
		return fmt.Errorf("%w: %w", ErrRewound, err)
	}
	return err
}
