package oracle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Verb is what a request is.
type Verb string

// The verbs.
const (
	List   Verb = "list"
	Watch  Verb = "watch"
	Stream Verb = "stream" // a watch that begins with the list
)

// A Request is one call of a source, with what it gave.
type Request struct {
	Verb     Verb
	Copy     int
	Version  string // that was asked for
	Limit    int64
	Continue string
	At       time.Time

	// Of a list's answer.
	Listed string // the version
	More   string // the token of the next page
	// Of any request's.
	Err error
	// Refused: the copy has refused something of the answer.
	Refused bool
	// Invalid: the server says that the request makes no sense.
	Invalid bool
	// Lost: the server says that the version is of no use any more.
	Lost bool
	// Injected: the answer is that of a fault.
	Injected bool

	log       *Log
	events    []Event
	call, ret int
}

// An Event is what a watch yielded.
type Event struct {
	Version string
	End     bool // of the initial events
	Refused bool // the copy has ended the watch because of it
}

// Requests records the beginning of a request, which the methods of what is returned tell more of.
func (l *Log) Requests(q Request) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.log, q.call = l, l.next()
	l.requests = append(l.requests, &q)
	return &q
}

// Yields records an event that was handed to the copy.
func (q *Request) Yields(e Event) {
	q.log.mu.Lock()
	defer q.log.mu.Unlock()
	q.events = append(q.events, e)
}

// Ends records the end of the request, after set has written what it ended with.
func (q *Request) Ends(set func(*Request)) {
	q.log.mu.Lock()
	defer q.log.mu.Unlock()
	set(q)
	q.ret = q.log.next()
}

// Gives records that a source yielded an object that is to be transformed, and Turns that it was.
func (l *Log) Gives(ref any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gave = append(l.gave, ref)
}

// Turns records that an object was transformed.
func (l *Log) Turns(ref any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turned = append(l.turned, ref)
}

// checkTransforms checks that each object was transformed once, and no other: T1, T2.
func (l *Log) checkTransforms(r *Result) {
	if len(l.turned) == 0 {
		return
	}
	left := map[any]int{}
	for _, ref := range l.gave {
		left[ref]++
	}
	for _, ref := range l.turned {
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

// checkRequests follows where each copy stands by what it was given, and checks where its watches start and what is done after
// each answer: R1, R2, R3, R5, R6, R7, R9, R13.
func (l *Log) checkRequests(r *Result) {
	at := map[int]*stand{}
	for _, q := range l.requests {
		s := at[q.Copy]
		if s == nil {
			s = &stand{l: l, r: r}
			at[q.Copy] = s
		}
		s.begins(q)
		s.ends(q)
		s.last = q
	}
}

// A stand is where a copy must stand by what it was given.
type stand struct {
	l *Log
	r *Result

	listed  bool
	at      uint64 // the newest version that it was given
	older   uint64 // the version of the last whole answer, if that was older
	refused int    // such answers in a row
	pages   uint64 // the version of the pages so far
	mixed   bool   // they are of more than one
	broken  int    // requests that failed since a watch moved the position
	last    *Request
}

func (s *stand) begins(q *Request) {
	s.r.met("R13")
	if s.last != nil && (s.last.ret == 0 || s.last.ret > q.call) {
		s.r.fail(q.call, "R1", "%s while %s is open", q, s.last)
	}
	if q.Invalid && !q.Injected {
		s.r.fail(q.call, "R13", "%s is not valid: %v", q, q.Err)
	}
	s.after(q)
	if q.Verb != Watch {
		return
	}
	version, err := ParseVersion(q.Version)
	s.r.met("R1")
	s.r.met("R3")
	s.r.met("R9")
	switch {
	case err != nil || !s.listed:
		s.r.fail(q.call, "R1", "%s without a list before it", q)
	case version == s.at:
	case s.older != 0 && version == s.older:
		s.r.met("R6")
		if s.refused < 4 {
			s.r.fail(q.call, "R6", "%s, the version of an older answer that was not refused often enough, after %d", q, s.at)
		}
		s.at, s.older, s.refused = version, 0, 0
	case version < s.at:
		s.r.fail(q.call, "R3", "%s, which is before %d", q, s.at)
	default:
		s.r.fail(q.call, "R1", "%s, which is beyond %d", q, s.at)
	}
}

// suspicious is how many requests in a row must have failed before a copy may doubt its version.
const suspicious = 4

// after checks that q is what has to follow the request before it.
func (s *stand) after(q *Request) {
	if s.last == nil || s.last.Verb != Watch {
		return
	}
	probe := q.Verb == List && q.Limit == 1
	s.r.met("R5")
	switch {
	case s.last.Lost && (q.Verb == Watch || probe):
		s.r.fail(q.call, "R5", "%s after %s ended with %v", q, s.last, s.last.Err)
	case !s.last.Lost && !s.last.Refused && s.broken < suspicious && q.Verb != Watch && !probe:
		s.r.fail(q.call, "R5", "%s after %s ended with %v, which a watch could go on from", q, s.last, s.last.Err)
	}
}

func (s *stand) ends(q *Request) {
	live := q.Verb != Stream
	moved := false
	for _, e := range q.events {
		version, err := ParseVersion(e.Version)
		switch {
		case err != nil:
		case e.End && !live:
			s.whole(version)
			live = true
		case e.Refused:
		case !live: // an initial event moves nothing
			s.r.met("R2")
		default:
			moved = moved || version > s.at
			s.at = max(s.at, version)
		}
	}
	if moved {
		s.broken = 0
	} else if q.Verb != List || q.Err != nil {
		s.broken++
	}
	if q.Verb == List && q.Err == nil {
		s.answered(q)
	}
}

// answered takes the answer of a list.
func (s *stand) answered(q *Request) {
	version, err := ParseVersion(q.Listed)
	if err != nil {
		return
	}
	if q.Limit == 1 { // a probe
		if version < s.at {
			s.refused++
		}
		return
	}
	if q.Continue == "" {
		s.pages, s.mixed = version, false
	}
	s.r.met("R7")
	s.mixed = s.mixed || s.pages != version
	if q.More == "" && !s.mixed {
		s.whole(version)
	}
}

// whole takes an answer that shows a whole state.
func (s *stand) whole(version uint64) {
	s.listed = true
	if version >= s.at {
		s.at, s.older, s.refused = version, 0, 0
		return
	}
	s.older = version
	s.refused++
}

func (q *Request) String() string {
	switch {
	case q.Verb == List && q.Continue != "":
		return "the next page of a list"
	case q.Verb == List:
		return fmt.Sprintf("a list with limit %d", q.Limit)
	}
	return fmt.Sprintf("a %s from %q", q.Verb, q.Version)
}

const (
	perSecond = 10
	perMinute = 60
)

// checkRate checks that no server makes a copy ask too often: R8.
func (l *Log) checkRate(r *Result) {
	at := map[int][]time.Time{}
	for _, q := range l.requests {
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

// checkReports checks that what ended a request was reported once, before the next one: R12.
func (l *Log) checkReports(r *Result) {
	for i, q := range l.requests {
		if q.Err == nil || q.ret == 0 || errors.Is(q.Err, context.Canceled) || errors.Is(q.Err, context.DeadlineExceeded) {
			continue // the copy itself has ended it
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
		if n != 1 {
			r.fail(until, "R12", "%s failed with %v, which was reported %d times", q, q.Err, n)
		}
	}
}

// endedBefore reports whether a copy was told to end before a moment.
func (l *Log) endedBefore(number, seq int) bool {
	for _, s := range l.stops {
		if s.Copy == number && s.Call < seq {
			return true
		}
	}
	return false
}
