package table

import (
	"iter"

	"github.com/go-lw/lw/internal/equal"
)

// chunkSize is the number of values in a chunk, and so how many are copied at most for one write
// after a View: 2 KiB of pointers.
const chunkSize = 256

// A Vector is a list of values that can be viewed at any time at the same small cost, whatever its
// length. It is copied on write: values are in chunks, the root is a slice of pointers to chunks,
// and a [View] shares both with the Vector. The zero value of T is a hole, which views skip.
//
// A writer must not change what a View can show. The Vector counts eras for this: each View ends
// one. A chunk has the era in which it was made. If that is the present era no View has seen the
// chunk, and the writer changes it in place. If it is an earlier one the writer first copies the
// chunk, and the copy is of the present era. The root has an era as well (rootEra).
//
// So taking a View copies nothing, the first write to a chunk after a View copies that chunk once,
// and further writes to it copy nothing until the next View. It does not matter whether the View is
// still in use: to know that, readers would have to write.
//
// A Vector may be used by one goroutine at a time. A View may be used by any number, also while its
// Vector is changed.
type Vector[T any] struct {
	chunks []*chunk[T]
	n      int
	live   int // values that are not holes

	// reserved is the length that the Vector is known to grow to; see Reserve.
	reserved int
	// era is the number of views and forks so far. A chunk that was made in an earlier era may be
	// shared. rootEra is the era in which the slice chunks was made.
	era, rootEra uint64
}

// A chunk is up to chunkSize values; only the last chunk of a Vector has fewer. Appending to the
// last chunk changes vals, so a chunk is copied for that too if a View shares it.
type chunk[T any] struct {
	era  uint64 // only the Vector reads it, so a View needs no lock
	vals []T
}

// Len returns the number of values and holes.
func (v *Vector[T]) Len() int { return v.n }

// Live returns the number of values.
func (v *Vector[T]) Live() int { return v.live }

// At returns the value at i.
func (v *Vector[T]) At(i int) T { return v.chunks[i/chunkSize].vals[i%chunkSize] }

// Set changes the value at i.
func (v *Vector[T]) Set(i int, val T) {
	slot := &v.own(i / chunkSize).vals[i%chunkSize]
	v.live += one(val) - one(*slot)
	*slot = val
}

// one returns what a value adds to live: 1, or 0 for a hole.
func one[T any](val T) int {
	if equal.IsZero(val) {
		return 0
	}
	return 1
}

// Reserve announces that n values are going to be added. Append then gives the last chunk exactly
// the room that they need.
func (v *Vector[T]) Reserve(n int) { v.reserved = v.n + n }

// Append adds a value at the end.
func (v *Vector[T]) Append(val T) {
	last := v.n / chunkSize
	if last == len(v.chunks) {
		v.ownRoot()
		v.chunks = append(v.chunks, &chunk[T]{era: v.era})
	}
	c := v.own(last)
	if len(c.vals) == cap(c.vals) {
		room := chunkSize
		switch {
		case v.n < v.reserved:
			room = len(c.vals) + v.reserved - v.n
		case last == 0:
			// A small vector has only this chunk, which grows by doubling: most groups of an index
			// are far smaller than a chunk.
			room = max(1, 2*len(c.vals))
		}
		c.vals = append(make([]T, 0, min(room, chunkSize)), c.vals...)
	}
	c.vals = append(c.vals, val)
	v.n++
	v.live += one(val)
}

// Pop removes the last value.
func (v *Vector[T]) Pop() {
	v.n--
	v.live -= one(v.At(v.n))
	i := v.n / chunkSize
	if v.n%chunkSize == 0 {
		v.ownRoot()
		v.chunks[i] = nil
		v.chunks = v.chunks[:i]
		return
	}
	c := v.own(i)
	last := len(c.vals) - 1
	clear(c.vals[last:])
	c.vals = c.vals[:last]
	if i == 0 && cap(c.vals) >= 8 && cap(c.vals) >= 4*last {
		c.vals = append(make([]T, 0, 2*last), c.vals...)
	}
}

// own returns chunk i for changing it. If a View may show the chunk, own replaces it by a copy.
func (v *Vector[T]) own(i int) *chunk[T] {
	c := v.chunks[i]
	if c.era == v.era {
		return c
	}
	v.ownRoot()
	c = &chunk[T]{era: v.era, vals: append(make([]T, 0, cap(c.vals)), c.vals...)}
	v.chunks[i] = c
	return c
}

// ownRoot copies the slice of chunks if a View may share it. The copy has room for one more chunk.
func (v *Vector[T]) ownRoot() {
	if v.rootEra != v.era {
		v.chunks = append(make([]*chunk[T], 0, len(v.chunks)+1), v.chunks...)
		v.rootEra = v.era
	}
}

// View returns the values as they are now. It begins a new era: all chunks are shared from here on.
func (v *Vector[T]) View() View[T] {
	v.era++
	return View[T]{chunks: v.chunks, n: v.n, live: v.live}
}

// Fork returns a Vector of the same values. Both may be viewed, but only one of them may be changed
// from then on. A Replace changes the fork while readers take views of the original.
func (v *Vector[T]) Fork() Vector[T] {
	v.era++
	return Vector[T]{chunks: v.chunks, n: v.n, live: v.live, era: v.era, rootEra: v.rootEra}
}

// A View is the content of a [Vector] at one moment. It never changes, and reading it takes no
// lock.
type View[T any] struct {
	chunks  []*chunk[T]
	n, live int
}

// Live returns the number of values.
func (v View[T]) Live() int { return v.live }

// At returns the value at i, or the zero value if i is beyond the end.
func (v View[T]) At(i int) (val T) {
	if i < v.n {
		val = v.chunks[i/chunkSize].vals[i%chunkSize]
	}
	return val
}

// All yields the values. See [Snapshot.All].
func (v View[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, c := range v.chunks {
			for _, val := range c.vals {
				if !equal.IsZero(val) && !yield(val) {
					return
				}
			}
		}
	}
}

// AppendTo appends the values to dst and returns the extended slice.
func (v View[T]) AppendTo(dst []T) []T {
	for _, c := range v.chunks {
		if v.live == v.n { // without holes, a chunk is copied as a whole
			dst = append(dst, c.vals...)
			continue
		}
		for _, val := range c.vals {
			if !equal.IsZero(val) {
				dst = append(dst, val)
			}
		}
	}
	return dst
}
