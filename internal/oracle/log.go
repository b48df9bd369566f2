// Package oracle decides from the record of a run whether a copy of a collection kept its promises.
//
// A [Log] is the record: what the server wrote, and each read, callback, registration, wait, request and error with the resource
// versions that were reported. [Log.Check] replays the server's writes and holds everything else against them. It knows nothing
// of how the copy is made, and needs no search: a read that names its version has one right answer.
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

// An Item is one object as somebody saw it.
type Item struct {
	Key     Key
	UID     types.UID
	Version uint64
	Content string // all else that the object says
	Ref     any    // the object in memory, to tell it from an equal one; nil: not known
}

// is reports whether both are the same version of the same object.
func (i Item) is(o Item) bool {
	return i.Key == o.Key && i.UID == o.UID && i.Version == o.Version && i.Content == o.Content
}

// String is the item without what differs from run to run: its place in memory.
func (i Item) String() string {
	return fmt.Sprintf("%s@%d(%s %s)", i.Key.Name, i.Version, i.UID, i.Content)
}

// A Log is the record of a run. Its methods are safe for concurrent use; the order in which they are called is the order of what
// happened.
type Log struct {
	mu       sync.Mutex
	seq      int // guarded by mu, as all below
	truth    truth
	reads    []*Read
	handlers []*Handler
	waits    []*Wait
	requests []*Request
	reports  []Report
	gave     []any // objects that a source yielded, to be transformed once each
	turned   []any // objects that were transformed
	quiets   []Quiet
	rests    []rest
	stops    []Stop
	refs     map[any]Item // each object that was ever seen, as it was then
	order    []any        // of refs
}

// New returns an empty log, of a server that stands at version 1 without objects.
func New() *Log { return &Log{truth: newTruth(), refs: map[any]Item{}} }

func (l *Log) next() int { l.seq++; return l.seq }

// Tick returns a new moment, after all that was recorded so far.
func (l *Log) Tick() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next()
}

// ParseVersion returns the number of a resource version: 0 for "", and an error for what is none.
func ParseVersion(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	return strconv.ParseUint(s, 10, 64)
}

// A Write is one version of one object, as a reader is to see it.
type Write struct {
	Version uint64
	Key     Key
	Item    *Item // nil: there is none
	Bad     bool  // it is there, but cannot be decoded or transformed: a reader may go on to see what was before
}

// Writes records what do writes. It is called with the log locked, so that nobody can record what follows from a write before
// the write itself; it must not use the log.
func (l *Log) Writes(do func() []Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range do() {
		l.truth.write(l.next(), w)
	}
}

// Moves records that the server's version moved on without a write to the collection.
func (l *Log) Moves(do func() uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.truth.move(l.next(), do())
}

// Rewinds records that the server went back to the state of a version; 0 says that it did not.
func (l *Log) Rewinds(do func() uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version := do(); version != 0 {
		l.truth.rewind(l.next(), version)
	}
}

// State returns what the server has now, by key, and the keys of which the object is bad.
func (l *Log) State() (items map[Key]Item, bad map[Key]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.truth.state(l.truth.now())
}

// Epoch returns how often the server went back.
func (l *Log) Epoch() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.truth.now().epoch
}

// A Read is what one call showed. Call and Ret are the moments before and after it.
type Read struct {
	Session   string
	Copy      int // which of several copies of the collection, one after the other, was read
	Call, Ret int
	What      string
	Version   string // that the read reported, or the copy just before it where Lower is set
	Lower     bool   // Version is a lower bound only
	Items     []Item
	Of        func(Item) bool // which of a state's objects the read shows; nil: all
	Held      bool            // of a snapshot that was taken before: it shows its version, however old
	family    string          // of its violations; S1 where it is ""
}

// Index makes the read one of an index, whose violations are S2.
func (r Read) Index() Read { r.family = "S2"; return r }

// Reads records a read.
func (l *Log) Reads(r Read) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Ret == 0 {
		r.Ret = l.next()
	}
	l.reads = append(l.reads, &r)
	for _, item := range r.Items {
		l.see(item)
	}
}

// see notes what an object is when it is seen first.
func (l *Log) see(item Item) {
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
	Rewound bool // it says that the server went back
}

// Reports records an error that was reported.
func (l *Log) Reports(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Seq = l.next()
	l.reports = append(l.reports, r)
}

// A Quiet is a moment at which the copy should have caught up with a server that has let it.
type Quiet struct {
	Copy     int
	Items    []Item
	Version  string
	Synced   bool
	Failures int
	Pending  int
	SetAside []Key
	Requests int // since the faults ended; more than Most is too many
	Most     int
	seq      int
}

// Quiets records such a moment.
func (l *Log) Quiets(q Quiet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.seq = l.next()
	l.quiets = append(l.quiets, q)
}

// Rests records that nothing moved, and that so many changes waited for a handler that could have taken them.
func (l *Log) Rests(pending int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rests = append(l.rests, rest{pending, l.next()})
}

type rest struct{ pending, seq int }

// A Stop is the end of a copy: it was told to end at Call and had ended at Ret, after Took.
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

// A Violation is a promise that was not kept: the id of the catalogue, and what happened, in words that are the same in each run
// of one history.
type Violation struct {
	ID   string
	Text string
	Seq  int // when
}

func (v Violation) String() string { return v.ID + ": " + v.Text }

// A Result is what Check found.
type Result struct {
	Violations []Violation    // in the order in which they happened
	Premises   map[string]int // how often each invariant could have been violated
}

func (r *Result) met(id string) { r.Premises[id]++ }

func (r *Result) fail(seq int, id, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{ID: id, Text: fmt.Sprintf(format, args...), Seq: seq})
}

// Check holds the record against what the server had. Objects that were seen are described again with now, to find those that
// were changed since; nil leaves that out.
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
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), strings.Compare(a.ID, b.ID), strings.Compare(a.Text, b.Text))
	})
	return r
}

// show prints items in the order of their keys.
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
