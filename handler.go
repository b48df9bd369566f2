package lw

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A Handler is told of every change to an informer's store. Its functions are called one at a time, in a goroutine of the
// handler's own, after store and indexes show the change; a nil function is skipped. The objects are shared with the store and
// must not be changed.
//
// For each object it is told Add, then any number of Updates, then Delete, and so on; old is the object of the call before. An
// object that was deleted and created again is told as Delete and Add. A handler that is more than 1024 changes behind is told
// the net effect of those that wait.
type Handler[T Object] struct {
	Add    func(obj T)
	Update func(old, new T)
	Delete func(last T)
	// Synced is called once, after all objects of the first list have been told to Add. For a handler that was added later
	// that is the content of the store when it was added.
	Synced func()
	// Filter keeps out the objects for which it is false; an update across the border is an Add or a Delete. It is called
	// like the other functions, for the old and the new object of an update, and must always say the same of one object.
	Filter func(obj T) bool
	Name   string // in panics and logs; default: "handler"
	// Resync is how often Update(obj, obj) is called for every object; 0: never.
	Resync time.Duration
	// EveryUpdate asks for every change however far the handler is behind. Then memory grows with the number of changes
	// that wait.
	EveryUpdate bool
}

// A Registration is a handler's place at an informer.
type Registration struct {
	hub     *hubCore
	removed atomic.Bool
	synced  chan struct{} // closed when the handler has been told the whole collection
	gone    chan struct{} // closed by the first Remove
	done    chan struct{} // closed when no call runs and none will
	once    sync.Once
	pending func() int
}

// Remove ends the registration: no call starts after it returns. A call that runs goes on; see [Registration.Done]. Remove may
// be called from inside the handler, and more than once.
func (r *Registration) Remove() {
	r.removed.Store(true)
	r.once.Do(func() { close(r.gone) })
	r.hub.unregister(r)
}

// Done returns a channel that is closed when the last call has returned, after [Registration.Remove] or the informer's stop.
func (r *Registration) Done() <-chan struct{} { return r.done }

// WaitForSync waits until the handler has been told the whole collection. Otherwise it returns why not: what the informer was
// doing, its last failure and the cause of ctx, all of which errors.Is and errors.As find, or [ErrStopped].
func (r *Registration) WaitForSync(ctx context.Context) error {
	// What is synced is synced, also if ctx is done or the informer has stopped.
	select {
	case <-r.synced:
		return nil
	default:
	}
	select {
	case <-r.synced:
		return nil
	case <-r.done:
		return r.hub.unsynced(ErrStopped)
	case <-ctx.Done():
		return r.hub.unsynced(context.Cause(ctx))
	}
}

// Pending returns how many changes the handler has yet to be told, the objects of its first list included. Changes that it was
// handed together count until the last of them has been told, so that 0 means that it has been told everything. It is 0 after
// Remove.
func (r *Registration) Pending() int {
	if r.removed.Load() {
		return 0
	}
	return r.pending()
}

// A handlerRunner makes the calls of one handler, in a goroutine of its own.
type handlerRunner[T Object] struct {
	h    Handler[T]
	hub  *hub[T]
	reg  *Registration
	sub  *subscription[T]
	left atomic.Int64 // objects of the snapshot that are still to be told
}

