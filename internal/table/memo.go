package table

import (
	"slices"
	"sync/atomic"

	"github.com/go-lw/lw/internal/equal"
)

// A Memo keeps what the functions of a store's indexes have returned for one object, so that the
// object need not be whole when it is written, or written again. It is safe for concurrent use.
type Memo struct{ noted atomic.Pointer[noted] }

// noted is the content of a Memo. It never changes.
type noted struct {
	by     *int  // the store's identity; the store itself would live as long as the object
	values []any // what the first indexes have returned from valuesOf
}

// of returns what index i of the store has returned.
func (m *Memo) of(by *int, i int) (values any, ok bool) {
	if n := m.noted.Load(); n != nil && n.by == by && i < len(n.values) {
		return n.values[i], true
	}
	return nil, false
}

// add keeps what index i has returned, unless the index before it is not noted, or is another
// store's.
func (m *Memo) add(by *int, i int, values any) {
	was := m.noted.Load()
	var all []any
	if was != nil {
		if was.by != by {
			return
		}
		all = was.values
	}
	if i == len(all) {
		m.noted.CompareAndSwap(was, &noted{by, append(slices.Clip(all), values)})
	}
}

// UseMemos has memo tell the Memo of an object; nil: it has none. It is called before the store is
// used.
func (s *Store[T]) UseMemos(memo func(T) *Memo) { s.memoOf, s.identity = memo, new(int) }

// Note calls the functions of the indexes for obj, if it has a Memo that lacks their values. The
// caller is about to write obj, and holds no lock. A function that panics is called again when obj is
// written.
func (s *Store[T]) Note(obj T) {
	m := s.memo(obj)
	if m == nil {
		return
	}
	defer func() { _ = recover() }()
	for i, ix := range *s.indexes.Load() {
		if _, ok := m.of(s.identity, i); !ok {
			m.add(s.identity, i, ix.valuesOf(obj))
		}
	}
}

// memo returns the Memo of obj; nil: it has none.
func (s *Store[T]) memo(obj T) *Memo {
	if s.memoOf == nil || equal.IsZero(obj) {
		return nil
	}
	return s.memoOf(obj)
}

// compute is d.compute of the draft of index i, which needs no call of the user's function if the
// values are in the Memo of obj.
func (s *Store[T]) compute(d draft[T], i int, obj T) {
	if m := s.memo(obj); m != nil {
		if values, ok := m.of(s.identity, i); ok {
			d.recall(values)
			return
		}
	}
	d.compute(obj)
}

// computeNew is compute of the draft of ix, which is going to be index i.
func (s *Store[T]) computeNew(d draft[T], ix index[T], i int, obj T) {
	m := s.memo(obj)
	if m == nil {
		d.compute(obj)
		return
	}
	values := ix.valuesOf(obj)
	m.add(s.identity, i, values)
	d.recall(values)
}
