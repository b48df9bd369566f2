package lw

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
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
	phase    Phase
	synced   bool
	lists    uint64
	probes   uint64
	watches  uint64
	streams  uint64 // included in watches
	relists  uint64
	failed   uint64
	failures int // in a row
	err      error
	since    time.Time
	lastList time.Time
	due      time.Time // Status.ListDue
	mode     ListMode  // ListAuto before the first list
	decoder  string
	epoch    int
	requests []RequestCount // sorted by op and code
	causes   ListCauses
	backoff  time.Duration
	// setAside is changed by the goroutine of Run alone, which therefore reads it without mu.
	setAside map[Key]error
}

// status returns what the recorder knows of the Status. mode is Options.List, which is shown until
// a list was asked for.
func (b *statusRecorder) status(mode ListMode) Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{
		Phase: b.phase, Synced: b.synced, Failures: b.failures, Err: b.err, Since: b.since, LastList: b.lastList, ListDue: b.due,
		SetAside: maps.Clone(b.setAside), Mode: b.mode, Decoder: b.decoder, Epoch: b.epoch,
		Counters: Counters{
			Lists: b.lists, Probes: b.probes, Watches: b.watches, Streams: b.streams, Relists: b.relists, Failed: b.failed,
			Requests: slices.Clone(b.requests), ListCauses: b.causes, Undecoded: b.undecoded.Load(), Backoff: b.backoff,
			EventTypes: EventTypes{
				Added: b.events[eventAdded].Load(), Modified: b.events[eventModified].Load(),
				Deleted: b.events[eventDeleted].Load(), Bookmarks: b.events[eventBookmark].Load(),
			},
		},
	}
	for i := range b.events {
		s.Events += b.events[i].Load()
	}
	if s.Mode == ListAuto {
		s.Mode = mode
	}
	if at := b.lastEvent.Load(); at != 0 {
		s.LastEvent = b.started.Add(time.Duration(at))
	}
	return s
}

// now returns the time since the recorder was made.
func (b *statusRecorder) now() time.Duration { return time.Since(b.started) }

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
func (b *statusRecorder) heard(events *[eventKinds]uint64) time.Duration {
	now := b.now()
	for i, n := range events {
		if n > 0 {
			b.events[i].Store(b.events[i].Load() + n)
		}
	}
	b.lastEvent.Store(max(1, int64(now)))
	return now
}

func (b *statusRecorder) setPhase(p Phase) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase = p
}

func (b *statusRecorder) setMode(m ListMode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mode = m
}

func (b *statusRecorder) decodedBy(who string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decoder = who
}

// requested counts a request, which is about to be made.
func (b *statusRecorder) requested(op string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch op {
	case opList:
		b.lists++
	case opProbe:
		b.probes++
	case opStream:
		b.streams++
		b.watches++
	default:
		b.watches++
	}
}

// ended counts a request that has ended with err after it took that long.
func (b *statusRecorder) ended(op string, err error, took time.Duration) {
	code := codeOf(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	i, found := slices.BinarySearchFunc(b.requests, RequestCount{Op: op, Code: code}, func(a, b RequestCount) int {
		return cmp.Or(strings.Compare(a.Op, b.Op), a.Code-b.Code)
	})
	if !found {
		b.requests = slices.Insert(b.requests, i, RequestCount{Op: op, Code: code})
	}
	b.requests[i].Count++
	b.requests[i].Time += took
}

// paused counts the time of a pause after a failure.
func (b *statusRecorder) paused(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backoff += d
}

// fail notes err as the last of that many failures in a row.
func (b *statusRecorder) fail(failures int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.err = failures, err
	if b.since.IsZero() {
		b.since = time.Now()
	}
}

// listDue notes that the content needs another whole list from now on.
func (b *statusRecorder) listDue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = time.Now()
}

// requestFailed counts a request that ended with an error, even if it is no failure in a row.
func (b *statusRecorder) requestFailed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed++
}

// recovered ends the failures in a row.
func (b *statusRecorder) recovered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recoveredLocked()
}

func (b *statusRecorder) recoveredLocked() { b.failures, b.err, b.since = 0, nil, time.Time{} }

// replaced notes that a whole list has been taken over, which cause has asked for. epoch says that
// the server went back in time. For an informer it is called under hub.mu, before a wait or a
// handler learns of the list. So a Status that is read after a wait for the sync shows at least
// that.
func (b *statusRecorder) replaced(epoch bool, cause listCause) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.synced {
		b.relists++
	}
	*cause.of(&b.causes)++
	b.lastList, b.due = time.Now(), time.Time{}
	// A watch is the next step. A Status that is read in between should say no other phase.
	b.synced, b.phase = true, PhaseWatching
	b.recoveredLocked()
	if epoch {
		b.epoch++
	}
}

func (b *statusRecorder) addAside(key Key, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.setAside == nil {
		b.setAside = map[Key]error{}
	}
	b.setAside[key] = err
}

func (b *statusRecorder) removeAside(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.setAside, key); len(b.setAside) == 0 {
		b.setAside = nil
	}
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
)

// of returns the counter of c.
func (c listCause) of(all *ListCauses) *uint64 {
	switch c {
	case listExpired:
		return &all.Expired
	case listGap:
		return &all.Gap
	case listOlder:
		return &all.Older
	case listProtocol:
		return &all.Protocol
	case listUnreadable:
		return &all.Unreadable
	case listFailing:
		return &all.Failing
	case listUnversioned:
		return &all.Unversioned
	}
	return &all.First
}

// codeOf returns RequestCount.Code of a request that ended with err. What is no HTTP status is 0,
// so that a server cannot make up any number of codes.
func codeOf(err error) int {
	if err == nil || errors.Is(err, errUnverified) { // then the reflector itself has ended it
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
