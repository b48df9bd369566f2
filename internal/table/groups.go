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
	values  func(obj T, add func(K) bool)
	seed    maphash.Seed
	stripes [stripes]stripe[K, T]

	// memberships has, for each shard, the groups of the object at each position, as a list. The shard's lock guards it, but
	// for member.at: the lock of the group's stripe guards that, since any shard's object may move up within a group.
	memberships [shards][]*member[K, T]

	// A Replace works on copies of what readers see, and publishes them at its end. These are its own, as all of memberships
	// is while it lasts, since it has claimed every shard.
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
	members []*member[K, T] // beside objs

	staged bool
	next   Vector[T] // a Replace's copy of objs
}

// A member is one object's place in one group.
type member[K, T comparable] struct {
	group *group[K, T]
	at    int
	next  *member[K, T] // the same object's next group
}

// NewGroups returns an index that is empty until it is added to a store. values calls add with each value of obj, and may
// ignore the result; a value that is not equal to itself (NaN) is left out. It is called once for each version of each object,
// by the goroutine that writes it, which holds no mutex.
func NewGroups[K, T comparable](values func(obj T, add func(K) bool)) *Groups[K, T] {
	return &Groups[K, T]{values: values, seed: maphash.MakeSeed()}
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

// at returns the groups of the object at a position, which may be one that is just being added.
func (g *Groups[K, T]) at(shard, position int) *member[K, T] {
	if m := g.memberships[shard]; position < len(m) {
		return m[position]
	}
	return nil
}

func (g *Groups[K, T]) setAt(shard, position int, m *member[K, T]) {
	for len(g.memberships[shard]) <= position {
		g.memberships[shard] = append(g.memberships[shard], nil)
	}
	g.memberships[shard][position] = m
}

// put makes obj the object at a position, with values. The caller holds the locks of stripesFor.
func (g *Groups[K, T]) put(shard, position int, obj T, values []K) {
	old := g.at(shard, position)
	if old.are(values) {
		for m := old; m != nil; m = m.next {
			g.objs(m.group).Set(m.at, obj)
		}
		return
	}
	for m := old; m != nil; m = m.next {
		g.leave(m)
	}
	var first *member[K, T]
	for _, value := range slices.Backward(values) {
		m := old
		if m == nil {
			m = new(member[K, T])
		} else {
			old = m.next
		}
		g.join(m, value, obj)
		m.next = first
		first = m
	}
	g.setAt(shard, position, first)
}

// drop removes the object at a position. The caller holds the locks of stripesFor.
func (g *Groups[K, T]) drop(shard, position int) {
	for m := g.at(shard, position); m != nil; m = m.next {
		g.leave(m)
	}
	g.setAt(shard, position, nil)
}

// are reports whether values are those of the list m, in the same order. Another order costs a little time, no more.
func (m *member[K, T]) are(values []K) bool {
	for _, value := range values {
		if m == nil || m.group.value != value {
			return false
		}
		m = m.next
	}
	return m == nil
}

// stripesFor returns the stripes that a put, or a drop if values is nil, is going to change.
func (g *Groups[K, T]) stripesFor(shard, position int, values []K) (which set) {
	old := g.at(shard, position)
	for m := old; m != nil; m = m.next {
		which |= 1 << m.group.number
	}
	if !old.are(values) {
		for _, value := range values {
			which |= 1 << g.stripeOf(value)
		}
	}
	return which
}

func (g *Groups[K, T]) join(m *member[K, T], value K, obj T) {
	number := g.stripeOf(value)
	st := &g.stripes[number]
	b := g.groupsOf(st)[value]
	if b == nil {
		b = &group[K, T]{value: value, stripe: st, number: number}
		g.change(st)[value] = b
	}
	objs := g.objs(b)
	m.group, m.at = b, objs.Len()
	objs.Append(obj)
	b.members = append(b.members, m)
}

// leave takes m out of its group, where the last member takes its place.
func (g *Groups[K, T]) leave(m *member[K, T]) {
	b := m.group
	objs := g.objs(b)
	last := objs.Len() - 1
	if m.at != last {
		objs.Set(m.at, objs.At(last))
		b.members[m.at] = b.members[last]
		b.members[m.at].at = m.at
	}
	objs.Pop()
	b.members[last] = nil
	b.members = b.members[:last]
	if cap(b.members) > 16 && cap(b.members) > 4*last {
		b.members = append(make([]*member[K, T], 0, 2*last), b.members...)
	}
	if last == 0 {
		delete(g.change(b.stripe), b.value)
		// A map keeps the memory of the most keys that it ever had.
		if !g.staging && len(b.stripe.groups) == 0 {
			b.stripe.groups = nil
		}
	}
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

// move follows a shard whose positions p have become moved[p], of which n are left.
func (g *Groups[K, T]) move(shard int, moved []int32, n int) {
	to := make([]*member[K, T], n)
	for p, m := range g.memberships[shard] {
		if m != nil {
			to[moved[p]] = m
		}
	}
	g.memberships[shard] = to
}
