package lw

import (
	"iter"

	"github.com/go-lw/lw/internal/arrange"
	"github.com/go-lw/lw/internal/equal"
)

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
// until the next use of list. A key function that panics this time did not when l was put: then the
// groups are asked, and nothing is set aside.
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
	seq(l.add)
	return equal.Distinct(l.keys)
}
