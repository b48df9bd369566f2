package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// A graphWorld is a graph over some informers, and what is expected of it. The commands run in one
// goroutine, and nearly always while the graph, handlers and readers work.
type graphWorld struct {
	g      *lw.Graph
	gate   chan struct{} // has room for one: the graph makes no step while it is full
	held   bool
	opened chan struct{} // closed at the end: what blocks handlers
	ticks  []chan struct{}
	cancel []func()
	ran    sync.WaitGroup
	seen   map[string]int
	made   int // nodes so far, for their names
	verify bool

	braked bool          // the graph is held in a function
	brake  chan struct{} // releases the function that is held
	armed  atomic.Bool   // the next call of a function is held

	panics graphPanics

	// The graph's goroutine alone uses these.
	last     *lw.GraphSnapshot // after the last step
	had      []*graphNode      // the collections then
	mistaken string            // what a read during a commit was not of
	inside   int               // how many commits were looked at

	mu       sync.Mutex // guards what follows, and all fields of inputs and nodes
	ins      []*graphInput
	nodes    []*graphNode
	steps    []*lw.GraphSnapshot // after each step
	looked   int                 // how many commits were looked at, since the last check
	reads    [][]atomRead        // of one goroutine each, since the last check
	failed   string              // the first mistake
	reported map[string]bool     // collections and keys of which OnError has named a conflict
	rivals   map[string]bool     // those that had one
}

// A graphInput is a server and its informer.
type graphInput struct {
	name    string
	mem     rig.Plain[*atom]
	inf     *lw.Informer[*atom]
	states  map[string][]whole // all that the server ever had, by version
	failing bool
	rewinds int    // that the graph has not shown
	stop    func() // ends the informer
	ended   bool
}

// A graphNode is a collection of the graph.
type graphNode struct {
	name    string
	op      operation
	kit     kit
	ins     []*graphSource
	first   int // how many of ins a union began with
	d       *lw.Derived[*atom]
	union   *lw.Union[*atom] // nil: no union
	byN     *lw.Index[int, *atom]
	lateByN *lw.Index[int, *atom] // made while the graph works; may be nil
	indexed atomic.Bool           // byN is made
	late    bool                  // perhaps no step has seen it yet
	closed  bool
	stories []*atomStory
	objects int // about how many it has
}

// A graphSource is what a node is made of: an input or another node. The fields below are for
// members of a union.
type graphSource struct {
	input   *graphInput
	node    *graphNode
	remove  func()
	pending bool // it may be in the union, or not
	gone    bool
}

func (s *graphSource) collection() lw.Collection[*atom] {
	switch {
	case s.input != nil:
		return s.input.inf
	case s.node.union != nil:
		return s.node.union
	}
	return s.node.d
}

func newGraphWorld(t *rapid.T, seen map[string]int) *graphWorld {
	w := &graphWorld{
		gate: make(chan struct{}, 1), opened: make(chan struct{}), seen: seen, brake: make(chan struct{}),
		reported: map[string]bool{}, rivals: map[string]bool{},
		panics: graphPanics{excused: map[lw.Key]bool{}, skipped: map[indexed]bool{}},
	}
	fused.Store(w)
	w.verify = rapid.Bool().Draw(t, "verify")
	w.g = w.newGraph()
	inside.AfterStep(w.g, w.stepped)
	if rapid.Bool().Draw(t, "long commits") {
		inside.SetBrief(w.g, -1)
		inside.MidCommit(w.g, w.inCommit)
	}
	for i := range rapid.IntRange(2, 3).Draw(t, "inputs") {
		in := &graphInput{name: fmt.Sprint("in", i), mem: rig.Plain[*atom]{Memory: lw.NewMemory[*atom]()},
			states: map[string][]whole{}}
		in.inf = lw.NewInformer(in.mem.Memory, &lw.Options{Name: in.name, OnError: func(error) {}})
		w.change(in, func() error { return nil })
		w.ins = append(w.ins, in)
	}
	for range rapid.IntRange(0, 6).Draw(t, "writes") {
		w.Write(t)
	}
	for range rapid.IntRange(2, 7).Draw(t, "nodes") {
		w.AddNode(t)
	}
	for i := range 2 {
		tick := make(chan struct{}, 1)
		w.ticks = append(w.ticks, tick)
		w.ran.Go(func() { w.read(i, tick) })
	}
	for _, in := range w.ins {
		in.stop = w.start(in.inf)
	}
	w.start(w.g)
	return w
}

