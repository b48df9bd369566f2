package table

import (
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"
	"sync"
)

const stripes = 8

// Groups is an index: it groups a store's objects by the values that a function gives for each. An object belongs to each of
// its values once.
//
// The readers of a group wait for the writers of its stripe, and for nobody else.
type Groups[K, T comparable] struct {
	value   func(T) K // nil: values is set
	values  func(obj T, add func(K) bool)
	seed    maphash.Seed
	stripes [stripes]stripe[K, T]

	members [shards]members[K, T]

	// A Replace works on copies of what readers see, and publishes them at its end. These are its own, as all members are
	// while it lasts, since it has claimed every shard.
	staging bool
	staged  []*group[K, T]
}

type stripe[K, T comparable] struct {
	mu     sync.Mutex
	groups map[K]*group[K, T]
	next   map[K]*group[K, T] // a Replace's copy; nil while it would be the same

	_ [64]byte // so that two stripes share no cache line
}

// A group is the objects of one value. It is never empty while it can be seen.
type group[K, T comparable] struct {
	value   K
	stripe  *stripe[K, T]
	number  int // of the stripe
	objs    Vector[T]
	members []member // beside objs
	coming  int      // how many a Replace is going to add

	staged bool
	next   Vector[T] // a Replace's copy of objs
}

// NewGroups returns an index that is empty until it is added to a store. values calls add with each value of obj, and may
// ignore the result; a value that is not equal to itself (NaN) is left out. It is called once for each version of each object,
// by the goroutine that writes it, which holds no mutex.
func NewGroups[K, T comparable](values func(obj T, add func(K) bool)) *Groups[K, T] {
	return &Groups[K, T]{values: values, seed: maphash.MakeSeed()}
}

// NewGroupsOfOne is [NewGroups] for objects that have one value each.
func NewGroupsOfOne[K, T comparable](value func(T) K) *Groups[K, T] {
	return &Groups[K, T]{value: value, seed: maphash.MakeSeed()}
}

func (g *Groups[K, T]) stripeOf(value K) int {
	return int(maphash.Comparable(g.seed, value) % stripes)
}

// View returns the objects of value.
func (g *Groups[K, T]) View(value K) View[T] {
	st := &g.stripes[g.stripeOf(value)]
	st.mu.Lock()
	defer st.mu.Unlock()
	if b := st.groups[value]; b != nil {
		return b.objs.View()
	}
	return View[T]{}
}

// Len returns the number of objects of value.
func (g *Groups[K, T]) Len(value K) int {
	st := &g.stripes[g.stripeOf(value)]
	st.mu.Lock()
	defer st.mu.Unlock()
	if b := st.groups[value]; b != nil {
		return b.objs.Len()
	}
	return 0
}

// Values returns the values that any object has, in no order.
func (g *Groups[K, T]) Values() []K {
	g.lock(allStripes)
	defer g.unlock(allStripes)
	n := 0
	for i := range g.stripes {
		n += len(g.stripes[i].groups)
	}
	values := make([]K, 0, n)
	for i := range g.stripes {
		values = slices.AppendSeq(values, maps.Keys(g.stripes[i].groups))
	}
	return values
}

// set is a set of stripes.
type set uint8

const allStripes = set(1<<stripes - 1)

func (g *Groups[K, T]) lock(which set) {
	for ; which != 0; which &= which - 1 {
		g.stripes[bits.TrailingZeros8(uint8(which))].mu.Lock()
	}
}

func (g *Groups[K, T]) unlock(which set) {
	for ; which != 0; which &= which - 1 {
		g.stripes[bits.TrailingZeros8(uint8(which))].mu.Unlock()
	}
}

// stripesFor returns the stripes that a put, or a drop if values is nil, is going to change, and whether values are those
// that the object has.
func (g *Groups[K, T]) stripesFor(shard, position int, values []K) (which set, same bool) {
	m := &g.members[shard]
	n := 0
	same = true
	for ms := m.of(position); ms != nil; ms = m.next(ms) {
		which |= 1 << ms.group.number
		same = same && n < len(values) && ms.group.value == values[n]
		n++
	}
	if same && n == len(values) {
		return which, true
	}
	if len(values) > m.spare(position) {
		return allStripes, false
	}
	for _, value := range values {
		which |= 1 << g.stripeOf(value)
	}
	return which, false
}

