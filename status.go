package lw

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/pace"
)

// StoreStatus is what an [Informer] and a collection of a [Graph] have in common.
type StoreStatus struct {
	Name    string // Options.Name, or that of the collection
	Synced  bool   // the store has a whole list of one state of the server, or what is derived from such
	Objects int    // the number of objects in the store
	Indexes []int  // how many values each index has, or objects if it is sorted; or nil
	// SetAside has the objects that could not be decoded, transformed or indexed, or the inputs whose
	// function panicked or made a result without a name, and why, or is nil. They are out of date or
	// missing; all others are as they should be.
	SetAside map[Key]error
	Handlers []HandlerStatus // in the order in which they were added
	Pending  int             // changes that wait for the slowest of Handlers
}

// Status is what an [Informer] or a [Reflector] is doing, as of one moment. After a successful wait
// it shows what the wait has promised. A Reflector has no store: its Handlers are nil, and those of
// an informer never.
type Status struct {
	StoreStatus
	// Phase is what is going on now: "idle" before Run, "listing", "streaming" while the initial
	// events of a streamed list come in, "watching", "waiting" after a failure, "unserved" while nobody
	// serves the collection, or "stopped".
	Phase           string
	Unserved        string     // why nobody serves the collection and the informer waits, and since when; "": it is served
	ResourceVersion string     // the version of the store; every event up to it has been applied
	Ahead           int        // how many keys are ahead of lists and watches; see [Informer.Tell]
	LastEvent       time.Time  // when the last watch event came; zero: none has
	LastList        time.Time  // when the last whole list became the content; zero: none has
	NeedsListSince  time.Time  // since when the content needs another whole list; zero while it does not
	Failures        int        // in a row; a whole list, or progress of a watch, sets it to 0
	Err             error      // the last of these failures, an *Error; nil while Failures is 0
	FailingSince    time.Time  // when the first of these failures was; zero while Failures is 0
	Mode            ListMode   // how the last list was asked for; before the first: Options.List
	Decoder         string     // who decodes, "lw", "apimachinery" or "client-go", and perhaps why; "": not known yet
	Epoch           int        // how often the server went back in time
	Packed          *PackUsage // what its objects have of a [PackLimit]; nil: there is none

	// The rest counts, from the beginning on.

	// Requests has the requests by what they ask for: "list", each page of which is one; "stream", to
	// its end, although it goes on as a watch; "watch"; and "probe", for the server's version, or of
	// [SourceHints.StillHas]: lists of at most one object. It has no others.
	Requests map[string]RequestCount
	Failed   uint64            // requests that ended with an error, even if the watch was resumed at once
	Events   map[string]uint64 // of watches, by type, with initial ones: "added", "modified", "deleted" and "bookmark"
	// ListCauses counts the whole lists that became the content, each under its first reason:
	// "first", "expired", "gap", "older", "protocol", "unreadable", "failing", "unversioned" or "moved".
	// It has all of these keys; docs/operate.md says what they mean.
	ListCauses map[string]uint64
	Undecoded  uint64        // objects that could not be decoded or transformed
	Backoff    time.Duration // spent in pauses after failures; a pause counts when it has ended

	// Behind says how late the server's writes come into the store, without its clock: within what
	// time half of them did in the last ten minutes (0.5), and 99 % (0.99), each rounded up by less
	// than a fifth. It says so for each measure that there was one of:
	//   - "told": from [Informer.Tell] until the watch has the same version.
	//   - "asked": from the server's answer to [Informer.CatchUp] until the store has that version,
	//     which may take a bookmark. It is an upper bound.
	//   - "written": from the newest time of an object's managed fields, in whole seconds, as far as
	//     that is more than the least of the last hour. About one event in a second is looked at.
	Behind      map[string]map[float64]time.Duration
	BehindCount map[string]uint64        // of all that were measured
	BehindSum   map[string]time.Duration // of their times
}

// RequestCount counts the requests for one thing.
type RequestCount struct {
	Started uint64
	Ended   map[int]uint64 // by code: 200, that of the API's error, or 0 if the network broke or the answer made no sense
	Time    time.Duration  // from the beginning to the end of each that has ended, summed up
}

