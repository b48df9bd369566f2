package table

import (
	"slices"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/table/signal"
)

// index is a [Groups] without the type of its values, so that a store can have indexes of different
// types.
type index[T any] interface {
	// draft returns an empty draft, for one write or for several in a row.
	draft() draft[T]
	// valuesOf calls the user's function for obj, and returns what draft.recall takes in the place of
	// such a call.
	valuesOf(obj T) any
	// lock and unlock are for the stripes in which. They are locked in ascending order.
	lock(which set)
	unlock(which set)
	// size returns how many values readers see, or objects if it is an order.
	size() int
	// resize gives a shard room for n positions; see Groups.resize.
	resize(shard int, moved []int32, n int)
	// stage lets the next draft.replace work on copies, and publish puts these in place. What
	// publish returns is to be released when no lock is held.
	stage()
	publish() signal.Fired
	// show and settle are for a Batch. After stage the drafts may put and remove without locks, on
	// copies. show shows the copies, and settle puts them in place.
	show()
	settle() signal.Fired
}

// Add adds an index. Readers of the index find it complete, because nobody has it before Add
// returns. Writers wait meanwhile, and every later write updates it. If the index's function
// panics, the store stays without the index. The function must not write to the store.
func (s *Store[T]) Add(ix index[T]) {
	s.claim()
	defer s.release()
	var none T
	all := make([]difference[T], 0, s.Len())
	d := ix.draft()
	d.grow(cap(all))
	for i := range s.shards {
		objs := &s.shards[i].objs
		for p := range objs.Len() {
			if obj := objs.At(p); !equal.IsZero(obj) {
				s.computeNew(d, ix, len(*s.indexes.Load()), obj)
				all = append(all, difference[T]{int32(i), int32(p), none, obj})
			}
		}
	}
	tables := s.tables.Load()
	for i := range tables {
		ix.resize(i, nil, tables[i].Load().room())
	}
	d.replace(nil, all)
	s.lock()
	defer s.unlock()
	indexes := append(slices.Clip(*s.indexes.Load()), ix)
	s.indexes.Store(&indexes)
	if o, ok := ix.(captor); ok {
		s.orders = append(s.orders, o)
		s.forgetSnapshotLocked() // which does not have it
	}
}

// IndexSizes returns how many values each index has, in the order in which they were added, or how
// many objects if it is an order; nil if there is none.
func (s *Store[T]) IndexSizes() (sizes []int) {
	for _, ix := range *s.indexes.Load() {
		sizes = append(sizes, ix.size())
	}
	return sizes
}

// A draft is what one write is going to change in one index. It collects the values of the objects
// that the write stores, in their order. A Put calls compute with no lock held, because it calls
// the user's function, and then lock, put and unlock. A Remove calls lock, remove and unlock. A
// Replace calls compute for each new or changed object, and then replace.
type draft[T any] interface {
	// grow makes room for the values of n objects.
	grow(n int)
	// compute calls the user's function for the next object. If that panics for the first object of
	// a draft, the object has no values in it.
	compute(obj T)
	// recall is compute without the call, which has returned values.
	recall(values any)
	// lock locks the stripes that putting the computed object at a position needs. If no object
	// was computed these are the stripes that removing the object there needs.
	lock(shard, position int)
	// compare is what lock does without the locks, for a write on copies, and clear is what unlock
	// does besides.
	compare(shard, position int)
	clear()
	// unlock fires the signals of the groups that have changed, undoes lock, and clears what was
	// computed. When it is called, every read that begins from then on waits for a lock of this
	// write, or shows it. What unlock returns is to be released when no lock is held.
	unlock() signal.Fired
	// put and remove make the change that lock was called for.
	put(shard, position int, obj T)
	remove(shard, position int)
	// replace makes all changes of a Replace in the index's copies. put has the objects that were
	// computed, in the same order. The caller has claimed all shards.
	replace(gone, put []difference[T])
}

// draftOf is the draft of a Groups.
type draftOf[K comparable, T any] struct {
	groups *Groups[K, T]
	values []K
	add    func(K) bool // appends to values; a field so that it is allocated only once
	ends   []int        // values[ends[i-1]:ends[i]] are the values of object i
	locked set          // the stripes that lock has locked
	same   bool         // whether lock found that the object's values do not change

	changed []K // the values of the groups that have changed, if somebody waits for a change
}

func (g *Groups[K, T]) draft() draft[T] {
	d := &draftOf[K, T]{groups: g}
	d.add = func(value K) bool {
		d.values = append(d.values, value)
		return true
	}
	return d
}

func (g *Groups[K, T]) stage() { g.staging = true }

