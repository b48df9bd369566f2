package oracle

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Verb is the kind of a request.
type Verb string

// The verbs.
const (
	List   Verb = "list"
	Watch  Verb = "watch"
	Stream Verb = "stream" // a streamed list: a watch that begins with the list
	// Witness is the question whether the server still has what it had at the position.
	Witness Verb = "witness"
)

// A Request is one call of a source and its result.
type Request struct {
	Verb     Verb
	Copy     int
	Version  string // the resource version that was asked for
	Limit    int64
	Continue string
	At       time.Time

	Listed string // the version of a list
	More   string // the continue token of a list
	Had    bool   // the answer to a witness

	Err      error
	Refused  bool // the copy refused something in the answer, by an error from yield
	Invalid  bool // the server answered that the request is invalid
	Lost     bool // the server answered that the version is lost: expired, or too large
	Injected bool // the answer was made by a fault
	Rewound  bool // the server answered that it has another history

	// Cause returns, when all has ended, why the request's context was cancelled first; see
	// context.Cause. If that is another error than context.Canceled, the copy has ended the request
	// for a reason of its own, perhaps when it had already failed. nil: it has not.
	Cause func() error

	log       *Log
	events    []Event
	call, ret int
}

// An Event is what a watch yielded.
type Event struct {
	Version string
	End     bool // the bookmark that ends the initial events
	Open    bool // more events of this version follow; it is reached when the last of them has come
	Refused bool // the copy returned an error from yield, which ends the watch
}

// Requests records the beginning of a request. The methods of the result record what follows.
func (l *Log) Requests(q Request) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.log, q.call = l, l.next()
	l.requests = append(l.requests, &q)
	return &q
}

// Yields records an event that was passed to the copy.
func (req *Request) Yields(e Event) {
	req.log.mu.Lock()
	defer req.log.mu.Unlock()
	req.events = append(req.events, e)
}

// Ends records the end of the request. set writes the result into it; it runs with the log locked.
func (req *Request) Ends(set func(*Request)) {
	req.log.mu.Lock()
	defer req.log.mu.Unlock()
	set(req)
	req.ret = req.log.next()
}

// Gives records that a source yielded an object that must be transformed.
func (l *Log) Gives(ref any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.yielded = append(l.yielded, ref)
}

// Turns records that an object was transformed.
func (l *Log) Turns(ref any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.transformed = append(l.transformed, ref)
}

// checkTransforms checks that each object that a source yielded was transformed once, and no other
// object: T1, T2.
func (l *Log) checkTransforms(r *Result) {
	if len(l.transformed) == 0 {
		return
	}
	left := map[any]int{}
	for _, ref := range l.yielded {
		left[ref]++
	}
	for _, ref := range l.transformed {
		r.met("T1")
		r.met("T2")
		left[ref]--
	}
	for _, n := range left {
		switch {
		case n < 0:
			r.fail(l.seq, "T1", "an object was transformed more than once, or did not come from the source")
			return
		case n > 0:
			r.fail(l.seq, "T1", "an object was not transformed")
			return
		}
	}
}

// checkRequests computes the position of each copy from the answers that it received. It checks
// that each watch starts there, and that the next request is a right reaction to the answer before
// it: R1, R2, R3, R5, R6, R7, R9, R13.
func (l *Log) checkRequests(r *Result) {
	at := map[int]*positionModel{}
	for _, q := range l.requests {
		s := at[q.Copy]
		if s == nil {
			s = &positionModel{l: l, r: r}
			at[q.Copy] = s
		}
		s.checkStart(q)
		s.applyResult(q)
		s.last = q
	}
}

// A positionModel computes the position of one copy: the version from which its next watch must
// start.
type positionModel struct {
	l *Log
	r *Result

	listed  bool   // a whole list has come
	at      uint64 // the position: the newest version of an event, a bookmark or a whole list
	older   uint64 // the version of the last whole list, if that is older than at; otherwise 0
	refused int    // number of such older lists in a row
	pages   uint64 // the version of the first page of a list
	mixed   bool   // a later page has another version
	rewound bool   // a witness, or the server itself, has said that the server has another history
	broken  int    // requests that failed or were refused since a watch last moved the position
	last    *Request
	before  *positionModel // what this was before a list of bad objects alone; nil: there was none
}

