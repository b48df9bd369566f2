package lw_test

import (
	"fmt"
	"os"
	"slices"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
)

// checkCalmLocked checks that the graph has taken all that its informers have, that stores, stories,
// indexes and the status agree with its last step, and which conflicts there are.
func (w *graphWorld) checkCalmLocked() {
	s := w.g.Snapshot()
	// What was added or removed before is there, or gone.
	inputs := map[*graphInput]whole{}
	for _, in := range w.ins {
		version := s.ResourceVersion(in.inf)
		if version == "" {
			continue // no collection reads it, or it has not synced
		}
		if is := in.inf.Store().ResourceVersion(); is != version {
			w.failLocked("the graph is calm at %s of %s, which is at %s", version, in.name, is)
		}
		inputs[in] = wholeOf(in.inf.Store())
	}
	for _, n := range w.nodes {
		for _, m := range n.ins {
			m.pending = false
		}
	}
	if mistake := w.explainLocked(s, inputs, nil); mistake != "" {
		w.failLocked("when all is calm: %s", mistake)
		return
	}
	all := w.modelLocked(inputs, nil)
	conflicts, status := conflictsOf(w.g), w.g.Status()
	for _, n := range w.nodes {
		if n.closed {
			continue
		}
		now := lw.In(s, n.d)
		if !samePointers(now, n.d.Store().List()) || n.d.Store().ResourceVersion() != now.ResourceVersion() {
			w.failLocked("the store of %s has not what the snapshot has", n.name)
		}
		for _, story := range n.stories {
			story.mu.Lock()
			for key, a := range story.present {
				if obj, _ := now.Get(key); obj != a {
					w.failLocked("%s: a handler was told of %+v, and %+v is shown", n.name, a, obj)
				}
				w.seen["told"]++
			}
			if len(story.present) != now.Len() {
				w.failLocked("%s: a handler was told of %d objects, and %d are shown", n.name, len(story.present), now.Len())
			}
			story.mu.Unlock()
		}
		if all[n] != nil {
			w.checkConflictsLocked(n, all[n], conflicts[n.name])
		}
		if n.union != nil {
			continue // it has no name of its own
		}
		i := slices.IndexFunc(status.Collections, func(c lw.DerivedStatus) bool { return c.Name == n.name })
		if i < 0 || status.Collections[i].Objects != now.Len() || len(status.Collections[i].SetAside) > 0 {
			w.failLocked("%s has %d objects, and its status is %+v", n.name, now.Len(), status.Collections)
		}
	}
	if status.Pending != 0 {
		w.failLocked("the graph is calm, and has %d pending", status.Pending)
	}
}

// checkConflictsLocked compares the keys of which the status names a conflict with those of the
// model.
func (w *graphWorld) checkConflictsLocked(n *graphNode, m *made, got []string) {
	var want []string
	for key := range m.rivals {
		id := key.String()
		want = append(want, id)
		if !w.reported["graph/"+n.name+" "+id] {
			w.failLocked("%s: nobody has reported the conflict at %s", n.name, id)
		}
		w.seen["rivals"]++
	}
	slices.Sort(want)
	if !slices.Equal(want, got) {
		w.failLocked("%s: the status has conflicts at %v, want %v", n.name, got, want)
	}
	for id := range w.reported {
		if !w.rivals[id] && os.Getenv("STRICT") != "" {
			w.failLocked("a conflict was reported at %s, and no step had one", id)
		}
	}
}

// AddNode makes a collection of inputs and other collections.
func (w *graphWorld) AddNode(t *rapid.T) {
	open := w.open()
	if len(open) >= 9 {
		t.Skip("enough")
	}
	op := operations[slices.Index(operationNames, rapid.SampledFrom(operationNames).Draw(t, "operation"))]
	k := drawKit(t)
	count := 1
	switch op.name {
	case "join", "leftjoin":
		count = 2
	case opUnion:
		count = rapid.IntRange(0, 3).Draw(t, "members")
	}
	var ins []*graphSource
	for range count {
		ins = append(ins, w.source(t, open))
	}
	if op.name == "join" && ins[0].objects()*ins[1].objects() > 40 {
		k.b = max(k.b, 1) // so that it makes few objects
	}
	w.made++
	n := w.build(w.g, fmt.Sprint(op.name, w.made), op, k, ins)
	if len(w.cancel) > 0 {
		w.seen["late node"]++
	}
	n.stories = append(n.stories, w.newStory(n, false))
	if rapid.IntRange(0, 4).Draw(t, "blocked") == 4 {
		w.newStory(n, true)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = append(w.nodes, n)
}

func (w *graphWorld) open() []*graphNode {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *graphNode) bool { return n.closed })
}

