package lw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
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

	mu       sync.Mutex // guards what follows, and all fields of inputs and nodes
	ins      []*graphInput
	nodes    []*graphNode
	steps    []*lw.GraphSnapshot // after each step
	reads    [][]atomRead        // of one goroutine each, since the last check
	failed   string              // the first mistake
	reported map[string]bool     // collections and keys of which OnError has named a conflict
	rivals   map[string]bool     // those that had one
}

// A graphInput is a server and its informer.
type graphInput struct {
	name    string
	mem     *lw.Memory[*atom]
	inf     *lw.Informer[*atom]
	states  map[string][]whole // all that the server ever had, by version
	failing bool
	rewinds int // that the graph has not shown
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
		gate: make(chan struct{}, 1), opened: make(chan struct{}), seen: seen,
		reported: map[string]bool{}, rivals: map[string]bool{},
	}
	w.verify = rapid.Bool().Draw(t, "verify")
	w.g = w.newGraph()
	lw.AfterStep(w.g, w.stepped)
	for i := range rapid.IntRange(2, 3).Draw(t, "inputs") {
		in := &graphInput{name: fmt.Sprint("in", i), mem: lw.NewMemory[*atom](), states: map[string][]whole{}}
		in.inf = lw.NewInformer(in.mem, &lw.Options{Name: in.name, OnError: func(error) {}})
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
		w.start(in.inf)
	}
	w.start(w.g)
	return w
}

