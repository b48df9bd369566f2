package lw

import (
	"cmp"
	"iter"

	"github.com/go-lw/lw/internal/table"
)

// A SortedIndex has the objects of a collection in the order of a value that they have, and those of
// one value in the order of namespace and name. Where a page or a range begins is found in O(log n),
// which is also what a change of an object costs. Otherwise it is as [Index].
type SortedIndex[K cmp.Ordered, T Identified] struct {
	order *table.Order[K, T]
	gate  *gate              // that of the Indexer; may be nil
	in    *table.Snapshot[T] // the state that In was given; nil: the present one
}

// NewSortedIndex returns an index of x by the value that value returns for an object; for a time
// that is its UnixNano. x may run, and value is called, as for [NewIndex]. It panics if value is nil.
func NewSortedIndex[K cmp.Ordered, T Object](x Indexed[T], value func(T) K) *SortedIndex[K, T] {
	if value == nil {
		panic("lw: NewSortedIndex: nil function")
	}
	indexer, order := x.indexer(), table.NewOrder(KeyOf[T], value)
	indexer.store.Add(order)
	return &SortedIndex[K, T]{order: order, gate: indexer.gate}
}

// At returns the index of the state of s, for reads that must agree, such as a page and Len. If s is
// older than the index, each of them sorts the objects of s.
func (ix *SortedIndex[K, T]) At(s *Snapshot[T]) *SortedIndex[K, T] {
	return &SortedIndex[K, T]{order: ix.order, in: s.content}
}

// ordered returns the objects of the state. It is not written with read, whose function would
// allocate.
func (ix *SortedIndex[K, T]) ordered() table.Ordered[K, T] {
	switch {
	case ix.in != nil:
		return ix.order.In(ix.in)
	case ix.gate == nil:
		return ix.order.Ordered()
	}
	if seq := ix.gate.seq.Load(); seq%2 == 0 {
		if all := ix.order.Ordered(); ix.gate.seq.Load() == seq {
			return all
		}
	}
	ix.gate.look.Lock()
	defer ix.gate.look.Unlock()
	return ix.order.Ordered()
}

// Len returns the number of objects.
func (ix *SortedIndex[K, T]) Len() int { return ix.ordered().Len() }

// Before returns the number of objects whose value is less than value.
func (ix *SortedIndex[K, T]) Before(value K) int { return ix.ordered().Place(value) }

// Up yields n objects from the lowest value on, or fewer, without the first skip, as they were when
// the loop began. No lock is held in its body.
func (ix *SortedIndex[K, T]) Up(skip, n int) iter.Seq[T] {
	return func(yield func(T) bool) {
		s := ix.ordered()
		from, to := page(skip, n, s.Len())
		s.Up(from, to)(yield)
	}
}

// Down is like Up from the highest value on: Down(0, 10) is the top ten.
func (ix *SortedIndex[K, T]) Down(skip, n int) iter.Seq[T] {
	return func(yield func(T) bool) {
		s := ix.ordered()
		from, to := page(skip, n, s.Len())
		s.Down(s.Len()-to, s.Len()-from)(yield)
	}
}

// page returns the places of n objects after skip of all; there are none if to is not above from. No
// sum overflows, whatever skip and n are.
func page(skip, n, all int) (from, to int) {
	from = max(skip, 0)
	return from, from + min(max(n, 0), all-from)
}

// Between is like Up for the objects whose values are at least from and less than to.
func (ix *SortedIndex[K, T]) Between(from, to K) iter.Seq[T] {
	return func(yield func(T) bool) {
		s := ix.ordered()
		s.Up(s.Place(from), s.Place(to))(yield)
	}
}
