package table

// members says of the objects of one shard in which groups of one index they are. The shard's lock guards it; but any
// shard's writer may find, with the lock of a group's stripe, a membership of that group and change its field at. So what
// moves memberships needs, beside the shard's lock, those of all stripes.
type members[K, T comparable] struct {
	first []membership[K, T] // by position, as many as the shard's table has room for
	more  []membership[K, T] // those of objects that have more than one
	free  []int32            // what is unused in more
}

// A membership is one object's place in one group. Without a group it is none.
type membership[K, T comparable] struct {
	group *group[K, T]
	at    int32
	next  int32 // in more, plus one: the same object's next one; 0 if there is none
}

// A member is the way from a group to a [membership].
type member struct {
	index int32
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

// next returns the same object's next membership, or nil.
func (m *members[K, T]) next(ms *membership[K, T]) *membership[K, T] {
	if ms.next == 0 {
		return nil
	}
	return &m.more[ms.next-1]
}

// are reports whether values are those of the object at a position, in the same order. Another order costs a little time, no
// more.
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

// spare returns how many values the object at a position may get before memberships have to move.
func (m *members[K, T]) spare(position int) int {
	n := 1 + len(m.free)
	for ms := &m.first[position]; ms.next != 0; ms = m.next(ms) {
		n++
	}
	return n
}

// grow makes room for the n values of an object that has none yet.
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

// add returns a new membership of the object at a position, of which last is the last one, or nil. There must be room.
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

// clear ends the memberships of the object at a position. They have left their groups.
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

// resize makes room for n positions, of which p becomes moved[p], if that is not nil.
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
		last.group.members[last.at] = member{to, uint8(shard), false}
		for ms = m.next(ms); ms != nil; ms = m.next(ms) {
			i := int32(len(more))
			more = append(more, *ms)
			last.next = i + 1
			last = &more[i]
			last.group.members[last.at] = member{i, uint8(shard), true}
		}
	}
	*m = members[K, T]{first: first, more: more}
}
