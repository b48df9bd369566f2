package registry

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A Collector says what Kubernetes' garbage collector would write. Set and Remove bring it every
// object and what becomes of it; it asks nobody. Kinds that it does not know are left alone.
//
// An object whose owners are all gone is deleted. An owner that is deleted waits in the foreground
// for those that block it, or leaves its dependents without an owner first.
type Collector struct {
	kinds map[schema.GroupVersionKind]*Kind
	nodes map[types.UID]*node
	// queue are those about which something has changed since they were taken, in that order.
	queue []types.UID
}

// A node is an object, or an owner that is not here. It does not point to the object, which may be
// large.
type node struct {
	kind       *Kind // nil: it is not here
	key        types.NamespacedName
	uid        types.UID
	version    string
	deleted    bool // it has a deletionTimestamp
	finalizers []string
	owners     []metav1.OwnerReference

	dependents map[*node]bool // true: it blocks the owner
	blocking   int
	queued     bool
}

// A Step is one write of the garbage collector.
type Step struct {
	Kind    *Kind
	Request Request
}

func (s Step) String() string {
	return fmt.Sprintf("%s %s %s", s.Request.Verb, s.Kind.Plural, s.Request.Key)
}

// NewCollector returns a Collector of the objects of kinds, which has none yet.
func NewCollector(kinds ...*Kind) *Collector {
	c := &Collector{kinds: map[schema.GroupVersionKind]*Kind{}, nodes: map[types.UID]*node{}}
	for _, k := range kinds {
		c.kinds[k.gvk()] = k
	}
	return c
}

// A standing is what an owner is to its dependents.
type standing int

const (
	gone standing = iota
	solid
	waiting // it is deleted in the foreground
	leaving // it is deleted, and lets its dependents go first
)

func (n *node) standing() standing {
	switch {
	case n.kind == nil:
		return gone
	case n.deleted && slices.Contains(n.finalizers, metav1.FinalizerOrphanDependents):
		return leaving
	case n.deleted && slices.Contains(n.finalizers, metav1.FinalizerDeleteDependents):
		return waiting
	}
	return solid
}

// Set says how an object of a kind is now.
func (c *Collector) Set(k *Kind, m *metav1.ObjectMeta) {
	n := c.node(m.UID)
	before := n.standing()
	c.unlink(n)
	n.kind, n.key, n.version = k, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, m.ResourceVersion
	n.deleted, n.finalizers, n.owners = m.DeletionTimestamp != nil, m.Finalizers, m.OwnerReferences
	for _, ref := range n.owners {
		o := c.node(ref.UID)
		if o.dependents == nil {
			o.dependents = map[*node]bool{}
		}
		if o.dependents[n] { // of two references to one owner, either may block
			continue
		}
		if o.dependents[n] = blocks(ref) && c.knows(n, ref); o.dependents[n] {
			o.blocking++
		}
	}
	c.changed(n, before)
}

// Remove says that an object is gone.
func (c *Collector) Remove(uid types.UID) {
	if n := c.nodes[uid]; n != nil {
		before := n.standing()
		c.unlink(n)
		n.kind, n.finalizers, n.owners = nil, nil, nil
		c.changed(n, before)
		c.drop(n)
	}
}

func (c *Collector) node(uid types.UID) *node {
	n := c.nodes[uid]
	if n == nil {
		n = &node{uid: uid}
		c.nodes[uid] = n
	}
	return n
}

// drop forgets a node that is not here and that nobody refers to.
func (c *Collector) drop(n *node) {
	if n.kind == nil && len(n.dependents) == 0 {
		delete(c.nodes, n.uid)
	}
}

// unlink takes an object from its owners, of which one may be waiting for that.
func (c *Collector) unlink(n *node) {
	for _, ref := range n.owners {
		o := c.nodes[ref.UID]
		if o == nil {
			continue
		}
		if o.dependents[n] {
			o.blocking--
		}
		delete(o.dependents, n)
		if s := o.standing(); s == waiting || s == leaving {
			c.enqueue(o)
		}
		c.drop(o)
	}
}

// changed queues an object that may have something to do, and those for which it has become another
// owner.
func (c *Collector) changed(n *node, before standing) {
	c.enqueue(n)
	if n.standing() != before {
		for d := range n.dependents {
			c.enqueue(d)
		}
	}
	if n.standing() == waiting {
		for o := range c.waitedFor(n, n.owners...) { // it may have closed a cycle
			c.enqueue(o)
		}
	}
}

func (c *Collector) enqueue(n *node) {
	if s := n.standing(); !n.queued && s != gone && (len(n.owners) > 0 || s != solid) {
		n.queued = true
		c.queue = append(c.queue, n.uid)
	}
}

// Take returns the objects of which Step is to be asked. They are those that have changed since, or
// whose owners or dependents have.
func (c *Collector) Take() []types.UID {
	out := c.queue
	c.queue = nil
	for _, uid := range out {
		if n := c.nodes[uid]; n != nil {
			n.queued = false
		}
	}
	return out
}

// Again puts an object back that Take has returned. It reports whether there may be something to
// do.
func (c *Collector) Again(uid types.UID) bool {
	n := c.nodes[uid]
	if n != nil {
		c.enqueue(n)
	}
	return n != nil && n.queued
}

