// Package order keeps items in the order of their paths, in such a way that a copy of all costs
// next to nothing: package serve takes one for each list that it answers.
//
// A [List] is a slice of chunks of at most 256 items. A copy shares the chunks. A list that is
// changed after it was copied first copies the chunk that the change falls in. 10,000 items are read
// in 11 µs, by google/btree in 136. A copy with a write takes 12 µs, there 26.
package order

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// chunkSize is how many items a chunk may have. A full chunk is split into two halves.
const chunkSize = 256

// A List is items in the order of their paths, which are compared byte by byte. The zero value is
// empty and ready for use. A List is not safe for concurrent use, but its copies are independent of
// each other: each may be used by another goroutine.
type List[V any] struct {
	chunks []*chunk[V] // none is empty
	size   int
	// owner marks the chunks that belong to this list alone. It is nil if the slice of chunks is
	// shared with a copy, as are then all chunks.
	owner *owner
}

type chunk[V any] struct {
	owner *owner
	items []item[V]
}

type item[V any] struct {
	path  string
	value V
}

// An owner is a mark that is compared by its address, so it must not be of size zero.
type owner struct{ _ byte }

// Len returns the number of items.
func (l *List[V]) Len() int { return l.size }

// Copy returns a list with the same items. It takes the same short time however long the list is.
// The first change of either list after it copies a pointer for every 256 items.
func (l *List[V]) Copy() List[V] {
	l.owner = nil
	return List[V]{chunks: l.chunks, size: l.size}
}

// Get returns the value at path.
func (l *List[V]) Get(path string) (value V, ok bool) {
	if c := l.chunkOf(path); c < len(l.chunks) {
		if i, ok := l.chunks[c].find(path); ok {
			return l.chunks[c].items[i].value, true
		}
	}
	return value, false
}

// Set sets the value at path, and returns the one that was there before.
func (l *List[V]) Set(path string, value V) (old V, existed bool) {
	if len(l.chunks) == 0 {
		l.own()
		l.chunks = append(l.chunks, &chunk[V]{owner: l.owner, items: []item[V]{{path, value}}})
		l.size++
		return old, false
	}
	at := min(l.chunkOf(path), len(l.chunks)-1)
	c := l.ownChunk(at)
	i, existed := c.find(path)
	if existed {
		old, c.items[i].value = c.items[i].value, value
		return old, true
	}
	l.size++
	if len(c.items) == chunkSize {
		// Objects often come in the order of their paths. Then the last chunk stays full, and the
		// next one begins empty.
		half := chunkSize / 2
		if at == len(l.chunks)-1 && i == chunkSize {
			half = chunkSize
		}
		next := &chunk[V]{owner: l.owner, items: slices.Clone(c.items[half:])}
		clear(c.items[half:])
		c.items = c.items[:half]
		l.chunks = slices.Insert(l.chunks, at+1, next)
		if i >= half {
			c, i = next, i-half
		}
	}
	c.items = slices.Insert(c.items, i, item[V]{path, value})
	return old, false
}

// Delete removes the item at path, and returns its value.
func (l *List[V]) Delete(path string) (old V, existed bool) {
	at := l.chunkOf(path)
	if at == len(l.chunks) {
		return old, false
	}
	i, existed := l.chunks[at].find(path)
	if !existed {
		return old, false
	}
	c := l.ownChunk(at)
	old = c.items[i].value
	l.size--
	c.items = slices.Delete(c.items, i, i+1)
	if len(c.items) == 0 {
		l.chunks = slices.Delete(l.chunks, at, at+1)
	} else if at+1 < len(l.chunks) && len(c.items)+len(l.chunks[at+1].items) <= chunkSize/2 {
		// Without this a list that shrinks would keep its chunks, with an item in each.
		c.items = append(c.items, l.chunks[at+1].items...)
		l.chunks = slices.Delete(l.chunks, at+1, at+2)
	}
	return old, true
}

// From yields the items whose paths are not before start, in order. The list must not be changed
// meanwhile: changes are for a copy.
func (l *List[V]) From(start string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		at := l.chunkOf(start)
		if at == len(l.chunks) {
			return
		}
		i, _ := l.chunks[at].find(start)
		for _, c := range l.chunks[at:] {
			for _, item := range c.items[i:] {
				if !yield(item.path, item.value) {
					return
				}
			}
			i = 0
		}
	}
}

// Count returns the number of items in [from, to). An empty to means the end.
func (l *List[V]) Count(from, to string) int {
	if to == "" {
		return l.size - l.rank(from)
	}
	return max(0, l.rank(to)-l.rank(from))
}

// rank returns the number of items before path.
func (l *List[V]) rank(path string) (n int) {
	at := l.chunkOf(path)
	for _, c := range l.chunks[:at] {
		n += len(c.items)
	}
	if at < len(l.chunks) {
		i, _ := l.chunks[at].find(path)
		n += i
	}
	return n
}

// chunkOf returns the index of the first chunk whose last path is not before path.
func (l *List[V]) chunkOf(path string) int {
	return sort.Search(len(l.chunks), func(i int) bool {
		items := l.chunks[i].items
		return items[len(items)-1].path >= path
	})
}

func (c *chunk[V]) find(path string) (int, bool) {
	return slices.BinarySearchFunc(c.items, path, func(i item[V], path string) int { return strings.Compare(i.path, path) })
}

// own makes the slice of chunks the list's own.
func (l *List[V]) own() {
	if l.owner == nil {
		l.owner = &owner{}
		l.chunks = slices.Clone(l.chunks)
	}
}

// ownChunk returns the chunk at an index after it has made it the list's own.
func (l *List[V]) ownChunk(at int) *chunk[V] {
	l.own()
	c := l.chunks[at]
	if c.owner != l.owner {
		items := make([]item[V], len(c.items), min(chunkSize, len(c.items)+len(c.items)/4+4))
		copy(items, c.items)
		c = &chunk[V]{owner: l.owner, items: items}
		l.chunks[at] = c
	}
	return c
}
