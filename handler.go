package lw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/why"
)

// A Handler is a set of functions that an informer calls for every change to its store, one at a
// time, in a goroutine of the handler's own, after the store and its indexes show the change. A nil
// function is skipped. The objects are shared with the store and must not be changed.
//
// The calls for one object are Add, any number of Updates, Delete, and so on. A handler that is
// more than 1024 changes behind is called for their net effect; see [FIFO]. A function may block,
// which delays only its own handler, but must not wait for its registration to sync or to be done.
type Handler[T Identified] struct {
	Add    func(obj T)
	Update func(old, new T)
	Delete func(last T)
	// Change is called instead of Add, Update and Delete, which are nil then. It also gets the
	// cause of the change and the resource version after it.
	Change func(d Delta[T])
	// Synced is called once, after Add was called for all objects of the first list, or for those
	// that the store had when a late handler was added.
	Synced func()
	// Filter hides the objects for which it returns false. An Update becomes an Add if Filter hides
	// only the old object, and a Delete if it hides only the new one. It must always return the
	// same for one object. Nil: no object is hidden.
	Filter      func(obj T) bool
	Name        string        // in panics and logs; default: "handler"
	Resync      time.Duration // how often Update(obj, obj) is called for every object, at least 1 s; 0: never
	EveryUpdate bool          // asks for a call for every change; memory then grows with those that wait
	// SkipTold leaves out the calls for what the program itself has told the informer, with
	// [Informer.Tell]. The calls go on as if they had been made, so Old of the next one is what was
	// told. When a Tell turns out not to hold, the handler is called as for any change. A call is left
	// out whole, with what somebody else has changed between the version before, Old, and the
	// program's write. So skip only where each write names the version that the store shows, as
	// Update does.
	SkipTold bool

	ended func() // called in the handler's goroutine after its last call; nil: nothing
}

// errWaitInHandler is in the error of a wait that could never end.
var errWaitInHandler = errors.New("a function of a handler cannot wait for that handler")

// A Registration is a handler that was added. Its methods may be called from any goroutine.
type Registration struct {
	hub     *hubCore
	removed atomic.Bool
	synced  chan struct{} // closed when callInitial has called Add for all objects, and Synced
	gone    chan struct{} // closed by the first Remove, to end the handler's goroutine
	done    chan struct{} // closed when no call is running and none will start
	once    sync.Once     // closes gone
	runner  anyRunner

	// The fields below are written once, by register.

	number int    // how many were registered before it
	base   string // Handler.Name
	name   string // base, and a number if another handler of that name was there
	alike  int    // that number; 1: name is base
}

// Remove ends the registration: no call starts after Remove has returned. It does not wait for one
// that is running; see [Registration.Done].
func (r *Registration) Remove() {
	r.removed.Store(true)
	r.once.Do(func() { close(r.gone) })
	r.hub.unregister(r)
}

// Done returns a channel that is closed when no call is running and none will start: after Remove,
// or after the informer has stopped.
func (r *Registration) Done() <-chan struct{} { return r.done }

// Synced returns a channel that is closed when the handler has synced, as WaitForSync says it. It
// stays open if the handler ends before that.
func (r *Registration) Synced() <-chan struct{} { return r.synced }

// WaitForSync waits until Add was called for all objects of the handler's first list, and Synced
// has returned. It fails as [Informer.WaitForSync].
func (r *Registration) WaitForSync(ctx context.Context) error {
	if n := r.runner.goroutine(); n != 0 && n == goroutineNumber() && !isClosed(r.synced) {
		return r.hub.unsynced(errWaitInHandler)
	}
	return r.hub.awaitSync(ctx, r.synced, r.done)
}

// Pending returns the number of changes that the handler still has to handle, including the objects
// of its first list; 0 after Remove. Changes that come together count until the last call returned.
func (r *Registration) Pending() int {
	if r.removed.Load() {
		return 0
	}
	pending, _ := r.runner.pending()
	return pending
}

// status returns the status of the handler. Any goroutine may call it.
func (r *Registration) status() HandlerStatus {
	s := r.runner.status()
	s.Name, s.Synced = r.name, isClosed(r.synced)
	if r.removed.Load() {
		s.Pending = 0
	}
	return s
}

// anyRunner is the part of a handlerRunner that does not depend on T. Any goroutine may call its
// methods.
type anyRunner interface {
	run()
	goroutine() uint64 // of run; see goroutineNumber
	pending() (changes int, folded uint64)
	status() HandlerStatus
}

