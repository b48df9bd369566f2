package lw

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-lw/lw/internal/names"
)

// A Board lists the informers, reflectors and graphs that have it in their options, while they run.
// Package lwdebug shows it as a page and as JSON. The zero value is an empty board, not to be copied
// after use. All methods are safe for concurrent use, call no function of yours, and wait for none.
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
