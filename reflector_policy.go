package lw

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw/internal/pace"
	"github.com/go-lw/lw/internal/request"
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
	cut              bool // the same, but the connection broke
	refused          bool // the server refused it, which says nothing about lists

	took time.Duration // how long it was open, apart from its initial events

	// asked says that the request was the question of a witness; see Reflector.verify. denied says
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
	next       step // stepList: the position is of no use any more
	unverified bool // another server may answer: the next watch must bring something, or the server is asked
	failed     bool // the request counts as one more failure in a row
	wait       bool // there is a pause before the next step
	brief      bool // that is a short one, which does not grow
}

// relistAfter is how many watches in a row must fail until the reflector suspects its position, and
// lists. If failures go on, it lists again after as many more.
const relistAfter = 5

// cutEvery is how often a watch that is cut again and again is resumed, at most. Each time costs the
// server a question, too.
const cutEvery = 5 * time.Second

// decide returns what to do after a request that ended with o. failures is how many requests in a
// row had failed before. It is long because it is the whole table: the first case that holds
// counts, and no case can be read without those above it.
func decide(o outcome, failures int) verdict {
	switch {
	case errors.Is(o.err, request.ErrMoved):
		return verdict{next: stepList}
	case errors.Is(o.err, request.ErrUnasked):
		return verdict{}
	case o.fallback:
		return verdict{}
	case errors.Is(o.err, ErrRewound), o.asked && o.err != nil && isLost(o.err):
		// A list that fails is asked for again after a pause; any other request is followed by a
		// list at once, unless that did not help before.
		return verdict{next: stepList, failed: true, wait: o.op != opWatch && !o.asked || o.relistDidNotHelp}
	case o.denied:
		return verdict{}
	case errors.Is(o.err, errHastened):
		return verdict{}
	case errors.Is(o.err, errAhead), errors.Is(o.err, request.ErrRenewed):
		return verdict{next: stepList}
	case o.op != opWatch:
		return verdict{failed: o.err != nil, wait: o.err != nil}
	case o.noVersions:
		// Without an error the watch has ended when the source wanted it to: a source that polls
		// ends it when the next list is due.
		return verdict{next: stepList, failed: o.err != nil, wait: o.err != nil}
	case o.err == nil && o.progress:
		return verdict{unverified: o.endedEarly, next: stepAsk.when(o.heardNothing)}
	case o.calm:
		return verdict{unverified: true, next: stepAsk}
	case o.err == nil:
		// The server takes watches and closes them at once. Perhaps it cannot serve the position.
		return verdict{unverified: o.endedEarly, failed: true, wait: true, next: stepList.when((failures+1)%relistAfter == 0)}
	case errors.Is(o.err, errUnverified):
		return verdict{next: stepAsk}
	case isLost(o.err):
		// A list usually helps, so the first one comes at once. If there was one since the last
		// progress, it did not help, and the next one waits.
		return verdict{next: stepList, failed: true, wait: o.relistDidNotHelp}
	case o.refused:
		// A right that is missing, or a proxy that has no watches. If that lasts, the lists go on
		// without.
		return verdict{unverified: true, failed: true, wait: true, next: stepList.when(failures+1 >= relistAfter)}
	case pace.IsStatus(o.err):
		// The server refused the watch. If it is only busy, neither the position nor the server is
		// in doubt.
		doubted := !pace.IsBusy(o.err)
		return verdict{unverified: doubted, failed: true, wait: true, next: stepList.when(doubted && (failures+1)%relistAfter == 0)}
	case o.progress:
		// A good connection broke. Resume at once, but make sure that the same state answers.
		return verdict{unverified: true, next: stepAsk.when(o.heardNothing)}
	case o.cut:
		// While the server answers, this is no outage, however often it comes: a proxy cuts what it
		// has. If the server does not answer, asking it fails, and that is one.
		return verdict{unverified: true, brief: true, next: stepAsk}
	default:
		// A network that is down says nothing about the position. A list may get past anything
		// else that fails again and again, such as a frame that nobody can read.
		return verdict{unverified: true, failed: true, wait: true, next: stepList.when(!pace.IsNetwork(o.err) && (failures+1)%relistAfter == 0)}
	}
}

// when returns s if cond is true, and else what asks for nothing.
func (s step) when(cond bool) step {
	if cond {
		return s
	}
	return stepWatch
}

// sortOf returns what err says about when to try again.
func sortOf(err error) pace.Failure {
	switch {
	case pace.IsBusy(err) && pace.RetryAfter(err) > 0:
		return pace.Busy
	case pace.IsUnreachable(err):
		return pace.Unreachable
	}
	if _, ok := errors.AsType[*watchRefusedError](err); ok {
		return pace.WatchRefused
	}
	return pace.Other
}

