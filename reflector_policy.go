package lw

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// This file is the policy: what a reflector does after a request has ended. decide says what, and
// pauseAfter how long it waits before; both are pure functions. settle carries out what they say.

// An outcome is how a request ended.
type outcome struct {
	// op is opList (also for a probe), opStream until the initial events have ended, or opWatch.
	op       string
	err      error // nil: the request ended as it should
	progress bool  // the position moved, or the watch stayed open for long enough

	// The fields below are set for a watch only.

	heardNothing     bool // no event came
	endedEarly       bool // it ended before its timeout
	noVersions       bool // the source gives no versions, so the watch cannot be resumed
	relistDidNotHelp bool // there was a list since the last watch that made progress
	calm             bool // it was open and silent for a while, and ended early without an error
	refused          bool // the server refused it, which says nothing about lists

	// asked says that the request was the question of a witness; see Reflector.testify. denied says
	// that the server refused to answer it, which is no failure: the watch goes on.
	asked, denied bool

	// fallback says that a streamed list has failed, and the list is asked for in pages at once.
	fallback bool
	// unreported says that OnError is not called, because err is no failure of the server: the
	// source cannot stream lists, or the reflector has ended the watch in order to probe.
	unreported bool
}

// A verdict is what follows from an outcome.
type verdict struct {
	relist bool // the position is of no use any more, so the next step is a list
	verify bool // another server may answer: the next watch must deliver something or be probed
	probe  bool // the next step is to ask for the server's version
	failed bool // the request counts as one more failure in a row
	wait   bool // there is a pause before the next step
}

// relistAfter is how many watches in a row must fail until the reflector suspects its position, and
// lists. If failures go on, it lists again after as many more.
const relistAfter = 5

// decide returns what to do after a request that ended with o. failures is how many requests in a
// row had failed before.
func decide(o outcome, failures int) verdict {
	switch {
	case o.fallback:
		return verdict{}
	case errors.Is(o.err, ErrRewound), o.asked && o.err != nil && isLost(o.err):
		// A list that fails is asked for again after a pause; any other request is followed by a
		// list at once, unless that did not help before.
		return verdict{relist: true, failed: true, wait: o.op != opWatch && !o.asked || o.relistDidNotHelp}
	case o.denied:
		return verdict{}
	case errors.Is(o.err, errHastened):
		return verdict{}
	case o.op != opWatch:
		return verdict{failed: o.err != nil, wait: o.err != nil}
	case o.noVersions:
		// Without an error the watch has ended when the source wanted it to: a source that polls
		// ends it when the next list is due.
		return verdict{relist: true, failed: o.err != nil, wait: o.err != nil}
	case o.err == nil && o.progress:
		return verdict{verify: o.endedEarly, probe: o.heardNothing}
	case o.calm:
		return verdict{verify: true, probe: true}
	case o.err == nil:
		// The server takes watches and closes them at once. Perhaps it cannot serve the position.
		relist := (failures+1)%relistAfter == 0
		return verdict{verify: o.endedEarly, failed: true, wait: true, relist: relist}
	case errors.Is(o.err, errUnverified):
		return verdict{probe: true}
	case isLost(o.err):
		// A list usually helps, so the first one comes at once. If there was one since the last
		// progress, it did not help, and the next one waits.
		return verdict{relist: true, failed: true, wait: o.relistDidNotHelp}
	case o.refused:
		// A right that is missing, or a proxy that has no watches. If that lasts, the lists go on
		// without.
		return verdict{verify: true, failed: true, wait: true, relist: failures+1 >= relistAfter}
	case isStatus(o.err):
		// The server refused the watch. If it is only busy, neither the position nor the server is
		// in doubt.
		relist := !isBusy(o.err) && (failures+1)%relistAfter == 0
		return verdict{verify: !isBusy(o.err), failed: true, wait: true, relist: relist}
	case o.progress:
		// A good connection broke. Resume at once, but make sure that the same state answers.
		return verdict{verify: true, probe: o.heardNothing}
	default:
		// A network that is down says nothing about the position. A list may get past anything
		// else that fails again and again, such as a frame that nobody can read.
		relist := !isNetwork(o.err) && (failures+1)%relistAfter == 0
		return verdict{verify: true, failed: true, wait: true, relist: relist}
	}
}

// A failureSort is what a failure says about when to try again.
type failureSort int

const (
	// otherFailure may have cost the server as much as a request that succeeds.
	otherFailure failureSort = iota
	// unreachable: no connection was made, so the attempt has cost the server nothing.
	unreachable
	// watchRefused: the server refuses watches, and the list before may have succeeded.
	watchRefused
	// toldToWait: the server is busy, and has said how long to wait.
	toldToWait
	failureSorts
)

func sortOf(err error) failureSort {
	switch {
	case isBusy(err) && retryAfter(err) > 0:
		return toldToWait
	case isUnreachable(err):
		return unreachable
	}
	if _, ok := errors.AsType[*watchRefusedError](err); ok {
		return watchRefused
	}
	return otherFailure
}

// An outage is the failures since the last progress. Each sort is counted by itself: a server that
// was away for long, and is busy when it comes back, is asked again when it has said, not when the
// pauses of its absence would end. A server whose failures alternate gains nothing by that, since
// no count ends before there is progress.
type outage struct {
	since  time.Time // the first failure
	counts [failureSorts]int
}

func (o *outage) failed(err error, now time.Time) {
	if o.since.IsZero() {
		o.since = now
	}
	o.counts[sortOf(err)]++
}

