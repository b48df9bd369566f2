package table

// members knows in which groups of one index the objects of one shard are.
//
// The memberships of an object are a linked list: the first one is in first, the others are in
// more. They link to each other by indexes into these slices, not by pointers. So there is one
// allocation for many of them, and the garbage collector has less to follow.
//
// The shard's lock guards members, with one exception: the lock of a group's stripe guards the
// place of each membership in that group. When an object leaves a group, the last member of the
// group moves to its place. The membership of that member, which may be of any shard, then gets a
// new place. So a writer that moves memberships in memory (grow, resize) needs the shard's lock and
// all stripes: otherwise a writer of another shard might be storing a place in one of them.
type members[K comparable, T any] struct {
	first []membership[K, T] // by position; as long as the room of the shard's table
	more  []membership[K, T] // the second and further memberships of objects
	free  []int32            // the indexes in more that are unused
}

// A membership is one object in one group. Without a group it is unused.
type membership[K comparable, T any] struct {
	group *group[K, T]
	place int32 // the index of the object in the group
	next  int32 // one more than the index in more of the object's next membership; 0: none
}

// A member leads from a group to a [membership]. It is an index and not a pointer, so that a resize
// can move memberships, and so that it takes 8 bytes without a pointer for the garbage collector.
type member struct {
	index int32 // in more or first of the shard's members
	shard uint8
	more  bool
}

// of returns the first membership of the object at a position, or nil.
func (m *members[K, T]) of(position int) *membership[K, T] {
	if ms := &m.first[position]; ms.group != nil {
		return ms
	}
	return nil
}

// next returns the next membership of the same object, or nil.
func (m *members[K, T]) next(ms *membership[K, T]) *membership[K, T] {
	if ms.next == 0 {
		return nil
	}
	return &m.more[ms.next-1]
}

// are reports whether values are those of the object at a position, in the same order. The same
// values in another order count as a change: that costs the caller a little work, and the result is
// right all the same.
func (m *members[K, T]) are(position int, values []K) bool {
	ms := m.of(position)
	for _, value := range values {
		if ms == nil || ms.group.value != value {
			return false
		}
		ms = m.next(ms)
	}
	return ms == nil
}

// spare returns how many values the object at a position can be given without grow moving
// memberships. These are its place in first, the places in more that its present memberships give
// back, and the free ones.
func (m *members[K, T]) spare(position int) int {
	n := 1 + len(m.free)
	for ms := &m.first[position]; ms.next != 0; ms = m.next(ms) {
		n++
	}
	return n
}

// grow makes room for n values of an object that has none. It may move all memberships in more.
func (m *members[K, T]) grow(n int) {
	if n -= 1 + len(m.free); n <= 0 {
		return
	}
	was := len(m.more)
	m.more = append(m.more, make([]membership[K, T], max(n, was/3))...)
	for i := len(m.more) - 1; i >= was; i-- {
		m.free = append(m.free, int32(i))
	}
}

// add returns a new membership of the object at a position. last is the membership before it, or
// nil if it is the first. There must be room; see grow.
func (m *members[K, T]) add(shard, position int, last *membership[K, T]) (*membership[K, T], member) {
	if last == nil {
		return &m.first[position], member{int32(position), uint8(shard), false}
	}
	n := len(m.free) - 1
	i := m.free[n]
	m.free = m.free[:n]
	last.next = i + 1
	return &m.more[i], member{i, uint8(shard), true}
}

// clear frees the memberships of the object at a position. They have left their groups.
func (m *members[K, T]) clear(position int) {
	for ms := &m.first[position]; ; {
		next := ms.next
		*ms = membership[K, T]{}
		if next == 0 {
			return
		}
		m.free = append(m.free, next-1)
		ms = &m.more[next-1]
	}
}

// resize makes room for n positions. If moved is nil all memberships keep their indexes, and so the
// groups' members need no update. Otherwise position p becomes moved[p], more is compacted, and the
// groups' members are updated to lead to the new indexes.
func (m *members[K, T]) resize(shard int, moved []int32, n int) {
	if moved == nil && n == len(m.first) {
		return
	}
	first := make([]membership[K, T], n)
	if moved == nil {
		copy(first, m.first)
		m.first = first
		return
	}
	more := make([]membership[K, T], 0, len(m.more)-len(m.free))
	for p, to := range moved {
		ms := m.of(p)
		if ms == nil {
			continue
		}
		last := &first[to]
		*last = *ms
		last.group.members[last.place] = member{to, uint8(shard), false}
		for ms = m.next(ms); ms != nil; ms = m.next(ms) {
			i := int32(len(more))
			more = append(more, *ms)
			last.next = i + 1
			last = &more[i]
			last.group.members[last.place] = member{i, uint8(shard), true}
		}
	}
	*m = members[K, T]{first: first, more: more}
}
