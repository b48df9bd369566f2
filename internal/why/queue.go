package why

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// mostKeys is how many keys may wait whose reasons are kept. The queue keeps the keys of others.
	mostKeys = 16 << 10
	// mostObjects is how many objects are named of those that have changed for one key.
	mostObjects = 16
	// mostOld is how many old versions are kept for keys that wait. An old version shares with the
	// new one, which the store has, what did not change. Of other changes no fields are known.
	mostOld = 1024
)

// A Requeue says why a key runs although there was no call for a change.
type Requeue uint8

const (
	NoRequeue Requeue = iota
	Asked             // Add, not by a handler of lw
	Delayed           // AddAfter, not by a handler of lw
	Limited           // AddRateLimited
	Failed            // the same after an error
	More              // other objects have changed, which are not named
	Unknown           // too many keys wait
)

// String returns what a log and a board call r.
func (r Requeue) String() string {
	return [...]string{"", "added", "added after", "added at its rate", "added after an error", "other objects", "not known: too many keys wait"}[r]
}

// A Reason is one of those for which a key runs: what has become of an object since the key ran
// last, or a Requeue.
type Reason struct {
	Collection  string
	Key         types.NamespacedName
	Type, Cause uint8
	Requeue     Requeue
	Events      int // that have made the change; of More, the objects
	After       time.Duration
	Err         error
	Late        time.Duration          // from the first event, or the time that was asked for, to the run
	fields      func() ([]Field, bool) // compares when it is called first; nil: no old version was kept
}

// Fields returns the fields that differ, and whether there are more.
func (r *Reason) Fields() ([]Field, bool) {
	if r.fields == nil {
		return nil, false
	}
	return r.fields()
}

// A ref says which object is meant.
type ref struct {
	collection string
	key        types.NamespacedName
}

// A change is what has become of an object.
type change struct {
	ref
	had, has    bool // it was there before, and is now
	kept        bool // old is kept, if there is one
	cause       uint8
	events      int
	old, new    any
	first, last time.Time
	by          *Call
	number      uint64 // of the last call
}

func (c *change) typ() uint8 {
	switch {
	case c.had && c.has && c.cause == causeResync:
		return None
	case c.had && c.has:
		return Updated
	case c.has:
		return Added
	case c.had:
		return Deleted
	}
	return None
}

// add adds what call says to c.
func (c *change) add(call *Call, now time.Time) {
	if c.by == call && c.number == call.number {
		return // the handler has added the key twice
	}
	switch {
	case call.cause == causeResync && c.events > 0, call.cause == causeTold && c.events > 0 && c.cause != causeResync:
	default:
		c.cause = call.cause
	}
	c.has, c.new, c.last, c.by, c.number = call.typ != Deleted, call.new, now, call, call.number
	c.events++
}

// An addition is one of a key without a change that is named.
type addition struct {
	why     Requeue
	at      time.Time // when the key is to be added, at its rate perhaps later
	after   time.Duration
	err     error
	objects int
	named   bool // the run before named it, which may have been early
}

// limited reports whether nobody knows when r comes.
func (r *addition) limited() bool { return r.why == Limited || r.why == Failed }

// A pending is what is known of a key that waits, and then of its run.
type pending struct {
	changes   []change
	one       [1]change // mostly the memory of changes
	additions []addition
	// The fields below are those of a run.
	began   time.Time
	reasons []Reason // once somebody has asked, or the run was sampled
}

var (
	// lost is what is known of a key that waits with too many others.
	lost = &pending{additions: []addition{{why: Unknown}}}
	// free has the pendings of runs that nobody has asked for.
	free = sync.Pool{New: func() any {
		p := &pending{}
		p.changes = p.one[:0]
		return p
	}}
)

// addition returns the addition for why, a new one perhaps.
func (p *pending) addition(why Requeue) *addition {
	for i := range p.additions {
		if p.additions[i].why == why {
			return &p.additions[i]
		}
	}
	p.additions = append(p.additions, addition{why: why})
	return &p.additions[len(p.additions)-1]
}

// A state is what is known of a key: what it waits and runs for, nil if it does not, and what it
// did.
type state struct {
	waiting, running *pending
	err              error // for which the run has failed
	history
}