// The values of Status.Phase.
const (
	phaseIdle      = "idle"
	phaseListing   = "listing"
	phaseStreaming = "streaming"
	phaseWatching  = "watching"
	phaseWaiting   = "waiting"
	phaseUnserved  = "unserved"
	phaseStopped   = "stopped"
)

// GraphStatus is what a [Graph] is doing, as of one moment.
type GraphStatus struct {
	Synced      bool              // all collections have synced
	Steps       uint64            // that have changed a collection
	Busy        time.Duration     // of all steps
	Pending     int               // changes of the inputs that wait for the next step
	Versions    map[string]string // of each input, by its name: what is shown is derived from
	Collections []DerivedStatus   // in the order in which they were made
	StepBegan   time.Time         // when the present step began; zero: there is none, or no function was called yet
	Call        string            // of a function, that this step is in or was in last, such as "Where of pairs at ns/a"
}

// DerivedStatus is the status of one collection of a [Graph].
type DerivedStatus struct {
	StoreStatus
	From      []string      // the names of its inputs: other collections, and those of GraphStatus.Versions
	Computed  uint64        // calls of the collection's function
	Unchanged uint64        // how many of the results were the same as before
	Conflicts map[Key]error // the keys that several inputs make, and which is shown, or nil
}

// staleAfter is how long requests may fail on end, or another whole list be due, until the store
// counts as out of date. It is longer than the longest default pause between two attempts, which is
// 45 s. So normally at least two attempts have failed.
const staleAfter = time.Minute

// Healthy returns nil if the store can be relied on: it has synced, it is not stopped, within the
// last minute some request has succeeded, and no whole list is overdue by a minute.
// Otherwise the error says what is wrong, and wraps [ErrStopped] or Status.Err.
func (s Status) Healthy() error { return s.healthy(staleAfter) }

// healthy is Healthy for a store that may be out of date for as long as grace.
func (s Status) healthy(grace time.Duration) error {
	switch {
	case s.Phase == phaseStopped:
		return &statusError{status: s, cause: ErrStopped}
	case !s.Synced:
		return &statusError{what: s.unsynced(), status: s}
	case s.Failures > 0 && time.Since(s.FailingSince) >= grace:
		return &statusError{what: "out of date since " + s.FailingSince.Format(time.RFC3339), status: s}
	case !s.NeedsListSince.IsZero() && time.Since(s.NeedsListSince) >= grace:
		return &statusError{what: fmt.Sprintf("out of date since %s (%s, the last whole list came at %s)",
			s.NeedsListSince.Format(time.RFC3339), s.Phase, s.LastList.Format(time.RFC3339)), status: s}
	}
	return nil
}

// unsynced says what an informer that has not synced is doing, for the text of an error.
func (s Status) unsynced() string {
	if s.Phase == phaseIdle {
		return "not synced, since Run has not been called"
	}
	if s.Unserved != "" {
		return fmt.Sprintf("not synced (%s: %s)", s.Phase, s.Unserved)
	}
	return fmt.Sprintf("not synced (%s, mode %s)", s.Phase, s.Mode)
}

// A statusError says what is wrong, with the last failure and the cause if there are any.
type statusError struct {
	what   string // may be empty if there is a cause
	status Status
	cause  error
}

// Error returns "lw: <informer>: <what>: <the last failure>: <cause>".
func (e *statusError) Error() string {
	name := "lw: " + e.status.Name
	text := []string{name}
	if e.what != "" {
		text = append(text, e.what)
	}
	if err := e.status.Err; err != nil {
		// An Error begins with the informer's name too, which is in the text already.
		text = append(text, strings.TrimPrefix(err.Error(), name+": "))
	}
	if e.cause != nil {
		text = append(text, strings.TrimPrefix(strings.TrimPrefix(e.cause.Error(), name+": "), "lw: "))
	}
	return strings.Join(text, ": ")
}

