package lw

import (
	"fmt"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/graph/arrange"
	"github.com/go-lw/lw/internal/graph/settle"
	"github.com/go-lw/lw/internal/why/names"
)

// An Aggregate says what a group of objects amounts to. acc begins as the zero A; Add returns acc
// with obj, and Remove without it. They may change acc and return it. Remove must undo Add exactly,
// as with sums of integers. For minima, lists and sums of floating-point numbers there is
// [GroupAll]. If one of them panics, the next step computes all groups from their objects.
type Aggregate[T, A any] struct {
	Add    func(acc A, obj T) A
	Remove func(acc A, obj T) A
}

// GroupBy is the collection of f(key, acc) for each key that key returns for an object of in. acc
// is what the objects that have the key amount to; f must not keep or change what it refers to. A
// change of an object costs one Remove, one Add, and one f, however large the group is. Otherwise
// it is as [Derive]. Errors name a group by its key as fmt prints it.
func GroupBy[T Object, K comparable, A any, U Object](g *Graph, in Collection[T], key func(T) K, agg Aggregate[T, A], f func(key K, acc A) U, name ...string) *Derived[U] {
	if key == nil || f == nil || agg.Add == nil || agg.Remove == nil {
		panic("lw: GroupBy: nil function")
	}
	from := inputOf(g, in, "GroupBy")
	return newDerived(g, nameOr[U]("GroupBy", name), sameForReaders[U], func(shown func(Key) (U, bool), faults *faults) operator[U] {
		return &groupByOperator[T, K, A, U]{
			byKey: newByKey(shown, faults), in: from, key: key, agg: agg, f: f,
			names: newGroupNames[K](), groups: map[K]*tally[A]{}, held: map[Key]heldBack[T]{},
		}
	})
}

type groupByOperator[T Identified, K comparable, A any, U Identified] struct {
	byKey[U]
	in     input[T]
	key    func(T) K
	agg    Aggregate[T, A]
	f      func(K, A) U
	names  groupNames[K]
	groups map[K]*tally[A]
	dirty  []K
	// held has the objects at which a function has panicked.
	held map[Key]heldBack[T]
	// recount says that the next step computes all groups from their objects, since a function
	// has panicked in this one: what has gone may still count, and an aggregate may be spoilt.
	recount bool
}

// A heldBack is an object of which not the newest version counts in a group.
type heldBack[T any] struct {
	counts T // the version that does; zero: none
	// stuck says that this version could not be taken out, or that there is a newer one since.
	// Whether the newest one can count will show when the groups are computed anew.
	stuck bool
}

// A tally is one group.
type tally[A any] struct {
	acc   A
	n     int  // of objects
	dirty bool // its key is in groupByOperator.dirty
}

func (o *groupByOperator[T, K, A, U]) inputs(yield func(anyInput) bool) { yield(o.in) }

// cause is what Verify says.
func (o *groupByOperator[T, K, A, U]) cause() string {
	return "a function is not pure, Remove does not undo Add, or a shared object was changed"
}

// wantsContent reports whether the step that has begun computes all groups.
func (o *groupByOperator[T, K, A, U]) wantsContent() bool { return o.recount }

func (o *groupByOperator[T, K, A, U]) run(whole bool) {
	if whole || o.recount {
		o.countAll(whole)
	} else {
		for _, c := range o.in.changes() {
			o.apply(c)
		}
	}
	for _, key := range o.dirty {
		o.compute(key)
	}
	o.dirty = o.dirty[:0]
}

// countAll makes the groups of all objects, which replace those that there are. first says that
// there are none yet.
func (o *groupByOperator[T, K, A, U]) countAll(first bool) {
	var none T
	before, held := o.groups, o.held
	o.recount, o.groups, o.held = false, map[K]*tally[A]{}, map[Key]heldBack[T]{}
	for _, c := range o.in.changes() {
		h, ok := held[c.Key]
		if !ok && !first {
			h.counts = c.Old
		}
		h.stuck = true // its newest version has not been tried
		held[c.Key] = h
	}
	count := func(key Key, obj T) bool {
		var leaving bool
		at := fault{function: functionAggregate, key: key}
		return equal.IsZero(obj) || o.faults.try(at, func() { o.move(none, obj, &leaving) })
	}
	for obj := range o.in.contents() {
		key := KeyOf(obj)
		h, was := held[key]
		if was && !h.stuck { // at the newest version a function has panicked before
			o.held[key] = h
			obj = h.counts
		}
		if count(key, obj) {
			continue
		}
		if !h.stuck || !count(key, h.counts) {
			h.counts = none
		}
		h.stuck = false
		o.held[key] = h
		o.again()
	}
	o.faults.clearWhere(functionAggregate, func(key Key) bool { _, is := o.held[key]; return !is })
	for key := range before {
		if o.groups[key] == nil {
			o.groups[key] = &tally[A]{dirty: true}
			o.dirty = append(o.dirty, key)
		}
	}
}

