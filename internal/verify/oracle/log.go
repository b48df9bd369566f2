// Package oracle decides from the record of a test run whether a copy of a collection kept its
// promises. The copy is an informer; the ids of the promises (S1, H4, …) are explained in
// internal/verify/proof/README.md.
//
// A [Log] is the record: what the server wrote, and each read, callback, registration, wait,
// request and error, with the resource versions that were reported. [Log.Check] replays the
// server's writes and compares everything else with them. It knows nothing of how the copy works.
//
// Every entry of the log gets a moment: a number that rises by one with each entry. An entry that
// takes time, such as a read or a callback, has the moments of its beginning and its end, and took
// effect somewhere in between. Usually such a record is checked by a search for an order of all
// entries that explains them. No search is needed here: a read reports the version that it shows,
// so it has one right answer, the server's state at that version.
//
// A server that is restored from a backup uses its version numbers a second time. So a state is
// named by a point, the epoch and the version; the epoch counts the restores.
package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Key names an object.
type Key = types.NamespacedName

// An Item is one object as a server, a read or a callback showed it.
type Item struct {
	Key     Key
	UID     types.UID
	Version uint64
	Content string // the rest of the object
	Ref     any    // the pointer to the object, which differs from that of an equal one; or nil
}

// is reports whether i and o are the same version of the same object.
func (i Item) is(o Item) bool {
	return i.Key == o.Key && i.UID == o.UID && i.Version == o.Version && i.Content == o.Content
}

// String returns the item without its Ref, which differs from run to run.
func (i Item) String() string {
	return fmt.Sprintf("%s@%d(%s %s)", i.Key.Name, i.Version, i.UID, i.Content)
}

// A Log is the record of a run. Its methods are safe for concurrent use. The order of the calls is
// the order of the entries.
type Log struct {
	mu          sync.Mutex // guards what follows
	seq         int        // the last moment
	truth       truth
	reads       []*Read
	handlers    []*Handler
	waits       []*Wait
	requests    []*Request
	reports     []Report
	yielded     []any // objects that a source yielded, to be transformed once each
	transformed []any // objects that were transformed
	quiets      []Quiet
	rests       []rest
	stops       []Stop
	snapshots   []*GraphRead
	pairs       []*GraphPair
	told        []*GraphHandler
	tells       []*Tell
	lagged      bool
	refs        map[any]Item // each object that was ever shown, as it was then
	order       []any        // the keys of refs, in the order in which they came
}

// New returns an empty log of a server that is at version 1 and has no objects.
func New() *Log { return &Log{truth: newTruth(), refs: map[any]Item{}} }

// next returns a new moment. The caller holds mu.
func (l *Log) next() int { l.seq++; return l.seq }

// Tick returns a new moment, after all entries so far.
func (l *Log) Tick() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next()
}

// ParseVersion returns the number of a resource version, 0 for "", or an error if it is not
// decimal.
func ParseVersion(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	return strconv.ParseUint(s, 10, 64)
}

// A Write is one version of one object, as a reader must see it.
type Write struct {
	Version uint64
	Key     Key
	Item    *Item // nil: the object was deleted, or is bad

	// Bad: the object exists, but cannot be decoded or transformed. A reader may still show the
	// version before it.
	Bad bool
}

// Writes calls do, which writes to the server, and records the writes that do returns. do is called
// with the log locked, so that no consequence of a write can be recorded before the write itself.
// do must not use the log.
func (l *Log) Writes(do func() []Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range do() {
		l.truth.write(l.next(), w)
	}
}

// Moves calls do, which raises the server's version without a write to the collection, and records
// the version that do returns. As in Writes the log is locked.
func (l *Log) Moves(do func() uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.truth.move(l.next(), do())
}

// Rewinds calls do, which returns the server to the state of an older version, and records the
// version that do returns; 0 means that nothing happened. As in Writes the log is locked.
func (l *Log) Rewinds(do func() uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version := do(); version != 0 {
		l.truth.rewind(l.next(), version)
	}
}

// State returns the server's objects now, by key, and the keys whose object is bad.
func (l *Log) State() (items map[Key]Item, bad map[Key]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.truth.state(l.truth.now())
}

// Epoch returns how often the server went back in time.
func (l *Log) Epoch() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.truth.now().epoch
}

