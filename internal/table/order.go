package table

import (
	"cmp"
	"iter"
	"slices"
	"sync"

	"github.com/go-lw/lw/internal/table/signal"
)

// Order is an index: it has the objects of a store in the order of a value that a function returns
// for each of them, and those of one value in the order of their keys. An object whose value is not
// equal to itself (NaN) is left out.
//
// It has one lock, unlike [Groups]: a write changes nodes that all values have in common.
type Order[K cmp.Ordered, T any] struct {
	value func(T) K
	keyOf func(T) Key

	// marks are those of the objects, by shard and position; as long as the room of the shard's
	// table. A mark is guarded by the lock of its shard. Only writers use it.
	marks [shards][]placed[K]

	mu  sync.Mutex
	all btree[K, T] // guarded by mu
	// A Replace, and a Batch apart, change next, and publish or settle puts it in the place of all.
	// Only the writer uses next and staging, and readers use next while shown, which is guarded by
	// mu.
	next    btree[K, T]
	staging bool
	shown   bool
}

// placed is a mark if the object at a position has one.
type placed[K cmp.Ordered] struct {
	mark[K]
	ok bool
}

// NewOrder returns an index by value. It is empty until it is added to a store.
//
// value is called once for each version of each object, by the goroutine that writes it, with no
// mutex held.
func NewOrder[K cmp.Ordered, T any](keyOf func(T) Key, value func(T) K) *Order[K, T] {
	return &Order[K, T]{value: value, keyOf: keyOf}
}

// Ordered is the content of an [Order] at one moment. It never changes. The zero value is empty.
type Ordered[K cmp.Ordered, T any] struct{ root *bnode[K, T] }

// Ordered returns the present content.
func (o *Order[K, T]) Ordered() Ordered[K, T] {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shown {
		return Ordered[K, T]{o.next.capture()}
	}
	return Ordered[K, T]{o.all.capture()}
}

// In returns the content that o had in the state of s. If o was added later, or is not of the store
// of s, the objects of s are sorted.
func (o *Order[K, T]) In(s *Snapshot[T]) Ordered[K, T] {
	for _, one := range s.orders {
		if one.of == captor(o) {
			return one.content.(Ordered[K, T])
		}
	}
	all := make([]marked[K, T], 0, s.Len())
	for obj := range s.All() {
		if value := o.value(obj); value == value {
			all = append(all, marked[K, T]{mark[K]{value, o.keyOf(obj)}, obj})
		}
	}
	return Ordered[K, T]{sorted(all).root}
}

// sorted returns a btree of all.
func sorted[K cmp.Ordered, T any](all []marked[K, T]) (t btree[K, T]) {
	slices.SortFunc(all, func(a, b marked[K, T]) int { return a.compare(b.mark) })
	t.fill(all)
	return t
}

// Len returns the number of objects.
func (s Ordered[K, T]) Len() int { return s.root.len() }

// Place returns how many objects have a value below value.
func (s Ordered[K, T]) Place(value K) int { return s.root.place(mark[K]{value: value}) }

// Up yields the objects at the places from, from+1 … to-1. Places that there are not are passed
// over.
func (s Ordered[K, T]) Up(from, to int) iter.Seq[T] {
	return func(yield func(T) bool) {
		if s.root != nil {
			s.root.up(from, to, func(one marked[K, T]) bool { return yield(one.obj) })
		}
	}
}

// Down yields the objects at the places to-1, to-2 … from.
func (s Ordered[K, T]) Down(from, to int) iter.Seq[T] {
	return func(yield func(T) bool) {
		if s.root != nil {
			s.root.down(from, to, func(one marked[K, T]) bool { return yield(one.obj) })
		}
	}
}

// A captor is an index whose content at one moment is part of a [Snapshot].
type captor interface{ capture() any }

// captured is the content of an index in a Snapshot.
type captured struct {
	of      captor
	content any
}

func (o *Order[K, T]) capture() any { return o.Ordered() }

// writing returns what a writer changes.
func (o *Order[K, T]) writing() *btree[K, T] {
	if o.staging {
		return &o.next
	}
	return &o.all
}

// put makes obj, with a value, the object at a position. The caller has the shard locked, and mu
// unless it is staging.
func (o *Order[K, T]) put(shard, position int, obj T, value K) {
	was, is := &o.marks[shard][position], mark[K]{value, o.keyOf(obj)}
	if was.ok && was.mark != is {
		o.remove(shard, position)
	}
	if value == value {
		*was = placed[K]{is, true}
		o.writing().put(marked[K, T]{is, obj})
	}
}

