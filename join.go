package lw

import (
	"cmp"
	"iter"
	"slices"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/graph/arrange"
	"github.com/go-lw/lw/internal/graph/settle"
)

// On says which objects of two collections belong together: those that have a key in common and
// satisfy Where. A change costs what the objects cost that share a key with it. So keys should tell
// much apart: for a selector one of its pairs, for a pod all its labels. A key that is not equal to
// itself, such as a NaN, belongs to nothing, and a nil sequence has no keys. The functions must be
// pure, as [Derived] says.
type On[K comparable, L, R Identified] struct {
	Left  func(L) iter.Seq[K]
	Right func(R) iter.Seq[K]
	Where func(L, R) bool // nil: all that have a key in common belong together
}

// SingleKey adapts a function with a single key to [On].
func SingleKey[T any, K comparable](key func(T) K) func(T) iter.Seq[K] {
	return func(obj T) iter.Seq[K] {
		return func(yield func(K) bool) { yield(key(obj)) }
	}
}

// Join is the collection of f(l, r) for each pair of objects that belong together. A change costs
// one call for each pair with the object. Otherwise it is as [Derive].
func Join[K comparable, L, R, U Object](g *Graph, left Collection[L], right Collection[R], on On[K, L, R], f func(L, R) U, name ...string) *Derived[U] {
	on.validate("Join", f != nil)
	l, r := inputOf(g, left, "Join"), inputOf(g, right, "Join")
	return newDerived(g, nameOr[U]("Join", name), sameForReaders[U], func(shown func(Key) (U, bool), faults *faults) operator[U] {
		return &joinOperator[K, L, R, U]{
			Results: settle.NewResults(settle.Rules[pair, U]{
				Compare: comparePairs, Same: sameResult[U](faults), Shown: shown,
				Rivals: func(key Key, shown, rival pair, several bool) {
					faults.conflict(key, shown.String(), rival.String(), several)
				},
			}),
			sides: newSides[K, L, R, leftPairs[R], uint64](on, l, r, faults),
			f:     f,
		}
	})
}

// A pair is the keys of two objects that belong together.
type pair struct{ left, right Key }

func comparePairs(a, b pair) int {
	return cmp.Or(compareKeys(a.left, b.left), compareKeys(a.right, b.right))
}

func (p pair) String() string { return keyString(p.left) + " with " + keyString(p.right) }

type joinOperator[K comparable, L, R, U Identified] struct {
	*settle.Results[pair, U]
	*sides[K, L, R, leftPairs[R], uint64]
	f func(L, R) U
}

// leftPairs has the pairs of a left for which f was called, and the keys of their results: the zero
// Key if there is none. The State of a right is the last round that visited it.
type leftPairs[R Identified] map[*arrange.Entry[R, uint64]]Key

func (o *joinOperator[K, L, R, U]) run(whole bool) {
	// The lefts come first: a right then looks only at lefts that have not changed, whose pairs
	// share the keys that the right had.
	feed(o.left, whole, o.applyLeft)
	feed(o.right, whole, o.applyRight)
	o.eachDirty(o.renew)
}

func (o *joinOperator[K, L, R, U]) applyLeft(key Key, obj L) {
	if equal.IsZero(obj) {
		if l := o.removeLeft(key); l != nil {
			for r := range l.State.own {
				o.set(l, r, *new(U))
			}
		}
		return
	}
	if l := o.putLeft(key, obj); l != nil {
		o.touch(l)
	}
}

func (o *joinOperator[K, L, R, U]) applyRight(key Key, obj R) {
	r, was, now, ok := o.moveRight(key, obj)
	if !ok {
		return
	}
	o.eachReached(was, now, func(l *arrange.Entry[L, leftState[leftPairs[R]]], share bool) {
		switch {
		case l.State.dirty: // all its pairs are worked out at the end
		case share:
			o.match(l, r)
		default:
			o.set(l, r, *new(U))
		}
	})
}

// renew works out all pairs of l.
func (o *joinOperator[K, L, R, U]) renew(l *arrange.Entry[L, leftState[leftPairs[R]]]) {
	o.round++
	for _, k := range o.leftKeys(l, &o.now) {
		for _, r := range o.rights.Members(k) {
			if r.State != o.round {
				r.State = o.round
				o.match(l, r)
			}
		}
	}
	for r := range l.State.own {
		if r.State != o.round {
			o.set(l, r, *new(U))
		}
	}
}

// match works out the pair of l and r, which share a key.
func (o *joinOperator[K, L, R, U]) match(l *arrange.Entry[L, leftState[leftPairs[R]]], r *arrange.Entry[R, uint64]) {
	var result U
	at := fault{"function", l.Key, r.Key}
	ok := o.faults.try(at, func() {
		belong := true
		if o.on.Where != nil {
			o.faults.enter(functionWhere, l.Key)
			belong = o.on.Where(l.Object, r.Object)
			o.faults.enter(at.function, l.Key)
		}
		if belong {
			o.faults.computed.Add(1)
			result = identify(o.f(l.Object, r.Object))
		}
	})
	if ok && named(o.faults, at, result) {
		o.set(l, r, result)
	} else if _, tried := l.State.own[r]; !tried {
		l.State.own.note(r, Key{})
	}
}

