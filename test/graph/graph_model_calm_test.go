package graph_test

import (
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
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
		if !slices.ContainsFunc(w.nodes, func(n *graphNode) bool { return !n.closed && n.derivedFrom(in) }) {
			w.failLocked("the graph is calm at %s of %s, and nothing is derived from it", version, in.name)
		}
		inputs[in] = wholeOf(in.inf.Store())
	}
	for _, n := range w.nodes {
		n.late = false
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
		now := n.d.At(s)
		if !sameObjects(now.List(), n.d.Store().List()) || n.d.Store().ResourceVersion() != now.ResourceVersion() {
			w.failLocked("the store of %s has not what the snapshot has", n.name)
		}
		for k := range 3 {
			want := slices.DeleteFunc(now.List(), func(a *atom) bool { return a.N%3 != k })
			if n.lateByN != nil && !sameObjects(want, n.lateByN.List(k)) {
				w.failLocked("a late index of %s has %d objects with %d, want %d", n.name, n.lateByN.Len(k), k, len(want))
			}
			want = slices.DeleteFunc(want, func(a *atom) bool { return w.panics.skips(n, a, false) })
			if !sameObjects(want, n.byN.List(k)) {
				w.failLocked("the index of %s has %d objects with %d, want %d", n.name, n.byN.Len(k), k, len(want))
			}
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
	w.panics.calmLocked(w)
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
		// The model knows no conflicts of a node that is about to be closed.
		about := func(n *graphNode) bool { return n.closed && strings.HasPrefix(id, "graph/"+n.name+" ") }
		if !w.rivals[id] && !slices.ContainsFunc(w.nodes, about) {
			w.failLocked("a conflict was reported at %s, and no step had one", id)
		}
	}
}

// settle waits until all is calm, and compares with a fresh graph.
func (w *graphWorld) settle(t *rapid.T) {
	if w.held {
		w.Hold(t)
	}
	w.panics.fuse.Store(nil)
	for _, in := range w.ins {
		in.failing = false
		in.mem.Fail(nil)
	}
	rig.Sleep(10 * time.Minute)
	if err := w.g.WaitForSync(rig.Canceled(t)); err != nil {
		t.Fatal(err)
	}
	w.Check(t)
	for _, in := range w.ins {
		if got, want := w.g.Snapshot().ResourceVersion(in.inf), in.mem.ResourceVersion(); got != "" && got != want && !in.ended {
			t.Fatalf("the graph shows %s at %s, and the server is at %s", in.name, got, want)
		}
	}
	w.compareFresh(t)
}

// compareFresh compares all collections with those of a new graph, which has not seen how they came
// about.
func (w *graphWorld) compareFresh(t *rapid.T) {
	conflicts := conflictsOf(w.g)
	g := w.newGraph()
	fresh := map[*graphNode]*graphNode{}
	var build func(n *graphNode) *graphNode
	build = func(n *graphNode) *graphNode {
		if n == nil || fresh[n] != nil {
			return fresh[n]
		}
		var ins []*graphSource
		for _, s := range n.ins {
			if !s.gone {
				ins = append(ins, &graphSource{input: s.input, node: build(s.node)})
			}
		}
		fresh[n] = w.build(g, n.name, n.op, n.kit, ins)
		return fresh[n]
	}
	nodes := w.open()
	for _, n := range nodes {
		build(n)
	}
	w.start(g)
	if err := g.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	for _, n := range nodes {
		if diff := diffOfWhole("a fresh graph's "+n.name, wholeOf(n.d.Store()), wholeOf(fresh[n].d.Store())); diff != "" {
			t.Fatal(diff)
		}
	}
	again := conflictsOf(g)
	for name, keys := range conflicts {
		if !slices.Equal(keys, again[name]) {
			t.Fatalf("%s has conflicts at %v, and a fresh graph at %v", name, keys, again[name])
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != "" {
		t.Fatal(w.failed)
	}
}
