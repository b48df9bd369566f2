package table

import (
	"context"
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/go-lw/lw/internal/table/signal"
)

// stripes is the number of locks of an index.
const stripes = 8

// Groups is an index: it groups the objects of a store by the values that a function returns for
// each of them. An object is in the group of each of its values once.
//
// A group belongs to a stripe, chosen by the hash of its value. The lock of the stripe guards what
// readers see of the group. So a reader of a group waits only for others that use a group of the
// same stripe, and for a writer that has to lock all stripes.
type Groups[K comparable, T any] struct {
	value   func(T) K // for objects with one value each; nil: values is set
	values  func(obj T, add func(K) bool)
	seed    maphash.Seed // for stripeOf
	stripes [stripes]stripe[K, T]

	// signals has the channels of Changed. A channel is added under the lock of its value's stripe.
	// So a writer that has locked the stripes of all values that it is going to change has all
	// channels that it has to close, until it unlocks them.
	signals signal.Set[K]

	// members says for each shard in which groups its objects are. Only writers use it.
	members [shards]members[K, T]

	// A Replace works on copies of what readers see, and publishes them at its end. staging, staged
	// and next, here and in the types below, are for that. They are used only by a Replace, which
	// has claimed all shards. The members are not copied, because readers do not see them.
	staging bool
	staged  []*group[K, T] // the groups that have a copy
	// shown says that readers see the copies: between show and settle, which a Batch calls. It is
	// written under the locks of all stripes.
	shown bool
}

// A stripe is an eighth of the values of an index. mu guards groups, and objs and members of each
// of them.
type stripe[K comparable, T any] struct {
	mu     sync.Mutex
	groups map[K]*group[K, T]
	next   map[K]*group[K, T] // a Replace's copy of groups; nil if the Replace has not changed it

	_ [64]byte // padding, so that no two stripes share a cache line
}

// A group is the objects of one value. A group that a reader can find has at least one object.
type group[K comparable, T any] struct {
	value   K
	stripe  *stripe[K, T]
	number  int // of the stripe
	objs    Vector[T]
	members []member // members[i] leads to the membership of objs.At(i); used by writers only
	coming  int      // how many objects the running Replace is going to add

	staged bool      // next is in use
	next   Vector[T] // a Replace's copy of objs
}

// NewGroups returns an index for objects with any number of values. It is empty until it is added
// to a store.
//
// values calls add with each value of obj, and may ignore what add returns. A value that occurs
// twice counts once, and a value that is not equal to itself (NaN) is left out. values is called
// once for each version of each object, by the goroutine that writes it, with no mutex held.
func NewGroups[K comparable, T any](values func(obj T, add func(K) bool)) *Groups[K, T] {
	return &Groups[K, T]{values: values, seed: maphash.MakeSeed()}
}

// NewGroupsOfOne is like [NewGroups], for objects that have one value each.
func NewGroupsOfOne[K comparable, T any](value func(T) K) *Groups[K, T] {
	return &Groups[K, T]{value: value, seed: maphash.MakeSeed()}
}

// stripeOf returns the number of the stripe of value.
func (g *Groups[K, T]) stripeOf(value K) int {
	return int(maphash.Comparable(g.seed, value) % stripes)
}

// View returns the objects of value.
func (g *Groups[K, T]) View(value K) View[T] {
	st := &g.stripes[g.stripeOf(value)]
	st.mu.Lock()
	defer st.mu.Unlock()
	if objs := g.visibleLocked(st, value); objs != nil {
		return objs.View()
	}
	return View[T]{}
}

// visibleLocked returns the objects of value that readers see; nil if there are none. The caller
// holds the lock of the stripe.
func (g *Groups[K, T]) visibleLocked(st *stripe[K, T], value K) *Vector[T] {
	b := g.visibleGroupsLocked(st)[value]
	switch {
	case b == nil:
		return nil
	case g.shown && b.staged:
		return &b.next
	}
	return &b.objs
}

// visibleGroupsLocked returns the groups of a stripe that readers see.
func (g *Groups[K, T]) visibleGroupsLocked(st *stripe[K, T]) map[K]*group[K, T] {
	if g.shown && st.next != nil {
		return st.next
	}
	return st.groups
}

