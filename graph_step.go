package lw

import (
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/go-lw/lw/internal/graph/settle"
)

// A node is a [Derived] without the type of its objects. The goroutine of Run calls the methods of
// a step in the order in which they stand here.
type node interface {
	anyInput
	// takeLocked takes the inputs that the node has now, for this step. Called under Graph.mu.
	takeLocked()
	// begin has the node join in this step if all inputs that it needs have content.
	begin()
	// wantsContent reports whether the node needs the content of its inputs in this step.
	wantsContent() bool
	// compute works out what the inputs' changes make of the collection. A node that joins begins
	// with all content of its inputs.
	compute()
	// verify compares the collection with one that is computed from scratch.
	verify()
	// changed reports whether the commit of this step has anything to do for the node.
	changed() bool
	// prepare calls the functions of the collection's indexes. It takes no lock.
	prepare()
	// readyLocked and awaitLocked are those of table.Batch.
	readyLocked() bool
	awaitLocked()
	// writesLocked returns how many objects the commit changes, or a larger number if it takes long.
	writesLocked() int
	// keepLocked keeps the state before the commit for readers, until showLocked. Both are called
	// with gate.look held.
	keepLocked()
	// setVersionLocked sets the version that the store reports, and commitLocked its content. long
	// says that readers read meanwhile.
	setVersionLocked(version string)
	commitLocked(long bool)
	showLocked()
	// publishLocked appends the changes to the log, and fires the signals of Changed. Every read that
	// begins now shows them.
	publishLocked(version string)
	// finish wakes the handlers, and forgets the step.
	finish()

	// inputs calls yield for each input that the node has now, and held also for those that it has
	// no more, but still shows something of.
	inputs(yield func(anyInput) bool)
	held(yield func(anyInput) bool)
	stop()
	status() DerivedStatus
	object(key Key) (Identified, bool) // as readers see it
	snapshotLocked() any               // a *Snapshot[T]
}

// step takes what waits at the leaves, and shows what it makes of the collections.
func (g *Graph) step() {
	start := time.Now()
	g.calls.step(start)
	g.mu.Lock()
	nodes, leaves, waiters := g.sortedLocked(), g.leaves, g.waiters
	g.waiters = nil
	for _, n := range nodes {
		n.takeLocked()
	}
	g.mu.Unlock()

	for _, l := range leaves {
		l.begin()
	}
	for _, n := range nodes {
		n.begin()
	}
	// A node that joins needs the content of its inputs, as it is at the end of this step. It is
	// taken only when it is needed: after a snapshot, each write copies the chunk that it changes.
	whole := g.opts.Verify || slices.ContainsFunc(nodes, node.wantsContent)
	for _, l := range leaves {
		l.poll(whole)
	}
	for _, n := range nodes {
		n.compute()
	}
	if g.opts.Verify {
		for _, n := range nodes {
			n.verify()
		}
	}
	g.commit(nodes, leaves, start)
	g.calls.step(time.Time{})
	for _, n := range nodes {
		n.finish()
	}
	for _, l := range leaves {
		l.finish()
	}
	g.prune()
	for _, w := range waiters {
		close(w)
	}
	if g.afterStep != nil {
		g.afterStep()
	}
}

// commit shows the results of all nodes, and the versions of the leaves, at one point: see gate. No
// user code runs under a lock: the functions of indexes are called before.
func (g *Graph) commit(nodes []node, leaves []anyLeaf, start time.Time) {
	g.lockReady(nodes)
	defer g.gate.mu.Unlock()
	if !slices.ContainsFunc(nodes, node.changed) {
		g.gate.look.Lock()
		defer g.gate.look.Unlock()
		g.noteLocked(leaves, start)
		return
	}
	writes := 0
	for _, n := range nodes {
		writes += n.writesLocked()
	}
	long := writes > g.brief
	version := strconv.FormatUint(g.steps+1, 10)
	g.gate.look.Lock()
	if long {
		for _, n := range nodes {
			n.keepLocked()
		}
	} else {
		g.snapshot.Store(nil) // the channel of an index may be closed before the commit ends
	}
	g.gate.seq.Add(1)
	if long {
		g.gate.look.Unlock()
	}
	for _, n := range nodes {
		n.setVersionLocked(version)
	}
	for _, n := range nodes {
		n.commitLocked(long)
	}
	if long {
		if g.midCommit != nil {
			g.midCommit()
		}
		g.gate.look.Lock()
	} else if g.midBrief != nil {
		g.midBrief()
	}
	for _, n := range nodes {
		n.showLocked()
	}
	g.steps++
	g.snapshot.Store(nil)
	g.noteLocked(leaves, start)
	g.gate.seq.Add(1)
	g.gate.look.Unlock()
	// All reads show the step, so the step can be published to those who wait for it.
	for _, n := range nodes {
		n.publishLocked(version)
	}
}