// settle records how a request ended, calls OnError if it failed, and pauses for as long as decide
// and the request limit ask for. OnError runs in the goroutine of Run, without a lock.
func (r *Reflector[T]) settle(ctx context.Context, o outcome) {
	// Progress ends the failures before this request. The request itself may count as a new one.
	if o.progress {
		r.recovered()
		r.outage = outage{}
	}
	if errors.Is(o.err, request.ErrMoved) {
		r.beginAnew()
	}
	if errors.Is(o.err, request.ErrUnasked) {
		r.limiter.Refund()
	}
	o.relistDidNotHelp = r.outage.relisted
	if o.refused {
		o.err = &watchRefusedError{o.err, r.outage.answered}
	} else if o.op == opWatch {
		r.outage.answered = false
	}
	v := decide(o, r.outage.failures)
	r.server.failed(o.err)
	r.at.distrust = r.at.distrust || isOutOfOrder(o.err)
	r.want(v, o)
	if v.failed {
		r.outage.failures++
		if o.err == nil {
			o.err = errEmptyWatch
		}
		r.outage.Failed(sortOf(o.err), time.Now())
	}
	r.reportEnd(o, v.failed)
	pause := r.limiter.Wait(time.Now())
	if v.brief {
		pause = max(pause, cutEvery-o.took)
	}
	if !v.wait {
		pace.Sleep(ctx, pause)
		return
	}
	r.recorder.setPhase(phaseWaiting)
	if r.opts.Backoff != nil {
		pause = max(pause, r.opts.Backoff(r.outage.failures), pace.RetryAfter(o.err))
	} else {
		pause = max(pause, r.outage.Pause(sortOf(o.err), pace.RetryAfter(o.err), time.Now()))
	}
	begun := r.recorder.now()
	request.MemoOf(ctx).Sleep(ctx, pause)
	// A gate may have ended it.
	pace.Sleep(ctx, max(r.limiter.Wait(time.Now()), pace.RetryAfter(o.err)-(r.recorder.now()-begun)))
	r.recorder.paused(r.recorder.now() - begun)
}

// beginAnew forgets the position: the versions of the list to come are not comparable with those of
// what was there.
func (r *Reflector[T]) beginAnew() {
	r.at.position, r.at.distrust = position{}, r.at.listed
	r.server.downtime.Listed()
	r.verified()
}

// want joins the step that v says to the next one. A server that has refused to say its version is
// not asked again before askNext. Until then the next watch goes on unverified.
func (r *Reflector[T]) want(v verdict, o outcome) {
	if v.next == stepList {
		r.wantList(causeOfList(o))
	}
	r.next = max(r.next, v.next)
	r.server.unverified = r.server.unverified || v.unverified
	if r.next == stepAsk && time.Now().Before(r.server.askNext) {
		r.next, r.server.unverified = stepWatch, true
	}
}

// reportEnd notes in Status how a request ended, calls OnError, and returns what OnError got.
func (r *Reflector[T]) reportEnd(o outcome, failed bool) error {
	if o.err == nil {
		return nil
	}
	if !isOwnEnd(o.err) {
		r.recorder.requestFailed()
	}
	if o.unreported || request.IsGate(o.err) {
		return nil
	}
	err := &Error{Informer: r.opts.Name, Op: o.op, Err: o.err}
	if failed {
		err.Failures = r.outage.failures
		r.recorder.fail(r.outage.failures, err)
	}
	r.opts.OnError(err)
	return err
}

// wantList makes a list the next step. The first cause since the last list counts.
func (r *Reflector[T]) wantList(cause listCause) {
	if r.next != stepList {
		r.next, r.cause = stepList, cause
		r.recorder.listDue()
	}
}

// giveUp reports a failure that no retry can mend to Status and OnError, and returns it.
func (r *Reflector[T]) giveUp(o outcome) error {
	r.outage.failures++
	o.err, o.unreported = &finalError{o.err}, false
	return r.reportEnd(o, true)
}

// causeOfList returns why a list follows the request that ended with o.
func causeOfList(o outcome) listCause {
	var proto *protocolError
	switch {
	case errors.Is(o.err, request.ErrMoved):
		return listMoved
	case errors.As(o.err, &proto) && proto.gap:
		return listGap
	case proto != nil:
		return listProtocol
	case o.noVersions:
		return listUnversioned
	case pace.IsTooLarge(o.err) || errors.Is(o.err, ErrRewound) || errors.Is(o.err, errAhead):
		return listOlder
	case pace.IsExpired(o.err):
		return listExpired
	case apierrors.IsStoreReadError(o.err):
		return listUnreadable
	}
	return listFailing
}
