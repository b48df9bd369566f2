package lw

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/graph/settle"
)

// faults are what a collection of a graph could not make, and how much it has made. The goroutine
// of Run writes them.
type faults struct {
	graph      *Graph
	collection string
	silent     bool // for a computation that is only compared: nothing is reported

	// unequal has the results at which Equal has panicked in this step. It is not called again for
	// them, so that one change is reported once. The goroutine of Run alone uses it.
	unequal map[Key]bool

	computed, unchanged atomic.Uint64 // as in DerivedStatus

	mu        sync.Mutex
	setAside  map[fault]error
	conflicts map[Key]error
}

// A fault is a call that failed: the name of the function, and the key of the object or group that
// it was called for. other is the right of a pair.
type fault struct {
	function   string
	key, other Key
}

func newFaults(g *Graph, collection string) *faults {
	return &faults{graph: g, collection: collection, setAside: map[fault]error{}, conflicts: map[Key]error{}, unequal: map[Key]bool{}}
}

// try calls f, which makes the call of at. If that panics and OnPanic is set, try sets the object
// aside and returns false. f must change nothing before the last call of a function.
func (fs *faults) try(at fault, f func()) (ok bool) {
	p := fs.attempt(at, f)
	if p == nil {
		return true
	}
	if !fs.silent {
		fs.set(at, p)
	}
	return false
}

// attempt is try for a call that the collection can do without: it sets nothing aside. It returns
// the panic, which OnPanic was called with; nil if there was none.
func (fs *faults) attempt(at fault, f func()) (p *Panic) {
	fs.enter(at.function, at.key)
	return fs.recovering(at, f)
}

// recovering is attempt for any goroutine.
func (fs *faults) recovering(at fault, f func()) (p *Panic) {
	if fs.graph.opts.OnPanic != nil {
		defer func() {
			if v := recover(); v != nil {
				p = fs.panic(at.function, at.key, v)
				if !fs.silent {
					fs.graph.opts.OnPanic(p)
				}
			}
		}()
	}
	f()
	return nil
}

// enter notes that a function is about to be called for key.
func (fs *faults) enter(function string, key Key) { fs.graph.calls.enter(fs, function, key) }

// calls tells which function of the user's the goroutine of Run is in. Functions follow each other
// closely, so none is noted to have returned before the step is done with them.
//
// A change makes a dozen calls, so none of them takes a lock. They are noted one behind the other,
// and a note is not written again before mu was taken. So whoever holds mu reads the last one.
type calls struct {
	goroutine atomic.Uint64 // of Run; see goroutineNumber

	notes [32]call
	n     atomic.Uint32 // notes[n-1] is the last call; becomes less only under mu

	mu    sync.Mutex
	began time.Time // when the step began; zero: there is none
}

// A call is one of a function of a collection.
type call struct {
	faults   *faults
	function string
	key      Key // of the object or group that it was called for; zero for an index
}

// String returns GraphStatus.Call.
func (c call) String() string {
	text := c.function + " of " + c.faults.collection
	if c.key != (Key{}) {
		text += " at " + keyString(c.key)
	}
	return text
}

// step notes that a step begins at began, or that it is over if began is zero.
func (c *calls) step(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = began
	c.n.Store(0)
	if began.IsZero() {
		clear(c.notes[:])
	}
}

// enter notes that a function is about to be called for key.
func (c *calls) enter(x *faults, function string, key Key) {
	n := c.n.Load()
	if n == uint32(len(c.notes)) {
		n = c.begin()
	}
	// Field by field: a literal would be made first and copied then, for a third of the cost.
	note := &c.notes[n%uint32(len(c.notes))]
	note.faults, note.function, note.key = x, function, key
	c.n.Store(n + 1)
}

// begin has the notes written anew. The last one is kept, since the step is still in that call.
func (c *calls) begin() (n uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes[0] = c.notes[len(c.notes)-1]
	c.n.Store(1)
	return 1
}