// lockReady prepares the nodes, and locks gate.mu when all of them can be committed.
func (g *Graph) lockReady(nodes []node) {
	for {
		for _, n := range nodes {
			n.prepare()
		}
		g.gate.mu.Lock()
		busy := slices.IndexFunc(nodes, func(n node) bool { return !n.readyLocked() })
		if busy < 0 {
			return
		}
		// An index of this node is being built, or was built since prepare. Waiting for it releases
		// the lock, so all nodes have to be looked at again.
		nodes[busy].awaitLocked()
		g.gate.mu.Unlock()
	}
}

// noteLocked shows the versions of the leaves, and counts the step's time. The caller holds
// gate.look.
func (g *Graph) noteLocked(leaves []anyLeaf, start time.Time) {
	for _, l := range leaves {
		if version, ok := l.shown(); ok && g.vector[l.core()] != version {
			g.snapshot.Store(nil)
			g.vector[l.core()] = version
		}
	}
	g.busy += time.Since(start)
}

// armLeaves gets ready to be woken by the leaves.
func (g *Graph) armLeaves() {
	g.mu.Lock()
	leaves := g.leaves
	g.mu.Unlock()
	for _, l := range leaves {
		l.wait()
	}
}

// An input is a collection that a node reads in a step: one outside the graph, through a leaf, or
// another node. Its methods are called in the goroutine of Run, after the input's part of the step.
type input[T Identified] interface {
	anyInput
	// changes returns the net change of each object in this step. It returns nothing if the input
	// joins.
	changes() []settle.Change[T]
	// contents yields all objects, as they are at the end of this step. A leaf has them only in a
	// step in which a node wants them. A node that was closed has those of its last step.
	contents() iter.Seq[T]
}

// anyInput is an input without the type of its objects.
type anyInput interface {
	core() *hubCore
	// name returns its name in [GraphStatus].
	name() string
	// stage returns how far the input is.
	stage() stage
}

// A stage is how far an input of a step, or a node, is on its way into what the graph shows. It
// goes forward only, when a step begins and when it ends. Only the goroutine of Run knows it.
type stage int

const (
	waiting stage = iota // it has no content; a node has none until all inputs that it needs have
	joining              // this step is the first that has its content, and who reads it takes all of that
	joined               // who reads it takes what this step changes
)

// next returns the stage after a step.
func (s stage) next() stage {
	if s == joining {
		return joined
	}
	return s
}

// inputOf returns the input of g that reads c, and claims it until Graph.add has the node that will
// read it. operation is for the panic if c is nil.
func inputOf[T Identified](g *Graph, c Collection[T], operation string) input[T] {
	if isNil(c) {
		panic("lw: " + operation + ": nil collection")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	in := inputLocked(g, c)
	if l, ok := in.(anyLeaf); ok {
		l.claim(1)
	}
	return in
}

// inputLocked returns the input of g that reads c. It makes a leaf if c is not of g and has none
// yet.
func inputLocked[T Identified](g *Graph, c Collection[T]) input[T] {
	if d := c.derived(); d != nil && d.graph == g {
		return d
	}
	h := c.collection()
	if l, ok := g.leafOf[h.hubCore]; ok {
		return l.(*leaf[T])
	}
	l := &leaf[T]{graph: g, hub: h}
	l.label, l.number = g.names.Take(h.opts.Name)
	g.leaves, g.leafOf[h.hubCore] = append(g.leaves, l), l
	return l
}

// leafNames returns the name of each collection outside the graph that it reads.
func (g *Graph) leafNames() map[*hubCore]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := make(map[*hubCore]string, len(g.leaves))
	for _, l := range g.leaves {
		names[l.core()] = l.name()
	}
	return names
}

