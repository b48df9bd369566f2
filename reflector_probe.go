package lw

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ask asks the server for its version, by a consistent list of at most one object, and compares it
// with the position. Run calls it after a watch that was silent. A server that was restored from a
// backup may be older than the position, and answers a watch from there with silence.
//
// If the server is older, the next step is a list, whose takeOver decides whether that is the
// truth. If the request fails, asking stays the next step, unless the server refuses to answer at
// all.
func (r *Reflector[T]) ask(ctx context.Context) outcome {
	r.limiter.spend(time.Now())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := newStallTimer(cancel, listPatience, errStalled)
	defer g.stop()
	var ignored listBuilder[T] // the object is of no use: it may be one of many
	begun := time.Now()
	meta, err := r.page(asProbe(ctx), opProbe, metav1.ListOptions{Limit: 1}, &ignored, g)
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
	if r.position.after(meta.ResourceVersion) {
		r.wantList(listOlder)
		r.refused++
		o.err = &olderError{got: meta.ResourceVersion, seen: r.position.version}
	}
	return o
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

// A doubt is what a reflector must know to decide when to ask its [Witness]. A server that was
// restored may have passed the position: only what it had at the position tells that.
type doubt struct {
	since      time.Time // when the server was last in touch; zero: it is
	askNext    time.Time // when the witness is asked again, at the earliest
	unanswered int       // how often in a row the question has broken with the connection
	reachable  bool      // the server has answered another question meanwhile
}

// lost notes that a request has failed. The server was in touch until that time, at least.
func (d *doubt) lost(at time.Time) {
	if d.since.IsZero() {
		d.since = at
	}
}

// reached notes that the server has answered a question other than the witness's.
func (d *doubt) reached() { d.unanswered, d.reachable = 0, true }

// lift ends the doubt: the server is known to be the same, or that no longer matters.
func (d *doubt) lift() { *d = doubt{askNext: d.askNext} }

// deny ends the doubt, since the server does not answer the question. It is asked again after a
// later outage, but not before askSeldom.
func (d *doubt) deny() { *d = doubt{askNext: time.Now().Add(askSeldom)} }

// doubts reports whether the server must be asked, before the next watch, whether it is still the
// same. Without an order of versions there is no newest object to ask about.
func (r *Reflector[T]) doubts() bool {
	d := &r.doubt
	if d.since.IsZero() || time.Since(d.since) <= outageAfter || time.Now().Before(d.askNext) {
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
	obj := r.target.newest(r.setAside.has)
	if obj.ResourceVersion == "" {
		r.doubt.lift()
		return o
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer newStallTimer(cancel, listPatience, errStalled).stop()
	begun := r.recorder.now()
	had, err := Had(ctx, r.src, obj, r.position.version)
	if errors.Is(err, errNoWitness) {
		r.doubt.lift()
		return o
	}
	err = causeOf(ctx, err)
	r.limiter.spend(time.Now())
	r.recorder.requested(opProbe)
	r.recorder.ended(opProbe, err, r.recorder.now()-begun)
	o.err = err
	switch {
	case err == nil && had:
		r.answered()
		r.doubt.lift()
		r.probe, r.verify = false, false
	case err == nil:
		r.answered()
		o.err = fmt.Errorf("%w: at resource version %s it has not %s at %s, which was there",
			ErrRewound, r.position.version, keyString(obj.Key()), obj.ResourceVersion)
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