// A Queue knows why the keys of a work queue run. All methods are safe for concurrent use.
type Queue[K comparable] struct {
	replace bool // an Add takes the place of one that is delayed, as in controller-runtime's queue

	mu            sync.Mutex
	keys          map[K]*state // guarded by mu, as all below
	waiting, busy int          // keys
	old           int          // versions kept for keys that wait
	runs          uint64
	counts        map[cause]*count
	loops         loops[K]
}

// New returns a Queue. replace says that an Add takes the place of one that is delayed.
func New[K comparable](replace bool) *Queue[K] {
	wanted.Store(true)
	return &Queue[K]{replace: replace, keys: map[K]*state{}, counts: map[cause]*count{}, loops: loops[K]{found: map[K]*Loop{}, left: samples}}
}

// Adding says that key is about to be added: after a delay, or if limited at its rate.
func (q *Queue[K]) Adding(key K, delay time.Duration, limited bool) {
	call, now := current(), time.Now()
	q.mu.Lock()
	st := q.stateLocked(key)
	p := q.waitingLocked(st)
	if p == lost {
		q.mu.Unlock()
		return
	}
	var of ref
	compare := false
	switch {
	case call != nil:
		of = call.ref()
		q.changedLocked(p, call, of, now)
		compare = call.typ == Updated && call.cause != causeResync && q.loops.flipLocked(&st.history, of, now)
	case limited && st.err != nil:
		*p.addition(Failed), st.err = addition{why: Failed, at: now, err: st.err}, nil
	case limited:
		*p.addition(Limited) = addition{why: Limited, at: now}
	case delay > 0:
		if r, due := p.addition(Delayed), now.Add(delay); r.at.IsZero() || due.Before(r.at) {
			r.at, r.after = due, delay
		}
	default:
		if r := p.addition(Asked); r.at.IsZero() {
			r.at = now
		}
	}
	q.mu.Unlock()
	if !compare {
		return
	}
	fields, _ := Fields(call.old, call.new)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loops.flippedLocked(key, &st.history, of, fields, now)
}

// stateLocked returns the state of key.
func (q *Queue[K]) stateLocked(key K) *state {
	s := q.keys[key]
	if s == nil {
		s = &state{}
		q.keys[key] = s
	}
	return s
}

// waitingLocked returns what the key of s waits for. It is lost if too many wait.
func (q *Queue[K]) waitingLocked(s *state) *pending {
	if s.waiting != nil {
		return s.waiting
	}
	q.waiting++
	if s.waiting = lost; q.waiting <= mostKeys {
		s.waiting = free.Get().(*pending)
	}
	return s.waiting
}

// ref returns which object call is of.
func (c *Call) ref() ref {
	obj := c.new
	if obj == nil {
		obj = c.old
	}
	of := ref{collection: c.collection}
	if o, ok := obj.(interface {
		GetNamespace() string
		GetName() string
	}); ok {
		of.key = types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	}
	return of
}

// changedLocked adds what call says of an object to p.
func (q *Queue[K]) changedLocked(p *pending, call *Call, of ref, now time.Time) {
	if i := slices.IndexFunc(p.changes, func(c change) bool { return c.ref == of }); i >= 0 {
		p.changes[i].add(call, now)
		return
	}
	if len(p.changes) == mostObjects {
		r := p.addition(More)
		if r.objects++; r.objects == 1 {
			r.at = now
		}
		return
	}
	c := change{ref: of, had: call.typ != Added, first: now}
	if c.had && (q.old < mostOld || call.cause == causeResync) {
		c.kept, c.old = true, call.old
		q.old++
	}
	c.add(call, now)
	p.changes = append(p.changes, c)
}

