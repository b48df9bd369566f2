package lw

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/pace"
	"github.com/go-lw/lw/internal/request"
)

// This file is how a reflector notices that its server has gone back in time: it was restored from
// a backup, or another server answers in its place. Such a server answers a watch from the position
// with silence, as a quiet one does. Once it has passed the position, it sends events of another
// history. Then the target shows what the server never had.
//
// What a reflector knows of that is one of these states. Each is a field of server, or the next
// step.
//
//	state        it begins                          while it lasts               it ends
//	verified     with an event of the watch, a      the server is not asked      with the connection
//	             good answer, a list
//	unverified   a watch has broken, was refused,   the next watch must bring    with an event, or an
//	             or has ended before its time       something in 10 to 20 s      answer
//	stepAsk      a watch was silent to its end,     the server is asked for      the version is not
//	             or an unverified one was           its version: a list of at    older; the server
//	                                                most one object              refuses to say it
//	doubt        the server was out of touch for    a witness is asked, since    as pace.Downtime
//	             more than a second                 the server may have passed   says, and always
//	                                                the position: stepVerify    with a list
//	rewound      the witness's answer is no, or     the next step is a list,     with that list
//	             the source says so                 whatever its version
//
// The witness is SourceHints.StillHas: did the server have, at the position, the newest object that
// the target has? A yes also verifies the server. A server that refuses an answer is asked again
// after askNext, and its watches go on.
//
// A list ends all of them. If it is older than the position it is refused, up to maxRefused times:
// it may be of a replica that lags. After that it is the truth. A new epoch begins with it, or with
// the list after rewound, or with one that contradicts what the target has, if nobody could lift a
// doubt. If a doubt remains, equal versions are not believed in that list; see checkpoint.distrust.

const (
	// healthyAfter is how long a watch must stay open to count as progress without an event. It is
	// also how long an unverified watch may be silent, at least, before the server is asked for its
	// version; it is asked within twice that.
	healthyAfter = 10 * time.Second
	// calmAfter is how long a silent watch must stay open to be one that a proxy has cut because it
	// was idle. A server that cannot serve the position closes it sooner.
	calmAfter = time.Second
	// confirmedFor is how long an answer holds for the ends of such watches: about as long as for a
	// watch that is silent to its end.
	confirmedFor = 5 * time.Minute
	// maxRefused is how many lists in a row are refused because they are older than the position.
	// Each list is a consistent read, which by definition is never behind. If a replica lags in
	// spite of that, it has caught up after so many lists, or another replica has answered. If the
	// state is still older then, it is the truth: the server went back in time.
	maxRefused = 3
)

// A server is what a reflector knows of its server.
type server struct {
	streams    streamSupport
	unverified bool          // the next watch may be on another server
	downtime   pace.Downtime // whether it is still the same after one
	rewound    bool          // its history is another one than that of the position
	refused    int           // lists and answers in a row that showed a state older than the position
	confirmed  time.Time     // when it last said that it has the position, if nothing has failed since
	denials    int           // how often in a row it refused to say its version
	askNext    time.Time     // when it is asked again, at the earliest
}

// failed notes that a request has ended with err.
func (s *server) failed(err error) {
	if err != nil && !isOwnEnd(err) {
		s.confirmed = time.Time{}
	}
	s.rewound = s.rewound || errors.Is(err, ErrRewound)
}

// isConfirmed reports whether the server need not be asked whether it has the position: it has said
// so not long ago, or it refuses to say.
func (s *server) isConfirmed() bool {
	return !s.confirmed.IsZero() && time.Since(s.confirmed) < confirmedFor || time.Now().Before(s.askNext)
}

// denied notes that the server refused to say its version. It may permit watches but no lists. The
// watch goes on.
func (s *server) denied() {
	s.askNext = time.Now().Add(min(pace.AskAgain<<min(s.denials, 10), pace.AskSeldom))
	s.denials++
}

// answered notes that the server permits lists.
func (s *server) answered() { s.denials, s.askNext = 0, time.Time{} }

// watched notes what the end of a watch, which was requested at that time, says about when the
// server was in touch.
func (s *server) watched(o *outcome, requested time.Time) {
	if !o.heardNothing {
		s.downtime.Lift()
		if o.err != errHastened && (o.err != nil || o.endedEarly) { // client-go reports a connection that broke as an end without an error
			s.downtime.Lost(time.Now())
		}
		return
	}
	switch {
	case o.err == nil && o.endedEarly:
		s.downtime.Quiet()
	case o.err == nil, pace.IsExpired(o.err): // said by a server that was there
	case !isOwnEnd(o.err):
		s.downtime.Lost(requested) // perhaps it never began
	}
}

// suspect decides what silence and an early end of a watch say about the server. The watch took
// that long, apart from its initial events, and silent says that nothing came after them.
func (r *Reflector[T]) suspect(o *outcome, took time.Duration, silent bool) {
	// A position without an order, which cannot even be compared with itself, gives no answer.
	if o.noVersions || !r.at.position.ordered() {
		o.heardNothing, o.endedEarly = false, false
	}
	// Who has cut a watch while it was idle will cut the next one. If the server has the position,
	// nothing is wrong and nothing was missed. So it is asked, once for many of them.
	if o.calm = o.err == nil && silent && o.endedEarly && took >= calmAfter; o.calm && r.server.isConfirmed() {
		o.progress, o.heardNothing, o.endedEarly = true, false, false
	}
	// A connection that was never made, or an answer that could not be read, is no cut.
	_, unanswered := errors.AsType[*url.Error](o.err)
	o.took = took
	o.cut = o.err != nil && !o.progress && !isOwnEnd(o.err) && !unanswered && !isFinal(o.err) && took >= calmAfter
	// An event has shown that this server knows the position.
	if o.progress && !o.heardNothing {
		r.server.unverified = false
	}
}

