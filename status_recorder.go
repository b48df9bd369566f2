package lw

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/request"
)

// A statusRecorder has what Status shows. Only the goroutine of Run writes it, except that
// recovered is also called by the timers of a watch. Any goroutine may read it through status.
type statusRecorder struct {
	events    [eventKinds]atomic.Uint64
	undecoded atomic.Uint64
	started   time.Time // when the recorder was made; never changes
	// lastEvent is the time of the last event, in nanoseconds after started; 0: none has come. To
	// measure a time since started costs half as much as to ask for the time of day.
	lastEvent atomic.Int64

	// mu guards the fields below, which are as in Status. No other lock is taken under it. The
	// caller may hold hub.mu; see replaced.
	mu       sync.Mutex
	phase    string // "": idle
	synced   bool
	failed   uint64
	failures int // in a row
	err      error
	since    time.Time
	lastList time.Time
	due      time.Time // Status.NeedsListSince
	mode     ListMode  // "" before the first list
	decoder  string
	epoch    int
	requests map[string]*RequestCount
	causes   [len(listCauses)]uint64
	backoff  time.Duration
	setAside map[Key]error
	limited  []*limitedSource // what has joined a PackLimit
	nAside   atomic.Int32     // len(setAside), which the goroutine of Run looks at with each event
}

// status returns what the recorder knows of the Status. mode is Options.List, which is shown until
// a list was asked for.
func (r *statusRecorder) status(mode ListMode) Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{
		StoreStatus: StoreStatus{Synced: r.synced, SetAside: maps.Clone(r.setAside)},
		Phase:       cmp.Or(r.phase, phaseIdle), Failures: r.failures, Err: r.err, FailingSince: r.since, LastList: r.lastList, NeedsListSince: r.due,
		Mode: r.mode, Decoder: r.decoder, Epoch: r.epoch,
		Requests: map[string]RequestCount{}, Failed: r.failed, Events: map[string]uint64{}, ListCauses: map[string]uint64{},
		Undecoded: r.undecoded.Load(), Backoff: r.backoff,
	}
	for op, n := range r.requests {
		s.Requests[op] = RequestCount{Started: n.Started, Ended: maps.Clone(n.Ended), Time: n.Time}
	}
	for i, n := range r.causes {
		s.ListCauses[listCauses[i]] = n
	}
	for i := range r.events {
		if word := eventTypes[i]; word != "" {
			s.Events[word] = r.events[i].Load()
		}
	}
	if s.Mode == "" {
		s.Mode = mode
	}
	if at := r.lastEvent.Load(); at != 0 {
		s.LastEvent = r.started.Add(time.Duration(at))
	}
	return s
}

// packs notes what says how much memory the objects of a source take.
func (r *statusRecorder) packs(source any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := source.(*limitedSource); ok && !slices.Contains(r.limited, s) {
		r.limited = append(r.limited, s)
	}
}

// usage returns Status.Packed.
func (r *statusRecorder) usage() (u *PackUsage) {
	r.mu.Lock()
	limited := slices.Clone(r.limited)
	r.mu.Unlock()
	for _, source := range limited {
		if u == nil {
			u = new(PackUsage)
		}
		u.and(source.usage())
	}
	return u
}

// now returns the time since the recorder was made.
func (r *statusRecorder) now() time.Duration { return time.Since(r.started) }

// An eventKind is the type of a watch event as an index.
type eventKind int

const (
	eventUnknown eventKind = iota
	eventAdded
	eventModified
	eventDeleted
	eventBookmark
	eventKinds
)

// eventTypes has the words of Status for them; an unknown one has none.
var eventTypes = [eventKinds]string{eventAdded: "added", eventModified: "modified", eventDeleted: "deleted", eventBookmark: "bookmark"}

func kindOf(typ watch.EventType) eventKind {
	switch typ {
	case watch.Modified:
		return eventModified
	case watch.Added:
		return eventAdded
	case watch.Deleted:
		return eventDeleted
	case watch.Bookmark:
		return eventBookmark
	}
	return eventUnknown
}

// heard counts events by their kind. The last of them was applied just now. It returns the time, as
// now does.
func (r *statusRecorder) heard(events *[eventKinds]uint64) time.Duration {
	now := r.now()
	for i, n := range events {
		if n > 0 {
			r.events[i].Store(r.events[i].Load() + n)
		}
	}
	r.lastEvent.Store(max(1, int64(now)))
	return now
}

func (r *statusRecorder) setPhase(p string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = p
}

func (r *statusRecorder) setMode(m ListMode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mode = m
}

func (r *statusRecorder) decodedBy(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decoder = who
}

// requested counts a request, which is about to be made.
func (r *statusRecorder) requested(op string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests[op] == nil {
		r.requests[op] = &RequestCount{Ended: map[int]uint64{}}
	}
	r.requests[op].Started++
}

// ended counts a request, which requested has counted, that has ended with err after it took that
// long.
func (r *statusRecorder) ended(op string, err error, took time.Duration) {
	code := codeOf(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, request.ErrUnasked) {
		r.requests[op].Started--
		return
	}
	r.requests[op].Ended[code]++
	r.requests[op].Time += took
}

// paused counts the time of a pause after a failure.
func (r *statusRecorder) paused(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backoff += d
}

// fail notes err as the last of that many failures in a row.
func (r *statusRecorder) fail(failures int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures, r.err = failures, err
	if r.since.IsZero() {
		r.since = time.Now()
	}
}

// listDue notes that the content needs another whole list from now on.
func (r *statusRecorder) listDue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = time.Now()
}

// requestFailed counts a request that ended with an error, even if it is no failure in a row.
func (r *statusRecorder) requestFailed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
}