func (w *graphWorld) newGraph() *lw.Graph {
	return lw.NewGraph(&lw.GraphOptions{Verify: w.verify, OnError: func(err error) {
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

// start runs r until the world ends.
func (w *graphWorld) start(r interface{ Run(context.Context) error }) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = append(w.cancel, cancel)
	w.ran.Go(func() {
		if err := r.Run(ctx); err != nil {
			w.fail("Run returned %v", err)
		}
	})
}

// end stops all goroutines. It comes also after a failure.
func (w *graphWorld) end() {
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

// change writes to an input, and notes its new state.
func (w *graphWorld) change(in *graphInput, f func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := f()
	if err != nil {
		return err
	}
	now := whole{}
	for a := range in.mem.All() {
		now.put(a)
	}
	version := in.mem.ResourceVersion()
	in.states[version] = append(in.states[version], now)
	return nil
}

func (w *graphWorld) input(t *rapid.T) *graphInput {
	return w.ins[rapid.IntRange(0, len(w.ins)-1).Draw(t, "input")]
}

// write makes one change of an input.
func (w *graphWorld) write(t *rapid.T, in *graphInput) {
	a := newAtom(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"), rapid.IntRange(0, 6).Draw(t, "n"))
	action := rapid.SampledFrom([]string{"set", "set", "set", "recreate", "delete"}).Draw(t, "action")
	if action != "set" {
		w.change(in, func() error { return in.mem.Delete(lw.KeyOf(a)) })
	}
	if action != "delete" && w.change(in, func() error { _, err := in.mem.Update(a); return err }) != nil {
		w.change(in, func() error { _, err := in.mem.Create(a); return err })
	}
}

// Write makes some changes of one or several inputs.
func (w *graphWorld) Write(t *rapid.T) {
	w.tick()
	for range rapid.IntRange(1, 4).Draw(t, "writes") {
		w.write(t, w.input(t))
	}
}

// Relist makes changes of which an informer sees only the outcome.
func (w *graphWorld) Relist(t *rapid.T) {
	w.tick()
	in := w.input(t)
	if in.failing {
		t.Skip("it fails already")
	}
	in.mem.Fail(errors.New("away"))
	for range rapid.IntRange(2, 6).Draw(t, "writes") {
		w.write(t, in)
	}
	in.mem.Compact()
	in.mem.Fail(nil)
	w.tick()
	sleep(2 * time.Minute)
	w.seen["relist"]++
}

// Break ends watches, or makes the server fail until the next call.
func (w *graphWorld) Break(t *rapid.T) {
	w.tick()
	in := w.input(t)
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		in.mem.Disconnect()
	case 1:
		in.mem.Compact()
		in.mem.Disconnect()
	default:
		if in.failing = !in.failing; in.failing {
			in.mem.Fail(errors.New("away"))
		} else {
			in.mem.Fail(nil)
		}
	}
}

func (w *graphWorld) Sleep(t *rapid.T) {
	sleep(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
}

// Rewind restores a backup of a server. The informer learns of it before the server goes on.
func (w *graphWorld) Rewind(t *rapid.T) {
	in := w.input(t)
	if w.held || in.failing || rapid.IntRange(0, 3).Draw(t, "rewind") > 0 {
		t.Skip("not now")
	}
	sleep(10 * time.Minute)
	now := in.mem.ResourceVersion()
	to := fmt.Sprint(max(1, len(in.states)-rapid.IntRange(1, 3).Draw(t, "back")))
	epoch := in.inf.Status().Epoch
	w.mu.Lock()
	err := in.mem.Rewind(to)
	if err == nil && to != now {
		in.rewinds++
	}
	w.mu.Unlock()
	sleep(10 * time.Minute)
	if err == nil && to != now && in.inf.Status().Epoch == epoch {
		t.Fatalf("%s has not noticed the way back from %s to %s", in.name, now, to)
	}
	w.seen["rewind"]++
}

// Hold keeps the graph from its next step until the next call, so that one step takes much.
func (w *graphWorld) Hold(t *rapid.T) {
	if w.held = !w.held; w.held {
		w.gate <- struct{}{}
		w.seen["hold"]++
	} else {
		w.tick()
		<-w.gate
	}
}

// Flood makes more changes than a cursor keeps apart.
func (w *graphWorld) Flood(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "flood") > 0 {
		t.Skip("rarely")
	}
	in := w.input(t)
	w.tick()
	for i := range 2200 {
		w.change(in, func() error {
			a := newAtom([]string{"a", "b", "c"}[i%3], i%7)
			if _, err := in.mem.Update(a); err != nil {
				_, err = in.mem.Create(a)
				return err
			}
			return nil
		})
	}
	w.seen["flood"]++
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
					"sleep": w.Sleep, "rewind": w.Rewind, "hold": w.Hold, "flood": w.Flood, "add node": w.AddNode,
					"close": w.Close, "add member": w.AddMember, "remove member": w.RemoveMember,
					"add handler": w.AddHandler, "remove handler": w.RemoveHandler,
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
	for _, what := range []string{"relist", "rewind", "hold", "flood", "late node", "closed", "member", "rivals", "read", "told", "late handler"} {
		if seen[what] < 10 {
			t.Errorf("%s: only %d times", what, seen[what])
		}
	}
}

const (
	// graphRounds is how often rapid's number of checks is run, which is 100 where no flag says
	// otherwise.
	graphRounds  = 3
	enoughGraphs = 80
)

// settle waits until all is calm, and compares with a fresh graph.
func (w *graphWorld) settle(t *rapid.T) {
	if w.held {
		w.Hold(t)
	}
	for _, in := range w.ins {
		in.failing = false
		in.mem.Fail(nil)
	}
	sleep(10 * time.Minute)
	if err := w.g.WaitForSync(canceledContext()); err != nil {
		t.Fatal(err)
	}
	w.Check(t)
	for _, in := range w.ins {
		if got, want := w.g.Snapshot().ResourceVersion(in.inf), in.mem.ResourceVersion(); got != "" && got != want {
			t.Fatalf("the graph shows %s at %s, and the server is at %s", in.name, got, want)
		}
	}
	w.compareFresh(t)
}

func canceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// compareFresh compares all collections with those of a new graph, which has not seen how they came
// about.
func (w *graphWorld) compareFresh(t *rapid.T) {
	old := w.nodes
	conflicts := conflictsOf(w.g)
	g := w.newGraph()
	fresh := map[*graphNode]*graphNode{}
	var nodes []*graphNode
	for _, n := range old {
		if n.closed {
			continue
		}
		var ins []*graphSource
		for _, s := range n.ins {
			if !s.gone {
				ins = append(ins, &graphSource{input: s.input, node: fresh[s.node]})
			}
		}
		fresh[n] = w.build(g, n.name, n.op, n.kit, ins)
		nodes = append(nodes, n)
	}
	w.start(g)
	if err := g.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	for _, n := range nodes {
		mustBeWhole(t, "a fresh graph's "+n.name, wholeOf(n.d.Store()), wholeOf(fresh[n].d.Store()))
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
