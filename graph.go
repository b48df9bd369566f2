package lw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/go-lw/lw/internal/table"
	"github.com/go-lw/lw/internal/why/names"
)

// A Graph keeps derived collections in step with the informers that they are derived from.
// [Derive], [DeriveMany], [Join], [LeftJoin], [GroupBy], [GroupAll] and [NewUnion] add a collection
// to it.
//
// All collections of a graph show one state: every read is what the functions make of one state of
// each informer, and never of an older one than a read before it. A graph works in steps, in the
// goroutine of [Graph.Run]: it takes what waits at every informer, as one net change for each
// object, calls the functions for what changed, and shows all results at one point. A slow graph
// delays no informer. A collection of another graph may be an input too, but reads of both may be
// of different states.
type Graph struct {
	opts  GraphOptions  // with the defaults; Logger is in OnError
	gate  gate          // its mu is the lock of all hubs of the graph
	woken chan struct{} // has room for one token: there is something to do
	done  chan struct{} // closed when Run stops
	// handlers counts the goroutines of handlers, and the collections that are being closed.
	handlers sync.WaitGroup

	// mu guards the fields below, and which members a union has: together they say which
	// collections there are, and what each reads. A step takes all of that once, when it begins. So
	// what comes or goes meanwhile is for the next step, and counts for everybody else at once.
	//
	// mu comes before the locks of hubs, and no callback runs under it. The slices are appended to
	// or replaced, and what is in them never changed, so that a step can use them without it.
	mu      sync.Mutex
	phase   lifecycle
	nodes   []node // each comes after those that it reads, unless unsorted is set
	has     map[node]bool
	leaves  []anyLeaf // one for each collection outside the graph that a node reads
	leafOf  map[*hubCore]anyLeaf
	names   names.Set       // of leaves
	shrunk  bool            // a node has gone, or reads less: perhaps nobody reads a leaf any more
	waiters []chan struct{} // closed at the end of the next step that begins
	// unsorted says that a union may stand before a member that was added to it. Sorting at each Add
	// would cost as much as there are members.
	unsorted bool
	visits   int // how often an input was looked at for what depends on it; for tests

	// Guarded by gate.look.
	steps    uint64                        // that have changed a collection
	busy     time.Duration                 // of all steps
	vector   map[*hubCore]string           // the version of each leaf that is shown
	snapshot atomic.Pointer[GraphSnapshot] // the present state, if somebody has asked for it; set under gate.look

	calls calls // of functions, by the goroutine of Run

	brief int // the most changes of a commit that reads wait for

	afterStep, midCommit, midBrief func() // for tests
}

var _ Runner = (*Graph)(nil)

// GraphOptions are the settings of a [Graph]. Nil and the zero value of each field mean the
// default.
type GraphOptions struct {
	Name   string       // in errors and logs, and on the Board; default: "graph"
	Board  *Board       // where the graph is listed while it runs; default: nowhere
	Logger *slog.Logger // gets, at level Warn, what OnError would if that is nil; default: slog.Default()
	// OnError is called once for each new conflict of keys, each result that has no name, and each
	// difference that Verify finds, with an *[Error], in the goroutine of Run. Default: see Logger.
	OnError func(err error)
	// OnPanic is called when a function of a collection panics, in the goroutine of Run, or one of
	// a handler. What the object has made stays as it was until its next version. An index leaves
	// out what it panics at. Default: the panic crashes the program.
	OnPanic func(p *Panic)
	Verify  bool // for tests: each step computes every collection anew, and OnError gets what differs
}

// NewGraph returns a graph, which does nothing until [Graph.Run].
func NewGraph(opts *GraphOptions) *Graph {
	g := &Graph{brief: table.Brief, woken: make(chan struct{}, 1), done: make(chan struct{}), has: map[node]bool{}, leafOf: map[*hubCore]anyLeaf{}, vector: map[*hubCore]string{}}
	if opts != nil {
		g.opts = *opts
	}
	if g.opts.Name == "" {
		g.opts.Name = "graph"
	}
	if g.opts.OnError == nil {
		g.opts.OnError = graphLog(cmp.Or(g.opts.Logger, slog.Default()), g.opts.Name)
	}
	return g
}

// Run keeps the graph in step until ctx is done, and then returns nil. It does not run the
// informers. When it returns, all its goroutines are gone, no function or handler is running and
// none will start. It returns [ErrStarted] at once if called again.
func (g *Graph) Run(ctx context.Context) error {
	if !g.start() {
		return ErrStarted
	}
	defer g.opts.Board.addGraph(g.opts.Name, g.Status, g.object)()
	g.calls.goroutine.Store(goroutineNumber())
	for ctx.Err() == nil {
		g.step()
		g.armLeaves()
		select {
		case <-g.woken:
		case <-ctx.Done():
		}
	}
	g.end()
	return nil
}