// Len returns the number of objects of value.
func (g *Groups[K, T]) Len(value K) int {
	st := &g.stripes[g.stripeOf(value)]
	st.mu.Lock()
	defer st.mu.Unlock()
	if objs := g.visibleLocked(st, value); objs != nil {
		return objs.Len()
	}
	return 0
}

// Changed returns a channel that is closed when, after the call, an object joins or leaves the
// group of value, or changes in it. Every read that begins after that shows the change. ctx lets go
// of the channel when it is done.
func (g *Groups[K, T]) Changed(ctx context.Context, value K) <-chan struct{} {
	return g.signals.Wait(ctx, &g.stripes[g.stripeOf(value)].mu, value)
}

// Waiting returns the number of channels that Changed has returned, and that wait for a change.
func (g *Groups[K, T]) Waiting() int { return g.signals.Len() }

// Values returns the values that at least one object has, in no order.
func (g *Groups[K, T]) Values() []K {
	g.lock(allStripes)
	defer g.unlock(allStripes)
	values := make([]K, 0, g.sizeLocked())
	for i := range g.stripes {
		values = slices.AppendSeq(values, maps.Keys(g.visibleGroupsLocked(&g.stripes[i])))
	}
	return values
}

func (g *Groups[K, T]) size() int {
	g.lock(allStripes)
	defer g.unlock(allStripes)
	return g.sizeLocked()
}

// sizeLocked is size, with all stripes locked.
func (g *Groups[K, T]) sizeLocked() (n int) {
	for i := range g.stripes {
		n += len(g.visibleGroupsLocked(&g.stripes[i]))
	}
	return n
}

// A set is a set of stripes, one bit for each.
type set uint8

const allStripes = set(1<<stripes - 1)

// lock locks the stripes in which, in ascending order.
func (g *Groups[K, T]) lock(which set) {
	for ; which != 0; which &= which - 1 {
		g.stripes[bits.TrailingZeros8(uint8(which))].mu.Lock()
	}
}

// unlock unlocks the stripes in which.
func (g *Groups[K, T]) unlock(which set) {
	for ; which != 0; which &= which - 1 {
		g.stripes[bits.TrailingZeros8(uint8(which))].mu.Unlock()
	}
}

// stripesFor returns the stripes to lock for putting an object with these values at a position, or
// for removing the object there if values is nil. same reports whether the object there has the
// same values already, in the same order.
//
// These are the stripes of the old and of the new values. If the memberships may have to move to
// make room for the new ones, it is all stripes (see members). stripesFor itself locks no stripe.
// That is safe: the caller holds the shard's lock, so the object's list of memberships and their
// groups do not change, and the value and the stripe of a group never do.
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

// put makes obj the object at a position, with these values. same is what stripesFor returned. The
// caller holds the shard's lock and the stripes of stripesFor, or has claimed all shards.
func (g *Groups[K, T]) put(shard, position int, obj T, values []K, same bool) {
	m := &g.members[shard]
	if same {
		// Most updates change no value: the object only takes the place of the old one.
		for ms := m.of(position); ms != nil; ms = m.next(ms) {
			g.objs(ms.group).Set(int(ms.place), obj)
		}
		return
	}
	g.remove(shard, position)
	m.grow(len(values))
	var last *membership[K, T]
	for _, value := range values {
		last = g.join(shard, position, last, g.group(value), obj)
	}
}

// remove removes the object at a position from its groups. The locks are as for put.
func (g *Groups[K, T]) remove(shard, position int) {
	m := &g.members[shard]
	if m.of(position) == nil {
		return
	}
	for ms := m.of(position); ms != nil; ms = m.next(ms) {
		g.leave(ms)
	}
	m.clear(position)
}

// group returns the group of value. It makes the group if there is none, for an object that joins.
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

// join makes obj, which is at a position, a member of b. It returns the new membership. last is the
// membership that the object joined before this one, or nil if it is the first.
func (g *Groups[K, T]) join(shard, position int, last *membership[K, T], b *group[K, T], obj T) *membership[K, T] {
	objs := g.objs(b)
	ms, member := g.members[shard].add(shard, position, last)
	ms.group, ms.place = b, int32(objs.Len())
	objs.Append(obj)
	b.members = append(b.members, member)
	return ms
}