// A handlerRunner makes the calls of one handler, in the goroutine of run. All methods but pending
// and status are called there.
type handlerRunner[T Identified] struct {
	h   Handler[T]
	hub *hub[T]
	reg *Registration
	sub *subscription[T]
	// left is the number of objects of the snapshot that Add has not been called for. It is set
	// when the subscription starts, and counted down by run.
	left    atomic.Int64
	counter handlerCounter
	number  atomic.Uint64 // of the goroutine of run, until the handler has synced
	why     *why.Call     // tells queues what they are added to for; nil: none asks
}

func (r *handlerRunner[T]) goroutine() uint64 { return r.number.Load() }

// run calls the handler for the objects of its snapshot, and then for each change, until the
// handler is removed. A hub that stops removes its handlers. If a handler is removed before the hub
// has started, Remove itself calls run, which then only cleans up. It is long because all that may
// end or interrupt the handler's goroutine is in its one loop.
func (r *handlerRunner[T]) run() {
	defer close(r.reg.done)
	if r.h.ended != nil {
		defer r.h.ended()
	}
	defer func() { r.hub.unregister(r.reg); r.hub.unsubscribe(r.sub) }()
	select {
	case <-r.sub.started:
	case <-r.reg.gone:
		return
	}
	r.why = why.Enter(r.hub.opts.Name)
	defer r.why.Leave()
	if !r.callInitial() {
		return
	}
	var resync <-chan time.Time
	if r.h.Resync > 0 {
		// A Ticker keeps its period even if a tick is received late, and drops ticks that nobody
		// receives. So a slow handler never has more than one resync waiting.
		ticker := time.NewTicker(r.h.Resync)
		defer ticker.Stop()
		resync = ticker.C
	}
	for {
		r.counter.publish()
		part, _, err := r.sub.cursor.poll()
		timed := r.sub.cursor.timed
		for i := range part {
			if !r.call(&part[i]) {
				return
			}
			if len(timed) > 0 && timed[0].index == i {
				r.counter.took(time.Since(r.hub.log.clock) - timed[0].arrival)
				timed = timed[1:]
			}
		}
		if err != nil {
			return
		}
		if len(part) > 0 {
			select {
			case <-resync: // also here: under steady changes the select below is never reached
				if !r.resync() {
					return
				}
			default:
			}
			continue
		}
		select {
		case <-r.sub.cursor.wait():
		case <-resync:
			if !r.resync() {
				return
			}
		case <-r.reg.gone:
			return
		}
	}
}

// callInitial calls the handler for the objects of its snapshot, and then Synced. It returns false
// if the handler was removed meanwhile.
func (r *handlerRunner[T]) callInitial() bool {
	r.number.Store(goroutineNumber())
	snap := r.sub.snapshot
	r.sub.snapshot = nil // only needed until the initial Adds are made
	d := Delta[T]{Type: Added, Cause: CauseInitial, Initial: true, ResourceVersion: snap.ResourceVersion()}
	for d.New = range snap.All() {
		if !r.call(&d) {
			return false
		}
		r.left.Add(-1)
	}
	r.counter.publish()
	if !r.callSynced() {
		return false
	}
	close(r.reg.synced)
	return true
}

// resync calls the handler for the changes that wait, and then calls Update for every object, with
// the object as both arguments. The changes end at the cut whose snapshot has the objects. So no
// object is older than the one that the handler was last called with. resync returns false if the
// handler was removed meanwhile.
func (r *handlerRunner[T]) resync() bool {
	backlog, at, err := r.hub.readToCut(r.sub.cursor, r.hub.cut())
	for i := range backlog {
		if !r.call(&backlog[i]) {
			return false
		}
	}
	if err != nil {
		return true // the next poll returns the error too, and ends run
	}
	d := Delta[T]{Type: Updated, Cause: CauseResync, ResourceVersion: at.snapshot.ResourceVersion()}
	for obj := range at.snapshot.All() {
		// Skip an object that has changed since the cut: the handler gets its change from the log.
		// Looking at the store costs time, and is needed only if the log has grown since.
		if r.hub.log.position() != at.position {
			if now, ok := r.hub.store.Get(KeyOf(obj)); !ok || !equal.Same(now, obj) {
				continue
			}
		}
		d.Old, d.New = obj, obj
		if !r.call(&d) {
			return false
		}
	}
	return true
}

// removed reports whether the handler was removed, so that no call may start any more. It is looked
// at right before each call. A Remove that comes after that look does not wait for the call.
func (r *handlerRunner[T]) removed() bool { return r.reg.removed.Load() }

// call makes the call for d, and reports a panic to OnPanic if that is set. It returns false if the
// handler was removed.
func (r *handlerRunner[T]) call(d *Delta[T]) (more bool) {
	if r.hub.opts.OnPanic == nil {
		return r.dispatch(d)
	}
	return r.recovering(d.Key(), func() bool { return r.dispatch(d) })
}

