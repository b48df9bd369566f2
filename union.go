package lw

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/settle"
)

// A Union is all objects of several collections, such as those of several namespaces or clusters.
// Of objects with one key, that of the collection that was added first is shown; that is no
// conflict. The objects are those of the collections themselves. Collections may be added and
// removed while the graph runs.
type Union[T Identified] struct {
	*Derived[T]
	members *members[T]
}

// NewUnion returns the union of ins, which may be none. It syncs when all of these have synced.
// NewUnion panics if one of ins is nil.
func NewUnion[T Object](g *Graph, ins ...Collection[T]) *Union[T] {
	all := new(members[T])
	for _, in := range ins {
		all.add(&unionMember[T]{in: inputOf(g, in, "NewUnion"), first: true})
	}
	// An object is the same as itself only: versions and UIDs of two servers mean nothing to each
	// other.
	u := &Union[T]{members: all}
	u.Derived = newDerived(g, fmt.Sprintf("Union[%s]", typeName[T]()), func(*faults) func(a, b T) bool { return equal.Same[T] }, func(shown func(Key) (T, bool), _ *faults) operator[T] {
		return &unionOperator[T]{
			Results: settle.NewResults(settle.Rules[int, T]{
				Compare: cmp.Compare[int], Same: equal.Same[T], Shown: shown,
				Home: func(Key) int { return 0 },
			}),
			members: all, joined: map[*unionMember[T]]bool{}, left: u.drop,
		}
	})
	return u
}

// Add adds the objects of in to the union, also while the graph runs. They are shown at one point,
// after in has synced. remove takes them out again, at one point; calls of remove after the first
// do nothing. Add does nothing if the union was closed. Add panics if in is nil or depends on the
// union.
func (u *Union[T]) Add(in Collection[T]) (remove func()) {
	g := u.graph
	if isNil(in) {
		panic("lw: Union.Add: nil collection")
	}
	if d := in.derived(); d != nil && d.graph == g {
		g.life.Lock()
		circle := d == u.Derived || g.dependsLocked(d, u.core())
		g.life.Unlock()
		if circle {
			panic("lw: Union.Add: the collection depends on the union")
		}
	}
	// A step must see the same members from its beginning to its end, and the nodes in their order.
	// So it is the next step that adds the member.
	m := new(unionMember[T])
	g.do(func() {
		if d := in.derived(); isClosed(u.hub.stopped) || d != nil && d.graph == g && isClosed(d.hub.stopped) {
			return // one of the two was closed meanwhile
		}
		m.in = inputOf(g, in, "Union.Add")
		u.members.add(m)
		g.life.Lock()
		g.sortLocked()
		g.life.Unlock()
	})
	return func() { g.do(func() { u.take(m) }) }
}

// take takes m out of the union.
func (u *Union[T]) take(m *unionMember[T]) {
	switch {
	case isClosed(u.hub.stopped) || m.gone || !slices.Contains(u.members.present(), m):
	case u.op.(*unionOperator[T]).joined[m]:
		m.gone = true // the operator drops it with its objects
	default:
		u.drop(m)
	}
}

// drop forgets m, none of whose objects is in the union.
func (u *Union[T]) drop(m *unionMember[T]) {
	u.members.drop(m)
	u.graph.life.Lock()
	m.in.use(-1)
	u.graph.life.Unlock()
}

// members are the collections of a union. Only the goroutine of Run changes them, once NewUnion has
// returned.
type members[T Identified] struct {
	mu   sync.Mutex
	list []*unionMember[T] // in the order in which they were added; replaced and never changed
	last int               // the number of the last one
}

// A unionMember is a collection of a union.
type unionMember[T Identified] struct {
	number int // that of a member that was added later is larger
	in     input[T]
	first  bool // NewUnion was called with it, so that the union waits for it
	gone   bool // it was removed, and the operator still has its objects; for the goroutine of Run
}

func (all *members[T]) add(m *unionMember[T]) {
	all.mu.Lock()
	defer all.mu.Unlock()
	m.number = all.last
	all.last++
	all.list = append(slices.Clip(all.list), m)
}

func (all *members[T]) drop(m *unionMember[T]) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.list = slices.DeleteFunc(slices.Clone(all.list), func(other *unionMember[T]) bool { return other == m })
}

func (all *members[T]) present() []*unionMember[T] {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.list
}

type unionOperator[T Identified] struct {
	*settle.Results[int, T]
	members *members[T]
	joined  map[*unionMember[T]]bool // those whose objects are in the results
	left    func(*unionMember[T])    // is called with each that leaves
}

func (o *unionOperator[T]) inputs(yield func(anyInput) bool) {
	for _, m := range o.members.present() {
		if !yield(m.in) {
			return
		}
	}
}

// needs is inputs for the members that the union waits for.
func (o *unionOperator[T]) needs(yield func(anyInput) bool) {
	for _, m := range o.members.present() {
		if m.first && !yield(m.in) {
			return
		}
	}
}

// wantsContent reports whether a member joins or leaves in the step that has begun.
func (o *unionOperator[T]) wantsContent() bool {
	return slices.ContainsFunc(o.members.present(), func(m *unionMember[T]) bool { return m.gone || !o.joined[m] && m.in.opens() })
}

func (o *unionOperator[T]) run(whole bool) {
	for _, m := range o.members.present() {
		if !m.in.ready() {
			continue // it joins later
		}
		feed(m.in, whole || !o.joined[m], func(key Key, obj T) {
			if equal.IsZero(obj) {
				o.Drop(m.number, key)
			} else {
				o.Put(m.number, key, obj)
			}
		})
		o.joined[m] = true
		if m.gone {
			for obj := range m.in.contents() {
				o.Drop(m.number, KeyOf(obj))
			}
			delete(o.joined, m)
			o.left(m)
		}
	}
}
