package lw

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// logEvery is the interval until a kind of failure that was logged is logged again. The
	// interval doubles each time, up to logSeldom.
	logEvery  = time.Minute
	logSeldom = time.Hour
	// logForget is a time without failures after which the next failure is logged as a new one.
	logForget = 10 * time.Minute
	// maxLogged is how many kinds of failures are logged as soon as they occur. If there are more,
	// their texts probably differ only in details. They are then logged at intervals, as known
	// kinds are, until there was no failure for logForget.
	maxLogged = 8
	// maxSignature is how many bytes of an error's text are compared to find its kind.
	maxSignature = 300
)

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
	requests ledger
	objects  ledger
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
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Informer: l.name, Op: opList, Err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Op == opMutation || errors.Is(err, ErrRewound):
		l.writeLocked(e, " failed", nil) // always logged: these are rare, and each one matters
	case e.Key != (Key{}) || e.Op == opDecode || e.Op == opTransform || e.Op == opIndex:
		l.noteLocked(&l.objects, e)
	default:
		g := &l.requests
		g.watch = g.watch || e.Op == opWatch
		g.logged = l.noteLocked(g, e) || g.logged
	}
}

// noteLocked counts e in g, and logs it if it is due and warn is set. It returns whether it was
// due.
func (l *failureLog) noteLocked(g *ledger, e *Error) bool {
	now := time.Now()
	tell, again := g.note(e, now)
	if !tell {
		return false
	}
	verb := " failed"
	if again {
		verb = " still fails"
	}
	l.writeLocked(e, verb, []slog.Attr{slog.Int("failures", g.count), slog.Duration("for", now.Sub(g.since))})
	return true
}

func (l *failureLog) writeLocked(e *Error, verb string, more []slog.Attr) {
	if !l.warn || l.stopped {
		return
	}
	warn(l.logger, e, l.name, verb, []slog.Attr{slog.String("informer", l.name)}, more)
}

// warn writes the record of e, an error of what is called name. It has the attributes whose, which
// say of what it is, then those of e, and more at the end. The attribute error is the cause alone,
// as the message and the other attributes say what the text of e says beside it.
func warn(logger *slog.Logger, e *Error, name, verb string, whose, more []slog.Attr) {
	msg, attrs := "lw: "+name+": "+e.Op, append(whose, slog.String("op", e.Op))
	if e.Key != (Key{}) {
		msg += " of " + keyString(e.Key)
		attrs = append(attrs, slog.String("key", keyString(e.Key)))
	}
	attrs = append(append(attrs, slog.Any("error", e.Err)), more...)
	logger.LogAttrs(context.Background(), slog.LevelWarn, msg+verb, attrs...)
}

// listed notes that a whole list was taken over. It ends an outage in which no watch has failed. If
// a watch has failed, only a watch that makes progress ends the outage.
func (l *failureLog) listed(op string, objects int, version, decoder string) {
	if l.logger == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.synced
	l.synced = true
	if !first {
		if !l.requests.watch {
			l.recoveredLocked()
		}
		return
	}
	attrs := []slog.Attr{slog.String("op", op), slog.Int("objects", objects), slog.String("version", version)}
	if decoder != "" {
		attrs = append(attrs, slog.String("decoder", decoder))
	}
	l.infoLocked("synced", time.Since(l.born), l.requests.count, attrs...)
	if !l.requests.watch {
		l.requests.end()
	}
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
	if g := &l.requests; g.logged {
		l.infoLocked("works again", time.Since(g.since), g.count)
		g.end()
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

// A ledger is what a failureLog remembers of one group of failures: those of requests, or those of
// single objects. Only the failures of requests have a recovery.
type ledger struct {
	known map[string]struct{} // the kinds that were logged as soon as they occurred
	every time.Duration       // the present interval between repeated records
	next  time.Time           // from when on a failure is logged although its kind is known
	last  time.Time           // the last failure

	// The fields below describe the present outage.

	since  time.Time // the first failure
	count  int       // of failures
	logged bool      // one of them was logged, or would have been if warn was set
	watch  bool      // one of them was of a watch
}

// note counts e. It returns whether to log it, and whether its kind was logged before. A failure
// that comes and goes is logged no more often than one that lasts: known kinds are forgotten after
// some calm, not at a recovery.
func (l *ledger) note(e *Error, now time.Time) (tell, again bool) {
	if !l.last.IsZero() && now.Sub(l.last) >= logForget {
		l.known = nil
		if !l.logged {
			l.count = 0 // the outage before was over without a record of it
		}
	}
	l.last = now
	if l.count++; l.count == 1 {
		l.since = now
	}
	kind := signature(e)
	_, again = l.known[kind]
	switch {
	case !again && len(l.known) < maxLogged:
		if l.known == nil {
			l.known, l.every, l.next = map[string]struct{}{}, logEvery, now.Add(logEvery)
		}
		l.known[kind] = struct{}{}
	case !now.Before(l.next):
		l.every = min(2*l.every, logSeldom)
		l.next = now.Add(l.every)
	default:
		return false, again
	}
	return true, again
}

// end forgets the present outage. The known kinds stay, so that a failure that comes back soon is
// not logged as a new one.
func (l *ledger) end() { l.count, l.logged, l.watch = 0, false, false }

// signature returns the kind of e: its operation, its key and the beginning of its text, with each
// number replaced by a #. Failures that differ only in a port, a time or a version are of one kind.
func signature(e *Error) string {
	text := e.Err.Error()
	text = text[:min(len(text), maxSignature)]
	var b strings.Builder
	b.WriteString(e.Op)
	b.WriteByte(' ')
	b.WriteString(keyString(e.Key))
	b.WriteByte(' ')
	number := false // the character before was a digit
	for _, c := range text {
		if digit := '0' <= c && c <= '9'; !digit {
			b.WriteRune(c)
		} else if !number {
			b.WriteByte('#')
		}
		number = '0' <= c && c <= '9'
	}
	return b.String()
}
