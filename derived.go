package lw

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/settle"
	"github.com/go-lw/lw/internal/table"
)

// A Derived is a collection of a [Graph]: what a function makes of others. It may be made before
// [Graph.Run] and at any time after, and be derived from in turn. The version that its store reports
// is the number of the last step of the graph that changed any of its collections. So collections of
// one graph that report the same version show one state.
//
// A result is an object with a key of its own; an embedded [Meta] gives it one. It replaces the
// object that its key shows only if it differs from that: if their UIDs differ, or the method
// Equal(T) bool of T says so. If T has no such method reflect.DeepEqual decides, which leaves the
// resource version of an embedded Meta aside. Equal may be called with a lock held, and must not
// block. Where several inputs make a result of one key, that of the input with the smallest key is
// shown, and [DerivedStatus] names the conflict.
//
// The functions of a collection must be pure: what they return depends on their arguments alone.
// They must not change their arguments, nor read collections of the graph. They are called in the
// goroutine of [Graph.Run], without a lock. The objects are shared with all readers and with other
// collections, and must not be changed.
type Derived[T Identified] struct {
	hub   *hub[T]
	graph *Graph
	over  sync.Once // stops the collection
	// anew returns a new operator, and what it has worked out. shown returns what the operator has
	// shown before.
	anew func(shown func(Key) (T, bool), faults *faults) operator[T]

	// The fields below belong to the goroutine of Run.

	op     operator[T]
	live   bool // it has joined
	enters bool // it joins in this step
	batch  *table.Batch[T]
	faults *faults
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

// anyInput is an input without the type of its objects.
type anyInput interface {
	core() *hubCore
	ready() bool
	unsynced(yield func(*hubCore) bool) bool
	// use adds n to the number of nodes that read the input, and returns it. Called under
	// Graph.life.
	use(n int) int
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

// newDerived adds a collection to g, whose results are compared by same. anew is as in Derived.
func newDerived[T Identified](g *Graph, name string, same func(a, b T) bool, anew func(shown func(Key) (T, bool), faults *faults) operator[T]) *Derived[T] {
	opts := &Options{Name: g.opts.Name + "/" + name, OnPanic: g.opts.OnPanic}
	d := &Derived[T]{hub: newHub[T](opts, &g.gate.mu), graph: g, anew: anew, faults: newFaults(g, name)}
	d.hub.store.gate = &g.gate
	d.hub.log.same = same
	d.hub.explain = d.explain
	d.op = anew(d.hub.store.store.Get, d.faults)
	d.batch = d.hub.store.store.NewBatch()
	if g.opts.OnPanic != nil {
		d.batch.Recover = func(key Key, v any) { g.opts.OnPanic(d.faults.panic("index", key, v)) }
	}
	g.add(d)
	return d
}

// Store returns the copy of the collection. It is empty until the collection has synced. It may be
// read at any time, also after the graph has stopped.
func (d *Derived[T]) Store() Reader[T] { return d.hub.store }

// AddHandler registers h, as [Informer.AddHandler] does. The handler is called after every read of
// every collection of the graph shows the change.
func (d *Derived[T]) AddHandler(h Handler[T]) *Registration { return d.hub.addHandler(h) }

// Events returns a sequence of all changes, as [Informer.Events] does.
func (d *Derived[T]) Events(ctx context.Context) iter.Seq[Delta[T]] { return d.hub.events(ctx) }

// WaitForSync waits until the collection shows what is derived from a first whole list of each of
// its informers, and then returns nil. Otherwise the error names the informers that have not synced,
// and wraps their failures and the cause of ctx, or [ErrStopped].
func (d *Derived[T]) WaitForSync(ctx context.Context) error { return d.hub.waitForSync(ctx) }

// Synced returns a channel that is closed when the collection has synced, as WaitForSync says it.
func (d *Derived[T]) Synced() <-chan struct{} { return d.hub.synced }

// Stopped returns a channel that is closed when the collection stops, with its graph or by Close.
func (d *Derived[T]) Stopped() <-chan struct{} { return d.hub.stopped }

// Close takes the collection, and all that is derived from it, out of the graph. Their handlers are
// removed, and waits end with [ErrStopped]. Close does not wait for calls that are running. It may
// be called more than once.
func (d *Derived[T]) Close() { d.graph.remove(d) }

func (d *Derived[T]) collection() *hub[T]  { return d.hub }
func (d *Derived[T]) derived() *Derived[T] { return d }
func (d *Derived[T]) indexer() *Indexer[T] { return d.hub.store }
func (d *Derived[T]) core() *hubCore       { return d.hub.hubCore }
func (d *Derived[T]) ready() bool          { return d.live || d.enters }
func (d *Derived[T]) joining() bool        { return d.enters }
func (d *Derived[T]) use(int) int          { return 1 }
func (d *Derived[T]) snapshotLocked() any  { return d.hub.store.snapshotLocked() }

func (d *Derived[T]) wantsContent() bool {
	late, ok := d.op.(interface{ wantsContent() bool })
	return !d.live || ok && late.wantsContent()
}

func (d *Derived[T]) inputs(yield func(anyInput) bool) { d.op.inputs(yield) }

func (d *Derived[T]) compute() {
	if !d.live {
		for in := range d.op.inputs {
			if !in.ready() {
				return
			}
		}
		d.enters = true
	}
	d.op.run(d.enters)
	d.op.Decide()
	for _, c := range d.op.Changes() {
		d.batch.Put(c.Key, c.New)
	}
}

func (d *Derived[T]) changes() []settle.Change[T] {
	if d.enters {
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

func (d *Derived[T]) verify() {
	if !d.ready() || d.faults.any() {
		return // what is set aside is not what a new computation gives
	}
	none := func(Key) (obj T, ok bool) { return obj, false }
	fresh := d.anew(none, &faults{graph: d.graph, collection: d.faults.collection, silent: true})
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
	for key, obj := range got {
		switch other, ok := want[key]; {
		case !ok:
			d.faults.report(key, fmt.Errorf("%w: it is shown, but a new computation does not make it", errVerify))
		case !d.hub.log.same(obj, other):
			paths, _ := changedPaths(obj, other)
			d.faults.report(key, fmt.Errorf("%w: a new computation makes another one: %s", errVerify, strings.Join(paths, ", ")))
		}
	}
	for key := range want {
		if _, ok := got[key]; !ok {
			d.faults.report(key, fmt.Errorf("%w: it is not shown, but a new computation makes it", errVerify))
		}
	}
}

func (d *Derived[T]) changed() bool     { return d.enters || d.batch.Len() > 0 }
func (d *Derived[T]) prepare()          { d.batch.Compute() }
func (d *Derived[T]) readyLocked() bool { return d.batch.ReadyLocked() }
func (d *Derived[T]) awaitLocked()      { d.batch.AwaitLocked() }

func (d *Derived[T]) commitLocked(version string) {
	delta := Delta[T]{Type: Updated, Cause: CauseDerived, ResourceVersion: version}
	d.batch.CommitLocked(func(old, obj T) {
		if !d.enters { // who waits for the first content begins with a snapshot of it
			delta.Old, delta.New = old, obj
			emit(delta, d.hub.log.put)
		}
	})
	if d.live || d.enters {
		d.hub.store.store.SetVersionLocked(version)
	}
	if d.enters {
		d.hub.syncLocked()
	}
}

func (d *Derived[T]) finish() {
	if d.enters {
		d.live, d.enters = true, false
	}
	d.op.Reset()
	d.hub.log.notify()
}

func (d *Derived[T]) stop() {
	d.over.Do(func() {
		d.hub.stop()
		d.hub.log.Close()
	})
}

func (d *Derived[T]) unsynced(yield func(*hubCore) bool) bool {
	if isClosed(d.hub.synced) {
		return true
	}
	for in := range d.op.inputs {
		if !in.unsynced(yield) {
			return false
		}
	}
	return true
}

// explain returns the error of a wait for sync that cause has ended.
func (d *Derived[T]) explain(cause error) error {
	if isClosed(d.hub.synced) { // it was a handler that was waited for
		return fmt.Errorf("lw: %s: handler not synced (%d changes pending): %w", d.hub.opts.Name, d.hub.pending(), cause)
	}
	var names []string
	var errs []error
	d.unsynced(func(core *hubCore) bool {
		if !slices.Contains(names, core.opts.Name) {
			names = append(names, core.opts.Name)
			errs = append(errs, core.unsynced(nil))
		}
		return true
	})
	what := "not synced"
	switch {
	case !d.graph.running():
		what += ", since the Run of the graph has not been called"
	case len(names) > 0:
		what += ", since it waits for " + strings.Join(names, ", ")
	}
	if cause != nil {
		errs = append(errs, cause)
	}
	return &derivedError{fmt.Sprintf("lw: %s: %s", d.hub.opts.Name, what), errs}
}

// A derivedError says why a collection has not synced, with the causes.
type derivedError struct {
	what string
	errs []error
}

func (e *derivedError) Error() string {
	text := []string{e.what}
	for _, err := range e.errs {
		text = append(text, strings.TrimPrefix(err.Error(), "lw: "))
	}
	return strings.Join(text, ": ")
}

func (e *derivedError) Unwrap() []error { return e.errs }

func (d *Derived[T]) status() DerivedStatus {
	s := DerivedStatus{
		Name: d.faults.collection, Synced: isClosed(d.hub.synced),
		Objects: d.hub.store.Len(), Pending: d.hub.pending(),
	}
	for in := range d.op.inputs {
		s.From = append(s.From, strings.TrimPrefix(in.core().opts.Name, d.graph.opts.Name+"/"))
	}
	f := d.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.conflicts) > 0 {
		s.Conflicts = maps.Clone(f.conflicts)
	}
	if len(f.setAside) > 0 {
		s.SetAside = maps.Clone(f.setAside)
	}
	s.Computed, s.Unchanged = f.computed.Load(), f.unchanged.Load()
	return s
}