func (w *graphWorld) newGraph() *lw.Graph {
	var onPanic func(*lw.Panic)
	if !w.verify {
		onPanic = w.panicked
	}
	return lw.NewGraph(&lw.GraphOptions{Verify: w.verify, OnPanic: onPanic, OnError: func(err error) {
		var e *lw.Error
		if !errors.As(err, &e) || e.Key == (lw.Key{}) {
			w.fail("OnError got %v", err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := e.Error(); !containsAll(err, "several inputs") {
			w.failLocked("OnError got %s", err)
		}
		w.reported[e.Informer+" "+e.Key.String()] = true
	}})
}

// start runs r until stop is called or the world ends.
func (w *graphWorld) start(r interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = append(w.cancel, cancel)
	w.ran.Go(func() {
		if err := r.Run(ctx); err != nil {
			w.fail("Run returned %v", err)
		}
	})
	return cancel
}

// end stops all goroutines. It comes also after a failure.
func (w *graphWorld) end() {
	w.panics.fuse.Store(nil)
	close(w.opened)
	if w.held {
		<-w.gate
	}
	for _, tick := range w.ticks {
		close(tick)
	}
	for _, cancel := range w.cancel {
		cancel()
	}
	w.ran.Wait()
	fused.Store(nil)
}

func (w *graphWorld) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *graphWorld) failLocked(format string, args ...any) {
	if w.failed == "" {
		w.failed = fmt.Sprintf(format, args...)
	}
}

// TestGraphs compares random graphs with a model that computes each collection from scratch, after
// each step and from readers' goroutines, whatever comes in whatever order.
func TestGraphs(t *testing.T) {
	seen := map[string]int{}
	histories := 0
	for range graphRounds {
		rapid.Check(t, func(t *rapid.T) {
			histories++
			rapid.SyncTest(t, func(t *rapid.T) {
				w := newGraphWorld(t, seen)
				defer w.end()
				t.Repeat(map[string]func(*rapid.T){
					"write": w.Write, "write more": w.Write, "write again": w.Write, "relist": w.Relist, "break": w.Break,
					"sleep": w.Sleep, "rewind": w.Rewind, "hold": w.Hold, "wait": w.Wait, "flood": w.Flood, "add node": w.AddNode,
					"close": w.Close, "add member": w.AddMember, "remove member": w.RemoveMember,
					"add handler": w.AddHandler, "remove handler": w.RemoveHandler,
					"retire": w.Retire, "brake": w.Brake, "chain": w.Chain, "crowd": w.Crowd, "end informer": w.EndInformer,
					"fuse": w.Fuse, "fuse again": w.Fuse, "one more fuse": w.Fuse,
					"": w.Check,
				})
				w.settle(t)
			})
		})
	}
	t.Log(histories, seen)
	if histories < enoughGraphs {
		return // too few to tell, as with -short
	}
	for _, what := range []string{"relist", "rewind", "hold", "flood", "wait", "late node", "closed", "member", "rivals",
		"read", "told", "late handler",
		"in a commit", "retired", "retired during a step", "closed during a step", "chain", "crowd",
		"informer ended", "panic"} {
		if seen[what] == 0 { // the rarest comes twelve times in 300 histories, on average
			t.Errorf("%s: not once in %d histories", what, histories)
		}
	}
}

const (
	// graphRounds is how often rapid's number of checks is run, which is 100 where no flag says
	// otherwise.
	graphRounds  = 3
	enoughGraphs = 300
)

// checkCalmLocked checks that the graph has taken all that its informers have, that stores,
// stories, indexes and the status agree with its last step, and which conflicts there are.
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
		if got, want := w.g.Snapshot().ResourceVersion(in.inf), in.mem.ResourceVersion(); got != "" && got != want &&
			!in.ended {
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