// leave takes a member out of its group. The last member of the group moves to its place, so that a
// group has no holes. The member that moves may be of another shard, whose lock the caller does not
// hold. Only the place of its membership changes, and the lock of the stripe guards that.
func (g *Groups[K, T]) leave(ms *membership[K, T]) {
	b, place := ms.group, int(ms.place)
	objs := g.objs(b)
	last := objs.Len() - 1
	if place != last {
		objs.Set(place, objs.At(last))
		moved := b.members[last]
		b.members[place] = moved
		g.membership(moved).place = int32(place)
	}
	objs.Pop()
	b.members = b.members[:last]
	if cap(b.members) > 16 && cap(b.members) > 4*last {
		b.members = append(make([]member, 0, 2*last), b.members...)
	}
	if last == 0 {
		delete(g.change(b.stripe), b.value)
		// A map never gives back memory, so an empty one is replaced.
		if !g.staging && len(b.stripe.groups) == 0 {
			b.stripe.groups = nil
		}
	}
}

// membership returns the membership that a member leads to.
func (g *Groups[K, T]) membership(of member) *membership[K, T] {
	m := &g.members[of.shard]
	if of.more {
		return &m.more[of.index]
	}
	return &m.first[of.index]
}

// objs returns the objects of b for changing them: during a Replace, a copy.
func (g *Groups[K, T]) objs(b *group[K, T]) *Vector[T] {
	if !g.staging {
		return &b.objs
	}
	if !b.staged {
		b.stripe.mu.Lock() // readers may call View now, which changes b.objs.era as Fork does
		b.next = b.objs.Fork()
		b.stripe.mu.Unlock()
		b.staged = true
		g.staged = append(g.staged, b)
	}
	return &b.next
}

// groupsOf returns the groups of a stripe for reading: during a Replace, its copy if there is one.
func (g *Groups[K, T]) groupsOf(st *stripe[K, T]) map[K]*group[K, T] {
	if st.next != nil {
		return st.next
	}
	return st.groups
}

// change returns the groups of a stripe for changing them: during a Replace, a copy.
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

// publish puts the copies that a Replace has made in place, ends staging, and fires the signals of
// the groups that have changed. The caller holds all stripes.
func (g *Groups[K, T]) publish() signal.Fired {
	for _, b := range g.staged {
		b.objs, b.next, b.staged = b.next, Vector[T]{}, false
	}
	return g.fire(g.endStaging())
}

// endStaging ends staging when the copies of the groups are in place, and returns these groups. The
// caller holds all stripes.
func (g *Groups[K, T]) endStaging() (changed []*group[K, T]) {
	changed = g.staged
	g.staging, g.staged = false, nil
	for i := range g.stripes {
		if st := &g.stripes[i]; st.next != nil {
			st.groups, st.next = st.next, nil
			if len(st.groups) == 0 {
				st.groups = nil
			}
		}
	}
	return changed
}

// fire fires the signals of groups that have changed.
func (g *Groups[K, T]) fire(changed []*group[K, T]) signal.Fired {
	if !g.signals.Waiting() {
		return nil
	}
	values := make([]K, len(changed))
	for i, b := range changed {
		values[i] = b.value
	}
	return g.signals.Fire(values...)
}

// show shows the copies. Its cost does not depend on their number.
func (g *Groups[K, T]) show() {
	g.lock(allStripes)
	g.shown = true
	g.unlock(allStripes)
}

// settle puts the copies in place, which readers see already, group by group: so no reader waits
// long. It ends staging, and then fires the signals of the groups that have changed. A signal that
// somebody takes in between may fire for a change that they have seen.
func (g *Groups[K, T]) settle() signal.Fired {
	for _, b := range g.staged {
		b.stripe.mu.Lock()
		b.objs, b.next, b.staged = b.next, Vector[T]{}, false
		b.stripe.mu.Unlock()
	}
	g.lock(allStripes)
	g.shown = false
	changed := g.endStaging()
	g.unlock(allStripes)
	return g.fire(changed)
}

// resize makes room for n positions in a shard. If moved is not nil, position p becomes moved[p].
// The caller holds all stripes, or has claimed all shards.
func (g *Groups[K, T]) resize(shard int, moved []int32, n int) {
	g.members[shard].resize(shard, moved, n)
}
