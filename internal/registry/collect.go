package registry

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Owned is a stored object, as the garbage collector sees it.
type Owned struct {
	Kind   *Kind
	Object *Object
}

// A Step is one write of the garbage collector.
type Step struct {
	Kind    *Kind
	Request Request
}

func (s Step) String() string {
	return fmt.Sprintf("%s %s %s", s.Request.Verb, s.Kind.Plural, s.Request.Key)
}

// Collect returns the first write of the garbage collector that the objects, which are all there are,
// call for. There is none if nothing is left to do. Kinds that are not known here are left alone.
//
// An object whose owners are all gone is deleted. An owner that is deleted waits in the foreground for
// those that block it, or leaves its dependents without an owner first.
func Collect(kinds []*Kind, all []Owned) (step Step, ok bool) {
	c := collector{kinds: kinds, byUID: map[types.UID]Owned{}, dependents: map[types.UID][]Owned{}}
	for _, o := range all {
		c.byUID[o.Object.Meta.UID] = o
		for _, ref := range o.Object.Meta.OwnerReferences {
			c.dependents[ref.UID] = append(c.dependents[ref.UID], o)
		}
	}
	for _, o := range all {
		if step, ok = c.asOwner(o); !ok {
			step, ok = c.asDependent(o)
		}
		if ok {
			return step, true
		}
	}
	return Step{}, false
}

type collector struct {
	kinds      []*Kind
	byUID      map[types.UID]Owned
	dependents map[types.UID][]Owned
}

func (o Owned) has(finalizer string) bool {
	return o.Object.Meta.DeletionTimestamp != nil && slices.Contains(o.Object.Meta.Finalizers, finalizer)
}

// asOwner returns the next step of an object that is deleted and has dependents, or had.
func (c *collector) asOwner(o Owned) (Step, bool) {
	uid := o.Object.Meta.UID
	switch {
	case o.has(metav1.FinalizerOrphanDependents):
		if d := c.dependents[uid]; len(d) > 0 {
			return d[0].without(uid), true
		}
		return o.finished(metav1.FinalizerOrphanDependents), true
	case o.has(metav1.FinalizerDeleteDependents):
		for _, d := range c.dependents[uid] {
			for _, ref := range d.Object.Meta.OwnerReferences {
				if ref.UID == uid && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
					return Step{}, false
				}
			}
		}
		return o.finished(metav1.FinalizerDeleteDependents), true
	}
	return Step{}, false
}

// asDependent returns the next step of an object that has owners.
func (c *collector) asDependent(o Owned) (Step, bool) {
	m := &o.Object.Meta
	if len(m.OwnerReferences) == 0 || m.DeletionTimestamp != nil && !o.has(metav1.FinalizerDeleteDependents) {
		return Step{}, false
	}
	var gone, waiting []types.UID
	for _, ref := range m.OwnerReferences {
		owner, there := c.owner(o, ref)
		switch {
		case !there:
			gone = append(gone, ref.UID)
		case owner.Object != nil && owner.has(metav1.FinalizerDeleteDependents):
			waiting = append(waiting, ref.UID)
		}
	}
	if none := append(gone, waiting...); len(none) < len(m.OwnerReferences) {
		if len(none) == 0 {
			return Step{}, false
		}
		return o.without(none...), true
	}
	if m.DeletionTimestamp != nil {
		return Step{}, false // it waits for its own dependents
	}
	policy := metav1.DeletePropagationBackground
	switch {
	case len(waiting) > 0 && len(c.dependents[m.UID]) > 0, slices.Contains(m.Finalizers, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	case slices.Contains(m.Finalizers, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	}
	uid, version := m.UID, m.ResourceVersion
	return Step{o.Kind, Request{Verb: Delete, Key: o.Object.Key(), Options: &metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	}}}, true
}

// owner returns the owner that a reference of o is to. It is there, without being known, if nobody here
// knows its kind.
func (c *collector) owner(o Owned, ref metav1.OwnerReference) (owner Owned, there bool) {
	owner, ok := c.byUID[ref.UID]
	if ok && owner.Kind.Kind == ref.Kind && owner.Object.Meta.Name == ref.Name && (owner.Kind.Cluster || owner.Object.Meta.Namespace == o.Object.Meta.Namespace) {
		return owner, true
	}
	known := slices.ContainsFunc(c.kinds, func(k *Kind) bool { return k.Kind == ref.Kind && k.GroupVersion().String() == ref.APIVersion })
	return Owned{}, !known
}

// patch returns a step that replaces members of the metadata of the object, as it is.
func (o Owned) patch(members map[string]any) Step {
	m := &o.Object.Meta
	members["uid"], members["resourceVersion"] = m.UID, m.ResourceVersion
	return Step{o.Kind, Request{
		Verb: Patch, Key: o.Object.Key(), ContentType: string(types.MergePatchType), UserAgent: "garbage-collector", Whole: true,
		Body: mustJSON(map[string]any{"metadata": members}),
	}}
}

// finished returns the step that takes a finalizer away.
func (o Owned) finished(finalizer string) Step {
	return o.patch(map[string]any{"finalizers": slices.DeleteFunc(slices.Clone(o.Object.Meta.Finalizers), func(f string) bool { return f == finalizer })})
}

// without returns the step that takes owners away.
func (o Owned) without(owners ...types.UID) Step {
	return o.patch(map[string]any{"ownerReferences": slices.DeleteFunc(slices.Clone(o.Object.Meta.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return slices.Contains(owners, ref.UID)
	})})
}
