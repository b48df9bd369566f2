package lw

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/equal/mutation"
	"github.com/go-lw/lw/internal/graph/settle"
	"github.com/go-lw/lw/internal/table"
	"github.com/go-lw/lw/internal/table/signal"
)

// A Derived is a collection of a [Graph]: what a function makes of others. It may be made before
// [Graph.Run] and at any time after, and be derived from in turn. The version that its store
// reports is the number of the last step that changed a collection of the graph.
//
// A result is an object with a key of its own; an embedded [Meta] gives it one. It replaces the one
// that its key shows only if their UIDs differ, or the method Equal(T) bool of T says that they do.
// Without such a method reflect.DeepEqual decides, which leaves the resource version of an embedded
// Meta aside. If several inputs make a result of one key, that of the input with the smallest key
// is shown, and [DerivedStatus] names the conflict.
//
// The functions of a collection must be pure, and must not change their arguments. They are called
// without a lock in the goroutine of Graph.Run; Equal also in those of handlers, for folded
// changes.
type Derived[T Identified] struct {
	hub   *hub[T]
	graph *Graph
	over  sync.Once // stops the collection
	// newOperator returns a new operator, which also is its results. shown returns what the
	// operator before it has shown.
	newOperator func(shown func(Key) (T, bool), faults *faults) operator[T]

	// The fields below belong to the goroutine of Run.

	op      operator[T]
	varies  variable // op, if its inputs come and go; else nil
	now     stage
	batch   *table.Batch[T]
	fired   signal.Fired // by the commit of this step
	faults  *faults
	differs bool // Verify has found a difference in the last step
}

// An operator is what makes a collection of its inputs. It keeps what it needs of them, and its
// results.
type operator[T Identified] interface {
	// inputs calls yield for each input. Any goroutine may call it.
	inputs(yield func(anyInput) bool)
	// run calls the functions for what has changed in this step, or for all there is if whole is
	// true. Then it is the first call.
	run(whole bool)
	results[T]
}

// variable is an operator whose inputs come and go: that of a union. Its methods are those of node;
// needs is that of Derived.
type variable interface {
	takeLocked()
	finish()
	held(yield func(anyInput) bool)
	needs(yield func(anyInput) bool)
}

// results are what an operator has worked out: a *settle.Results.
type results[T Identified] interface {
	// Decide ends the claims of this step, and reports conflicts.
	Decide()
	// Changes returns the changes of this step.
	Changes() []settle.Change[T]
	// Changed reports whether a change of key is among them.
	Changed(key Key) bool
	// Reset begins the next step.
	Reset()
}

// newDerived adds a collection to g, whose results are compared by same. newOperator is as in
// Derived.
func newDerived[T Identified](g *Graph, name string, same func(x *faults) func(a, b T) bool, newOperator func(shown func(Key) (T, bool), faults *faults) operator[T]) *Derived[T] {
	opts := &Options{Name: g.opts.Name + "/" + name, OnPanic: g.opts.OnPanic}
	d := &Derived[T]{hub: newHub[T](opts, &g.gate.mu), graph: g, newOperator: newOperator, faults: newFaults(g, name)}
	d.hub.store.gate = &g.gate
	d.hub.log.same = same(d.faults)
	d.hub.explain = d.explain
	d.hub.status, d.hub.running = d.Status, &g.handlers
	d.hub.refuses, d.hub.doing = g.calls.cannotWait, g.calls.text
	d.op = newOperator(d.hub.store.store.Get, d.faults)
	d.varies, _ = d.op.(variable)
	d.hub.needs = func(yield func(*hubCore) bool) {
		for in := range d.needs {
			if !yield(in.core()) {
				return
			}
		}
	}
	d.batch = d.hub.store.store.NewBatch()
	if g.opts.OnPanic != nil {
		d.batch.Recover = func(key Key, v any) (drop bool) {
			g.opts.OnPanic(d.faults.panic("index", key, v))
			return false
		}
	}
	g.add(d)
	return d
}

// Store is as [Informer.Store].
func (d *Derived[T]) Store() Reader[T] { return d.hub.store }

// AddHandler is as [Informer.AddHandler]. All reads of the graph show a change before h gets it.
func (d *Derived[T]) AddHandler(h Handler[T]) *Registration { return d.hub.addHandler(h) }

