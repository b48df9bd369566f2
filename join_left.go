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
		o := &leftJoinOperator[K, L, R, U]{byKey: newByKey(shown, faults), sides: newSides[K, L, R, dirty, struct{}](on, l, r, faults), f: f}
		o.appliedLeft, o.appliedRight = o.applyLeft, o.applyRight
		return o
	})
}

type leftJoinOperator[K comparable, L, R, U Identified] struct {
	byKey[U]
	*sides[K, L, R, dirty, struct{}]
	f func(L, []R) U
	// applyLeft and applyRight, as fields so that they are allocated once.
	appliedLeft  func(Key, L)
	appliedRight func(Key, R)

	dirty  []*arrange.Entry[L, dirty] // the lefts whose results this step computes
	found  []*arrange.Entry[R, struct{}]
	rights []R
}

// dirty says that a left is in leftJoinOperator.dirty.
type dirty bool

func (o *leftJoinOperator[K, L, R, U]) run(whole bool) {
	// The lefts come first, so that a right sees the keys that they have now. A left that has
	// changed is computed in any case.
	feed(o.left, whole, o.appliedLeft)
	feed(o.right, whole, o.appliedRight)
	for _, l := range o.dirty {
		l.State = false
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
		o.set(key, *new(U))
		return
	}
	if l := o.putLeft(key, obj); l != nil {
		o.touch(l)
	}
}

func (o *leftJoinOperator[K, L, R, U]) touch(l *arrange.Entry[L, dirty]) {
	if !l.State {
		l.State = true
		o.dirty = append(o.dirty, l)
	}
}

func (o *leftJoinOperator[K, L, R, U]) applyRight(key Key, obj R) {
	var old R
	if r := o.sides.rights.Find(key); r != nil {
		old = r.Object
	}
	_, was, now, ok := o.moveRight(key, obj)
	if !ok {
		return
	}
	if was == nil { // the keys are the same, or the right is new
		o.touchAll(now, old, obj)
		return
	}
	o.touchAll(was, old, *new(R))
	o.touchAll(now, *new(R), obj)
}

// touchAll touches the lefts that share one of keys and that a or b belongs to. One of the two may
// be zero.
func (o *leftJoinOperator[K, L, R, U]) touchAll(keys []K, a, b R) {
	for _, k := range keys {
		for _, l := range o.lefts.Members(k) {
			if !bool(l.State) && (o.belongs(l, b) || o.belongs(l, a)) {
				o.touch(l)
			}
		}
	}
}

// belongs reports whether r, which shares a key with l, belongs to it. If Where panics and OnPanic
// is set, it returns true: compute then meets the panic, and reports it.
func (o *leftJoinOperator[K, L, R, U]) belongs(l *arrange.Entry[L, dirty], r R) (yes bool) {
	if equal.IsZero(r) {
		return false
	}
	if o.on.Where == nil {
		return true
	}
	if o.sides.faults.graph.opts.OnPanic != nil {
		defer func() {
			if recover() != nil {
				yes = true
			}
		}()
	}
	return o.on.Where(l.Object, r)
}

// compute makes the result of l.
func (o *leftJoinOperator[K, L, R, U]) compute(l *arrange.Entry[L, dirty]) {
	var result U
	faults := o.sides.faults
	ok := faults.try("function", l.Key, func() {
		o.find(l)
		faults.computed.Add(1)
		result = o.f(l.Object, o.rights)
	})
	clear(o.found)
	clear(o.rights)
	o.found, o.rights = o.found[:0], o.rights[:0]
	if ok && named(faults, l.Key, result) {
		faults.cured(l.Key)
		o.set(l.Key, result)
	}
}

// find sets rights to the rights that belong to l.
func (o *leftJoinOperator[K, L, R, U]) find(l *arrange.Entry[L, dirty]) {
	keys := o.leftKeys(l)
	for _, k := range keys {
		for _, r := range o.sides.rights.Sorted(k) {
			if o.on.Where == nil || o.on.Where(l.Object, r.Object) {
				o.found = append(o.found, r)
			}
		}
	}
	if len(keys) > 1 {
		slices.SortFunc(o.found, func(a, b *arrange.Entry[R, struct{}]) int { return compareKeys(a.Key, b.Key) })
		o.found = slices.Compact(o.found)
	}
	for _, r := range o.found {
		o.rights = append(o.rights, r.Object)
	}
}