// A leaf reads a collection outside the graph: an informer's, or one of another graph. In each step
// it reads up to a cut, which is one point of the collection. It has a cursor as a handler has, so
// that it delays nobody, and what waits is bounded by the number of objects.
type leaf[T Identified] struct {
	graph  *Graph
	hub    *hub[T]
	label  string // the collection's name; with number if another leaf has that name
	number int
	claims int              // how many nodes are being made that will read it; guarded by Graph.mu
	sub    *subscription[T] // nil before the first step; written under Graph.mu
	now    stage
	ended  bool // the collection has stopped: nothing will come any more

	// What the step has read.
	net     settle.Net[T]
	version string       // of the collection, at the cut
	content *Snapshot[T] // at the cut; nil unless poll was asked for it
}

// anyLeaf is a leaf without the type of its objects. All methods but pending are called in the
// goroutine of Run.
type anyLeaf interface {
	anyInput
	// claim adds n to the number of nodes that are being made and will read the leaf, and returns
	// it. Called under Graph.mu.
	claim(n int) int
	// alike returns the collection's name, and the number of the leaf among those of that name.
	alike() (name string, number int)
	// begin has the leaf join in this step if the collection has content.
	begin()
	// poll reads what waits, up to the present point of the collection. whole says that the content
	// is wanted too.
	poll(whole bool)
	// shown returns the version up to which poll has read. ok is false if there is no content yet.
	shown() (version string, ok bool)
	// finish forgets what the step has read.
	finish()
	// wait has the goroutine of Run woken when there is more to read.
	wait()
	release()
	// pending returns the number of changes that wait.
	pending() int
}

func (l *leaf[T]) core() *hubCore { return l.hub.hubCore }
func (l *leaf[T]) name() string   { return l.label }
func (l *leaf[T]) stage() stage   { return l.now }

func (l *leaf[T]) alike() (name string, number int) { return l.hub.opts.Name, l.number }

func (l *leaf[T]) claim(n int) int {
	l.claims += n
	return l.claims
}

func (l *leaf[T]) begin() {
	if l.sub == nil {
		l.subscribe()
	}
	if l.now == waiting && isClosed(l.hub.synced) {
		// Who has waited for the sync relies on this step. The hub starts its subscriptions next.
		<-l.sub.started
		l.now = joining
	}
}

func (l *leaf[T]) poll(whole bool) {
	if l.now == waiting {
		return
	}
	// The first step takes the content at its cut instead.
	l.sub.snapshot = nil
	whole = whole || l.now == joining
	for {
		var position uint64
		if whole {
			at := l.hub.cut()
			position, l.version, l.content = at.position, at.snapshot.ResourceVersion(), at.snapshot
		} else {
			now := l.hub.point()
			position, l.version = now.position, now.version
		}
		// The appender may have folded changes from before and after the cut together. Then only a
		// newer cut has all that was read.
		if l.read(position) == position || l.ended {
			return
		}
	}
}

func (l *leaf[T]) subscribe() {
	sub := &subscription[T]{opts: cursorOptions{wake: l.graph.woken}}
	l.hub.subscribe(sub)
	l.graph.mu.Lock()
	l.sub = sub
	l.graph.mu.Unlock()
}

// read adds what waits up to position to net. It returns the position that it has reached, which is
// later if changes were folded.
func (l *leaf[T]) read(position uint64) (reached uint64) {
	for {
		part, delivered, err := l.sub.cursor.pollTo(position, true)
		for i := range part {
			if d := &part[i]; l.now == joined {
				l.net.Set(d.Key(), d.Old, d.New)
			}
		}
		if err != nil {
			l.ended = true
			return delivered
		}
		if delivered >= position {
			return delivered
		}
	}
}

func (l *leaf[T]) shown() (version string, ok bool) { return l.version, l.now != waiting }

func (l *leaf[T]) changes() []settle.Change[T] { return l.net.Changes() }

func (l *leaf[T]) contents() iter.Seq[T] { return l.content.All() }

func (l *leaf[T]) finish() {
	l.net.Reset()
	l.content = nil
	l.now = l.now.next()
}

func (l *leaf[T]) wait() {
	if l.now == waiting || l.ended {
		return
	}
	l.sub.cursor.wait()
	// The version of the collection may have moved during the step without a change of an object.
	// Then nothing waits at the cursor, and nobody was there to be woken.
	if l.hub.point().version != l.version {
		l.graph.wake()
	}
}

func (l *leaf[T]) release() {
	if l.sub != nil {
		l.hub.unsubscribe(l.sub)
	}
}

func (l *leaf[T]) pending() int {
	l.graph.mu.Lock()
	sub := l.sub
	l.graph.mu.Unlock()
	if sub == nil || !isClosed(sub.started) {
		return 0
	}
	return sub.cursor.pending()
}