// Events is as [Informer.Events].
func (d *Derived[T]) Events(ctx context.Context) iter.Seq[Delta[T]] { return d.hub.events(ctx) }

// WaitForSync waits until the collection shows what is derived from a first whole list of each of
// its informers. The error names those that have not synced or have stopped, and wraps their
// failures and the cause of ctx, or [ErrStopped].
func (d *Derived[T]) WaitForSync(ctx context.Context) error { return d.hub.waitForSync(ctx) }

// Synced returns a channel that is closed when the collection has synced.
func (d *Derived[T]) Synced() <-chan struct{} { return d.hub.synced }

// Stopped is as [Informer.Stopped], also for a collection that is closed.
func (d *Derived[T]) Stopped() <-chan struct{} { return d.hub.stopped }

// Changed is as [Informer.Changed].
func (d *Derived[T]) Changed(ctx context.Context, keys ...Key) <-chan struct{} {
	return d.hub.changes.Wait(ctx, nil, keys...)
}

// Close takes the collection, and all that is derived from it, out of the graph, and returns the
// names of the others. Their handlers are removed, and waits end with [ErrStopped]; their stores
// keep what they show. Close does not wait for calls that are running. To close a member of a
// [Union] alone, take it out of the union first.
func (d *Derived[T]) Close() (behind []string) { return d.graph.remove(d) }

// nameOr returns the one that name holds, or the name of T. It panics if there are two: op would
// drop the second one.
func nameOr[T any](op string, name []string) string {
	if len(name) > 1 {
		panic(fmt.Sprintf("lw: %s: %d names for one collection: %q", op, len(name), name))
	}
	if len(name) == 1 && name[0] != "" {
		return name[0]
	}
	return typeName[T]()
}

// feed calls apply for each object of in that has changed in this step, or for all objects if whole
// is true or if in joins. obj is zero if the object is gone.
func feed[T Identified](in input[T], whole bool, apply func(key Key, obj T)) {
	if whole || in.stage() == joining {
		for obj := range in.contents() {
			apply(KeyOf(obj), obj)
		}
		return
	}
	for _, c := range in.changes() {
		apply(c.Key, c.New)
	}
}

// Derive is the collection of f(obj) for each obj of in. f leaves obj out by returning the zero U
// (nil). A change of obj costs one call; an equal result goes no further. name is the name in
// errors and in [GraphStatus]; default: the name of U. Derive panics if in or f is nil.
func Derive[T, U Object](g *Graph, in Collection[T], f func(T) U, name ...string) *Derived[U] {
	if f == nil {
		panic("lw: Derive: nil function")
	}
	from := inputOf(g, in, "Derive")
	return newDerived(g, nameOr[U]("Derive", name), sameForReaders[U], func(shown func(Key) (U, bool), faults *faults) operator[U] {
		o := &deriveOperator[T, U]{byKey: newByKey(shown, faults), in: from, f: f}
		o.onChange = o.apply
		return o
	})
}

type deriveOperator[T, U Identified] struct {
	byKey[U]
	in       input[T]
	f        func(T) U
	onChange func(Key, T) // apply, as a field so that it is allocated once
}

func (o *deriveOperator[T, U]) inputs(yield func(anyInput) bool) { yield(o.in) }

func (o *deriveOperator[T, U]) run(whole bool) { feed(o.in, whole, o.onChange) }

func (o *deriveOperator[T, U]) apply(key Key, obj T) {
	var result U
	at := fault{function: "function", key: key}
	if !equal.IsZero(obj) {
		o.faults.computed.Add(1)
		if !o.faults.try(at, func() { result = identify(o.f(obj)) }) || !named(o.faults, at, result) {
			return
		}
	}
	o.faults.clear(at)
	o.set(key, result)
}

// DeriveMany is as [Derive], for all that f yields for each obj of in; nil is nothing. Of what one
// obj makes with one key, the first counts.
func DeriveMany[T, U Object](g *Graph, in Collection[T], f func(T) iter.Seq[U], name ...string) *Derived[U] {
	if f == nil {
		panic("lw: DeriveMany: nil function")
	}
	from := inputOf(g, in, "DeriveMany")
	return newDerived(g, nameOr[U]("DeriveMany", name), sameForReaders[U], func(shown func(Key) (U, bool), faults *faults) operator[U] {
		byKey := newByKey(shown, faults)
		return &manyOperator[T, U]{Results: byKey.Results, faults: faults, in: from, f: f, made: map[Key][]Key{}}
	})
}

