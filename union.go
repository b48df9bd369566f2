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
// Of objects with one key, that of the collection that was added first is shown, and
// [DerivedStatus] names the conflict. A [Derive] that puts the cluster's name into the key keeps
// both.
type Union[T Identified] struct {
	*Derived[T]
	members *members[T]
}

// NewUnion returns the union of ins, which may be none. It syncs when all of these have: one that
// may never answer is better added by Add, which the union does not wait for. NewUnion panics if one
// of ins is nil.
func NewUnion[T Object](g *Graph, ins ...Collection[T]) *Union[T] {
	all := new(members[T])
	for _, in := range ins {
		all.add(&unionMember[T]{in: inputOf(g, in, "NewUnion"), first: true})
	}
	// An object is the same as itself only: versions and UIDs of two servers mean nothing to each
	// other.
	u := &Union[T]{members: all}
	u.Derived = newDerived(g, fmt.Sprintf("Union[%s]", typeName[T]()), func(*faults) func(a, b T) bool { return equal.Same[T] }, func(shown func(Key) (T, bool), faults *faults) operator[T] {
		return &unionOperator[T]{
			Results: settle.NewResults(settle.Rules[int, T]{
				Compare: cmp.Compare[int], Same: equal.Same[T], Shown: shown,
				Home: func(Key) int { return 0 },
				Rivals: func(key Key, shown, rival int, several bool) {
					faults.overlap(key, all.name(shown), all.name(rival), several)
				},
			}),
			graph: g, members: all, joined: map[*unionMember[T]]bool{},
		}
	})
	return u
}

// Add adds the objects of in to the union, at one point after in has synced. remove takes them out
// at one point; from its call on the union does not depend on in, which may be closed. Add does
// nothing if the union or in was closed. It panics if in is nil or depends on the union.
func (u *Union[T]) Add(in Collection[T]) (remove func()) {
	if isNil(in) {
		panic("lw: Union.Add: nil collection")
	}
	m, circle := u.add(in)
	if circle {
		panic("lw: Union.Add: the collection depends on the union")
	}
	u.graph.wake()
	return func() { u.remove(m) }
}

// add makes in a member, unless it depends on the union.
func (u *Union[T]) add(in Collection[T]) (m *unionMember[T], circle bool) {
	g := u.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	m = new(unionMember[T])
	over := g.phase == ended || !g.hasLocked(u.Derived)
	if d := in.derived(); d != nil && d.graph == g {
		if d == u.Derived || slices.Contains(g.behindLocked(u.core()), node(d)) {
			return nil, true
		}
		over = over || !g.hasLocked(d)
	}
	if !over {
		m.in = inputLocked(g, in)
		u.members.add(m)
		g.sortLocked()
	}
	return m, false
}

// remove takes m out of the union, if it is in it. The next step takes its objects out of what the
// union shows.
func (u *Union[T]) remove(m *unionMember[T]) {
	u.graph.mu.Lock()
	u.members.remove(m)
	u.graph.mu.Unlock()
	u.graph.wake()
}

// members are the collections of a union. A member is present from Add until remove, and then
// leaving until a step has taken its objects out of the union. Members come and go under Graph.mu
// and mu.
type members[T Identified] struct {
	mu      sync.Mutex
	present []*unionMember[T] // in the order in which they were added; replaced and never changed
	leaving []*unionMember[T] // replaced and never changed
	last    int               // the number of the last one

	// step and going are present and leaving as they were when the present step began. They belong
	// to the goroutine of Run. A member that is closed while it leaves is not computed any more. Its
	// objects are those of its last step, which the union shows.
	step, going []*unionMember[T]
}

// A unionMember is a collection of a union.
type unionMember[T Identified] struct {
	number int // that of a member that was added later is larger
	in     input[T]
	first  bool // NewUnion was called with it, so that the union waits for it
}

func (ms *members[T]) add(m *unionMember[T]) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m.number = ms.last
	ms.last++
	ms.present = append(slices.Clip(ms.present), m)
}

// remove has m leave, if it is present.
func (ms *members[T]) remove(m *unionMember[T]) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if slices.Contains(ms.present, m) {
		ms.present = without(slices.Clone(ms.present), m)
		ms.leaving = append(slices.Clip(ms.leaving), m)
	}
}

// name returns the name of the member of that number, which is in the union or leaves it.
func (ms *members[T]) name(number int) string {
	present, leaving := ms.list()
	for _, m := range slices.Concat(present, leaving) {
		if m.number == number {
			return m.in.name()
		}
	}
	return ""
}

// forget forgets the members that were leaving when the step began.
func (ms *members[T]) forget() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.leaving = slices.Clone(ms.leaving[len(ms.going):]) // others are behind them
}

func (ms *members[T]) list() (present, leaving []*unionMember[T]) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.present, ms.leaving
}

type unionOperator[T Identified] struct {
	*settle.Results[int, T]
	graph   *Graph
	members *members[T]
	joined  map[*unionMember[T]]bool // those whose objects are in the results
}

func (o *unionOperator[T]) takeLocked() { o.members.step, o.members.going = o.members.list() }

func (o *unionOperator[T]) inputs(yield func(anyInput) bool) {
	present, _ := o.members.list()
	for _, m := range present {
		if !yield(m.in) {
			return
		}
	}
}

// held is inputs with the members that leave.
func (o *unionOperator[T]) held(yield func(anyInput) bool) {
	present, leaving := o.members.list()
	for _, m := range slices.Concat(present, leaving) {
		if !yield(m.in) {
			return
		}
	}
}

// needs is inputs for the members that the union waits for.
func (o *unionOperator[T]) needs(yield func(anyInput) bool) {
	present, _ := o.members.list()
	for _, m := range present {
		if m.first && !yield(m.in) {
			return
		}
	}
}

// wantsContent reports whether a member joins or leaves in the step that has begun.
func (o *unionOperator[T]) wantsContent() bool {
	return slices.ContainsFunc(o.members.going, func(m *unionMember[T]) bool { return o.joined[m] }) ||
		slices.ContainsFunc(o.members.step, func(m *unionMember[T]) bool { return !o.joined[m] && m.in.stage() != waiting })
}

func (o *unionOperator[T]) run(whole bool) {
	for _, m := range o.members.step {
		if m.in.stage() == waiting {
			continue // it joins later
		}
		o.feed(m, whole || !o.joined[m])
		o.joined[m] = true
	}
	for _, m := range o.members.going {
		if !o.joined[m] {
			continue
		}
		o.feed(m, false) // what this step takes out of the member is not in its contents
		for obj := range m.in.contents() {
			o.Drop(m.number, KeyOf(obj))
		}
		delete(o.joined, m)
	}
}

// feed gives the results what has changed in m, or all objects of m if whole is true.
func (o *unionOperator[T]) feed(m *unionMember[T], whole bool) {
	feed(m.in, whole, func(key Key, obj T) {
		if equal.IsZero(obj) {
			o.Drop(m.number, key)
		} else {
			o.Put(m.number, key, obj)
		}
	})
}

// finish ends the step. Nothing is kept of the members that have left.
func (o *unionOperator[T]) finish() {
	if len(o.members.going) > 0 {
		o.members.forget()
		o.graph.mu.Lock()
		o.graph.shrunk = true
		o.graph.mu.Unlock()
	}
	o.members.step, o.members.going = nil, nil
}