// dispatch applies Filter to d and calls Change, Add, Update or Delete. It returns false if the
// handler was removed.
func (r *handlerRunner[T]) dispatch(d *Delta[T]) (more bool) {
	if r.removed() {
		return false
	}
	if r.h.SkipTold && d.Cause == CauseTold {
		return true
	}
	typ := d.Type
	if r.h.Filter != nil {
		was, is := r.filter(d)
		switch {
		case r.removed():
			return false
		case was && is:
			typ = Updated
		case is:
			typ = Added
		case was:
			typ = Deleted
		default:
			return true
		}
	}
	if r.why != nil {
		r.explain(typ, d)
	}
	switch {
	case r.h.Change != nil:
		r.counter.call(typ)
		r.h.Change(d.as(typ))
	case typ == Added && r.h.Add != nil:
		r.counter.call(typ)
		r.h.Add(d.New)
	case typ == Updated && r.h.Update != nil:
		r.counter.call(typ)
		r.h.Update(d.Old, d.New)
	case typ == Deleted && r.h.Delete != nil:
		r.counter.call(typ)
		r.h.Delete(d.Old)
	}
	if r.why != nil {
		r.why.End()
	}
	return true
}

// filter returns what Filter says of the old and the new object of d. It may remove the handler, and
// is not called again then.
func (r *handlerRunner[T]) filter(d *Delta[T]) (was, is bool) {
	was = d.Type != Added && r.h.Filter(d.Old)
	is = d.Type != Deleted && !(d.Type == Updated && r.removed()) && r.h.Filter(d.New)
	return was, is
}

// explain says that the call for d begins, which Filter has made one of that type.
func (r *handlerRunner[T]) explain(typ EventType, d *Delta[T]) {
	var old, new any
	if typ != Added {
		old = d.Old
	}
	if typ != Deleted {
		new = d.New
	}
	r.why.Begin(uint8(typ), uint8(d.Cause), old, new)
}

// callSynced calls Synced. It returns false if the handler was removed.
func (r *handlerRunner[T]) callSynced() (more bool) {
	if r.h.Synced == nil {
		return true
	}
	if r.removed() {
		return false
	}
	if r.hub.opts.OnPanic == nil {
		r.h.Synced()
		return true
	}
	return r.recovering(Key{}, func() bool { r.h.Synced(); return true })
}

// recovering calls f and returns its result. If f panics it calls OnPanic and returns true, so that
// the handler goes on with its next event.
func (r *handlerRunner[T]) recovering(key Key, f func() bool) (more bool) {
	defer func() {
		if v := recover(); v != nil {
			r.counter.panics.Add(1)
			if r.why != nil {
				r.why.End()
			}
			r.hub.opts.OnPanic(&Panic{Informer: r.hub.opts.Name, Handler: r.h.Name, Key: key, Value: v, Stack: debug.Stack()})
			more = true
		}
	}()
	return f()
}

// pending returns the number of objects of the snapshot and of changes that the handler is not done
// with, and how many changes were ever folded. It is 0 before the subscription has started.
func (r *handlerRunner[T]) pending() (changes int, folded uint64) {
	select {
	case <-r.sub.started:
		// left is loaded first. No change is handled while objects are left. So if the sum is 0,
		// the handler was done with everything at the moment of the second load.
		left := int(r.left.Load())
		changes, folded = r.sub.cursor.undone()
		return left + changes, folded
	default:
		return 0, 0
	}
}

// status returns all of the handler's status but what its Registration knows.
func (r *handlerRunner[T]) status() HandlerStatus {
	s := r.counter.status()
	s.Pending, s.Folded = r.pending()
	return s
}

// validate sets the default of Name, and a Resync that is too short to the least one. It panics on
// a Handler without a function, and on a negative Resync.
func (h *Handler[T]) validate(logger *slog.Logger) {
	each := h.Add != nil || h.Update != nil || h.Delete != nil
	switch {
	case !each && h.Change == nil && h.Synced == nil:
		panic("lw: AddHandler: a Handler without a function")
	case each && h.Change != nil:
		panic("lw: AddHandler: a Handler with Change, and with Add, Update or Delete")
	}
	if h.Resync < 0 {
		panic(fmt.Sprintf("lw: AddHandler: negative Resync %v", h.Resync))
	}
	if h.Name == "" {
		h.Name = "handler"
	}
	if 0 < h.Resync && h.Resync < leastResync {
		warnOfUnit(logger, "handler "+h.Name, "Resync", h.Resync)
		h.Resync = leastResync
	}
}

// leastResync is the least of client-go's as well: a handler that is called for all objects without
// a pause is a mistake, mostly a number without its unit.
const leastResync = time.Second