// again has the next step compute all groups.
func (o *groupByOperator[T, K, A, U]) again() {
	o.recount = true
	if !o.faults.silent {
		o.faults.graph.wake()
	}
}

// functionAggregate names the calls for one object together: of the key function, Add and Remove.
const functionAggregate = "aggregate"

func (o *groupByOperator[T, K, A, U]) apply(c settle.Change[T]) {
	if h, ok := o.held[c.Key]; ok {
		c.Old = h.counts
	}
	var leaving bool
	at := fault{function: functionAggregate, key: c.Key}
	if o.faults.try(at, func() { o.move(c.Old, c.New, &leaving) }) {
		delete(o.held, c.Key)
		o.faults.clear(at)
		return
	}
	o.held[c.Key] = heldBack[T]{c.Old, leaving}
	o.again()
}

// move takes old out of its group, and puts obj into its group. Either may be zero. Nothing is
// stored before the last call of a function. leaving says whether that which runs is for old.
func (o *groupByOperator[T, K, A, U]) move(old, obj T, leaving *bool) {
	var from, to K
	leaves, comes := !equal.IsZero(old), !equal.IsZero(obj)
	if *leaving = leaves; leaves {
		from = o.key(old)
		// Only a key function that is not pure leads to a group that is not there.
		leaves = o.groups[from] != nil
	}
	if *leaving = false; comes {
		to = o.key(obj)
		comes = to == to // NaN: no map would find the group again
	}
	var without, with A
	stored := false
	if leaves {
		g := o.groups[from]
		*leaving = true
		without = o.agg.Remove(g.acc, old)
		*leaving = false
		// Remove may have changed what g.acc refers to. If Add panics, old must count again, also
		// in this step.
		defer func() {
			if !stored {
				g.acc = o.agg.Add(without, old)
			}
		}()
	}
	if comes {
		switch g := o.groups[to]; {
		case leaves && from == to:
			with = o.agg.Add(without, obj)
		case g != nil:
			with = o.agg.Add(g.acc, obj)
		default:
			with = o.agg.Add(with, obj)
		}
	}
	stored = true
	if leaves {
		o.store(from, without, -1)
	}
	if comes {
		o.store(to, with, +1)
	}
}

func (o *groupByOperator[T, K, A, U]) store(key K, acc A, more int) {
	g := o.groups[key]
	if g == nil {
		g = &tally[A]{}
		o.groups[key] = g
	}
	g.acc = acc
	g.n += more
	if !g.dirty {
		g.dirty = true
		o.dirty = append(o.dirty, key)
	}
}

// compute makes the result of the group of key.
func (o *groupByOperator[T, K, A, U]) compute(key K) {
	g := o.groups[key]
	g.dirty = false
	name := o.names.of(key)
	at := fault{function: "function", key: name}
	var result U
	if g.n <= 0 {
		delete(o.groups, key)
		o.names.forget(key)
	} else {
		o.faults.computed.Add(1)
		if !o.faults.try(at, func() { result = identify(o.f(key, g.acc)) }) || !named(o.faults, at, result) {
			return
		}
	}
	o.faults.clear(at)
	o.set(name, result)
}

// GroupAll is the collection of f(key, objs) for each key that key returns for an object of in.
// objs are the objects that have the key, in the order of their own keys; f must not keep or change
// the slice. A change of an object costs one call with the whole group. Otherwise it is as
// [Derive].
func GroupAll[T Object, K comparable, U Object](g *Graph, in Collection[T], key func(T) K, f func(key K, objs []T) U, name ...string) *Derived[U] {
	if key == nil || f == nil {
		panic("lw: GroupAll: nil function")
	}
	from := inputOf(g, in, "GroupAll")
	return newDerived(g, nameOr[U]("GroupAll", name), sameForReaders[U], func(shown func(Key) (U, bool), faults *faults) operator[U] {
		return &groupOperator[T, K, U]{
			byKey: newByKey(shown, faults), in: from, key: key, f: f,
			names: newGroupNames[K](), objs: arrange.New[K, T, struct{}](),
		}
	})
}