// put makes obj the object at a position, with values; same says that they are those that it has. The caller holds the locks
// of stripesFor.
func (g *Groups[K, T]) put(shard, position int, obj T, values []K, same bool) {
	m := &g.members[shard]
	if same {
		for ms := m.of(position); ms != nil; ms = m.next(ms) {
			g.objs(ms.group).Set(int(ms.at), obj)
		}
		return
	}
	g.drop(shard, position)
	m.grow(len(values))
	var last *membership[K, T]
	for _, value := range values {
		last = g.join(shard, position, last, g.group(value), obj)
	}
}

// drop removes the object at a position. The caller holds the locks of stripesFor.
func (g *Groups[K, T]) drop(shard, position int) {
	m := &g.members[shard]
	if m.of(position) == nil {
		return
	}
	for ms := m.of(position); ms != nil; ms = m.next(ms) {
		g.leave(ms)
	}
	m.clear(position)
}

// group returns the group of value, to join.
func (g *Groups[K, T]) group(value K) *group[K, T] {
	number := g.stripeOf(value)
	st := &g.stripes[number]
	b := g.groupsOf(st)[value]
	if b == nil {
		b = &group[K, T]{value: value, stripe: st, number: number}
		g.change(st)[value] = b
	}
	return b
}

// join makes obj, at a position, a member of b, and returns its membership; last is the one before, or nil.
func (g *Groups[K, T]) join(shard, position int, last *membership[K, T], b *group[K, T], obj T) *membership[K, T] {
	objs := g.objs(b)
	ms, member := g.members[shard].add(shard, position, last)
	ms.group, ms.at = b, int32(objs.Len())
	objs.Append(obj)
	b.members = append(b.members, member)
	return ms
}

// leave takes a member out of its group, where the last one takes its place.
func (g *Groups[K, T]) leave(ms *membership[K, T]) {
	b, at := ms.group, int(ms.at)
	objs := g.objs(b)
	last := objs.Len() - 1
	if at != last {
		objs.Set(at, objs.At(last))
		moved := b.members[last]
		b.members[at] = moved
		g.membership(moved).at = int32(at)
	}
	objs.Pop()
	b.members = b.members[:last]
	if cap(b.members) > 16 && cap(b.members) > 4*last {
		b.members = append(make([]member, 0, 2*last), b.members...)
	}
	if last == 0 {
		delete(g.change(b.stripe), b.value)
		// A map keeps the memory of the most keys that it ever had.
		if !g.staging && len(b.stripe.groups) == 0 {
			b.stripe.groups = nil
		}
	}
}

func (g *Groups[K, T]) membership(of member) *membership[K, T] {
	m := &g.members[of.shard]
	if of.more {
		return &m.more[of.index]
	}
	return &m.first[of.index]
}

// objs returns b's objects, or a Replace's copy of them, to change.
func (g *Groups[K, T]) objs(b *group[K, T]) *Vector[T] {
	if !g.staging {
		return &b.objs
	}
	if !b.staged {
		b.stripe.mu.Lock() // against View
		b.next = b.objs.Fork()
		b.stripe.mu.Unlock()
		b.staged = true
		g.staged = append(g.staged, b)
	}
	return &b.next
}

// groupsOf returns the groups of a stripe, or a Replace's copy of them, to read.
func (g *Groups[K, T]) groupsOf(st *stripe[K, T]) map[K]*group[K, T] {
	if st.next != nil {
		return st.next
	}
	return st.groups
}

// change returns the groups of a stripe, or a Replace's copy of them, to change.
func (g *Groups[K, T]) change(st *stripe[K, T]) map[K]*group[K, T] {
	to := &st.groups
	if g.staging {
		if to = &st.next; *to == nil {
			*to = maps.Clone(st.groups)
		}
	}
	if *to == nil {
		*to = make(map[K]*group[K, T])
	}
	return *to
}

// publish shows what was staged. The caller holds the locks of all stripes.
func (g *Groups[K, T]) publish() {
	for _, b := range g.staged {
		b.objs, b.next, b.staged = b.next, Vector[T]{}, false
	}
	g.staging, g.staged = false, nil
	for i := range g.stripes {
		if st := &g.stripes[i]; st.next != nil {
			st.groups, st.next = st.next, nil
			if len(st.groups) == 0 {
				st.groups = nil
			}
		}
	}
}

// resize makes room for n positions in a shard, of which p becomes moved[p], if that is not nil. The caller holds the locks
// of all stripes, or has claimed all shards.
func (g *Groups[K, T]) resize(shard int, moved []int32, n int) {
	g.members[shard].resize(shard, moved, n)
}
