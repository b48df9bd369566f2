package lw

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-lw/lw/internal/table"
)

// Status returns what the graph is doing.
func (g *Graph) Status() GraphStatus {
	g.mu.Lock()
	nodes, leaves := g.sortedLocked(), g.leaves
	g.mu.Unlock()
	s := GraphStatus{Synced: true, Versions: map[string]string{}}
	if now, began := g.calls.last(); !began.IsZero() {
		s.Call, s.StepBegan = now.String(), began
	}
	for _, l := range leaves {
		s.Pending += l.pending()
	}
	for _, n := range nodes {
		d := n.status()
		s.Synced = s.Synced && d.Synced
		s.Collections = append(s.Collections, d)
	}
	g.gate.look.Lock()
	defer g.gate.look.Unlock()
	s.Steps, s.Busy = g.steps, g.busy
	for _, l := range leaves {
		if version, ok := g.vector[l.core()]; ok {
			s.Versions[l.name()] = version
		}
	}
	return s
}

// object returns the object of key in the collections of that name, for the board.
func (g *Graph) object(collection string, key Key) (obj Identified, ok bool) {
	g.mu.Lock()
	nodes := g.nodes
	g.mu.Unlock()
	for _, n := range nodes {
		if n.name() != collection {
			continue
		}
		if obj, ok = n.object(key); ok {
			break
		}
	}
	return obj, ok
}

// healthy returns nil if the collections can be relied on: all have synced, the graph has not
// stopped, and it has not been in one step for as long as grace.
func (g *Graph) healthy(grace time.Duration) error {
	s := g.Status()
	switch {
	case isClosed(g.done):
		return fmt.Errorf("lw: graph %s: %w", g.opts.Name, ErrStopped)
	case !s.Synced:
		return fmt.Errorf("lw: graph %s: not synced", g.opts.Name)
	case !s.StepBegan.IsZero() && time.Since(s.StepBegan) >= grace:
		return fmt.Errorf("lw: graph %s: in a step since %s, in %s", g.opts.Name, s.StepBegan.Format(time.RFC3339), s.Call)
	}
	return nil
}

// A GraphSnapshot is one state of all collections of a [Graph], which never changes. It keeps its
// objects in memory.
type GraphSnapshot struct {
	graph   *Graph
	vector  map[*hubCore]string
	content map[*hubCore]any // a *Snapshot of each collection, by its core
}

// Snapshot returns the present state of all collections, for reads of several at one state with
// [Derived.At], at a cost that does not depend on its size.
func (g *Graph) Snapshot() *GraphSnapshot {
	if s := g.snapshot.Load(); s != nil {
		return s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gate.look.Lock()
	defer g.gate.look.Unlock()
	s := &GraphSnapshot{graph: g, vector: maps.Clone(g.vector), content: make(map[*hubCore]any, len(g.nodes))}
	for _, n := range g.nodes {
		s.content[n.core()] = n.snapshotLocked()
	}
	g.snapshot.Store(s)
	return s
}

// At returns the content of d in the state of s. It is empty if d was made after s, or was closed
// before. At panics if s is of another graph than d.
func (d *Derived[T]) At(s *GraphSnapshot) *Snapshot[T] {
	if d.graph != s.graph {
		panic("lw: At: the snapshot is of another graph")
	}
	if content, ok := s.content[d.core()].(*Snapshot[T]); ok {
		return content
	}
	return &Snapshot[T]{new(table.Snapshot[T])}
}

// ResourceVersion returns the version of an informer that the state is derived from; "" if the
// graph had no content of it.
func (s *GraphSnapshot) ResourceVersion(of AnyInformer) string { return s.vector[coreOf(of)] }

func (d *Derived[T]) status() DerivedStatus {
	s := DerivedStatus{StoreStatus: d.storeStatus()}
	s.Name = d.faults.collection
	for in := range d.op.inputs {
		s.From = append(s.From, in.name())
	}
	f := d.faults
	s.SetAside = f.aside()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.conflicts) > 0 {
		s.Conflicts = maps.Clone(f.conflicts)
	}
	s.Computed, s.Unchanged = f.computed.Load(), f.unchanged.Load()
	return s
}

// storeStatus returns what both Status and status have.
func (d *Derived[T]) storeStatus() StoreStatus {
	s := StoreStatus{
		Name: d.hub.opts.Name, Synced: isClosed(d.hub.synced),
		Objects: d.hub.store.Len(), Indexes: d.hub.store.store.IndexSizes(),
	}
	s.Handlers, s.Pending = d.hub.handlers()
	return s
}

// Status returns the name, the size, the handlers, the phase and the version of the collection, and
// whether it has synced. [GraphStatus] has the rest.
func (d *Derived[T]) Status() Status {
	s := Status{StoreStatus: d.storeStatus(), Phase: phaseWatching, ResourceVersion: d.hub.store.ResourceVersion()}
	switch {
	case isClosed(d.hub.stopped):
		s.Phase = phaseStopped
	case !d.graph.running():
		s.Phase = phaseIdle
	}
	return s
}

// explain returns the error of a wait for sync that cause has ended.
func (d *Derived[T]) explain(cause error) error {
	if isClosed(d.hub.synced) { // it was a handler that was waited for
		_, slowest := d.hub.handlers()
		return fmt.Errorf("lw: %s: handler not synced (%d changes pending): %w", d.hub.opts.Name, slowest, cause)
	}
	var names []string
	var errs []error
	outside := d.graph.leafNames()
	d.hub.eachUnsynced(func(before *hubCore) bool {
		name, ok := outside[before]
		if !ok && before.needs != nil {
			return true // another collection of the graph
		}
		names = append(names, cmp.Or(name, before.opts.Name))
		errs = append(errs, before.unsynced(nil))
		return false
	})
	what := "not synced"
	switch {
	case !d.graph.running():
		what += ", since the Run of the graph has not been called"
	case len(names) > 0:
		what += ", since it waits for " + strings.Join(names, ", ")
		if d.varies != nil {
			what += " (a member that is added by Union.Add is not waited for)"
		}
	}
	if cause != nil {
		errs = append(errs, cause)
	}
	return &derivedError{fmt.Sprintf("lw: %s: %s%s", d.hub.opts.Name, what, d.graph.calls.text()), errs}
}

// A derivedError says why a collection has not synced, with the causes.
type derivedError struct {
	what string
	errs []error
}

func (e *derivedError) Error() string {
	text := []string{e.what}
	for _, err := range e.errs {
		text = append(text, strings.TrimPrefix(err.Error(), "lw: "))
	}
	return strings.Join(text, ": ")
}

func (e *derivedError) Unwrap() []error { return e.errs }