// doubted returns the step that the doubt asks for. Without an order of versions there is no newest
// object to ask about.
func (r *Reflector[T]) doubted() step {
	if r.server.downtime.Due(r.next == stepAsk) && r.at.position.ordered() && !HintsOf(r.src).Unversioned {
		return stepVerify
	}
	return stepWatch
}

// verified notes that the server has the position.
func (r *Reflector[T]) verified() { r.next, r.server.unverified = stepWatch, false }

// ask asks the server for its version, by a consistent list of at most one object, and compares it
// with the position.
//
// If the server is older, the next step is a list, whose takeOver decides whether that is the
// truth. If the request fails, asking stays the next step, unless the server refuses to answer at
// all.
func (r *Reflector[T]) ask(ctx context.Context) outcome {
	s, begun := &r.server, time.Now()
	r.limiter.Spend(begun)
	version, err := r.askVersion(ctx)
	o := outcome{op: opList, err: err}
	if err != nil {
		if pace.IsStatus(err) && !pace.IsBusy(err) {
			s.denied()
			r.next = stepWatch
			s.downtime.Reached()
		}
		s.downtime.Lost(begun)
		return o
	}
	s.downtime.Reached()
	s.answered()
	r.verified()
	if r.at.position.after(version) {
		r.wantList(listOlder)
		s.refused++
		o.err = &olderError{got: version, seen: r.at.position.version}
		return o
	}
	s.confirmed = time.Now()
	return o
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
		r.refresher.End(errUnverified)
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

// verify asks whether the server still has, at the position, the newest object that the target
// has. If the answer is yes, the server has reached the position as well, so there is nothing left
// to ask. If it is no, the next step is a list, with which a new epoch begins. If the server cannot
// tell, the watch goes on.
func (r *Reflector[T]) verify(ctx context.Context) outcome {
	o := outcome{op: opList, asked: true}
	had := HintsOf(r.src).StillHas
	obj := r.target.newest(r.setAside.has)
	switch {
	case had == nil:
		r.server.downtime.Unproved()
		return o
	case obj.ResourceVersion == "":
		r.server.downtime.Lift()
		return o
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer pace.NewStallTimer(cancel, listPatience, errStalled).Stop()
	begun := r.recorder.now()
	is, err := had(ctx, obj, r.at.position.version)
	err = causeOf(ctx, err)
	r.limiter.Spend(time.Now())
	r.recorder.requested(opProbe)
	r.recorder.ended(opProbe, err, r.recorder.now()-begun)
	if err == nil && !is {
		err = fmt.Errorf("%w: at resource version %s it has not %s at %s, which was there",
			ErrRewound, r.at.position.version, keyString(obj.key()), obj.ResourceVersion)
	}
	o.err = err
	r.witnessed(&o)
	return o
}

// witnessed notes what the witness has said, or why it has said nothing.
func (r *Reflector[T]) witnessed(o *outcome) {
	s := &r.server
	switch {
	case o.err == nil:
		s.answered()
		s.downtime.Lift()
		r.verified()
	case errors.Is(o.err, ErrRewound):
		s.answered()
	case errors.Is(o.err, errors.ErrUnsupported): // a good answer, of no use
		s.downtime.Deny()
		o.err = nil
	case pace.IsExpired(o.err), pace.IsTooLarge(o.err), pace.IsBusy(o.err): // decide says what follows
	case pace.IsNetwork(o.err), errors.Is(o.err, errStalled):
		if often, reachable := s.downtime.Broken(); often && reachable {
			o.denied = true
		} else if often {
			r.next = max(r.next, stepAsk)
		}
	default:
		o.denied = true
	}
	if o.denied {
		s.downtime.Deny()
	}
}

// judge decides whether the list got, which is whole, is of another history than what the target
// has: then a new epoch begins with it. If it is only older it is refused. doubted says that it may
// be of another history though nothing shows it.
func (r *Reflector[T]) judge(op string, got *listBuilder[T]) (epoch, doubted bool, err error) {
	if !r.at.listed {
		return false, false, nil
	}
	s, seen := &r.server, r.at.position
	if s.rewound {
		return true, false, nil // settle has reported it
	}
	if seen.after(got.version) {
		if s.refused++; s.refused <= maxRefused {
			return false, false, &olderError{got: got.version, seen: seen.version}
		}
		err = fmt.Errorf("%w: from resource version %s to %s", ErrRewound, seen.version, got.version)
	} else if doubted = s.downtime.Remains() && !HintsOf(r.src).Unversioned; doubted {
		err = r.contradiction(got)
	}
	if err != nil {
		r.report(&Error{Op: op, Err: err})
	}
	return err != nil, doubted, nil
}

// contradiction returns an ErrRewound if a list that is not older than the position has an older
// object than the target: one that is the same by its UID, of a lower version. No server with one
// history has both.
func (r *Reflector[T]) contradiction(got *listBuilder[T]) error {
	if r.target.newest(r.setAside.has).ResourceVersion == "" {
		return nil // the target's objects are not the server's, or have no order
	}
	for _, obj := range got.objs {
		had, ok := r.target.base(KeyOf(obj))
		if ok && had.GetUID() == obj.GetUID() && older(obj, had) {
			return fmt.Errorf("%w: at resource version %s it has %s at %s, which was at %s before",
				ErrRewound, got.version, keyString(KeyOf(obj)), obj.GetResourceVersion(), had.GetResourceVersion())
		}
	}
	return nil
}