type manyOperator[T, U Identified] struct {
	*settle.Results[Key, U]
	faults *faults
	in     input[T]
	f      func(T) iter.Seq[U]
	made   map[Key][]Key // the keys of the results of each origin
}

func (o *manyOperator[T, U]) inputs(yield func(anyInput) bool) { yield(o.in) }

func (o *manyOperator[T, U]) run(whole bool) { feed(o.in, whole, o.apply) }

func (o *manyOperator[T, U]) apply(key Key, obj T) {
	var results []U
	var keys []Key
	at := fault{function: "function", key: key}
	if !equal.IsZero(obj) {
		o.faults.computed.Add(1)
		ok := o.faults.try(at, func() {
			seen := map[Key]bool{}
			for result := range orNone(o.f(obj)) {
				if equal.IsZero(result) || seen[KeyOf(identify(result))] {
					continue
				}
				seen[KeyOf(result)] = true
				results, keys = append(results, result), append(keys, KeyOf(result))
			}
		})
		if !ok {
			return
		}
		for _, result := range results {
			if !named(o.faults, at, result) {
				return
			}
		}
	}
	o.faults.clear(at)
	kept := make(map[Key]bool, len(keys))
	for i, result := range results {
		kept[keys[i]] = true
		if o.Put(key, keys[i], result) {
			o.faults.unchanged.Add(1)
		}
	}
	for _, was := range o.made[key] {
		if !kept[was] {
			o.Drop(key, was)
		}
	}
	if len(keys) > 0 {
		o.made[key] = keys
	} else {
		delete(o.made, key)
	}
}

// What follows is the part that a [Derived] takes in the steps of its graph, as a node and as an
// input of other nodes.

func (d *Derived[T]) collection() *hub[T]               { return d.hub }
func (d *Derived[T]) derived() *Derived[T]              { return d }
func (d *Derived[T]) indexer() *Indexer[T]              { return d.hub.store }
func (d *Derived[T]) core() *hubCore                    { return d.hub.hubCore }
func (d *Derived[T]) name() string                      { return d.faults.collection }
func (d *Derived[T]) object(key Key) (Identified, bool) { return d.hub.object(key) }
func (d *Derived[T]) stage() stage                      { return d.now }

// snapshotLocked is called with gate.look held.
func (d *Derived[T]) snapshotLocked() any { return &Snapshot[T]{d.hub.store.contentLocked()} }

func (d *Derived[T]) takeLocked() {
	if d.varies != nil {
		d.varies.takeLocked()
	}
}

func (d *Derived[T]) begin() {
	if d.now != waiting {
		return
	}
	for in := range d.needs {
		if in.stage() == waiting {
			return
		}
	}
	d.now = joining
}

func (d *Derived[T]) wantsContent() bool {
	if d.now != joined {
		return d.now == joining
	}
	later, ok := d.op.(interface{ wantsContent() bool })
	return ok && later.wantsContent()
}

func (d *Derived[T]) inputs(yield func(anyInput) bool) { d.op.inputs(yield) }

func (d *Derived[T]) held(yield func(anyInput) bool) {
	if d.varies != nil {
		d.varies.held(yield)
		return
	}
	d.op.inputs(yield)
}

// needs calls yield for each input that must have content before the collection joins: all, but of
// a union only those that it was made with. It always yields the same inputs, and any goroutine may
// call it.
func (d *Derived[T]) needs(yield func(anyInput) bool) {
	if d.varies != nil {
		d.varies.needs(yield)
		return
	}
	d.op.inputs(yield)
}

func (d *Derived[T]) compute() {
	if d.now == waiting {
		return
	}
	d.op.run(d.now == joining)
	d.op.Decide()
	for _, c := range d.op.Changes() {
		d.batch.Put(c.Key, c.New)
	}
}

func (d *Derived[T]) changes() []settle.Change[T] {
	if d.now == joining {
		return nil
	}
	return d.op.Changes()
}

