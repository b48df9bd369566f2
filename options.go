package lw

import (
	"cmp"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lw/lw/internal/why/names"
)

// Options are the settings of an [Informer] or a [Reflector], which copies them. A nil *Options and
// the zero value of each field mean the default.
type Options struct {
	Name  string // in errors and logs, and on the Board; default: the name of T, such as Pod
	Board *Board // where the informer is listed while it runs; default: nowhere

	// Logger gets the first sync and each recovery, at level Info, and failures at level Warn if
	// OnError is nil. Default: slog.Default() if OnError is nil, else none.
	Logger *slog.Logger

	List     ListMode // how to request a list; default: ListAuto
	PageSize int64    // the number of objects in a page; default: 500
	// SyncBudget is how long a streamed list may go without an object before it falls back to
	// pages; default: 10 s, and 90 s once the server has streamed a whole list.
	SyncBudget   time.Duration
	WatchTimeout time.Duration // the least duration of a watch, which is up to twice that; default: 5 min

	// Backoff returns how long to pause when so many requests in a row have failed, at least 1. A
	// longer Retry-After of the server takes precedence. Default: random pauses that grow with the
	// failures, to 45 s, and depend on what has failed. bench/results/scale.md has measurements.
	Backoff func(failures int) time.Duration

	// OnError is called once for every failure, with an *[Error], in the goroutine that reads from
	// the server; with DetectMutation also in another. It should not block. Default: see Logger.
	OnError func(err error)
	// OnPanic is called when a callback of a handler or the function of an index panics, in the
	// goroutine that called it. A handler then goes on with its next event. An object at which an
	// index panicked is set aside. Default: the panic crashes the program.
	OnPanic func(p *Panic)

	// DetectMutation, which is for tests, finds code that changes cached objects, and reports the
	// paths of the fields to OnError; package lwtest has the whole diff. It doubles the memory.
	DetectMutation bool
}

// ListMode says how an informer requests a list.
type ListMode string

const (
	ListAuto   ListMode = "auto"   // streams the list, or uses pages from the moment on that the server cannot
	ListStream ListMode = "stream" // always streams the list (https://kep.k8s.io/3157)
	ListPages  ListMode = "pages"  // requests pages of Options.PageSize objects, all of one resource version
	ListWhole  ListMode = "whole"  // requests the list in one response
)

// withDefaults returns a copy of o, which may be nil, with the defaults filled in. name is the
// default of Name. OnPanic may be nil in it, and so may one of Logger and OnError: newFailureLog
// sets OnError later if it is nil. A nil Backoff means the default; see pauseAfter.
func (o *Options) withDefaults(name string) *Options {
	s := &Options{}
	if o != nil {
		*s = *o
	}
	if s.Name == "" {
		s.Name = name
	}
	if s.Logger == nil && s.OnError == nil {
		s.Logger = slog.Default()
	}
	s.warn()
	if s.List == "" {
		s.List = ListAuto
	}
	if s.PageSize <= 0 {
		s.PageSize = 500
	}
	if s.SyncBudget <= 0 {
		s.SyncBudget = 10 * time.Second
	}
	if s.WatchTimeout <= 0 {
		s.WatchTimeout = 5 * time.Minute
	}
	return s
}

// warn logs what can only be a mistake.
func (o *Options) warn() {
	what := "informer " + o.Name
	if o.PageSize < 0 {
		warnOf(o.Logger, what, "PageSize", o.PageSize, "is negative, and the default is used")
	}
	for _, d := range []struct {
		option string
		value  time.Duration
	}{{"SyncBudget", o.SyncBudget}, {"WatchTimeout", o.WatchTimeout}} {
		switch {
		case d.value < 0:
			warnOf(o.Logger, what, d.option, d.value, "is negative, and the default is used")
		case 0 < d.value && d.value < time.Second:
			warnOfUnit(o.Logger, what, d.option, d.value)
		}
	}
}

// warnOfUnit logs that a duration is less than a second.
func warnOfUnit(logger *slog.Logger, whose, option string, value time.Duration) {
	warnOf(logger, whose, option, value, "is less than a second: a number without a unit is in nanoseconds")
}

// warnOf logs what is wrong with an option. If nobody has set a logger it uses the default, since
// nothing else tells of the mistake.
func warnOf(logger *slog.Logger, whose, option string, value any, wrong string) {
	cmp.Or(logger, slog.Default()).Warn("lw: "+whose+": "+option+" "+wrong, slog.Any("value", value))
}

