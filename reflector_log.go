package lw

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-lw/lw/internal/pace"
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

// warn writes the record of e, an error of what is called name. Its attributes are: subject, those of
// e, extra. The attribute error is the cause alone, as the message and the other attributes say what
// the text of e says beside it.
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
func (l *failureLog) listed(op string, objects int, version, decoder string) {
	if l.logger == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.synced
	l.synced = true
	if !first {
		if !l.requests.Watch {
			l.recoveredLocked()
		}
		return
	}
	attrs := []slog.Attr{slog.String("op", op), slog.Int("objects", objects), slog.String("version", version)}
	if decoder != "" {
		attrs = append(attrs, slog.String("decoder", decoder))
	}
	l.infoLocked("synced", time.Since(l.born), l.requests.Count, attrs...)
	if !l.requests.Watch {
		l.requests.End()
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