// last returns the call that the step is in, or was in last, and when the step began. That is zero
// if there was no call.
func (c *calls) last() (now call, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n.Load()
	if c.began.IsZero() || n == 0 {
		return call{}, time.Time{}
	}
	return c.notes[n-1], c.began
}

// errWaitInside is in the error of a wait that could never end.
var errWaitInside = errors.New("a function of a graph cannot wait for the graph")

// cannotWait returns an error if the goroutine of Run asks: what it waits for would be shown at the
// end of the step that it is in.
func (c *calls) cannotWait() error {
	if n := c.goroutine.Load(); n == 0 || n != goroutineNumber() {
		return nil
	}
	return errWaitInside
}

// text says for the error of a wait what the step is in; "" if there is no step.
func (c *calls) text() string {
	now, began := c.last()
	if began.IsZero() {
		return ""
	}
	return fmt.Sprintf(", the step of the graph is in %v, and began %v ago", now, time.Since(began))
}

// panic describes a panic with v.
func (fs *faults) panic(function string, key Key, v any) *Panic {
	return &Panic{Informer: fs.graph.opts.Name + "/" + fs.collection, Handler: function, Key: key, Value: v, Stack: debug.Stack()}
}

// set notes why a call has failed.
func (fs *faults) set(at fault, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.setAside[at] = err
}

// clear notes that a call has not failed the last time, or is not needed any more.
func (fs *faults) clear(at fault) {
	if fs.silent || len(fs.setAside) == 0 { // only this goroutine writes it
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.setAside, at)
}

// clearWhere is clear for all calls of function at the objects for whose keys f returns true.
func (fs *faults) clearWhere(function string, f func(Key) bool) {
	if fs.silent {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	maps.DeleteFunc(fs.setAside, func(at fault, _ error) bool { return at.function == function && f(at.key) })
}

// any reports whether an object is set aside.
func (fs *faults) any() bool { return len(fs.setAside) > 0 }

// aside returns the objects that are set aside, and why; nil if there are none.
func (fs *faults) aside() map[Key]error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.setAside) == 0 {
		return nil
	}
	all := make(map[Key]error, len(fs.setAside))
	for at, err := range fs.setAside {
		if before := all[at.key]; before != nil {
			err = errors.Join(before, err)
		}
		all[at.key] = err
	}
	return all
}

// named reports whether obj, which the call of at has returned, can be in a collection. If not, the
// object of at is set aside.
func named[T Identified](x *faults, at fault, obj T) bool {
	if equal.IsZero(obj) || obj.GetName() != "" {
		return true
	}
	if !x.silent {
		x.set(at, errNoName("result"))
		x.report(at.key, errNoName("result"))
	}
	return false
}

// identify calls the methods that tell what obj is. A function calls it with its result, inside of
// try: so they do not panic later, when a lock is held.
func identify[T Identified](obj T) T {
	if !equal.IsZero(obj) {
		obj.GetNamespace()
		obj.GetName()
		obj.GetUID()
		obj.GetResourceVersion()
	}
	return obj
}

// report calls OnError.
func (fs *faults) report(key Key, err error) {
	fs.graph.opts.OnError(&Error{Informer: fs.graph.opts.Name + "/" + fs.collection, Op: opDerive, Key: key, Err: err})
}

// conflict notes which of several origins make a result of key, or that this is over. It reports a
// conflict that is new.
func (fs *faults) conflict(key Key, shown, rival string, several bool) {
	err := fmt.Errorf("several inputs make this result: that of %s is shown, and not that of %s", shown, rival)
	if fs.note(key, err, several) {
		fs.report(key, err)
	}
}

// overlap is conflict for the members of a union. They may have all keys in common, and on purpose:
// the status says so, and nothing is reported.
func (fs *faults) overlap(key Key, shown, rival string) {
	fs.note(key, fmt.Errorf("several members have this object: that of %s is shown, and not that of %s", shown, rival), true)
}

