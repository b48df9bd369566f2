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
	return newDerived(g, nameOr[U](name), sameResult[U](), func(shown func(Key) (U, bool), faults *faults) operator[U] {
		o := &leftJoinOperator[K, L, R, U]{byKey: newByKey(shown, faults), sides: newSides[K, L, R, leftState[R], struct{}](on, l, r, faults), f: f}
		o.appliedLeft, o.appliedRight = o.applyLeft, o.applyRight
		return o
	})
}

type leftJoinOperator[K comparable, L, R, U Identified] struct {
	byKey[U]
	*sides[K, L, R, leftState[R], struct{}]
	f func(L, []R) U
	// applyLeft and applyRight, as fields so that they are allocated once.
	appliedLeft  func(Key, L)
	appliedRight func(Key, R)

	dirty []*arrange.Entry[L, leftState[R]] // the lefts whose results this step computes
	round uint64                            // the number of the present change of a right
	args  []R
}

// leftState is what a left join keeps beside a left.
type leftState[R Identified] struct {
	// rights are those that belong to the left, in the order of their keys. So a change of one of
	// them costs nothing for all others that share a key.
	rights []*arrange.Entry[R, struct{}]
	dirty  bool   // it is in leftJoinOperator.dirty
	renew  bool   // rights has to be worked out anew
	round  uint64 // the last change of a right that looked at it
}

func (o *leftJoinOperator[K, L, R, U]) run(whole bool) {
	// The lefts come first. One that has changed looks for its rights at the end.
	feed(o.left, whole, o.appliedLeft)
	feed(o.right, whole, o.appliedRight)
	for _, l := range o.dirty {
		l.State.dirty = false
		if o.lefts.Find(l.Key) == l {
			o.compute(l)
		}
	}
	clear(o.dirty)
	o.dirty = o.dirty[:0]
}

func (o *leftJoinOperator[K, L, R, U]) applyLeft(key Key, obj L) {
	if equal.IsZero(obj) {
		o.removeLeft(key)
		o.cured(key)
		o.set(key, *new(U))
		return
	}
	if l := o.putLeft(key, obj); l != nil {
		l.State.renew = true
		o.touch(l)
	}
}

// touch has this step compute the result of l.
func (o *leftJoinOperator[K, L, R, U]) touch(l *arrange.Entry[L, leftState[R]]) {
	if !l.State.dirty {
		l.State.dirty = true
		o.dirty = append(o.dirty, l)
	}
}

func (o *leftJoinOperator[K, L, R, U]) applyRight(key Key, obj R) {
	r, was, now, ok := o.moveRight(key, obj)
	if !ok {
		return
	}
	o.round++
	for _, k := range now {
		for _, l := range o.lefts.Members(k) {
			if l.State.round != o.round {
				l.State.round = o.round
				o.judge(l, r, true)
			}
		}
	}
	for _, k := range was {
		for _, l := range o.lefts.Members(k) {
			if l.State.round != o.round {
				l.State.round = o.round
				o.judge(l, r, false)
			}
		}
	}
}

// judge decides whether r, which has changed, belongs to l, and touches l if r does or did. share
// says whether they share a key.
func (o *leftJoinOperator[K, L, R, U]) judge(l *arrange.Entry[L, leftState[R]], r *arrange.Entry[R, struct{}], share bool) {
	if l.State.renew {
		o.touch(l)
		return
	}
	belongs := share
	if share && o.on.Where != nil {
		where := func() { belongs = o.on.Where(l.Object, r.Object) }
		if !o.sides.faults.try(fault{function: "Where", key: l.Key}, where) {
			l.State.renew = true // at the next change of l, or of an object that shares a key
			return
		}
	}
	rights := l.State.rights
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
	l.State.rights = rights
	o.touch(l)
}

// compute makes the result of l.
func (o *leftJoinOperator[K, L, R, U]) compute(l *arrange.Entry[L, leftState[R]]) {
	var result U
	faults, at := o.sides.faults, fault{function: "function", key: l.Key}
	ok := faults.try(at, func() {
		if l.State.renew {
			l.State.rights = o.find(l)
			l.State.renew = false
		}
		for _, r := range l.State.rights {
			o.args = append(o.args, r.Object)
		}
		faults.computed.Add(1)
		result = o.f(l.Object, o.args)
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
	o.sides.faults.cured(fault{function: "Where", key: key})
}

// find returns the rights that belong to l, in the order of their keys.
func (o *leftJoinOperator[K, L, R, U]) find(l *arrange.Entry[L, leftState[R]]) []*arrange.Entry[R, struct{}] {
	found := l.State.rights[:0:0]
	for _, k := range o.leftKeys(l) {
		for _, r := range o.rights.Members(k) {
			if o.on.Where == nil || o.on.Where(l.Object, r.Object) {
				found = append(found, r)
			}
		}
	}
	slices.SortFunc(found, func(a, b *arrange.Entry[R, struct{}]) int { return compareKeys(a.Key, b.Key) })
	return slices.Clip(slices.Compact(found))
}
