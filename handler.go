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
	informer *informerCore
	removed  atomic.Bool
	synced   chan struct{} // closed when the handler has been told the whole collection
	gone     chan struct{} // closed by the first Remove
	done     chan struct{} // closed when no call runs and none will
	once     sync.Once
	pending  func() int
}

// Remove ends the registration: no call starts after it returns. A call that runs goes on; see [Registration.Done]. Remove may
// be called from inside the handler, and more than once.
func (r *Registration) Remove() {
	r.removed.Store(true)
	r.once.Do(func() { close(r.gone) })
	r.informer.forget(r)
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
		return r.informer.unsynced(ErrStopped)
	case <-ctx.Done():
		return r.informer.unsynced(context.Cause(ctx))
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

// An Event is one change, as [Informer.Events] yields it. Its objects are shared and must not be changed.
type Event[T Object] struct {
	Type    EventType
	Old     T    // the object of the event before; zero for Added
	New     T    // zero for Deleted
	Initial bool // Added only: an object of the first list, or of the store when the iteration began
	Cause   Cause
}

// Object returns New, or Old of a Deleted.
func (e Event[T]) Object() T {
	if e.Type == Deleted {
		return e.Old
	}
	return e.New
}

// Key returns the object's key.
func (e Event[T]) Key() Key { return KeyOf(e.Object()) }

// feed is what an informer gives a consumer: a snapshot, and a cursor for what comes after it.
type feed[T Object] struct {
	opts    cursorOptions
	joining func(snap *Snapshot[T]) // called, under the informer's mu, just before joined is closed; may be nil
	joined  chan struct{}           // closed when the others are set
	snap    *Snapshot[T]
	cursor  *Cursor[T]
}

// caller is a handler at work, in its own goroutine.
type caller[T Object] struct {
	h    Handler[T]
	inf  *Informer[T]
	reg  *Registration
	feed *feed[T]
	left atomic.Int64 // objects of the snapshot that are still to be told
}

// run tells the handler its snapshot, then what comes, until it is removed.
func (c *caller[T]) run() {
	defer close(c.reg.done)
	defer c.inf.leave(c)
	select {
	case <-c.feed.joined:
	case <-c.reg.gone:
		return
	}
	if !c.first() {
		return
	}
	var resync <-chan time.Time
	if c.h.Resync > 0 {
		// Ticks keep their distance however late one is taken, and those that nobody took are one.
		ticker := time.NewTicker(c.h.Resync)
		defer ticker.Stop()
		resync = ticker.C
	}
	for {
		part, _, err := c.feed.cursor.poll()
		for i := range part {
			if !c.tell(&part[i]) {
				return
			}
		}
		if err != nil {
			return
		}
		if len(part) > 0 {
			select {
			case <-resync: // also when there is always something to read
				if !c.resync() {
					return
				}
			default:
			}
			continue
		}
		select {
		case <-c.feed.cursor.wait():
		case <-resync:
			if !c.resync() {
				return
			}
		case <-c.reg.gone:
			return
		}
	}
}

// first tells the snapshot. It returns false when the handler is gone.
func (c *caller[T]) first() bool {
	snap := c.feed.snap
	c.feed.snap = nil // what has been told needs no second copy
	d := Delta[T]{Type: Added, Cause: Initial, Initial: true}
	for d.New = range snap.All() {
		if !c.tell(&d) {
			return false
		}
		c.left.Add(-1)
	}
	if !c.synced() {
		return false
	}
	close(c.reg.synced)
	return true
}

// resync tells what waits, and then every object as its own update: the two are cut from the log and the store at one point,
// so that no object is older than what the handler knows.
func (c *caller[T]) resync() bool {
	waiting, snap, at := c.inf.cut(c.feed.cursor)
	for i := range waiting {
		if !c.tell(&waiting[i]) {
			return false
		}
	}
	d := Delta[T]{Type: Updated, Cause: Resync}
	for obj := range snap.All() {
		// What has changed since waits in the log, and is told from there.
		if c.inf.log.position() != at {
			if now, ok := c.inf.store.Get(KeyOf(obj)); !ok || now != obj {
				continue
			}
		}
		d.Old, d.New = obj, obj
		if !c.tell(&d) {
			return false
		}
	}
	return true
}

// gone reports whether no call may start any more. A call starts when it has returned false: a Remove that comes later does not
// wait for it.
func (c *caller[T]) gone() bool { return c.reg.removed.Load() }

// tell makes the call that d asks for. It returns false when the handler is gone.
func (c *caller[T]) tell(d *Delta[T]) (more bool) {
	if c.inf.opts.OnPanic == nil {
		return c.dispatch(d)
	}
	return c.recovering(d.Key(), func() bool { return c.dispatch(d) })
}

func (c *caller[T]) dispatch(d *Delta[T]) (more bool) {
	if c.gone() {
		return false
	}
	typ := d.Type
	if f := c.h.Filter; f != nil {
		was := typ != Added && f(d.Old)
		if typ == Updated && c.gone() {
			return false
		}
		is := typ != Deleted && f(d.New)
		switch {
		case c.gone(): // what comes next is another call
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
	case typ == Added && c.h.Add != nil:
		c.h.Add(d.New)
	case typ == Updated && c.h.Update != nil:
		c.h.Update(d.Old, d.New)
	case typ == Deleted && c.h.Delete != nil:
		c.h.Delete(d.Old)
	}
	return true
}

// synced makes the call that is about no object.
func (c *caller[T]) synced() (more bool) {
	if c.h.Synced == nil {
		return true
	}
	if c.gone() {
		return false
	}
	if c.inf.opts.OnPanic == nil {
		c.h.Synced()
		return true
	}
	return c.recovering(Key{}, func() bool { c.h.Synced(); return true })
}

// recovering calls f and hands a panic to OnPanic; the handler goes on with the next event.
func (c *caller[T]) recovering(key Key, f func() bool) (more bool) {
	defer func() {
		if v := recover(); v != nil {
			c.inf.opts.OnPanic(&Panic{Informer: c.inf.opts.Name, Handler: c.h.Name, Key: key, Value: v, Stack: debug.Stack()})
			more = true
		}
	}()
	return f()
}

// pending is what is left of the snapshot and what waits in the log.
func (c *caller[T]) pending() int {
	select {
	case <-c.feed.joined:
		// First what is left of the snapshot: what comes after it is not done before that.
		return int(c.left.Load()) + c.feed.cursor.undone()
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
