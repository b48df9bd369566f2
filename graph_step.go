package lw

import (
	"slices"
	"strconv"
	"time"
)

// A node is a [Derived] without the type of its objects. The goroutine of Run calls the methods of
// a step in the order in which they stand here.
type node interface {
	core() *hubCore
	// compute works out what the inputs' changes make of the collection. A node joins in the first
	// step in which all its inputs have content: it then begins with all of that.
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
	// setVersionLocked sets the version that the store reports. All nodes have it before the first
	// one commits: a read then has to wait for the commit's end, since no store has a snapshot of
	// before at hand.
	setVersionLocked(version string)
	commitLocked(version string)
	// finish wakes the handlers, and forgets the step.
	finish()

	// wantsContent reports, when a step has begun, whether the node needs the content of its inputs
	// in it.
	wantsContent() bool
	inputs(yield func(anyInput) bool)
	stop()
	status() DerivedStatus
	snapshotLocked() any // a *Snapshot[T]
	// unsynced calls yield for each collection outside the graph that the node depends on and that
	// has not synced.
	unsynced(yield func(*hubCore) bool) bool
}

// step takes what waits at the leaves, and shows what it makes of the collections.
func (g *Graph) step() {
	start := time.Now()
	g.life.Lock()
	todo, waiters := g.todo, g.waiters
	g.todo, g.waiters = nil, nil
	g.life.Unlock()
	for _, f := range todo {
		f()
	}
	g.life.Lock()
	nodes, leaves := g.nodes, g.leaves
	g.life.Unlock()

	for _, l := range leaves {
		l.begin()
	}
	// A node that joins needs the content of its inputs, as it is at the end of this step. It is
	// not asked for in vain: the writes after a snapshot copy what they change.
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

// commit shows the results of all nodes, and the versions of the leaves, at one point. No user code
// runs under the lock: the functions of indexes are called before.
func (g *Graph) commit(nodes []node, leaves []anyLeaf, start time.Time) {
	for {
		for _, n := range nodes {
			n.prepare()
		}
		g.gate.mu.Lock()
		busy := slices.IndexFunc(nodes, func(n node) bool { return !n.readyLocked() })
		if busy < 0 {
			break
		}
		// An index is being added, or was added since. The lock is released: so the others have to
		// be looked at again.
		nodes[busy].awaitLocked()
		g.gate.mu.Unlock()
	}
	defer g.gate.mu.Unlock()
	if slices.ContainsFunc(nodes, node.changed) {
		g.snapshot.Store(nil)
		g.gate.beginLocked()
		g.steps++
		version := g.versions.text(g.steps)
		for _, n := range nodes {
			n.setVersionLocked(version)
		}
		for _, n := range nodes {
			n.commitLocked(version)
		}
		g.gate.endLocked()
		g.lastStep = time.Now()
	}
	for _, l := range leaves {
		if version, ok := l.shown(); ok && g.vector[l.core()] != version {
			g.snapshot.Store(nil)
			g.vector[l.core()] = version
		}
	}
	g.busy += time.Since(start)
}

// versionTexts makes the texts of rising numbers. It makes many at a time, in one string, because a
// graph whose changes come one by one needs a new one for each.
type versionTexts struct {
	texts [64]string
	left  int // the last so many of texts were not used yet
}

// text returns the text of n, which is one more than that of the call before.
func (v *versionTexts) text(n uint64) string {
	if v.left == 0 {
		var all []byte
		var ends [len(v.texts)]int
		for i := range ends {
			all = strconv.AppendUint(all, n+uint64(i), 10)
			ends[i] = len(all)
		}
		from, joined := 0, string(all)
		for i, end := range ends {
			v.texts[i] = joined[from:end]
			from = end
		}
		v.left = len(v.texts)
	}
	v.left--
	return v.texts[len(v.texts)-1-v.left]
}

// park gets ready to be woken by the leaves.
func (g *Graph) park() {
	g.life.Lock()
	leaves := g.leaves
	g.life.Unlock()
	for _, l := range leaves {
		l.wait()
	}
}

// prune leaves the collections that no node reads any more.
func (g *Graph) prune() {
	var unused []anyLeaf
	g.life.Lock()
	if slices.ContainsFunc(g.leaves, unusedLeaf) {
		g.leaves = slices.Clone(g.leaves)
		g.leaves = slices.DeleteFunc(g.leaves, func(l anyLeaf) bool {
			if !unusedLeaf(l) {
				return false
			}
			unused = append(unused, l)
			return true
		})
	}
	g.life.Unlock()
	for _, l := range unused {
		l.release()
		g.gate.mu.Lock()
		delete(g.vector, l.core())
		g.snapshot.Store(nil)
		g.gate.mu.Unlock()
	}
}

// unusedLeaf reports whether no node reads l. The caller holds life.
func unusedLeaf(l anyLeaf) bool { return l.use(0) == 0 }

// add adds n, whose inputs are in the graph already. If one of them was closed, or if the graph has
// stopped, n is stopped as well.
func (g *Graph) add(n node) {
	g.life.Lock()
	over := g.phase == ended
	for in := range n.inputs {
		if before, ok := in.(node); ok && !slices.Contains(g.nodes, before) {
			over = true
		}
	}
	if over {
		for in := range n.inputs {
			in.use(-1)
		}
		g.life.Unlock()
		n.stop()
		return
	}
	g.nodes = append(slices.Clip(g.nodes), n)
	if g.phase == started {
		n.core().start()
	}
	g.life.Unlock()
	g.poke()
}

// remove takes n, and all nodes that depend on it, out of the graph.
func (g *Graph) remove(n node) {
	g.life.Lock()
	var gone, left []node
	for _, other := range g.nodes {
		if other.core() == n.core() || g.dependsLocked(other, n.core()) {
			gone = append(gone, other)
			for in := range other.inputs {
				in.use(-1)
			}
		} else {
			left = append(left, other)
		}
	}
	g.nodes = left
	g.life.Unlock()
	for _, n := range gone {
		n.stop()
	}
	g.gate.mu.Lock()
	g.snapshot.Store(nil) // it keeps the content of what has gone
	g.gate.mu.Unlock()
	g.poke() // to leave the inputs that nobody reads any more
}

// dependsLocked reports whether n reads the collection of core, or one that depends on it.
func (g *Graph) dependsLocked(n node, core *hubCore) bool {
	for in := range n.inputs {
		if in.core() == core {
			return true
		}
		if between, ok := in.(node); ok && g.dependsLocked(between, core) {
			return true
		}
	}
	return false
}

// sortLocked puts each node after those that it reads, and changes the order no more than that
// takes.
func (g *Graph) sortLocked() {
	sorted := make([]node, 0, len(g.nodes))
	var visit func(n node)
	visit = func(n node) {
		if slices.Contains(sorted, n) {
			return
		}
		for in := range n.inputs {
			if before, ok := in.(node); ok && slices.Contains(g.nodes, before) {
				visit(before)
			}
		}
		sorted = append(sorted, n)
	}
	for _, n := range g.nodes {
		visit(n)
	}
	g.nodes = sorted
}
