package lw

import (
	"iter"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/settle"
)

// This file has the part that a [Derived] takes in the steps of its graph, as a node and as an
// input of other nodes.

func (d *Derived[T]) collection() *hub[T]  { return d.hub }
func (d *Derived[T]) derived() *Derived[T] { return d }
func (d *Derived[T]) indexer() *Indexer[T] { return d.hub.store }
func (d *Derived[T]) core() *hubCore       { return d.hub.hubCore }
func (d *Derived[T]) ready() bool          { return d.live || d.enters }
func (d *Derived[T]) joining() bool        { return d.enters }
func (d *Derived[T]) use(int) int          { return 1 }
func (d *Derived[T]) snapshotLocked() any  { return d.hub.store.snapshotLocked() }

func (d *Derived[T]) opens() bool {
	if d.live {
		return true
	}
	for in := range d.needs {
		if !in.opens() {
			return false
		}
	}
	return true
}

func (d *Derived[T]) wantsContent() bool {
	late, ok := d.op.(interface{ wantsContent() bool })
	return !d.live && d.opens() || ok && late.wantsContent()
}

func (d *Derived[T]) inputs(yield func(anyInput) bool) { d.op.inputs(yield) }

// needs calls yield for each input that must be ready before the collection joins: all, but of a
// union only those that it was made with.
func (d *Derived[T]) needs(yield func(anyInput) bool) {
	if u, ok := d.op.(interface{ needs(func(anyInput) bool) }); ok {
		u.needs(yield)
		return
	}
	d.op.inputs(yield)
}

func (d *Derived[T]) compute() {
	if !d.live {
		for in := range d.needs {
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

func (d *Derived[T]) changed() bool     { return d.enters || d.batch.Len() > 0 }
func (d *Derived[T]) prepare()          { d.batch.Compute() }
func (d *Derived[T]) readyLocked() bool { return d.batch.ReadyLocked() }
func (d *Derived[T]) awaitLocked()      { d.batch.AwaitLocked() }

func (d *Derived[T]) setVersionLocked(version string) {
	if d.ready() {
		d.hub.store.store.SetVersionLocked(version)
	}
}

func (d *Derived[T]) commitLocked(version string) {
	delta := Delta[T]{Type: Updated, Cause: CauseDerived, ResourceVersion: version}
	d.batch.CommitLocked(func(old, obj T) {
		if d.enters { // who waits for the first content begins with a snapshot of it
			return
		}
		delta.Old, delta.New = old, obj
		if d.hub.changes.Waiting() {
			key := change[T]{old, obj}.key()
			d.fired = append(d.fired, d.hub.changes.Fire(key)...)
		}
		emit(delta, d.hub.log.put)
	})
	if d.enters {
		d.fired = d.hub.changes.FireWhere(func(key Key) bool {
			_, ok := d.hub.store.store.Get(key)
			return ok
		})
		d.hub.syncLocked()
	}
}

func (d *Derived[T]) finish() {
	if d.enters {
		d.live, d.enters = true, false
	}
	d.op.Reset()
	clear(d.faults.unequal)
	d.batch.Release()
	d.fired.Release()
	d.fired = nil
	d.hub.log.notify()
}

func (d *Derived[T]) stop() {
	d.over.Do(func() {
		d.hub.stop()
		d.hub.log.Close()
		d.hub.changes.Close()
	})
}