// Taken says that the queue has handed out key, which runs until Done.
func (q *Queue[K]) Taken(key K) {
	now := time.Now()
	q.mu.Lock()
	s := q.stateLocked(key)
	p := s.waiting
	if p == nil {
		p = free.Get().(*pending)
	} else if q.waiting--; p == lost {
		p = &pending{additions: lost.additions}
	}
	p.began, s.waiting, s.running = now, nil, p
	for i := range p.changes {
		if p.changes[i].kept {
			q.old--
		}
	}
	q.carryLocked(s, p, now)
	q.runs++
	q.busy++
	sample := q.countLocked(p)
	answer, suspect := q.loops.answerLocked(key, &s.history, p, now)
	sample = sample && q.loops.takeLocked(now, samplesLeft) || suspect && q.loops.takeLocked(now, 0)
	if !sample {
		q.mu.Unlock()
		return
	}
	p.reasons = p.make()
	q.mu.Unlock()
	parts, whole := p.parts()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sampledLocked(parts)
	if answer && whole {
		q.loops.answeredLocked(key, &s.history, parts, now)
	}
}

// carryLocked takes what has yet to come from p, and keeps it for the next run. In a queue with
// priorities another addition has taken its place.
func (q *Queue[K]) carryLocked(s *state, p *pending, now time.Time) {
	early := func(r addition) bool { return r.why == Delayed && r.at.After(now) }
	other := len(p.changes) > 0 || slices.ContainsFunc(p.additions, func(r addition) bool { return !r.limited() && !early(r) })
	p.additions = slices.DeleteFunc(p.additions, func(r addition) bool {
		late := r.limited() && other // it may come yet
		if !q.replace && (early(r) || late && !r.named) {
			if next := q.waitingLocked(s); next != lost {
				again := r
				again.named = late
				next.additions = append(next.additions, again)
			}
		}
		return early(r) || late && r.named
	})
}

// Done says that the run of key has ended.
func (q *Queue[K]) Done(key K) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.keys[key]
	if s == nil || s.running == nil {
		return
	}
	if p := s.running; p.reasons == nil {
		clear(p.changes)
		*p = pending{changes: p.changes[:0]}
		free.Put(p)
	}
	s.running, s.ended = nil, now
	q.busy--
	if len(q.keys) > mostTracked {
		q.forgetLocked()
	}
}

// forgetLocked forgets a few keys that rest, whichever come first.
func (q *Queue[K]) forgetLocked() {
	tries := 0
	for key, s := range q.keys {
		if s.waiting == nil && s.running == nil {
			delete(q.keys, key)
			delete(q.loops.found, key)
		}
		if tries++; len(q.keys) <= mostTracked || tries == 8 {
			return
		}
	}
}

// Failed says that the run of key, which has not ended, has failed with err.
func (q *Queue[K]) Failed(key K, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.keys[key]; s != nil {
		s.err = err
	}
}

// Of returns why key runs, which was taken and is not done. There is no reason if the key was added
// for a change that the run before has seen.
func (q *Queue[K]) Of(key K) []Reason {
	q.mu.Lock()
	s := q.keys[key]
	if s == nil || s.running == nil {
		q.mu.Unlock()
		return nil
	}
	if s.running.reasons == nil {
		s.running.reasons = s.running.make()
	}
	reasons := s.running.reasons
	q.mu.Unlock()
	out := make([]Reason, len(reasons))
	for i, reason := range reasons {
		if reason.Type == Updated && reason.Events > 1 && reason.fields != nil {
			if fields, _ := reason.fields(); len(fields) == 0 {
				reason.Type = None
			}
		}
		out[i] = reason
	}
	return out
}

// make returns the reasons of p.
func (p *pending) make() []Reason {
	reasons := []Reason{}
	for i := range p.changes {
		c := &p.changes[i]
		reason := Reason{
			Collection: c.collection, Key: c.key, Type: c.typ(), Cause: c.cause, Events: c.events, Late: max(0, p.began.Sub(c.first)),
		}
		if reason.Type == Updated && c.kept {
			old, new := c.old, c.new
			reason.fields = sync.OnceValues(func() ([]Field, bool) { return Fields(old, new) })
		}
		reasons = append(reasons, reason)
	}
	for _, r := range p.additions {
		reason := Reason{Requeue: r.why, Events: r.objects, After: r.after, Err: r.err}
		if !r.at.IsZero() {
			reason.Late = max(0, p.began.Sub(r.at))
		}
		reasons = append(reasons, reason)
	}
	return reasons
}