// A Board lists the informers, reflectors and graphs that have it in their options, while they run.
// Package lwdebug shows it as a page and as JSON. The zero value is an empty board, not to be
// copied after use. All methods are safe for concurrent use, call no function of yours, and wait
// for none.
type Board struct {
	informers, graphs roster
}

// Informers yields the name and the status of each informer and [Reflector] that runs, sorted by
// name. The second of one name is called "name#2", and so on, as long as it runs.
func (b *Board) Informers() iter.Seq2[string, Status] {
	return func(yield func(string, Status) bool) {
		for _, e := range b.informers.list() {
			if !yield(e.name, e.status()) {
				return
			}
		}
	}
}

// Graphs is as Informers, for each [Graph] that runs.
func (b *Board) Graphs() iter.Seq2[string, GraphStatus] {
	return func(yield func(string, GraphStatus) bool) {
		for _, e := range b.graphs.list() {
			if !yield(e.name, e.graph()) {
				return
			}
		}
	}
}

// Object returns the object of key, shared with all readers, in an informer of that name, or in a
// collection of a graph, as "graph/collection".
func (b *Board) Object(collection string, key Key) (obj Identified, ok bool) {
	for _, e := range b.informers.list() {
		if e.name == collection {
			return e.object(key)
		}
	}
	for _, e := range b.graphs.list() {
		if in, is := strings.CutPrefix(collection, e.name+"/"); is {
			if obj, ok = e.objectIn(in, key); ok {
				break
			}
		}
	}
	return obj, ok
}

// addInformer puts what runs on b, and returns the function that takes it off. It does nothing if b
// is nil. object returns an object of it.
func (b *Board) addInformer(name string, status func() Status, object func(Key) (Identified, bool)) (remove func()) {
	if b == nil {
		return func() {}
	}
	return b.informers.add(&rosterEntry{base: name, status: status, object: object})
}

// addGraph does the same for a graph. objectIn returns an object of a collection of it.
func (b *Board) addGraph(name string, status func() GraphStatus, objectIn func(collection string, key Key) (Identified, bool)) (remove func()) {
	if b == nil {
		return func() {}
	}
	return b.graphs.add(&rosterEntry{base: name, graph: status, objectIn: objectIn})
}

// noObject is the object function of what keeps no objects.
func noObject(Key) (Identified, bool) { return nil, false }

// A roster is a list of what runs. It does not depend on what a status is, so that the compiler
// generates its code once. A program may have an informer for each namespace, all of one name:
// neither add nor its remove looks at the others.
type roster struct {
	// mu guards the fields below. No other lock is taken under it, and nothing is asked for its
	// status.
	mu      sync.Mutex
	names   names.Set
	entries map[*rosterEntry]struct{}
	// sorted is entries, sorted by compare. Callers of list have it, so it is replaced and never
	// changed. nil: list has to make it.
	sorted []*rosterEntry
}

// A rosterEntry is called name as long as it is on the roster. That is base, or base with a number
// from 2 on.
type rosterEntry struct {
	base   string
	number int // 1: name is base
	name   string

	// What runs: an informer or a reflector has status and object, a graph has the other two.

	status   func() Status
	object   func(Key) (Identified, bool)
	graph    func() GraphStatus
	objectIn func(collection string, key Key) (Identified, bool)
}

// add gives e, whose base is set, a name, and adds it. It returns the function that removes it.
func (r *roster) add(e *rosterEntry) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.name, e.number = r.names.Take(e.base)
	if r.entries == nil {
		r.entries = map[*rosterEntry]struct{}{}
	}
	r.entries[e] = struct{}{}
	r.sorted = nil
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.names.Release(e.base, e.number)
		delete(r.entries, e)
		r.sorted = nil
	}
}

// compare orders by name, and name#2 before name#10.
func (e *rosterEntry) compare(other *rosterEntry) int {
	return cmp.Or(strings.Compare(e.base, other.base), cmp.Compare(e.number, other.number))
}

// list returns what is on the roster. The caller must not change it.
func (r *roster) list() []*rosterEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sorted == nil {
		r.sorted = slices.SortedFunc(maps.Keys(r.entries), (*rosterEntry).compare)
	}
	return r.sorted
}