// Unwrap returns the last failure and the cause.
func (e *statusError) Unwrap() (errs []error) {
	for _, err := range []error{e.status.Err, e.cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// HandlerStatus is the status of one [Handler]. Its counters never go down.
type HandlerStatus struct {
	Name    string // Handler.Name; the second handler of one name is "name#2", and stays so
	Synced  bool   // as [Registration.Synced] says it
	Pending int    // changes that the handler still has to handle; see [Registration.Pending]

	Calls  map[EventType]uint64 // of Add, Update and Delete, but perhaps not the last few
	Folded uint64               // changes that waited so long that a call had only their net effect
	Panics uint64               // of its functions, where Options.OnPanic has let the program go on
	// Lag counts changes, one in 64 of them, by the time that they took from the store to the end of
	// the call: how many took at most so long, for bounds from 50 µs to 5 minutes.
	Lag      map[time.Duration]uint64
	LagCount uint64        // of all these changes
	LagSum   time.Duration // of their times
}

// lagBounds are the bounds of HandlerStatus.Lag.
var lagBounds = [...]time.Duration{
	50 * time.Microsecond, 200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond,
	100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute,
}

// A handlerCounter counts the calls of one handler. The handler's goroutine calls all methods but
// status, which any goroutine may call.
//
// An atomic store costs more than many a handler does for an event. So the goroutine counts calls
// in fields of its own, and publishes them every few calls and before it looks for more.
type handlerCounter struct {
	own  [3]uint64 // by EventType, from Added on; of the handler's goroutine, as uncounted is
	late int       // how many calls of own are not in published

	published [3]atomic.Uint64
	panics    atomic.Uint64
	lag       [len(lagBounds) + 1]atomic.Uint64
	lagSum    atomic.Int64
}

// publishEvery is after how many calls a handler publishes its counters, at the latest.
const publishEvery = 8

// call counts a call that is about to be made.
func (c *handlerCounter) call(typ EventType) {
	c.own[typ-Added]++
	if c.late++; c.late == publishEvery {
		c.publish()
	}
}

// publish shows what was counted to status.
func (c *handlerCounter) publish() {
	if c.late == 0 {
		return
	}
	c.late = 0
	for i, n := range c.own {
		if c.published[i].Load() != n {
			c.published[i].Store(n)
		}
	}
}

// took notes the lag of one change.
func (c *handlerCounter) took(lag time.Duration) {
	i := 0
	for i < len(lagBounds) && lag > lagBounds[i] {
		i++
	}
	c.lag[i].Store(c.lag[i].Load() + 1)
	c.lagSum.Store(c.lagSum.Load() + int64(lag))
}

func (c *handlerCounter) status() HandlerStatus {
	s := HandlerStatus{
		Calls:  map[EventType]uint64{},
		Panics: c.panics.Load(),
		Lag:    map[time.Duration]uint64{},
		LagSum: time.Duration(c.lagSum.Load()),
	}
	for i := range c.published {
		s.Calls[Added+EventType(i)] = c.published[i].Load()
	}
	for i := range c.lag {
		if s.LagCount += c.lag[i].Load(); i < len(lagBounds) {
			s.Lag[lagBounds[i]] = s.LagCount
		}
	}
	return s
}

// A measure is a way to measure how late the server's writes come; see Status.Behind.
type measure int

const (
	byTold measure = iota
	byAsked
	byWritten
	measures
)

var measureNames = [measures]string{byTold: "told", byAsked: "asked", byWritten: "written"}

// A lateness has what Status.Behind shows. Any goroutine may call its methods.
type lateness struct {
	answer atomic.Pointer[pace.Answer] // that CatchUp has measured last

	mu sync.Mutex
	of [measures]*delays // nil: nothing was measured; guarded by mu, as all below

	// The clock of the server is as far from ours as the least gap between a write and its event says.
	// The clocks may be set, so a gap is remembered for an hour at most.

	half          int64 // of an hour, to which least belongs; that of before is the one before
	least, before time.Duration
}

// delays are what was measured in one way.
type delays struct {
	count   uint64
	sum     time.Duration
	minutes [10]struct {
		minute int64
		counts [delayBuckets]uint32
	}
}

// delayBuckets is how many buckets there are, of which four double the time. The last holds more
// than an hour.
const delayBuckets = 128

func delayBucket(d time.Duration) int {
	return min(int(4*math.Log2(1+float64(d.Microseconds()))), delayBuckets-1)
}

// delayBound returns the longest time that a bucket holds.
func delayBound(bucket int) time.Duration {
	return time.Duration(math.Exp2(float64(bucket+1)/4)-1) * time.Microsecond
}

// took notes that a write took so long to the store.
func (l *lateness) took(by measure, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tookLocked(by, d)
}

func (l *lateness) tookLocked(by measure, d time.Duration) {
	if l.of[by] == nil {
		l.of[by] = new(delays)
	}
	of, minute := l.of[by], time.Now().Unix()/60
	of.count++
	of.sum += d
	m := &of.minutes[minute%int64(len(of.minutes))]
	if m.minute != minute {
		m.minute, m.counts = minute, [delayBuckets]uint32{}
	}
	m.counts[delayBucket(d)]++
}

// wrote notes when obj, which has just come in place of old, was written. If the managed fields of
// the two say the same, as after a binding or a graceful deletion, nobody knows.
func (l *lateness) wrote(old, obj any) {
	at := managedAt(obj)
	if at.IsZero() || !at.After(managedAt(old)) {
		return
	}
	now := time.Now()
	gap, half := now.Sub(at), now.Unix()/1800
	l.mu.Lock()
	defer l.mu.Unlock()
	switch half {
	case l.half:
		l.least = min(l.least, gap)
	case l.half + 1:
		l.half, l.least, l.before = half, gap, l.least
	default:
		l.half, l.least, l.before = half, gap, gap
	}
	// The server writes whole seconds, so a gap may be a second too long.
	l.tookLocked(byWritten, max(0, gap-min(l.least, l.before)-time.Second))
}

// managedAt returns the newest time of the managed fields of obj; zero if it has none.
func managedAt(obj any) (newest time.Time) {
	if p, ok := obj.(packedObject); ok {
		obj = p.peekAny() // it is there, since it has just come
	}
	switch obj := obj.(type) {
	case interface{ UnstructuredContent() map[string]any }: // whose GetManagedFields copies all
		metadata, _ := obj.UnstructuredContent()["metadata"].(map[string]any)
		entries, _ := metadata["managedFields"].([]any)
		for _, e := range entries {
			entry, _ := e.(map[string]any)
			text, _ := entry["time"].(string)
			if at, err := time.Parse(time.RFC3339, text); err == nil && at.After(newest) {
				newest = at
			}
		}
	case interface {
		GetManagedFields() []metav1.ManagedFieldsEntry
	}:
		for _, e := range obj.GetManagedFields() {
			if e.Time != nil && e.Time.After(newest) {
				newest = e.Time.Time
			}
		}
	}
	return newest
}

// status sets what s says of it.
func (l *lateness) status(s *Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for by, of := range l.of {
		if of != nil {
			if s.Behind == nil {
				s.Behind, s.BehindCount, s.BehindSum = map[string]map[float64]time.Duration{}, map[string]uint64{}, map[string]time.Duration{}
			}
			name := measureNames[by]
			s.Behind[name], s.BehindCount[name], s.BehindSum[name] = of.quantiles(time.Now().Unix()/60), of.count, of.sum
		}
	}
}

func (of *delays) quantiles(minute int64) map[float64]time.Duration {
	var counts [delayBuckets]uint64
	all := uint64(0)
	for i := range of.minutes {
		if m := &of.minutes[i]; minute-m.minute < int64(len(of.minutes)) {
			for bucket, n := range m.counts {
				counts[bucket] += uint64(n)
				all += uint64(n)
			}
		}
	}
	quantiles := map[float64]time.Duration{}
	for _, share := range []float64{0.5, 0.99} {
		within := uint64(0)
		for bucket, n := range counts {
			if within += n; n > 0 && float64(within) >= share*float64(all) {
				quantiles[share] = delayBound(bucket)
				break
			}
		}
	}
	return quantiles
}