// note notes the conflict err of key, or that it is over. It returns whether it is a new one.
func (fs *faults) note(key Key, err error, several bool) (isNew bool) {
	if fs.silent {
		return false
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !several {
		delete(fs.conflicts, key)
		return false
	}
	_, known := fs.conflicts[key]
	fs.conflicts[key] = err
	return !known
}

// sameResult returns the function that says whether two results of one key do not differ. It is
// for the goroutine of Run. If Equal panics they differ: to tell of an update too many is better
// than to show what has changed.
func sameResult[T Identified](x *faults) func(a, b T) bool {
	return sameUnless(func(a, b T) (same bool) {
		at := fault{function: functionEqual, key: KeyOf(b)}
		if x.unequal[at.key] {
			return false
		}
		if x.attempt(at, func() { same = callEqual(a, b) }) != nil {
			x.unequal[at.key] = true
		}
		return same
	})
}

// sameForReaders is sameResult for the goroutines that read the collection's changes, such as those
// of handlers.
func sameForReaders[T Identified](x *faults) func(a, b T) bool {
	return sameUnless(func(a, b T) (same bool) {
		x.recovering(fault{function: functionEqual, key: KeyOf(b)}, func() { same = callEqual(a, b) })
		return same
	})
}

func callEqual[T any](a, b T) bool { return any(a).(interface{ Equal(T) bool }).Equal(b) }

// What some functions are called in a [Panic] and in GraphStatus.Call.
const (
	functionEqual = "Equal" // the method of a result
	functionWhere = "Where" // of an On
)

// sameUnless compares results by same if T has an Equal.
func sameUnless[T Identified](same func(a, b T) bool) func(a, b T) bool {
	var zero T
	if _, ok := any(zero).(interface{ Equal(T) bool }); !ok {
		same = sameDeeply[T]
	}
	return func(a, b T) bool { return equal.Same(a, b) || a.GetUID() == b.GetUID() && same(a, b) }
}

// sameDeeply compares a and b as reflect.DeepEqual does, without the resource version of an
// embedded Meta.
func sameDeeply[T Identified](a, b T) bool {
	if a.GetResourceVersion() != b.GetResourceVersion() {
		v := reflect.ValueOf(a)
		if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
			return false
		}
		meta, ok := v.Elem().Type().FieldByName("Meta")
		if !ok || meta.Type != reflect.TypeFor[Meta]() || !meta.Anonymous || len(meta.Index) != 1 {
			return false
		}
		like := reflect.New(v.Elem().Type())
		like.Elem().Set(v.Elem())
		like.Elem().FieldByIndex(meta.Index).Addr().Interface().(*Meta).ResourceVersion = b.GetResourceVersion()
		return reflect.DeepEqual(like.Interface(), any(b))
	}
	return sameDeep(a, b)
}

// byKey are the results of an operator that makes at most one of each origin, which has a key.
type byKey[T Identified] struct {
	*settle.Results[Key, T]
	faults *faults
	// elsewhere has the key of each result that is not the key of its origin.
	elsewhere map[Key]Key
}

func newByKey[T Identified](shown func(Key) (T, bool), faults *faults) byKey[T] {
	return byKey[T]{
		Results: settle.NewResults(settle.Rules[Key, T]{
			Compare: compareKeys, Same: sameResult[T](faults), Shown: shown,
			Home: func(key Key) Key { return key },
			Rivals: func(key Key, shown, rival Key, several bool) {
				faults.conflict(key, keyString(shown), keyString(rival), several)
			},
		}),
		faults: faults, elsewhere: map[Key]Key{},
	}
}

// set makes obj the result of origin. The zero T means that there is none.
func (b *byKey[T]) set(origin Key, obj T) {
	was, moved := b.elsewhere[origin]
	if !moved {
		was = origin
	}
	if equal.IsZero(obj) {
		b.Drop(origin, was)
		delete(b.elsewhere, origin)
		return
	}
	now := KeyOf(obj)
	if now != was {
		b.Drop(origin, was)
	}
	if b.Put(origin, now, obj) {
		b.faults.unchanged.Add(1)
	}
	if now != origin {
		b.elsewhere[origin] = now
	} else if moved {
		delete(b.elsewhere, origin)
	}
}