// start starts the handlers of the collections. It returns false, and does nothing, unless it is
// the first call.
func (g *Graph) start() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase != notStarted {
		return false
	}
	g.phase = started
	for _, n := range g.nodes {
		n.core().start()
	}
	return true
}

// end stops all collections and leaves the informers.
func (g *Graph) end() {
	g.mu.Lock()
	g.phase = ended
	nodes, leaves := g.nodes, g.leaves
	close(g.done)
	g.mu.Unlock()
	for _, n := range nodes {
		n.stop()
	}
	g.handlers.Wait()
	for _, l := range leaves {
		l.release()
	}
}

// wake has the goroutine of Run make a step.
func (g *Graph) wake() {
	select {
	case g.woken <- struct{}{}:
	default: // there is a token already
	}
}

// WaitForSync waits until each collection that the graph has now has synced, as
// [Derived.WaitForSync] does, but for none that cannot sync any more. Give ctx a deadline.
func (g *Graph) WaitForSync(ctx context.Context) error {
	g.mu.Lock()
	nodes := g.nodes
	g.mu.Unlock()
	var errs []error
	for _, n := range nodes {
		if err := n.core().waitForSync(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// WaitForResourceVersion waits until the collections of the graph show what is derived from of as
// it was at version or later, and until those that depend on of have synced. So after a write every
// read of them shows it. It is an error if the graph does not read of. Otherwise it is as
// [Informer.WaitForResourceVersion].
func (g *Graph) WaitForResourceVersion(ctx context.Context, of AnyInformer, version string) error {
	core := coreOf(of)
	if core == nil {
		return fmt.Errorf("lw: %s: cannot wait for resource version %s of a %T, which is no Informer", g.opts.Name, version, of)
	}
	g.mu.Lock()
	dependents := g.behindLocked(core)
	g.mu.Unlock()
	if len(dependents) == 0 {
		return fmt.Errorf("lw: %s: cannot wait for resource version %s of %s: no collection of the graph is derived from it",
			g.opts.Name, version, core.opts.Name)
	}
	if err := g.calls.cannotWait(); err != nil {
		return g.unreached(core, version, err)
	}
	for _, n := range dependents {
		if err := n.core().waitForSync(ctx); err != nil {
			return g.unreached(core, version, err)
		}
	}
	if err := of.WaitForResourceVersion(ctx, version); err != nil {
		return err
	}
	// The informer's store has the version, so a step that begins now takes it.
	next := g.nextStep()
	select {
	case <-next:
	case <-g.done:
		return g.unreached(core, version, ErrStopped)
	case <-ctx.Done():
		return g.unreached(core, version, context.Cause(ctx))
	}
	g.gate.look.Lock()
	shown := g.vector[core]
	g.gate.look.Unlock()
	if c, err := resourceversion.CompareResourceVersion(shown, version); err == nil && c < 0 {
		return g.unreached(core, version, ErrRewound) // since the informer had it
	}
	return nil
}

// WaitForStep waits until the collections show what is derived from all that their inputs show now,
// also from own writes ([Informer.Tell]). The error is the cause of ctx, or [ErrStopped].
func (g *Graph) WaitForStep(ctx context.Context) error {
	err := g.calls.cannotWait()
	if err == nil {
		select {
		case <-g.nextStep():
			return nil
		case <-g.done:
			err = ErrStopped
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return fmt.Errorf("lw: %s: waiting for a step%s: %w", g.opts.Name, g.calls.text(), err)
}

func (g *Graph) unreached(of *hubCore, version string, cause error) error {
	return fmt.Errorf("lw: %s: waiting for resource version %s of %s%s: %w", g.opts.Name, version, of.opts.Name, g.calls.text(), cause)
}

// running reports whether Run has been called.
func (g *Graph) running() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.phase != notStarted
}

// nextStep returns a channel that is closed at the end of the next step that has not begun yet.
func (g *Graph) nextStep() <-chan struct{} {
	next := make(chan struct{})
	g.mu.Lock()
	g.waiters = append(g.waiters, next)
	g.mu.Unlock()
	g.wake()
	return next
}

// Which collections a graph has, and what they read, changes in the functions below and in those of
// [Union], under mu. What depends on what, and which leaves are read, is worked out from the inputs
// of the nodes that are there, whenever somebody asks. So nothing is counted twice, whatever comes
// together. A leaf that is about to get a reader is claimed meanwhile.

// hasLocked reports whether n is in the graph.
func (g *Graph) hasLocked(n node) bool { return g.has[n] }

// add adds n, whose inputs are in the graph already. If one of them was closed, or if the graph has
// stopped, n is stopped as well.
func (g *Graph) add(n node) {
	g.mu.Lock()
	over := g.phase == ended
	for in := range n.inputs {
		switch in := in.(type) {
		case node:
			over = over || !g.hasLocked(in)
		case anyLeaf:
			in.claim(-1)
		}
	}
	if over {
		g.shrunk = true
	} else {
		g.nodes, g.has[n] = append(g.nodes, n), true
		if g.phase == started {
			n.core().start()
		}
	}
	g.mu.Unlock()
	if over {
		n.stop()
	}
	g.wake()
}

// remove takes n, and all nodes that depend on it, out of the graph. It returns the names of these.
func (g *Graph) remove(n node) (behind []string) {
	g.mu.Lock()
	if !g.hasLocked(n) {
		g.mu.Unlock()
		return nil
	}
	gone := []node{n}
	for _, other := range g.behindLocked(n.core()) {
		gone, behind = append(gone, other), append(behind, other.name())
	}
	for _, n := range gone {
		delete(g.has, n)
	}
	g.nodes = slices.DeleteFunc(slices.Clone(g.nodes), func(n node) bool { return !g.has[n] })
	g.shrunk = true
	if g.phase == started {
		g.handlers.Add(1)
		defer g.handlers.Done()
	}
	g.mu.Unlock()
	for _, n := range gone {
		n.stop()
	}
	g.gate.look.Lock()
	g.snapshot.Store(nil) // it keeps the content of what has gone
	g.gate.look.Unlock()
	g.wake() // to leave the inputs that nobody reads any more
	return behind
}

// behindLocked returns the nodes that depend on the collection of core, in their order. It looks at
// each input of each node once, however many ways lead from one collection to another.
func (g *Graph) behindLocked(core *hubCore) (behind []node) {
	reached := map[*hubCore]bool{core: true}
	for _, n := range g.sortedLocked() { // each comes after those that it reads
		for in := range n.inputs {
			g.visits++
			if reached[in.core()] {
				reached[n.core()] = true
				behind = append(behind, n)
				break
			}
		}
	}
	return behind
}

// readBy returns all that nodes read, and what these read in turn. It looks at each input once.
func (g *Graph) readBy(nodes []node, inputs func(n node, yield func(anyInput) bool)) map[anyInput]bool {
	read := map[anyInput]bool{}
	for look := slices.Clone(nodes); len(look) > 0; {
		n := look[len(look)-1]
		look = look[:len(look)-1]
		inputs(n, func(in anyInput) bool {
			g.visits++
			if before, ok := in.(node); ok && !read[in] {
				look = append(look, before)
			}
			read[in] = true
			return true
		})
	}
	return read
}

// sortedLocked returns the nodes, each after those that it reads, and changes the order no more
// than that takes.
func (g *Graph) sortedLocked() []node {
	if !g.unsorted {
		return g.nodes
	}
	g.unsorted = false
	sorted := make([]node, 0, len(g.nodes))
	placed := make(map[anyInput]bool, len(g.nodes)) // false: not yet; only the nodes are in it
	for _, n := range g.nodes {
		placed[n] = false
	}
	var visit func(n node)
	visit = func(n node) {
		placed[n] = true
		for in := range n.inputs {
			g.visits++
			if done, ok := placed[in]; ok && !done {
				visit(in.(node))
			}
		}
		sorted = append(sorted, n)
	}
	for _, n := range g.nodes {
		if !placed[n] {
			visit(n)
		}
	}
	g.nodes = sorted
	return sorted
}

// prune leaves the collections that no node reads any more. Only the goroutine of Run calls it,
// between two steps.
func (g *Graph) prune() {
	var unused []anyLeaf
	g.mu.Lock()
	if g.shrunk {
		g.shrunk = false
		// A union may show objects of a member that was closed, and so of what that has read.
		read := g.readBy(g.nodes, node.held)
		g.leaves = slices.DeleteFunc(slices.Clone(g.leaves), func(l anyLeaf) bool {
			if read[l] || l.claim(0) > 0 {
				return false
			}
			unused = append(unused, l)
			delete(g.leafOf, l.core())
			g.names.Release(l.alike())
			return true
		})
	}
	g.mu.Unlock()
	for _, l := range unused {
		l.release()
		g.gate.look.Lock()
		delete(g.vector, l.core())
		g.snapshot.Store(nil)
		g.gate.look.Unlock()
	}
}

// graphLog returns the default of GraphOptions.OnError for the graph called name. It logs each
// error at level Warn.
func graphLog(logger *slog.Logger, name string) func(err error) {
	return func(err error) {
		graph := slog.String("graph", name)
		e, ok := errors.AsType[*Error](err)
		if !ok {
			logger.Warn(err.Error(), graph, slog.Any("error", err))
			return
		}
		collection := slog.String("collection", strings.TrimPrefix(e.Informer, name+"/"))
		warn(logger, e, e.Informer, " failed", []slog.Attr{graph, collection}, nil)
	}
}
