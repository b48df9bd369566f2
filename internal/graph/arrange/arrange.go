// Package arrange keeps the objects of a collection by the keys that they are joined or grouped by.
package arrange

import (
	"cmp"
	"hash/maphash"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Key names an object within its collection.
type Key = types.NamespacedName

// Compare orders keys by namespace, then by name.
func Compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// An Arrangement has objects in groups: an object is in the group of each of its values. S is what
// the user of the arrangement keeps beside an object. One goroutine at a time uses it.
//
// An object is kept once, in an [Entry], and the groups have pointers to entries. So a new version
// of an object whose values are the same costs one assignment, whatever the size of its groups.
// The values themselves are not kept: they would often take more memory than the object. A hash of
// them says whether they have changed, and if they have, the caller computes the old ones again.
type Arrangement[K comparable, T, S any] struct {
	seed    maphash.Seed
	entries map[Key]*Entry[T, S]
	groups  map[K]*group[T, S]
	moves   uint64 // the last mark of a group
}

// An Entry is an object of an arrangement.
type Entry[T, S any] struct {
	State  S
	Key    Key
	Object T
	values uint64 // the hash of its values
}

// A group is the objects of one value. Those before sorted are in the order of their keys, the
// others came later. A group is sorted when somebody asks for its order.
type group[T, S any] struct {
	members []*Entry[T, S]
	sorted  int
	mark    uint64 // see move
}

// New returns an empty arrangement.
func New[K comparable, T, S any]() *Arrangement[K, T, S] {
	return &Arrangement[K, T, S]{
		seed: maphash.MakeSeed(), entries: map[Key]*Entry[T, S]{}, groups: map[K]*group[T, S]{},
	}
}

// Find returns the entry of key, or nil.
func (a *Arrangement[K, T, S]) Find(key Key) *Entry[T, S] { return a.entries[key] }

// Put stores obj, whose distinct values are now. If it has other values than the object before, Put
// calls before for those of that object, which is still in the entry.
func (a *Arrangement[K, T, S]) Put(key Key, obj T, now []K, before func(e *Entry[T, S]) []K) *Entry[T, S] {
	hash := a.hash(now)
	e := a.entries[key]
	if e == nil {
		e = &Entry[T, S]{Key: key, Object: obj, values: hash}
		a.entries[key] = e
		for _, v := range now {
			a.join(v, e)
		}
		return e
	}
	if e.values != hash {
		a.move(e, before(e), now)
		e.values = hash
	}
	e.Object = obj
	return e
}

// move takes e, which is in the groups of old, to those of now. The groups that it is in before and
// after are marked, instead of searching one list for each value of the other: an object may have
// thousands of values.
func (a *Arrangement[K, T, S]) move(e *Entry[T, S], old, now []K) {
	a.moves += 2
	was, stays := a.moves-1, a.moves
	for _, v := range old {
		if g := a.groups[v]; g != nil {
			g.mark = was
		}
	}
	for _, v := range now {
		if g := a.groups[v]; g != nil && g.mark == was {
			g.mark = stays
		} else {
			a.join(v, e)
		}
	}
	for _, v := range old {
		if g := a.groups[v]; g != nil && g.mark == was {
			a.leave(v, e)
		}
	}
}

// Remove removes e, whose values are given.
func (a *Arrangement[K, T, S]) Remove(e *Entry[T, S], values []K) {
	delete(a.entries, e.Key)
	for _, v := range values {
		a.leave(v, e)
	}
}

// Members returns the entries in the group of v, in no order. They must not be changed, and are
// valid until the next Put or Remove.
func (a *Arrangement[K, T, S]) Members(v K) []*Entry[T, S] {
	if g := a.groups[v]; g != nil {
		return g.members
	}
	return nil
}

// Sorted is like Members, in the order of the keys.
func (a *Arrangement[K, T, S]) Sorted(v K) []*Entry[T, S] {
	g := a.groups[v]
	if g == nil {
		return nil
	}
	g.sort()
	return g.members
}

// ValuesOf returns the values of e. It looks through all groups: it is for an object whose values
// cannot be computed again.
func (a *Arrangement[K, T, S]) ValuesOf(e *Entry[T, S]) (values []K) {
	for v, g := range a.groups {
		if g.index(e) >= 0 {
			values = append(values, v)
		}
	}
	return values
}

// hash returns a hash of values, which are distinct. Their order does not count: that of labels,
// which come from a map, is another one each time.
func (a *Arrangement[K, T, S]) hash(values []K) uint64 {
	h := uint64(len(values))
	for _, v := range values {
		h += maphash.Comparable(a.seed, v)
	}
	return h
}

func (a *Arrangement[K, T, S]) join(v K, e *Entry[T, S]) {
	g := a.groups[v]
	if g == nil {
		g = &group[T, S]{}
		a.groups[v] = g
	}
	if n := len(g.members); g.sorted == n && (n == 0 || Compare(g.members[n-1].Key, e.Key) < 0) {
		g.sorted++
	}
	g.members = append(g.members, e)
}

func (a *Arrangement[K, T, S]) leave(v K, e *Entry[T, S]) {
	g := a.groups[v]
	if g == nil {
		return
	}
	i := g.index(e)
	switch {
	case i < 0:
		return
	case i < g.sorted:
		g.sorted--
	}
	g.members = slices.Delete(g.members, i, i+1)
	switch n := len(g.members); {
	case n == 0:
		delete(a.groups, v)
	case cap(g.members) > 4*n+8:
		g.members = slices.Clone(g.members)
	}
}

// index returns the place of e in members, or -1.
func (g *group[T, S]) index(e *Entry[T, S]) int {
	i, found := slices.BinarySearchFunc(g.members[:g.sorted], e.Key, compareEntry)
	if !found {
		if i = slices.Index(g.members[g.sorted:], e); i >= 0 {
			i += g.sorted
		}
	}
	return i
}

func compareEntry[T, S any](e *Entry[T, S], key Key) int { return Compare(e.Key, key) }

func compareEntries[T, S any](a, b *Entry[T, S]) int { return Compare(a.Key, b.Key) }

// sort puts the members that came since the last sort in their places.
func (g *group[T, S]) sort() {
	late := len(g.members) - g.sorted
	if late == 0 {
		return
	}
	// A few are inserted one by one, each with one search. That compares much less than sorting all
	// would.
	if late <= 8 {
		for ; g.sorted < len(g.members); g.sorted++ {
			e := g.members[g.sorted]
			i, _ := slices.BinarySearchFunc(g.members[:g.sorted], e.Key, compareEntry)
			copy(g.members[i+1:g.sorted+1], g.members[i:g.sorted])
			g.members[i] = e
		}
		return
	}
	slices.SortFunc(g.members, compareEntries)
	g.sorted = len(g.members)
}
