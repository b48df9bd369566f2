package pace

import (
	"strings"
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

// A Ledger says which failures of one group are logged: those of requests, or those of single
// objects. An outage of an hour has the same few causes again and again. Only the failures of
// requests have a recovery.
type Ledger struct {
	known map[string]struct{} // the kinds that were logged as soon as they occurred
	every time.Duration       // the present interval between repeated records
	next  time.Time           // from when on a failure is logged although its kind is known
	last  time.Time           // the last failure

	// The fields below describe the present outage.

	Since  time.Time // the first failure
	Count  int       // of failures
	Logged bool      // one of them was due to be logged
	Watch  bool      // one of them was of a watch
}

// Note counts a failure of that kind. It returns whether to log it, and whether its kind was logged
// before. A failure that comes and goes is logged no more often than one that lasts: known kinds
// are forgotten after some calm, not at a recovery.
func (l *Ledger) Note(kind string, now time.Time) (log, again bool) {
	if !l.last.IsZero() && now.Sub(l.last) >= logForget {
		l.known = nil
		if !l.Logged {
			l.Count = 0 // the outage before was over without a record of it
		}
	}
	l.last = now
	if l.Count++; l.Count == 1 {
		l.Since = now
	}
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

// End forgets the present outage. The known kinds stay, so that a failure that comes back soon is
// not logged as a new one.
func (l *Ledger) End() { l.Count, l.Logged, l.Watch = 0, false, false }

// KindOf returns the kind of a failure: its operation, its key and the beginning of its text, with
// each number replaced by a #. Failures that differ only in a port, a time or a version are of one
// kind.
func KindOf(op, key, text string) string {
	text = text[:min(len(text), maxSignature)]
	var b strings.Builder
	b.WriteString(op)
	b.WriteByte(' ')
	b.WriteString(key)
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