func (d *Derived[T]) contents() iter.Seq[T] {
	return func(yield func(T) bool) {
		for obj := range d.hub.store.All() {
			if !d.op.Changed(KeyOf(obj)) && !yield(obj) {
				return
			}
		}
		for _, c := range d.op.Changes() {
			if !equal.IsZero(c.New) && !yield(c.New) {
				return
			}
		}
	}
}

func (d *Derived[T]) changed() bool     { return d.now == joining || d.batch.Len() > 0 }
func (d *Derived[T]) readyLocked() bool { return d.batch.ReadyLocked() }
func (d *Derived[T]) awaitLocked()      { d.batch.AwaitLocked() }

func (d *Derived[T]) prepare() {
	d.faults.enter("index", Key{})
	d.batch.Compute()
}

func (d *Derived[T]) setVersionLocked(version string) {
	if d.now != waiting {
		d.hub.store.store.SetVersionLocked(version)
	}
}

func (d *Derived[T]) writesLocked() int {
	if d.batch.LongLocked() {
		return max(d.batch.Len(), table.Brief+1)
	}
	return d.batch.Len()
}

func (d *Derived[T]) keepLocked() { d.hub.store.before = d.hub.store.store.SnapshotLocked() }

func (d *Derived[T]) commitLocked(long bool) { d.batch.CommitLocked(long) }

func (d *Derived[T]) showLocked() {
	d.batch.ShowLocked()
	d.hub.store.before = nil
}

func (d *Derived[T]) publishLocked(version string) {
	d.batch.SettleLocked()
	d.fired = d.hub.publishLocked(d.batch, version, d.now == joining)
}

func (d *Derived[T]) finish() {
	if d.varies != nil {
		d.varies.finish()
	}
	d.now = d.now.next()
	d.op.Reset()
	clear(d.faults.unequal)
	d.batch.Release()
	d.fired.Release()
	d.fired = nil
	d.hub.notify()
}

func (d *Derived[T]) stop() {
	d.over.Do(func() {
		d.hub.stop()
		d.hub.log.close()
		d.hub.changes.Close()
	})
}

// errVerify is in the error of a difference that GraphOptions.Verify finds.
var errVerify = errors.New("verify")

func (d *Derived[T]) verify() {
	if d.now == waiting || d.faults.any() {
		return // what is set aside is not what a new computation gives
	}
	none := func(Key) (obj T, ok bool) { return obj, false }
	silent := newFaults(d.graph, d.faults.collection)
	silent.silent = true
	fresh := d.newOperator(none, silent)
	fresh.run(true)
	fresh.Decide()
	want := map[Key]T{}
	for _, c := range fresh.Changes() {
		want[c.Key] = c.New
	}
	got := map[Key]T{}
	for obj := range d.contents() {
		got[KeyOf(obj)] = obj
	}
	// One fault mostly changes many objects, and all steps from then on. So the first object that
	// differs is named, and the others are counted, once as long as there are some.
	var first Key
	var what string
	differing := 0
	differ := func(key Key, how string) {
		if differing++; differing == 1 || compareKeys(key, first) < 0 {
			first, what = key, how
		}
	}
	for key, obj := range got {
		switch other, ok := want[key]; {
		case !ok:
			differ(key, "it is shown, but a new computation does not make it")
		case !d.hub.log.same(obj, other):
			paths, _ := mutation.Paths(obj, other)
			differ(key, "a new computation makes another one: "+strings.Join(paths, ", "))
		}
	}
	for key := range want {
		if _, ok := got[key]; !ok {
			differ(key, "it is not shown, but a new computation makes it")
		}
	}
	known := d.differs
	if d.differs = differing > 0; !d.differs || known {
		return
	}
	if differing > 1 {
		what += fmt.Sprintf(" (and %d more)", differing-1)
	}
	d.faults.report(first, fmt.Errorf("%w: %s: %s", errVerify, d.cause(), what))
}

// cause says what makes a collection differ from a new computation.
func (d *Derived[T]) cause() string {
	if c, ok := d.op.(interface{ cause() string }); ok {
		return c.cause()
	}
	return "a function is not pure, or a shared object was changed"
}