// pause returns how long to wait after err, the last failure, where Options.Backoff is not set.
// When a server fails, all its informers fail at the same moment. The random part of the pause
// keeps them from coming back at the same moment.
func (o *outage) pause(err error, now time.Time) time.Duration {
	sort := sortOf(err)
	least, most := pauseAfter(sort, o.counts[sort], now.Sub(o.since), retryAfter(err))
	return least + rand.N(most-least)
}

const (
	firstPause       = 800 * time.Millisecond // the base of the first pause
	firstMost        = 2 * time.Second        // the longest first pause: all clients begin together
	longestPause     = 30 * time.Second       // the longest base
	unreachablePause = 8 * time.Second        // the longest base where no connection was made
	refusedPause     = 20 * time.Second       // the longest base where only lists are answered
	// patientAnswers is how many answers in a row may ask for a pause before the pauses grow beyond
	// what they ask for.
	patientAnswers = 8
)

// pauseAfter returns between what bounds a pause is. It follows the nth failure of its sort in an
// outage that has lasted for that long. The server has asked for a pause of asked; 0: it has not.
func pauseAfter(sort failureSort, n int, lasts, asked time.Duration) (least, most time.Duration) {
	base := firstPause << min(n-1, 6)
	switch sort {
	case unreachable:
		// The base is a fifth of the outage, but less at its beginning and from 40 s on.
		base = min(max(min(base, 2*time.Second), lasts/5), unreachablePause)
	case watchRefused:
		base = min(base, refusedPause)
	case toldToWait:
		if n <= patientAnswers {
			return asked, asked + min(asked, longestPause)
		}
		base = firstPause << min(n-patientAnswers-1, 6)
	}
	base = min(base, longestPause)
	least, most = base/2, base+base/2
	if n == 1 {
		most = max(most, firstMost)
	}
	return max(least, asked), max(most, asked+min(asked, longestPause))
}

// settle records how a request ended, calls OnError if it failed, and pauses for as long as decide
// and the request limit ask for. OnError runs in the goroutine of Run, without a lock.
func (r *Reflector[T]) settle(ctx context.Context, o outcome) {
	// Progress ends the failures before this request. The request itself may count as a new one.
	if o.progress {
		r.recovered()
		r.failures, r.alreadyRelisted, r.outage = 0, false, outage{}
	}
	o.relistDidNotHelp = r.alreadyRelisted
	if o.refused {
		o.err = &watchRefusedError{o.err}
	}
	v := decide(o, r.failures)
	if o.err != nil && !isOwnEnd(o.err) {
		r.confirmed = time.Time{}
	}
	r.distrust = r.distrust || isOutOfOrder(o.err)
	r.rewound = r.rewound || errors.Is(o.err, ErrRewound)
	if v.relist {
		r.wantList(causeOfList(o))
	}
	r.verify = r.verify || v.verify
	r.probe = r.probe || v.probe
	// A server that has refused to say its version is not asked again before askNext. Until then
	// the next watch goes on unverified.
	if r.probe && time.Now().Before(r.askNext) {
		r.probe, r.verify = false, true // later
	}
	if v.failed {
		r.failures++
		if o.err == nil {
			o.err = errEmptyWatch
		}
		r.outage.failed(o.err, time.Now())
	}
	if o.err != nil && !isOwnEnd(o.err) {
		r.recorder.requestFailed()
	}
	if o.err != nil && !o.unreported {
		err := &Error{Informer: r.opts.Name, Op: o.op, Err: o.err}
		if v.failed {
			err.Failures = r.failures
			r.recorder.fail(r.failures, err)
		}
		r.opts.OnError(err)
	}
	pause := r.limiter.Wait(time.Now())
	if v.wait {
		r.recorder.setPhase(PhaseWaiting)
		if r.opts.Backoff != nil {
			pause = max(pause, r.opts.Backoff(r.failures), retryAfter(o.err))
		} else {
			pause = max(pause, r.outage.pause(o.err, time.Now()))
		}
	}
	begun := r.recorder.now()
	r.pause(ctx, pause)
	if v.wait {
		r.recorder.paused(r.recorder.now() - begun)
	}
}

// wantList makes a list the next step. The first cause since the last list counts.
func (r *Reflector[T]) wantList(cause listCause) {
	if !r.relist {
		r.relist, r.cause = true, cause
		r.recorder.listDue()
	}
}

// giveUp reports a failure that no retry can mend to Status and OnError, and returns it.
func (r *Reflector[T]) giveUp(o outcome) error {
	r.failures++
	r.recorder.requestFailed()
	err := &Error{Informer: r.opts.Name, Op: o.op, Failures: r.failures, Err: &finalError{o.err}}
	r.recorder.fail(r.failures, err)
	r.opts.OnError(err)
	return err
}

// pause returns after d, or as soon as ctx is done.
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

// causeOfList returns why a list follows the request that ended with o.
func causeOfList(o outcome) listCause {
	var proto *protocolError
	switch {
	case errors.As(o.err, &proto) && proto.gap:
		return listGap
	case proto != nil:
		return listProtocol
	case o.noVersions:
		return listUnversioned
	case isTooLarge(o.err) || errors.Is(o.err, ErrRewound):
		return listOlder
	case isExpired(o.err):
		return listExpired
	case apierrors.IsStoreReadError(o.err):
		return listUnreadable
	}
	return listFailing
}
