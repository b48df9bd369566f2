package lw

import (
	"context"
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
	meta, err := r.page(asProbe(ctx), opProbe, metav1.ListOptions{Limit: 1}, &ignored, g)
	o := outcome{op: opList, err: err}
	if err != nil {
		if isStatus(err) && !isBusy(err) {
			r.denied()
		}
		return o
	}
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
