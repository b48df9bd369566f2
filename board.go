package lw

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-lw/lw/internal/board"
)

// A Board lists informers, reflectors and graphs while they run: those whose Options.Board or
// GraphOptions.Board it is. Each is on the board before its first request or step, and off it when
// its Run returns. The zero value is an empty board. A Board must not be copied after first use; all
// methods are safe for concurrent use.
type Board struct {
	informers roster[Status]
	graphs    roster[GraphStatus]
}

// Informers yields the name and the status of each informer and [Reflector] that runs, sorted by
// name. If several of one name run, the second is called "name#2", and so on: a name stays what it
// is as long as Run runs, and two of one moment are never equal. Status.Informer is the name without
// such a number. Each status is taken when it is yielded.
func (b *Board) Informers() iter.Seq2[string, Status] { return b.informers.all() }

// Graphs yields the name and the status of each [Graph] that runs, as Informers does.
func (b *Board) Graphs() iter.Seq2[string, GraphStatus] { return b.graphs.all() }

// runs puts an informer or a reflector on the board, and returns the function that takes it off. b
// may be nil.
func (b *Board) runs(kind board.Kind, name string, status func() Status) (ended func()) {
	if b == nil {
		return func() {}
	}
	return b.informers.add(kind, name, status)
}

// runsGraph puts a graph on the board, as runs does.
func (b *Board) runsGraph(name string, status func() GraphStatus) (ended func()) {
	if b == nil {
		return func() {}
	}
	return b.graphs.add("", name, status)
}

// A roster is a list of what runs, with the function that asks each for its status of type S.
type roster[S any] struct {
	// mu guards entries, which is replaced and never changed. No other lock is taken under it, and
	// no status is asked for.
	mu      sync.Mutex
	entries []*rosterEntry[S] // sorted by compare
}

// A rosterEntry is called name as long as it is on the roster. That is base, or base with a number
// from 2 on.
type rosterEntry[S any] struct {
	base   string
	number int // 1: name is base
	name   string
	kind   board.Kind // "" for a graph
	status func() S
}

// add adds what base and status are of, and returns the function that removes it.
func (r *roster[S]) add(kind board.Kind, base string, status func() S) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &rosterEntry[S]{base: base, number: 1, name: base, kind: kind, status: status}
	// A base may look like a name with a number. So the name is what has to be free.
	for slices.ContainsFunc(r.entries, func(other *rosterEntry[S]) bool { return other.name == e.name }) {
		e.number++
		e.name = base + "#" + strconv.Itoa(e.number)
	}
	at, _ := slices.BinarySearchFunc(r.entries, e, (*rosterEntry[S]).compare)
	r.entries = slices.Insert(slices.Clone(r.entries), at, e)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.entries = without(slices.Clone(r.entries), e)
	}
}

// compare orders by name, and name#2 before name#10.
func (e *rosterEntry[S]) compare(other *rosterEntry[S]) int {
	return cmp.Or(strings.Compare(e.base, other.base), cmp.Compare(e.number, other.number))
}

// list returns what is on the roster. The caller must not change it.
func (r *roster[S]) list() []*rosterEntry[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries
}

// all yields what is on the roster at the beginning of the loop.
func (r *roster[S]) all() iter.Seq2[string, S] {
	return func(yield func(string, S) bool) {
		for _, e := range r.list() {
			if !yield(e.name, e.status()) {
				return
			}
		}
	}
}