// A Read is what one call showed. Call and Ret are the moments before and after it.
type Read struct {
	Session   string // the reader; its reads never go back
	Copy      int    // the number of the copy: a run may have several, one after the other
	Call, Ret int
	What      string // names the read in violations

	// Version is the version that the read reported. A read that reports none has that of the copy
	// just before it. If the copy was not at rest this is only a lower bound, and Lower is set.
	Version string
	Lower   bool

	Items []Item
	Of    func(Item) bool // the objects of a state that the read must show; nil: all
	Held  bool            // the read is of an older snapshot, so it may show an old state
	Graph bool            // a graph that reads the copy has shown it, which may lag behind the copy

	family string // the id of its violations; "" means S1
}

// Index returns r as the read of an index, whose violations are S2.
func (read Read) Index() Read { read.family = "S2"; return read }

// Reads records a read. If Ret is 0 the read ends now.
func (l *Log) Reads(r Read) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Ret == 0 {
		r.Ret = l.next()
	}
	l.reads = append(l.reads, &r)
	for _, item := range r.Items {
		l.remember(item)
	}
}

// remember keeps an object as it is when it is first shown, for checkObjects.
func (l *Log) remember(item Item) {
	if item.Ref == nil {
		return
	}
	if _, ok := l.refs[item.Ref]; !ok {
		l.refs[item.Ref] = item
		l.order = append(l.order, item.Ref)
	}
}

// A Report is an error that the copy reported.
type Report struct {
	Seq     int
	Copy    int
	Err     error
	Rewound bool // the error says that the server went back in time
}

// Reports records an error that the copy reported.
func (l *Log) Reports(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Seq = l.next()
	l.reports = append(l.reports, r)
}

// A Quiet describes a copy at a moment long after the last fault, when it must have caught up with
// the server.
type Quiet struct {
	Copy     int
	Items    []Item
	Version  string
	Synced   bool
	Failures int   // requests in a row that failed
	Pending  int   // deltas that a handler has not taken
	SetAside []Key // the objects that the copy reports as set aside
	Ahead    int   // the keys of which the copy was told, and which it has not reached
	Requests int   // since the faults ended
	Most     int   // the largest number of Requests that is allowed
	// Restored is the moment since which the server was restored from a backup and moved past the
	// copy's position, in such a way that it can be told; 0: it was not.
	Restored int
	seq      int
}

// Quiets records the state of a copy at a quiet moment.
func (l *Log) Quiets(q Quiet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.seq = l.next()
	l.quiets = append(l.quiets, q)
}

// Rests records a moment at which no goroutine could run. pending is the number of deltas that
// waited for a handler which was free to take them.
func (l *Log) Rests(pending int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rests = append(l.rests, rest{pending, l.next()})
}

type rest struct{ pending, seq int }

// A Stop is the end of a copy: its context was cancelled at Call, and it had ended at Ret, after
// Took.
type Stop struct {
	Copy      int
	Call, Ret int
	Took      time.Duration
}

// Stops records the end of a copy.
func (l *Log) Stops(s Stop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Ret = l.next()
	l.stops = append(l.stops, s)
}

// A Violation is a promise that was not kept.
type Violation struct {
	ID   string // the promise's id in internal/verify/proof/README.md
	Text string // what happened; the same in each run of the same history
	Seq  int    // the moment
}

func (v Violation) String() string { return v.ID + ": " + v.Text }

// A Result is what Check found.
type Result struct {
	Violations []Violation    // in the order in which they happened
	Premises   map[string]int // by id, how often the promise could have been broken
}

// met counts one occasion at which the promise id could have been broken.
func (r *Result) met(id string) { r.Premises[id]++ }

func (r *Result) fail(seq int, id, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{ID: id, Text: fmt.Sprintf(format, args...), Seq: seq})
}

// Check compares the record with what the server had. It calls now for each object that was shown,
// to find objects that were changed since; a nil now skips that.
func (l *Log) Check(now func(ref any) Item) Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Result{Premises: map[string]int{}}
	l.checkReads(&r)
	l.checkObjects(&r, now)
	l.checkHandlers(&r)
	l.checkLate(&r)
	l.checkRequests(&r)
	l.checkRate(&r)
	l.checkReports(&r)
	l.checkTransforms(&r)
	l.checkWaits(&r)
	l.checkLife(&r)
	l.checkGraphs(&r)
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), strings.Compare(a.ID, b.ID), strings.Compare(a.Text, b.Text))
	})
	return r
}

// show returns items as text, in the order of their keys.
func show(items []Item) string {
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(strings.Compare(a.Key.String(), b.Key.String()), cmp.Compare(a.Version, b.Version))
	})
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = item.String()
	}
	return "[" + strings.Join(words, " ") + "]"
}
