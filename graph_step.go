package lw

import (
	"slices"
	"strconv"
	"time"
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
	// tellLocked appends the changes to the log, and fires the signals of Changed. Every read that
	// begins now shows them.
	tellLocked(version string)
	// finish wakes the handlers, and forgets the step.
	finish()

	// inputs calls yield for each input that the node has now, and held also for those that it has
	// no more, but still shows something of.
	inputs(yield func(anyInput) bool)
	held(yield func(anyInput) bool)
	stop()
	status() DerivedStatus
	snapshotLocked() any // a *Snapshot[T]
}

// step takes what waits at the leaves, and shows what it makes of the collections.
func (g *Graph) step() {
	start := time.Now()
	g.calls.step(start)
	g.mu.Lock()
	nodes, leaves, waiters := g.nodes, g.leaves, g.waiters
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
	for {
		for _, n := range nodes {
			n.prepare()
		}
		g.gate.mu.Lock()
		busy := slices.IndexFunc(nodes, func(n node) bool { return !n.readyLocked() })
		if busy < 0 {
			break
		}
		// An index of this node is being built, or was built since prepare. Waiting for it releases
		// the lock, so all nodes have to be looked at again.
		nodes[busy].awaitLocked()
		g.gate.mu.Unlock()
	}
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
	g.lastStep = time.Now()
	g.snapshot.Store(nil)
	g.noteLocked(leaves, start)
	g.gate.seq.Add(1)
	g.gate.look.Unlock()
	// All reads show the step. So those can be told who wait for that.
	for _, n := range nodes {
		n.tellLocked(version)
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
