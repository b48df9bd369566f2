package lw

import (
	"slices"

	"github.com/go-lw/lw/internal/arrange"
	"github.com/go-lw/lw/internal/equal"
)

// LeftJoin is the collection of f(l, rights) for each l of left. rights are the objects of right
// that belong to l, in the order of their keys; there may be none. f must not keep or change the
// slice. To look one object up, take rights[0]. f leaves l out by returning the zero U (nil).
//
// A change of l costs one call, and a change of an r one for each l that r belongs to or did. name
// is as for [Derive]. LeftJoin panics if a collection, a key function or f is nil.
func LeftJoin[K comparable, L, R, U Object](g *Graph, left Collection[L], right Collection[R], on On[K, L, R], f func(L, []R) U, name ...string) *Derived[U] {
	on.validate("LeftJoin", f != nil)
	l, r := inputOf(g, left, "LeftJoin"), inputOf(g, right, "LeftJoin")
	return newDerived(g, nameOr[U](name), sameForReaders[U], func(shown func(Key) (U, bool), faults *faults) operator[U] {
		o := &leftJoinOperator[K, L, R, U]{
			byKey: newByKey(shown, faults),
			sides: newSides[K, L, R, leftRights[R], struct{}](on, l, r, faults),
			f:     f,
		}
		o.appliedLeft, o.appliedRight, o.computed = o.applyLeft, o.applyRight, o.compute
		return o
	})
}

type leftJoinOperator[K comparable, L, R, U Identified] struct {
	byKey[U]
	*sides[K, L, R, leftRights[R], struct{}]
	f func(L, []R) U
	// applyLeft, applyRight and compute, as fields so that they are allocated once.
	appliedLeft  func(Key, L)
	appliedRight func(Key, R)
	computed     func(*arrange.Entry[L, leftState[leftRights[R]]])

	args []R
}

// leftRights is what a left join keeps beside a left.
type leftRights[R Identified] struct {
	// rights are those that belong to the left, in the order of their keys. So a change of one of
	// them costs nothing for all others that share a key.
	rights []*arrange.Entry[R, struct{}]
	renew  bool // rights has to be worked out anew
}

func (o *leftJoinOperator[K, L, R, U]) run(whole bool) {
	// The lefts come first. One that has changed looks for its rights at the end.
	feed(o.left, whole, o.appliedLeft)
	feed(o.right, whole, o.appliedRight)
	o.eachDirty(o.computed)
}

func (o *leftJoinOperator[K, L, R, U]) applyLeft(key Key, obj L) {
	if equal.IsZero(obj) {
		o.removeLeft(key)
		o.cured(key)
		o.set(key, *new(U))
		return
	}
	if l := o.putLeft(key, obj); l != nil {
		l.State.own.renew = true
		o.touch(l)
	}
}

func (o *leftJoinOperator[K, L, R, U]) applyRight(key Key, obj R) {
	r, was, now, ok := o.moveRight(key, obj)
	if !ok {
		return
	}
	o.eachReached(was, now, func(l *arrange.Entry[L, leftState[leftRights[R]]], share bool) { o.judge(l, r, share) })
}

// judge decides whether r, which has changed, belongs to l, and touches l if r does or did. share
// says whether they share a key.
func (o *leftJoinOperator[K, L, R, U]) judge(l *arrange.Entry[L, leftState[leftRights[R]]], r *arrange.Entry[R, struct{}], share bool) {
	if l.State.own.renew {
		o.touch(l)
		return
	}
	belongs := share
	if share && o.on.Where != nil {
		where := func() { belongs = o.on.Where(l.Object, r.Object) }
		if !o.sides.faults.try(fault{function: functionWhere, key: l.Key}, where) {
			l.State.own.renew = true // at the next change of l, or of an object that shares a key
			return
		}
	}
	rights := l.State.own.rights
	i, did := slices.BinarySearchFunc(rights, r.Key, func(e *arrange.Entry[R, struct{}], key Key) int { return compareKeys(e.Key, key) })
	switch {
	case !belongs && !did:
		return
	case belongs && !did:
		rights = slices.Insert(rights, i, r)
	case belongs:
		rights[i] = r // it may have gone and come back in one step
	default:
		rights = slices.Delete(rights, i, i+1)
	}
	l.State.own.rights = rights
	o.touch(l)
}

// compute makes the result of l.
func (o *leftJoinOperator[K, L, R, U]) compute(l *arrange.Entry[L, leftState[leftRights[R]]]) {
	var result U
	faults, at := o.sides.faults, fault{function: "function", key: l.Key}
	ok := faults.try(at, func() {
		if l.State.own.renew {
			l.State.own.rights = o.find(l)
			l.State.own.renew = false
			faults.enter(at.function, l.Key)
		}
		for _, r := range l.State.own.rights {
			o.args = append(o.args, r.Object)
		}
		faults.computed.Add(1)
		result = identify(o.f(l.Object, o.args))
	})
	clear(o.args)
	o.args = o.args[:0]
	if ok && named(faults, at, result) {
		o.cured(l.Key)
		o.set(l.Key, result)
	}
}

// cured notes that no function fails for the left of key.
func (o *leftJoinOperator[K, L, R, U]) cured(key Key) {
	o.sides.faults.cured(fault{function: "function", key: key})
	o.sides.faults.cured(fault{function: functionWhere, key: key})
}

// find returns the rights that belong to l, in the order of their keys.
func (o *leftJoinOperator[K, L, R, U]) find(l *arrange.Entry[L, leftState[leftRights[R]]]) []*arrange.Entry[R, struct{}] {
	found := l.State.own.rights[:0:0]
	keys := o.leftKeys(l, &o.now)
	o.sides.faults.enter(functionWhere, l.Key)
	for _, k := range keys {
		for _, r := range o.rights.Members(k) {
			if o.on.Where == nil || o.on.Where(l.Object, r.Object) {
				found = append(found, r)
			}
		}
	}
	slices.SortFunc(found, func(a, b *arrange.Entry[R, struct{}]) int { return compareKeys(a.Key, b.Key) })
	return slices.Clip(slices.Compact(found))
}