// Step returns the next write that an object calls for, if there is one. The caller must bring what
// comes of it to Set or Remove.
func (c *Collector) Step(uid types.UID) (step Step, ok bool) {
	n := c.nodes[uid]
	if n == nil || n.kind == nil {
		return Step{}, false
	}
	switch s := n.standing(); {
	case s == leaving && len(n.dependents) == 0:
		return n.finished(metav1.FinalizerOrphanDependents), true
	case s == waiting && n.blocking == 0:
		return n.finished(metav1.FinalizerDeleteDependents), true
	case len(n.owners) == 0 || n.deleted && s != waiting && !c.isLeft(n):
		return Step{}, false
	}
	return c.asDependent(n)
}

// isLeft reports whether an owner of an object lets it go.
func (c *Collector) isLeft(n *node) bool {
	return slices.ContainsFunc(n.owners, func(ref metav1.OwnerReference) bool { return c.owner(n, ref) == leaving })
}

// asDependent returns the next step of an object that has owners.
func (c *Collector) asDependent(n *node) (Step, bool) {
	var without []types.UID
	stay, wait := false, false
	for _, ref := range n.owners {
		switch c.owner(n, ref) {
		case solid:
			stay = true
			continue
		case leaving:
			stay = true
		case waiting:
			wait = true
		}
		without = append(without, ref.UID)
	}
	switch {
	case stay && len(without) == 0:
		return Step{}, false
	case stay:
		return n.without(without), true
	case n.deleted: // it waits for its own dependents
		return c.unblocking(n)
	}
	policy := metav1.DeletePropagationBackground
	switch {
	case wait && len(n.dependents) > 0, slices.Contains(n.finalizers, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	case slices.Contains(n.finalizers, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	}
	uid, version := n.uid, n.version // the node moves on while the write is made
	return Step{n.kind, Request{Verb: Delete, Key: n.key, Options: &metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	}}}, true
}

// unblocking returns the step after which an object that waits no longer blocks the owners that it
// waits for itself: they would wait for each other for ever.
func (c *Collector) unblocking(n *node) (Step, bool) {
	owners, changed := slices.Clone(n.owners), false
	for i, ref := range owners {
		for o := range c.waitedFor(n, ref) {
			if n.dependents[o] && blocks(owners[i]) {
				owners[i].BlockOwnerDeletion, changed = new(false), true
			}
		}
	}
	if !changed {
		return Step{}, false
	}
	return n.patch(map[string]any{"ownerReferences": owners}), true
}

// waitedFor returns the owners that wait for n, which has references to them, and the owners that
// wait for those.
func (c *Collector) waitedFor(n *node, refs ...metav1.OwnerReference) map[*node]bool {
	all := map[*node]bool{}
	for next := []*node(nil); ; n, next, refs = next[0], next[1:], next[0].owners {
		for _, ref := range refs {
			if o := c.nodes[ref.UID]; blocks(ref) && c.knows(n, ref) && !all[o] && o.standing() == waiting {
				all[o], next = true, append(next, o)
			}
		}
		if len(next) == 0 {
			return all
		}
	}
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// knows reports whether a reference of n can be to an owner that is here: not if nobody here knows
// its kind, or if it is in a namespace and n in none.
func (c *Collector) knows(n *node, ref metav1.OwnerReference) bool {
	k, known := c.kinds[schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)]
	return known && (k.Cluster || !n.kind.Cluster)
}

// owner returns what the owner is that a reference of n is to. One that c does not know is solid.
// One that leaves its dependents is known by its UID alone: it waits for all that name it.
func (c *Collector) owner(n *node, ref metav1.OwnerReference) standing {
	o := c.nodes[ref.UID]
	if o != nil && o.standing() == leaving {
		return leaving
	}
	if !c.knows(n, ref) {
		return solid
	}
	k := c.kinds[schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)]
	if o == nil || o.kind == nil || o.kind.Group != k.Group || o.kind.Kind != k.Kind || o.key.Name != ref.Name || !k.Cluster && o.key.Namespace != n.key.Namespace {
		return gone
	}
	return o.standing()
}

// patch returns a step that replaces members of the metadata of the object, as it is.
func (n *node) patch(members map[string]any) Step {
	members["uid"], members["resourceVersion"] = n.uid, n.version
	return Step{n.kind, Request{
		Verb: Patch, Key: n.key, ContentType: string(types.MergePatchType), UserAgent: "garbage-collector", Whole: true,
		Body: mustJSON(map[string]any{"metadata": members}),
	}}
}

// finished returns the step that takes a finalizer away.
func (n *node) finished(finalizer string) Step {
	return n.patch(map[string]any{"finalizers": slices.DeleteFunc(slices.Clone(n.finalizers), func(f string) bool { return f == finalizer })})
}

// without returns the step that takes owners away.
func (n *node) without(owners []types.UID) Step {
	return n.patch(map[string]any{"ownerReferences": slices.DeleteFunc(slices.Clone(n.owners), func(ref metav1.OwnerReference) bool {
		return slices.Contains(owners, ref.UID)
	})})
}