// checkStart checks a request when it begins. A copy makes one request at a time. A watch must
// start at the position. It may start at the version of an older list only if that was at least the
// fourth older answer in a row: then the server has gone back in time.
func (m *positionModel) checkStart(q *Request) {
	m.settleUseless(q)
	m.r.met("R13")
	if m.last != nil && (m.last.ret == 0 || m.last.ret > q.call) {
		m.r.fail(q.call, "R1", "%s while %s is open", q, m.last)
	}
	if q.Invalid && !q.Injected {
		m.r.fail(q.call, "R13", "%s is not valid: %v", q, q.Err)
	}
	m.checkFollows(q)
	if q.Verb != Watch && q.Verb != Witness {
		return
	}
	version, err := ParseVersion(q.Version)
	m.r.met("R1")
	m.r.met("R3")
	m.r.met("R9")
	switch {
	case err != nil || !m.listed:
		m.r.fail(q.call, "R1", "%s without a list before it", q)
	case version == m.at:
	case m.older != 0 && version == m.older:
		m.r.met("R6")
		if m.refused < 4 {
			m.r.fail(q.call, "R6", "%s, the version of an older answer that was not refused often enough, after %d", q, m.at)
		}
		m.at, m.older, m.refused = version, 0, 0
	case version < m.at:
		m.r.fail(q.call, "R3", "%s, which is before %d", q, m.at)
	default:
		m.r.fail(q.call, "R1", "%s, which is beyond %d", q, m.at)
	}
}

// suspicious is the number of failed requests in a row after which a copy may list again although
// its version is not known to be lost.
const suspicious = 4

// checkFollows checks that q is a right reaction to a watch before it. If the watch's version was
// lost, a list must follow. If the watch only broke, another watch must follow, which resumes it; a
// probe, which is a list with limit 1, or the question of a witness may come in between. If the
// server has another history, nothing but a list may follow until one has come.
func (m *positionModel) checkFollows(q *Request) {
	probe := q.isProbe()
	if m.rewound {
		m.r.met("R16")
		if q.Verb == Watch || probe {
			m.r.fail(q.call, "R16", "%s, though the server is known to have another history", q)
		}
		return
	}
	if m.last == nil || m.last.Verb != Watch && m.last.Verb != Witness {
		return
	}
	m.r.met("R5")
	switch {
	case m.last.Lost && (q.Verb == Watch || probe):
		m.r.fail(q.call, "R5", "%s after %s ended with %v", q, m.last, m.last.Err)
	case !m.last.Lost && !m.last.Refused && m.broken < suspicious && q.Verb != Watch && !probe:
		m.r.fail(q.call, "R5", "%s after %s ended with %v, which a watch could go on from", q, m.last, m.last.Err)
	}
}

// applyResult applies the answer to q. The initial events of a stream do not move the position:
// only the bookmark that ends them does, because the list is not complete before.
func (m *positionModel) applyResult(q *Request) {
	live := q.Verb != Stream
	moved := false
	for _, e := range q.events {
		version, err := ParseVersion(e.Version)
		switch {
		case err != nil:
		case e.End && !live:
			if !e.Refused || version < m.at && !m.rewound { // any other refusal is of a list that is not whole
				m.applyWhole(q, version)
			}
			live = true
		case e.Refused || e.Open:
		case !live: // an initial event moves nothing
			m.r.met("R2")
		default:
			moved = moved || version > m.at
			m.at = max(m.at, version)
		}
	}
	switch {
	case moved:
		m.broken = 0
	case q.Verb == Witness && q.Err == nil:
		m.rewound = !q.Had
	case q.Verb != List || q.Err != nil:
		m.broken++
	}
	m.rewound = m.rewound || q.Rewound && m.listed
	if q.Verb == List && q.Err == nil {
		m.applyList(q)
	}
}

// settleUseless decides about a list whose objects were all bad. A copy must refuse such a list,
// but it takes it if a Transform left out other objects, which the truth does not know. The next
// request tells: after a list that was refused comes another list.
func (m *positionModel) settleUseless(q *Request) {
	if m.before == nil {
		return
	}
	if last := m.last; q.Verb != Watch && !q.isProbe() {
		*m = *m.before
		m.last = last
		m.broken++
	}
	m.before = nil
}

// onlyBad reports whether the server that answered q had bad objects at version, and no other ones.
func (m *positionModel) onlyBad(q *Request, version uint64) bool {
	for i := m.l.truth.at(q.call).epoch; i <= m.l.truth.at(q.ret).epoch; i++ {
		if items, bad := m.l.truth.state(point{i, version}); len(items) == 0 && len(bad) > 0 {
			return true
		}
	}
	return false
}