// run tells the handler its snapshot, then what comes, until it is removed.
func (r *handlerRunner[T]) run() {
	defer close(r.reg.done)
	defer func() { r.hub.unregister(r.reg); r.hub.unsubscribe(r.sub) }()
	select {
	case <-r.sub.started:
	case <-r.reg.gone:
		return
	}
	if !r.first() {
		return
	}
	var resync <-chan time.Time
	if r.h.Resync > 0 {
		// Ticks keep their distance however late one is taken, and those that nobody took are one.
		ticker := time.NewTicker(r.h.Resync)
		defer ticker.Stop()
		resync = ticker.C
	}
	for {
		part, _, err := r.sub.cursor.poll()
		for i := range part {
			if !r.tell(&part[i]) {
				return
			}
		}
		if err != nil {
			return
		}
		if len(part) > 0 {
			select {
			case <-resync: // also when there is always something to read
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

// first tells the snapshot. It returns false when the handler is gone.
func (r *handlerRunner[T]) first() bool {
	snap := r.sub.snapshot
	r.sub.snapshot = nil // only needed while the initial Adds are told
	d := Delta[T]{Type: Added, Cause: CauseInitial, Initial: true}
	for d.New = range snap.All() {
		if !r.tell(&d) {
			return false
		}
		r.left.Add(-1)
	}
	if !r.synced() {
		return false
	}
	close(r.reg.synced)
	return true
}

// resync tells what waits, and then every object as its own update. Both are of one point, so that no object is older than what
// the handler knows.
func (r *handlerRunner[T]) resync() bool {
	backlog, at, err := r.hub.readToCut(r.sub.cursor, r.hub.cut())
	for i := range backlog {
		if !r.tell(&backlog[i]) {
			return false
		}
	}
	if err != nil {
		return true // the next poll returns it as well, and ends the handler
	}
	d := Delta[T]{Type: Updated, Cause: CauseResync}
	for obj := range at.snapshot.All() {
		// What has changed since waits in the log, and is told from there.
		if r.hub.log.position() != at.position {
			if now, ok := r.hub.store.Get(KeyOf(obj)); !ok || now != obj {
				continue
			}
		}
		d.Old, d.New = obj, obj
		if !r.tell(&d) {
			return false
		}
	}
	return true
}

// gone reports whether no call may start any more. A call starts when it has returned false: a Remove that comes later does not
// wait for it.
func (r *handlerRunner[T]) gone() bool { return r.reg.removed.Load() }

// tell makes the call that d asks for. It returns false when the handler is gone.
func (r *handlerRunner[T]) tell(d *Delta[T]) (more bool) {
	if r.hub.opts.OnPanic == nil {
		return r.dispatch(d)
	}
	return r.recovering(d.Key(), func() bool { return r.dispatch(d) })
}

func (r *handlerRunner[T]) dispatch(d *Delta[T]) (more bool) {
	if r.gone() {
		return false
	}
	typ := d.Type
	if f := r.h.Filter; f != nil {
		was := typ != Added && f(d.Old)
		if typ == Updated && r.gone() {
			return false
		}
		is := typ != Deleted && f(d.New)
		switch {
		case r.gone(): // what comes next is another call
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
	switch {
	case typ == Added && r.h.Add != nil:
		r.h.Add(d.New)
	case typ == Updated && r.h.Update != nil:
		r.h.Update(d.Old, d.New)
	case typ == Deleted && r.h.Delete != nil:
		r.h.Delete(d.Old)
	}
	return true
}

// synced makes the call that is about no object.
func (r *handlerRunner[T]) synced() (more bool) {
	if r.h.Synced == nil {
		return true
	}
	if r.gone() {
		return false
	}
	if r.hub.opts.OnPanic == nil {
		r.h.Synced()
		return true
	}
	return r.recovering(Key{}, func() bool { r.h.Synced(); return true })
}

// recovering calls f and hands a panic to OnPanic. The handler goes on with the next event.
func (r *handlerRunner[T]) recovering(key Key, f func() bool) (more bool) {
	defer func() {
		if v := recover(); v != nil {
			r.hub.opts.OnPanic(&Panic{Informer: r.hub.opts.Name, Handler: r.h.Name, Key: key, Value: v, Stack: debug.Stack()})
			more = true
		}
	}()
	return f()
}

// pending is what is left of the snapshot and what waits in the log.
func (r *handlerRunner[T]) pending() int {
	select {
	case <-r.sub.started:
		// First what is left of the snapshot: what comes after it is not done before that.
		return int(r.left.Load()) + r.sub.cursor.undone()
	default:
		return 0
	}
}

// validate panics on a handler that could never be called.
func (h *Handler[T]) validate() {
	if h.Add == nil && h.Update == nil && h.Delete == nil && h.Synced == nil {
		panic("lw: AddHandler: a Handler without a function")
	}
	if h.Resync < 0 {
		panic(fmt.Sprintf("lw: AddHandler: negative Resync %v", h.Resync))
	}
	if h.Name == "" {
		h.Name = "handler"
	}
}