// source draws what a node is made of.
func (w *graphWorld) source(t *rapid.T, open []*graphNode) *graphSource {
	i := rapid.IntRange(-len(w.ins), len(open)-1).Draw(t, "source")
	if i < 0 {
		return &graphSource{input: w.ins[-i-1]}
	}
	return &graphSource{node: open[i]}
}

func (s *graphSource) objects() int {
	if s.node != nil {
		return s.node.objects
	}
	return 4
}

// build makes a collection in the present graph.
func (w *graphWorld) build(g *lw.Graph, name string, op operation, k kit, ins []*graphSource) *graphNode {
	n := &graphNode{name: name, op: op, kit: k, ins: ins, first: len(ins), objects: 3}
	var from []lw.Collection[*atom]
	for _, s := range ins {
		from = append(from, s.collection())
	}
	switch op.name {
	case opUnion:
		n.union = lw.NewUnion(g, from...)
		n.d, n.objects = n.union.Derived, 0
		for _, s := range ins {
			n.objects += s.objects()
		}
	default:
		n.d = op.build(g, k, name, from)
	}
	switch {
	case op.name == "derive", op.name == "leftjoin":
		n.objects = ins[0].objects()
	case op.name == "many" && k.c == 2:
		n.objects = 3 * ins[0].objects()
	case op.name == "join" && k.b == 0:
		n.objects = ins[0].objects() * ins[1].objects()
	}
	n.byN = lw.NewIndex(n.d, func(a *atom) int { return a.N % 3 })
	return n
}

// Close closes a collection, and with it those that are derived from it.
func (w *graphWorld) Close(t *rapid.T) {
	open := w.open()
	if w.held || len(open) < 4 {
		t.Skip("not now")
	}
	n := open[rapid.IntRange(0, len(open)-1).Draw(t, "node")]
	w.mu.Lock()
	n.closed = true
	for changed := true; changed; {
		changed = false
		for _, o := range open {
			if !o.closed && slices.ContainsFunc(o.ins, func(s *graphSource) bool { return s.node != nil && s.node.closed && !s.gone }) {
				o.closed, changed = true, true
			}
		}
	}
	w.mu.Unlock()
	w.tick()
	n.d.Close()
	w.seen["closed"]++
}

func (w *graphWorld) union(t *rapid.T) *graphNode {
	unions := slices.DeleteFunc(w.open(), func(n *graphNode) bool { return n.union == nil })
	if w.held || len(unions) == 0 {
		t.Skip("there is none")
	}
	return unions[rapid.IntRange(0, len(unions)-1).Draw(t, "union")]
}

// AddMember adds a member to a union, perhaps once more.
func (w *graphWorld) AddMember(t *rapid.T) {
	n := w.union(t)
	if len(n.ins) > 5 {
		t.Skip("enough")
	}
	s := w.source(t, slices.DeleteFunc(w.open(), func(o *graphNode) bool { return o.dependsOn(n) || o.objects+n.objects > 30 }))
	w.mu.Lock()
	s.pending = true
	n.ins = append(n.ins, s)
	n.objects += s.objects()
	w.mu.Unlock()
	w.tick()
	s.remove = n.union.Add(s.collection())
	w.seen["member"]++
}

func (n *graphNode) dependsOn(other *graphNode) bool {
	return n == other || slices.ContainsFunc(n.ins, func(s *graphSource) bool { return s.node != nil && !s.gone && s.node.dependsOn(other) })
}

// RemoveMember removes a member that was added.
func (w *graphWorld) RemoveMember(t *rapid.T) {
	n := w.union(t)
	added := slices.DeleteFunc(slices.Clone(n.ins), func(s *graphSource) bool { return s.remove == nil || s.gone })
	if len(added) == 0 {
		t.Skip("there is none")
	}
	s := added[rapid.IntRange(0, len(added)-1).Draw(t, "member")]
	w.tick()
	// It may be there until all is calm.
	w.mu.Lock()
	s.pending, s.gone = true, true
	w.mu.Unlock()
	s.remove()
	s.remove()
}

// AddHandler adds a handler to a collection that has content.
func (w *graphWorld) AddHandler(t *rapid.T) {
	open := w.open()
	if len(open) == 0 {
		t.Skip("there is none")
	}
	n := open[rapid.IntRange(0, len(open)-1).Draw(t, "node")]
	w.tick()
	n.stories = append(n.stories, w.newStory(n, false))
	w.seen["late handler"]++
}

// RemoveHandler removes a handler.
func (w *graphWorld) RemoveHandler(t *rapid.T) {
	open := slices.DeleteFunc(w.open(), func(n *graphNode) bool { return len(n.stories) == 0 })
	if len(open) == 0 {
		t.Skip("there is none")
	}
	n := open[rapid.IntRange(0, len(open)-1).Draw(t, "node")]
	n.stories[0].reg.Remove()
	n.stories = n.stories[1:]
}
