package lw

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/mutation"
	"github.com/go-lw/lw/internal/settle"
	"github.com/go-lw/lw/internal/table"
)

// This file has the part that a [Derived] takes in the steps of its graph, as a node and as an
// input of other nodes.

func (d *Derived[T]) collection() *hub[T]  { return d.hub }
func (d *Derived[T]) derived() *Derived[T] { return d }
func (d *Derived[T]) indexer() *Indexer[T] { return d.hub.store }
func (d *Derived[T]) core() *hubCore       { return d.hub.hubCore }
func (d *Derived[T]) name() string         { return d.faults.collection }
func (d *Derived[T]) stage() stage         { return d.now }

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

func (d *Derived[T]) tellLocked(version string) {
	d.batch.SettleLocked()
	d.fired = d.hub.tellLocked(d.batch, version, d.now == joining)
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
		d.hub.log.Close()
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
