package why

import (
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
	// mostFree is how much memory of runs waits for others.
	mostFree = 256
)

// A Requeue says why a key runs although no change was told.
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
	Late        time.Duration // from the first event, or the time that was asked for, to the run
	fields      *lazyFields
}

// lazyFields are computed when somebody asks first.
type lazyFields struct {
	once     sync.Once
	old, new any
	fields   []Field
	more     bool
}

func (l *lazyFields) get() ([]Field, bool) {
	l.once.Do(func() {
		l.fields, l.more = Fields(l.old, l.new)
		l.old, l.new = nil, nil
	})
	return l.fields, l.more
}

// Fields returns the fields that differ, and whether there are more.
func (r *Reason) Fields() ([]Field, bool) {
	if r.fields == nil {
		return nil, false
	}
	return r.fields.get()
}

// A change is what has become of an object.
type change struct {
	collection  string
	key         types.NamespacedName
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

// A pending is what is known of a key that waits, and then of its run. A queue uses it again if
// nobody has asked.
type pending struct {
	changes []change
	one     [1]change // mostly the memory of changes
	more    int       // changes of other objects
	moreAt  time.Time
	asked   time.Time     // when it was added by nobody known
	due     time.Time     // when it is to be added
	after   time.Duration // before due
	limited time.Time     // when it was added at its rate
	err     error         // for which
	carried bool          // limited was told to the run before: that may have been early
	lost    bool          // nothing is known
	// The fields below are those of a run.
	began   time.Time
	reasons []Reason // once somebody has asked, or the run was sampled
}

// A state is what is known of a key: what it waits and runs for, nil if it does not, and what it did.
type state struct {
	waiting, running *pending
	err              error // for which the run has failed
	history
}

func (p *pending) of(call *Call, key types.NamespacedName) *change {
	for i := range p.changes {
		if c := &p.changes[i]; c.key == key && c.collection == call.collection {
			return c
		}
	}
	return nil
}

// A Queue knows why the keys of a work queue run. All methods are safe for concurrent use.
type Queue[K comparable] struct {
	replace bool // an Add takes the place of one that is delayed, as in controller-runtime's queue

	mu            sync.Mutex
	keys          map[K]*state // guarded by mu, as all below
	waiting, busy int          // keys
	old           int          // versions kept for keys that wait
	free          []*pending
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
	var object types.NamespacedName
	switch {
	case call != nil:
		object = keyOf(call)
		q.changedLocked(p, call, object, now)
	case limited:
		p.limited, p.err, p.carried, st.err = now, st.err, false, nil
	case delay > 0:
		if due := now.Add(delay); p.due.IsZero() || due.Before(p.due) {
			p.due, p.after = due, delay
		}
	case p.asked.IsZero():
		p.asked = now
	}
	var f *flip
	if call != nil && call.typ == Updated && call.cause != causeResync {
		f = q.loops.flipLocked(&st.history, call.collection, object, now)
	}
	q.mu.Unlock()
	if f == nil {
		return
	}
	fields, _ := Fields(call.old, call.new)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loops.flippedLocked(key, &st.history, f, fields, now)
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
		s.waiting = q.newLocked()
	}
	return s.waiting
}

func (q *Queue[K]) newLocked() *pending {
	n := len(q.free)
	if n == 0 {
		p := &pending{}
		p.changes = p.one[:0]
		return p
	}
	p := q.free[n-1]
	q.free = q.free[:n-1]
	return p
}

// lost is what is known of a key that waits with too many others.
var lost = &pending{lost: true}

// keyOf returns the key of the object of call.
func keyOf(call *Call) types.NamespacedName {
	obj := call.new
	if obj == nil {
		obj = call.old
	}
	o, ok := obj.(interface {
		GetNamespace() string
		GetName() string
	})
	if !ok {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// changedLocked adds what call says to p.
func (q *Queue[K]) changedLocked(p *pending, call *Call, key types.NamespacedName, now time.Time) {
	if c := p.of(call, key); c != nil {
		c.add(call, now)
		return
	}
	if len(p.changes) == mostObjects {
		if p.more++; p.more == 1 {
			p.moreAt = now
		}
		return
	}
	c := change{collection: call.collection, key: key, had: call.typ != Added, first: now}
	if c.had && (q.old < mostOld || call.old == call.new) {
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
		p = q.newLocked()
	} else if q.waiting--; p == lost {
		p = &pending{lost: true}
	}
	p.began, s.waiting, s.running = now, nil, p
	for i := range p.changes {
		if p.changes[i].kept {
			q.old--
		}
	}
	if !q.replace {
		q.carryLocked(s, p, now)
	} else if p.due.After(now) {
		p.due = time.Time{} // another addition has taken its place
	}
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

// carryLocked keeps for the next run what p has of additions that have yet to come.
func (q *Queue[K]) carryLocked(s *state, p *pending, now time.Time) {
	if p.due.After(now) {
		if next := q.waitingLocked(s); next != lost {
			next.due, next.after = p.due, p.after
		}
		p.due = time.Time{}
	}
	switch {
	case p.limited.IsZero():
	case p.carried && (len(p.changes) > 0 || !p.asked.IsZero() || !p.due.IsZero()):
		p.limited = time.Time{} // it was told to the run before
	case len(p.changes) > 0 || !p.asked.IsZero():
		if next := q.waitingLocked(s); next != lost {
			next.limited, next.err, next.carried = p.limited, p.err, true
		}
	}
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
	if p := s.running; p.reasons == nil && !p.lost && len(q.free) < mostFree {
		clear(p.changes)
		*p = pending{changes: p.changes[:0]}
		q.free = append(q.free, p)
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
			if fields, _ := reason.fields.get(); len(fields) == 0 {
				reason.Type = None
			}
		}
		out[i] = reason
	}
	return out
}

// make returns the reasons of r.
func (r *pending) make() []Reason {
	reasons := []Reason{}
	for i := range r.changes {
		c := &r.changes[i]
		reason := Reason{
			Collection: c.collection, Key: c.key, Type: c.typ(), Cause: c.cause, Events: c.events, Late: max(0, r.began.Sub(c.first)),
		}
		if reason.Type == Updated && c.kept {
			reason.fields = &lazyFields{old: c.old, new: c.new}
		}
		reasons = append(reasons, reason)
	}
	requeue := func(why Requeue, since time.Time, with Reason) {
		if !since.IsZero() {
			with.Requeue, with.Late = why, max(0, r.began.Sub(since))
			reasons = append(reasons, with)
		}
	}
	requeue(More, r.moreAt, Reason{Events: r.more})
	requeue(Asked, r.asked, Reason{})
	requeue(Delayed, r.due, Reason{After: r.after})
	if r.err != nil {
		requeue(Failed, r.limited, Reason{Err: r.err})
	} else {
		requeue(Limited, r.limited, Reason{})
	}
	if r.lost {
		reasons = append(reasons, Reason{Requeue: Unknown})
	}
	return reasons
}
