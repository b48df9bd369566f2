package lw

import (
	"maps"

	"github.com/go-lw/lw/internal/table"
)

// Status returns what the graph is doing at this moment.
func (g *Graph) Status() GraphStatus {
	g.life.Lock()
	nodes, leaves := g.nodes, g.leaves
	g.life.Unlock()
	s := GraphStatus{Name: g.opts.Name, Synced: true, Versions: map[string]string{}, Call: g.calls.last()}
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
	s.Steps, s.Busy, s.LastStep = g.steps, g.busy, g.lastStep
	for _, l := range leaves {
		if version, ok := g.vector[l.core()]; ok {
			s.Versions[l.name()] = version
		}
	}
	return s
}

// A GraphSnapshot is one state of all collections of a [Graph]. It never changes. As long as it is
// referenced it keeps the objects of that state in memory.
type GraphSnapshot struct {
	graph   *Graph
	vector  map[*hubCore]string
	content map[*hubCore]any // a *Snapshot of each collection, by its core
}

// Snapshot returns the present state of all collections, for reads of several at one state with
// [In]. Its cost does not depend on the number of objects.
func (g *Graph) Snapshot() *GraphSnapshot {
	if s := g.snapshot.Load(); s != nil {
		return s
	}
	g.life.Lock()
	defer g.life.Unlock()
	g.gate.look.Lock()
	defer g.gate.look.Unlock()
	s := &GraphSnapshot{graph: g, vector: maps.Clone(g.vector), content: make(map[*hubCore]any, len(g.nodes))}
	for _, n := range g.nodes {
		s.content[n.core()] = n.snapshotLocked()
	}
	g.snapshot.Store(s)
	return s
}

// In returns the content of d in the state of s. It is empty if d was made after s, or was closed
// before. In panics if d is of another graph than s.
func In[T Object](s *GraphSnapshot, d *Derived[T]) *Snapshot[T] {
	if d.graph != s.graph {
		panic("lw: In: the collection is of another graph")
	}
	if content, ok := s.content[d.core()].(*Snapshot[T]); ok {
		return content
	}
	return &Snapshot[T]{new(table.Snapshot[T])}
}

// ResourceVersion returns the version of the collection of an informer that the state is derived
// from. It is "" if the graph had no content of it.
func (s *GraphSnapshot) ResourceVersion(of AnyInformer) string {
	inf, ok := of.(interface{ hubOf() *hubCore })
	if !ok {
		return ""
	}
	return s.vector[inf.hubOf()]
}