type groupOperator[T Identified, K comparable, U Identified] struct {
	byKey[U]
	in    input[T]
	key   func(T) K
	f     func(K, []T) U
	names groupNames[K]
	objs  *arrange.Arrangement[K, T, struct{}]
	dirty []K // the groups whose results this step computes
	args  []T
}

func (o *groupOperator[T, K, U]) inputs(yield func(anyInput) bool) { yield(o.in) }

func (o *groupOperator[T, K, U]) run(whole bool) {
	feed(o.in, whole, o.apply)
	for _, key := range equal.Distinct(o.dirty) {
		o.compute(key)
	}
	o.dirty = o.dirty[:0]
}

func (o *groupOperator[T, K, U]) apply(key Key, obj T) {
	e := o.objs.Find(key)
	at := fault{function: "key", key: key}
	if equal.IsZero(obj) {
		o.faults.clear(at)
		if e != nil {
			groups := o.groupsOf(e)
			o.dirty = append(o.dirty, groups...)
			o.objs.Remove(e, groups)
		}
		return
	}
	var now []K
	if !o.faults.try(at, func() { now = o.groupOf(obj) }) {
		return
	}
	o.faults.clear(at)
	o.dirty = append(o.dirty, now...)
	o.objs.Put(key, obj, now, func(e *arrange.Entry[T, struct{}]) []K {
		was := o.groupsOf(e)
		o.dirty = append(o.dirty, was...)
		return was
	})
}

// groupOf returns the key of the group of obj, or nothing if that is not equal to itself (NaN).
func (o *groupOperator[T, K, U]) groupOf(obj T) []K { return equal.Distinct([]K{o.key(obj)}) }

// groupsOf returns the group in which e is. A key function that panics this time did not when e was
// put: then the groups are asked, and nothing is set aside.
func (o *groupOperator[T, K, U]) groupsOf(e *arrange.Entry[T, struct{}]) (groups []K) {
	if p := o.faults.attempt(fault{function: "key", key: e.Key}, func() { groups = o.groupOf(e.Object) }); p != nil {
		return o.objs.ValuesOf(e)
	}
	return groups
}

// compute makes the result of the group of key.
func (o *groupOperator[T, K, U]) compute(key K) {
	members := o.objs.Sorted(key)
	name := o.names.of(key)
	at := fault{function: "function", key: name}
	var result U
	if len(members) == 0 {
		o.names.forget(key)
	} else {
		o.args = o.args[:0]
		for _, e := range members {
			o.args = append(o.args, e.Object)
		}
		o.faults.computed.Add(1)
		ok := o.faults.try(at, func() { result = identify(o.f(key, o.args)) })
		clear(o.args)
		if !ok || !named(o.faults, at, result) {
			return
		}
	}
	o.faults.clear(at)
	o.set(name, result)
}

// groupNames has the key by which a collection knows each of its groups: that of the origin of a
// result, and in errors. It is the key of the group, if that is a Key or a string. Of other types
// it is the text that fmt prints, with a number where two keys have the same text.
type groupNames[K comparable] struct {
	direct func(K) Key // nil: names has them
	names  names.Set
	groups map[K]groupName
}

type groupName struct {
	base   string
	number int
	key    Key
}

func newGroupNames[K comparable]() groupNames[K] {
	for _, direct := range []any{
		func(key Key) Key { return key },
		func(name string) Key { return Key{Name: name} },
	} {
		if direct, ok := direct.(func(K) Key); ok {
			return groupNames[K]{direct: direct}
		}
	}
	return groupNames[K]{groups: map[K]groupName{}}
}

// of returns the name of the group of key.
func (g *groupNames[K]) of(key K) Key {
	if g.direct != nil {
		return g.direct(key)
	}
	n, ok := g.groups[key]
	if !ok {
		n.base = fmt.Sprint(key)
		n.key.Name, n.number = g.names.Take(n.base)
		g.groups[key] = n
	}
	return n.key
}

// forget gives back the name of a group that has no members any more.
func (g *groupNames[K]) forget(key K) {
	if n, ok := g.groups[key]; ok {
		g.names.Release(n.base, n.number)
		delete(g.groups, key)
	}
}