// remove removes the object at a position. The locks are as for put.
func (o *Order[K, T]) remove(shard, position int) {
	if was := &o.marks[shard][position]; was.ok {
		o.writing().remove(was.mark)
		*was = placed[K]{}
	}
}

// The methods below are those of [index].

func (o *Order[K, T]) draft() draft[T] { return &orderDraft[K, T]{order: o} }

// lock locks mu, which stands for all stripes. No set is empty.
func (o *Order[K, T]) lock(set) { o.mu.Lock() }

func (o *Order[K, T]) unlock(set) { o.mu.Unlock() }

func (o *Order[K, T]) size() int { return o.Ordered().Len() }

func (o *Order[K, T]) resize(shard int, moved []int32, n int) {
	marks := make([]placed[K], n)
	if moved == nil {
		copy(marks, o.marks[shard])
	} else {
		for p, to := range moved {
			if was := o.marks[shard][p]; was.ok {
				marks[to] = was
			}
		}
	}
	o.marks[shard] = marks
}

func (o *Order[K, T]) stage() {
	o.mu.Lock() // readers may call capture now, which counts an era
	defer o.mu.Unlock()
	root := o.all.capture()
	o.next = btree[K, T]{root: root, era: o.all.era}
	o.staging = true
}

// publish puts next in place. The caller holds mu.
func (o *Order[K, T]) publish() signal.Fired {
	o.all, o.next, o.staging, o.shown = o.next, btree[K, T]{}, false, false
	return nil
}

func (o *Order[K, T]) show() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shown = true
}

func (o *Order[K, T]) settle() signal.Fired {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.publish()
}

// orderDraft is the draft of an Order.
type orderDraft[K cmp.Ordered, T any] struct {
	order  *Order[K, T]
	values []K // of the objects that were computed
}

func (d *orderDraft[K, T]) grow(n int) { d.values = slices.Grow(d.values, n) }

func (d *orderDraft[K, T]) compute(obj T) { d.values = append(d.values, d.order.value(obj)) }

func (d *orderDraft[K, T]) recall(value any) { d.values = append(d.values, value.(K)) }

func (o *Order[K, T]) valuesOf(obj T) any { return o.value(obj) }

func (d *orderDraft[K, T]) lock(int, int) { d.order.mu.Lock() }

func (d *orderDraft[K, T]) compare(int, int) {}

func (d *orderDraft[K, T]) put(shard, position int, obj T) {
	if len(d.values) == 0 { // the function has panicked
		d.order.remove(shard, position)
		return
	}
	d.order.put(shard, position, obj, d.values[0])
}

func (d *orderDraft[K, T]) remove(shard, position int) { d.order.remove(shard, position) }

func (d *orderDraft[K, T]) unlock() signal.Fired {
	d.order.mu.Unlock()
	d.clear()
	return nil
}

func (d *orderDraft[K, T]) clear() {
	clear(d.values)
	d.values = d.values[:0]
}

// replace makes the changes one by one if they are few beside the objects. Otherwise it merges them
// with the objects, and makes the tree anew: that takes a tenth of the time.
func (d *orderDraft[K, T]) replace(gone, put []difference[T]) {
	o := d.order
	if few := o.writing().len() / 16; len(gone)+len(put) <= few {
		for _, c := range gone {
			o.remove(int(c.shard), int(c.position))
		}
		for i, c := range put {
			o.put(int(c.shard), int(c.position), c.new, d.values[i])
		}
		return
	}
	var over []mark[K]
	forget := func(c difference[T]) *placed[K] {
		was := &o.marks[c.shard][c.position]
		if was.ok {
			over = append(over, was.mark)
			*was = placed[K]{}
		}
		return was
	}
	for _, c := range gone {
		forget(c)
	}
	fresh := make([]marked[K, T], 0, len(put))
	for i, c := range put {
		was := forget(c)
		if value := d.values[i]; value == value {
			*was = placed[K]{mark[K]{value, o.keyOf(c.new)}, true}
			fresh = append(fresh, marked[K, T]{was.mark, c.new})
		}
	}
	slices.SortFunc(over, mark[K].compare)
	slices.SortFunc(fresh, func(a, b marked[K, T]) int { return a.compare(b.mark) })
	o.writing().merge(over, fresh)
}

var _ index[any] = (*Order[int, any])(nil)