// set makes obj the result of the pair of l and r. The zero U means that there is none.
func (o *joinOperator[K, L, R, U]) set(l *arrange.Entry[L, leftState[leftPairs[R]]], r *arrange.Entry[R, uint64], obj U) {
	p := pair{l.Key, r.Key}
	o.faults.clear(fault{"function", l.Key, r.Key})
	was, had := l.State.own[r]
	if equal.IsZero(obj) {
		if had {
			o.Drop(p, was)
			delete(l.State.own, r)
		}
		return
	}
	now := KeyOf(obj)
	if had && was != now {
		o.Drop(p, was)
	}
	if o.Put(p, now, obj) {
		o.faults.unchanged.Add(1)
	}
	l.State.own.note(r, now)
}

// note notes that the pair with r was tried, and has a result with key.
func (p *leftPairs[R]) note(r *arrange.Entry[R, uint64], key Key) {
	if *p == nil {
		*p = leftPairs[R]{}
	}
	(*p)[r] = key
}

// LeftJoin is the collection of f(l, rights) for each l of left. rights are the objects of right
// that belong to l, in the order of their keys, or none; f must not keep or change the slice. A
// change of l costs one call, and one of an r a call for each l that r belongs to or did. Otherwise
// it is as [Derive].
func LeftJoin[K comparable, L, R, U Object](g *Graph, left Collection[L], right Collection[R], on On[K, L, R], f func(L, []R) U, name ...string) *Derived[U] {
	on.validate("LeftJoin", f != nil)
	l, r := inputOf(g, left, "LeftJoin"), inputOf(g, right, "LeftJoin")
	return newDerived(g, nameOr[U]("LeftJoin", name), sameForReaders[U], func(shown func(Key) (U, bool), faults *faults) operator[U] {
		o := &leftJoinOperator[K, L, R, U]{
			byKey: newByKey(shown, faults),
			sides: newSides[K, L, R, leftRights[R], struct{}](on, l, r, faults),
			f:     f,
		}
		o.onLeft, o.onRight, o.onDirty = o.applyLeft, o.applyRight, o.compute
		return o
	})
}

type leftJoinOperator[K comparable, L, R, U Identified] struct {
	byKey[U]
	*sides[K, L, R, leftRights[R], struct{}]
	f func(L, []R) U
	// applyLeft, applyRight and compute, as fields so that they are allocated once.
	onLeft  func(Key, L)
	onRight func(Key, R)
	onDirty func(*arrange.Entry[L, leftState[leftRights[R]]])

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
	feed(o.left, whole, o.onLeft)
	feed(o.right, whole, o.onRight)
	o.eachDirty(o.onDirty)
}

func (o *leftJoinOperator[K, L, R, U]) applyLeft(key Key, obj L) {
	if equal.IsZero(obj) {
		o.removeLeft(key)
		o.clearFaults(key)
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
	o.eachReached(was, now, func(l *arrange.Entry[L, leftState[leftRights[R]]], share bool) { o.relate(l, r, share) })
}

// relate decides whether r, which has changed, belongs to l, and touches l if r does or did. share
// says whether they share a key.
func (o *leftJoinOperator[K, L, R, U]) relate(l *arrange.Entry[L, leftState[leftRights[R]]], r *arrange.Entry[R, struct{}], share bool) {
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
	case !belongs:
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
		o.clearFaults(l.Key)
		o.set(l.Key, result)
	}
}