// recovered ends the failures in a row.
func (r *statusRecorder) recovered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recoveredLocked()
}

func (r *statusRecorder) recoveredLocked() { r.failures, r.err, r.since = 0, nil, time.Time{} }

// replaced notes that a whole list has been taken over, which cause has asked for. epoch says that
// the server went back in time. For an informer it is called under hub.mu, before a wait or a
// handler learns of the list. So a Status that is read after a wait for the sync shows at least
// that.
func (r *statusRecorder) replaced(epoch bool, cause listCause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes[cause]++
	r.lastList, r.due = time.Now(), time.Time{}
	// A watch is the next step. A Status that is read in between should say no other phase.
	r.synced, r.phase = true, phaseWatching
	r.recoveredLocked()
	if epoch {
		r.epoch++
	}
}

func (r *statusRecorder) addAside(key Key, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.setAside == nil {
		r.setAside = map[Key]error{}
	}
	r.setAside[key] = err
	r.nAside.Store(int32(len(r.setAside)))
}

// removeAside reports whether key was set aside.
func (r *statusRecorder) removeAside(key Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, was := r.setAside[key]
	delete(r.setAside, key)
	r.fewerAsideLocked()
	return was
}

func (r *statusRecorder) fewerAsideLocked() {
	if r.nAside.Store(int32(len(r.setAside))); len(r.setAside) == 0 {
		r.setAside = nil
	}
}

// forgetAside says no more that objects are set aside, those that nobody wants any more.
func (r *statusRecorder) forgetAside(of func(key Key) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.setAside, func(key Key, _ error) bool { return of(key) })
	r.fewerAsideLocked()
}

// allAside returns the keys that are set aside.
func (r *statusRecorder) allAside() []Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.setAside))
}

// aside returns why key is set aside, or nil.
func (r *statusRecorder) aside(key Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.setAside[key]
}

// A listCause is why a whole list is asked for.
type listCause int

const (
	listFirst listCause = iota // no whole list was taken over yet
	listExpired
	listGap
	listOlder
	listProtocol
	listUnreadable
	listFailing
	listUnversioned
	listMoved
)

// listCauses has the words of Status for them.
var listCauses = [...]string{
	listFirst: "first", listExpired: "expired", listGap: "gap", listOlder: "older", listProtocol: "protocol",
	listUnreadable: "unreadable", listFailing: "failing", listUnversioned: "unversioned", listMoved: "moved",
}

// codeOf returns the code of a request that ended with err. What is no HTTP status is 0,
// so that a server cannot make up any number of codes.
func codeOf(err error) int {
	if err == nil || isOwnEnd(err) {
		return 200
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	if code := int(status.Status().Code); code >= 100 && code < 600 {
		return code
	}
	return 0
}

// setAsideObjects are the objects that could not be decoded, transformed or indexed. The target
// keeps each as it was, until a later version or a list can be applied. Only the goroutine of Run
// uses it.
type setAsideObjects struct {
	// recorder has the keys of these objects and their errors, because Status shows them. Who wants no
	// more of them takes some out, in a goroutine of its own.
	recorder *statusRecorder
	// holding has those keys for which the target may have an older object than it should: an event
	// or an item of a list was not applied. While there is one, the reported version stays before
	// that event or list. Other objects may be newer than the reported version, but no read is
	// older than it.
	holding map[Key]struct{}
}

// holds reports whether an object holds back the reported version. One that nobody wants any more
// does not.
func (s *setAsideObjects) holds() bool {
	maps.DeleteFunc(s.holding, func(key Key, _ struct{}) bool { return !s.has(key) })
	return len(s.holding) > 0
}

// empty reports whether nothing is set aside.
func (s *setAsideObjects) empty() bool { return s.recorder.nAside.Load() == 0 }

// has reports whether key is set aside.
func (s *setAsideObjects) has(key Key) bool { return s.recorder.aside(key) != nil }

// add sets key aside because of err, and calls report with that. If hold is true, key holds back
// the reported version. If hold is false, which is so for an item of a list, report is not called
// for a key that is set aside already because of the same error.
func (s *setAsideObjects) add(key Key, err error, hold bool, report func(*Error)) {
	known := s.recorder.aside(key)
	s.recorder.addAside(key, err)
	if hold {
		s.hold(key)
	}
	if known == nil || hold || known.Error() != err.Error() {
		report(asError(key, err))
	}
}

// hold makes key, which is set aside, hold back the reported version.
func (s *setAsideObjects) hold(key Key) {
	if s.holding == nil {
		s.holding = map[Key]struct{}{}
	}
	s.holding[key] = struct{}{}
}

// remove removes key, and reports whether it was set aside. It must be called before the change is
// applied: a goroutine that sees the change must not find the object in Status.SetAside any more.
func (s *setAsideObjects) remove(key Key) bool {
	if !s.recorder.removeAside(key) {
		return false
	}
	delete(s.holding, key)
	return true
}

// listed replaces the set-aside objects by bad, the failures of a new list. Keys that still fail go
// on holding back the version if they did before.
func (s *setAsideObjects) listed(bad map[Key]error, report func(*Error)) {
	for _, key := range s.recorder.allAside() {
		if _, ok := bad[key]; !ok {
			s.remove(key)
		}
	}
	for key, err := range bad {
		s.add(key, err, false, report)
	}
}

// release ends the holding back of the reported version. It is called in a new epoch, in which the
// version before means nothing. The objects stay set aside.
func (s *setAsideObjects) release() { clear(s.holding) }

// A versionCell is a resource version that one goroutine sets and any goroutine may read.
type versionCell struct {
	mu      sync.Mutex
	version string // guarded by mu
}

func (c *versionCell) set(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
}

func (c *versionCell) get() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}