func (d *draftOf[K, T]) grow(n int) {
	d.values, d.ends = slices.Grow(d.values, n), slices.Grow(d.ends, n)
}

func (d *draftOf[K, T]) compute(obj T) {
	if d.groups.value != nil {
		if value := d.groups.value(obj); value == value {
			d.values = append(d.values, value)
		}
	} else {
		from := len(d.values)
		d.groups.values(obj, d.add)
		// If this panics the object has no end, as if the function had panicked.
		d.values = append(d.values[:from], equal.Distinct(d.values[from:])...)
	}
	d.ends = append(d.ends, len(d.values))
}

func (d *draftOf[K, T]) recall(values any) {
	d.values = append(d.values, values.([]K)...)
	d.ends = append(d.ends, len(d.values))
}

func (g *Groups[K, T]) valuesOf(obj T) any {
	d := g.draft().(*draftOf[K, T])
	d.compute(obj)
	return slices.Clip(d.values)
}

// of returns the values of object i; none if no object was computed.
func (d *draftOf[K, T]) of(i int) []K {
	if len(d.ends) == 0 {
		return nil
	}
	from := 0
	if i > 0 {
		from = d.ends[i-1]
	}
	return d.values[from:d.ends[i]]
}

func (d *draftOf[K, T]) lock(shard, position int) {
	d.locked, d.same = d.groups.stripesFor(shard, position, d.of(0))
	d.groups.lock(d.locked)
}

func (d *draftOf[K, T]) compare(shard, position int) {
	_, d.same = d.groups.stripesFor(shard, position, d.of(0))
}

func (d *draftOf[K, T]) put(shard, position int, obj T) {
	d.noteChanges(shard, position)
	d.groups.put(shard, position, obj, d.of(0), d.same)
}

func (d *draftOf[K, T]) remove(shard, position int) {
	d.noteChanges(shard, position)
	d.groups.remove(shard, position)
}

// noteChanges notes the groups that the object at a position leaves, and those that the computed
// object joins, if there is one. It does nothing if nobody waits for a change of the index: then
// nobody can begin to wait for one of these groups before unlock.
func (d *draftOf[K, T]) noteChanges(shard, position int) {
	if !d.groups.signals.Waiting() {
		return
	}
	m := &d.groups.members[shard]
	for ms := m.of(position); ms != nil; ms = m.next(ms) {
		d.changed = append(d.changed, ms.group.value)
	}
	d.changed = append(d.changed, d.of(0)...)
}

func (d *draftOf[K, T]) replace(gone, put []difference[T]) {
	g := d.groups
	for i := range gone {
		g.remove(int(gone[i].shard), int(gone[i].position))
	}
	// First all objects leave the groups they were in, then all join. So each value is looked up
	// once, and each group grows once.
	joining := make([]int32, 0, len(put))
	for i := range put {
		c := &put[i]
		if !equal.IsZero(c.old) {
			shard, position, values := int(c.shard), int(c.position), d.of(i)
			if g.members[shard].are(position, values) {
				g.put(shard, position, c.new, values, true)
				continue
			}
			g.remove(shard, position)
		}
		joining = append(joining, int32(i))
	}
	groups := make([]*group[K, T], 0, len(d.values))
	known := make(map[K]*group[K, T])
	for _, i := range joining {
		for _, value := range d.of(int(i)) {
			b := known[value]
			if b == nil {
				b = g.group(value)
				known[value] = b
			}
			b.coming++
			groups = append(groups, b)
		}
	}
	for _, b := range known {
		g.objs(b).Reserve(b.coming)
		b.members = slices.Grow(b.members, b.coming)
		b.coming = 0
	}
	for _, i := range joining {
		c := &put[i]
		n := len(d.of(int(i)))
		// Once for all values of the object: grow may move memberships, and last points to one.
		g.members[c.shard].grow(n)
		var last *membership[K, T]
		for _, b := range groups[:n] {
			last = g.join(int(c.shard), int(c.position), last, b, c.new)
		}
		groups = groups[n:]
	}
}

func (d *draftOf[K, T]) unlock() (fired signal.Fired) {
	if len(d.changed) > 0 {
		fired = d.groups.signals.Fire(d.changed...)
	}
	d.groups.unlock(d.locked)
	d.clear()
	return fired
}

func (d *draftOf[K, T]) clear() {
	if len(d.changed) > 0 {
		clear(d.changed)
		d.changed = d.changed[:0]
	}
	if len(d.values) == 1 {
		// This is what clear does, without a call for each index of each write.
		var none K
		d.values[0] = none
	} else {
		clear(d.values)
	}
	d.values, d.ends = d.values[:0], d.ends[:0]
}