// clearFaults notes that no function fails for the left of key.
func (o *leftJoinOperator[K, L, R, U]) clearFaults(key Key) {
	o.sides.faults.clear(fault{function: "function", key: key})
	o.sides.faults.clear(fault{function: functionWhere, key: key})
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

// validate panics if a function that must be there is nil. f says whether the join's function is.
func (on *On[K, L, R]) validate(operation string, f bool) {
	if on.Left == nil || on.Right == nil {
		panic("lw: " + operation + ": nil key function")
	}
	if !f {
		panic("lw: " + operation + ": nil function")
	}
}

// sides are the inputs of a join, arranged by their keys. A and B are what the join keeps beside
// each object.
type sides[K comparable, L, R Identified, A, B any] struct {
	on     On[K, L, R]
	left   input[L]
	right  input[R]
	faults *faults
	lefts  *arrange.Arrangement[K, L, leftState[A]]
	rights *arrange.Arrangement[K, R, B]

	dirty []*arrange.Entry[L, leftState[A]] // the lefts that this step works out at its end
	// round is the number of the present round, in which each entry is visited at most once.
	round uint64

	now, was keyList[K]
}

// leftState is what sides keeps beside a left.
type leftState[A any] struct {
	dirty bool   // it is in sides.dirty
	round uint64 // the last round that visited it
	own   A      // the join's
}

func newSides[K comparable, L, R Identified, A, B any](on On[K, L, R], left input[L], right input[R], faults *faults) *sides[K, L, R, A, B] {
	s := &sides[K, L, R, A, B]{
		on: on, left: left, right: right, faults: faults,
		lefts: arrange.New[K, L, leftState[A]](), rights: arrange.New[K, R, B](),
	}
	s.now.init()
	s.was.init()
	return s
}

func (s *sides[K, L, R, A, B]) inputs(yield func(anyInput) bool) {
	if yield(s.left) {
		yield(s.right)
	}
}

// touch has this step work l out at its end.
func (s *sides[K, L, R, A, B]) touch(l *arrange.Entry[L, leftState[A]]) {
	if !l.State.dirty {
		l.State.dirty = true
		s.dirty = append(s.dirty, l)
	}
}

// eachDirty calls work for each left that was touched in this step and is still there.
func (s *sides[K, L, R, A, B]) eachDirty(work func(*arrange.Entry[L, leftState[A]])) {
	for _, l := range s.dirty {
		l.State.dirty = false
		if s.lefts.Find(l.Key) == l {
			work(l)
		}
	}
	clear(s.dirty)
	s.dirty = s.dirty[:0]
}

// eachReached calls visit once for each left that has a key in common with a right that has
// changed: with share for those of now, the keys that the right has, and without for the others of
// was, the keys that it had.
func (s *sides[K, L, R, A, B]) eachReached(was, now []K, visit func(l *arrange.Entry[L, leftState[A]], share bool)) {
	s.round++
	for i, keys := range [2][]K{now, was} {
		for _, k := range keys {
			for _, l := range s.lefts.Members(k) {
				if l.State.round != s.round {
					l.State.round = s.round
					visit(l, i == 0)
				}
			}
		}
	}
}

// putLeft arranges a left that is new or has changed. It returns nil if a key function panicked:
// the left then stays as it was.
func (s *sides[K, L, R, A, B]) putLeft(key Key, obj L) (l *arrange.Entry[L, leftState[A]]) {
	at := fault{function: "Left", key: key}
	var now []K
	if !s.faults.try(at, func() { now = s.now.of(s.on.Left(obj)) }) {
		return nil
	}
	s.faults.clear(at)
	return s.lefts.Put(key, obj, now, func(l *arrange.Entry[L, leftState[A]]) []K { return s.leftKeys(l, &s.was) })
}

// removeLeft removes the left of key, and returns it; nil if there is none.
func (s *sides[K, L, R, A, B]) removeLeft(key Key) (l *arrange.Entry[L, leftState[A]]) {
	if l = s.lefts.Find(key); l != nil {
		s.lefts.Remove(l, s.leftKeys(l, &s.now))
	}
	s.faults.clear(fault{function: "Left", key: key})
	return l
}

// leftKeys returns the keys with which l was arranged, in list if that is possible. They are valid
// until the next use of list. If the key function panics now (it did not when l was added), the
// keys come from the groups, and nothing is set aside.
func (s *sides[K, L, R, A, B]) leftKeys(l *arrange.Entry[L, leftState[A]], list *keyList[K]) (keys []K) {
	if p := s.faults.attempt(fault{function: "Left", key: l.Key}, func() { keys = list.of(s.on.Left(l.Object)) }); p != nil {
		return s.lefts.ValuesOf(l)
	}
	return keys
}

// rightKeys is leftKeys for a right. Its list is s.was.
func (s *sides[K, L, R, A, B]) rightKeys(r *arrange.Entry[R, B]) (keys []K) {
	if p := s.faults.attempt(fault{function: "Right", key: r.Key}, func() { keys = s.was.of(s.on.Right(r.Object)) }); p != nil {
		return s.rights.ValuesOf(r)
	}
	return keys
}

// moveRight arranges a right that has changed, or removes it if obj is zero. It returns the keys
// that it has now, and those that it had. was is nil if they are the same. ok is false if a key
// function panicked, and the right stays as it was, or if there is nothing to remove.
func (s *sides[K, L, R, A, B]) moveRight(key Key, obj R) (r *arrange.Entry[R, B], was, now []K, ok bool) {
	r = s.rights.Find(key)
	at := fault{function: "Right", key: key}
	if equal.IsZero(obj) {
		if r != nil {
			was = s.rightKeys(r)
			s.rights.Remove(r, was)
		}
		s.faults.clear(at)
		return r, was, nil, r != nil
	}
	if !s.faults.try(at, func() { now = s.now.of(s.on.Right(obj)) }) {
		return r, nil, nil, false
	}
	s.faults.clear(at)
	r = s.rights.Put(key, obj, now, func(r *arrange.Entry[R, B]) []K {
		was = s.rightKeys(r)
		return was
	})
	return r, was, now, true
}

// A keyList collects what a key function yields, in memory that is used again.
type keyList[K comparable] struct {
	keys []K
	add  func(K) bool // a field so that it is allocated once
}

func (l *keyList[K]) init() {
	l.add = func(k K) bool {
		l.keys = append(l.keys, k)
		return true
	}
}

// of returns the distinct keys of seq. They are valid until the next call.
func (l *keyList[K]) of(seq iter.Seq[K]) []K {
	clear(l.keys)
	l.keys = l.keys[:0]
	orNone(seq)(l.add)
	return equal.Distinct(l.keys)
}