// applyList applies the answer to a list. Pages count only when the last has come, and only if all
// have the same version.
func (m *positionModel) applyList(q *Request) {
	version, err := ParseVersion(q.Listed)
	if err != nil {
		return
	}
	if q.Limit == 1 { // a probe: it asks only for the server's version
		if version < m.at {
			m.refused++
			m.broken++
		}
		return
	}
	if q.Continue == "" {
		m.pages, m.mixed = version, false
	}
	m.r.met("R7")
	m.mixed = m.mixed || m.pages != version
	if q.More == "" && !m.mixed {
		m.applyWhole(q, version)
		if m.older != 0 {
			m.broken++
		}
	}
}

// applyWhole applies a whole list of version. An older one than the position does not move it: the
// copy must refuse it, until checkStart believes it.
func (m *positionModel) applyWhole(q *Request, version uint64) {
	if version >= m.at && m.onlyBad(q, version) {
		was := *m
		m.before = &was
	}
	m.listed = true
	if version >= m.at || m.rewound {
		m.at, m.older, m.refused, m.rewound = version, 0, 0, false
		return
	}
	m.older = version
	m.refused++
}

// isProbe reports whether q asks about the server, and not for its objects.
func (req *Request) isProbe() bool { return req.Verb == Witness || req.Verb == List && req.Limit == 1 }

func (req *Request) String() string {
	switch {
	case req.Verb == List && req.Continue != "":
		return "the next page of a list"
	case req.Verb == List:
		return fmt.Sprintf("a list with limit %d", req.Limit)
	}
	return fmt.Sprintf("a %s from %q", req.Verb, req.Version)
}

// The most requests that a copy may make, whatever the server answers.
const (
	perSecond = 10
	perMinute = 60
)

// checkRate checks that no copy makes requests too often, nor one before the pause is over that a
// busy server has asked for: R8. The pages of a list after the first are not counted.
func (l *Log) checkRate(r *Result) {
	at, last := map[int][]time.Time{}, map[int]*Request{}
	for _, q := range l.requests {
		if before := last[q.Copy]; before != nil && q.At.Sub(before.At) < asked(before.Err) &&
			!l.endedBefore(q.Copy, q.call) {
			r.fail(q.call, "R8", "%s %v after %s, which was answered with %v", q, q.At.Sub(before.At), before, before.Err)
		}
		last[q.Copy] = q
		if q.Continue != "" {
			continue
		}
		times := append(at[q.Copy], q.At)
		at[q.Copy] = times
		r.met("R8")
		for _, limit := range []struct {
			n  int
			in time.Duration
		}{{perSecond, time.Second}, {perMinute, time.Minute}} {
			if n := len(times); n > limit.n && times[n-1].Sub(times[n-1-limit.n]) < limit.in {
				r.fail(q.call, "R8", "%d requests within %v", limit.n+1, limit.in)
			}
		}
	}
}

// asked returns the pause that a busy server has asked for by err.
func asked(err error) time.Duration {
	if !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) {
		return 0
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// gaveUp reports whether the copy itself has ended the request. Then a failure of its connection is
// none; what the server has answered stands.
func (req *Request) gaveUp() bool {
	if req.Cause == nil || errors.As(req.Err, new(apierrors.APIStatus)) {
		return false
	}
	cause := req.Cause()
	return cause != nil && cause != context.Canceled
}

// checkReports checks that the error of each failed request was reported once, before the copy's
// next request: R12.
func (l *Log) checkReports(r *Result) {
	for i, q := range l.requests {
		if q.Err == nil || q.ret == 0 || errors.Is(q.Err, context.Canceled) || errors.Is(q.Err, context.DeadlineExceeded) {
			continue // the copy itself ended it
		}
		until := l.seq + 1
		for _, next := range l.requests[i+1:] {
			if next.Copy == q.Copy {
				until = next.call
				break
			}
		}
		if l.endedBefore(q.Copy, until) {
			continue
		}
		r.met("R12")
		n := 0
		for _, report := range l.reports {
			if report.Copy == q.Copy && report.Seq > q.ret && report.Seq < until && errors.Is(report.Err, q.Err) {
				n++
			}
		}
		if n > 1 || n == 0 && !q.gaveUp() {
			r.fail(until, "R12", "%s failed with %v, which was reported %d times", q, q.Err, n)
		}
	}
}

// endedBefore reports whether a copy's context was cancelled before a moment.
func (l *Log) endedBefore(number, seq int) bool {
	for _, s := range l.stops {
		if s.Copy == number && s.Call < seq {
			return true
		}
	}
	return false
}
