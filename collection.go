package lw

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-lw/lw/internal/demand"
	"github.com/go-lw/lw/internal/equal"
)

// A Collection is objects in memory that change: an [*Informer], of which its methods are
// described, a [*Derived] or a [*Union]. It can be derived from, have indexes and drive
// controllers, and [WaitFor] waits for the state of one of its objects. No other type can implement
// it.
type Collection[T Identified] interface {
	Syncer
	Indexed[T]
	Status() Status
	Synced() <-chan struct{}
	Stopped() <-chan struct{}
	Store() Reader[T]
	AddHandler(h Handler[T]) *Registration
	Events(ctx context.Context) iter.Seq[Delta[T]]
	Changed(ctx context.Context, keys ...Key) <-chan struct{}

	// collection returns the hub that has the content and the changes.
	collection() *hub[T]
	// derived returns the collection itself if it is derived, else nil.
	derived() *Derived[T]
}

var (
	_ Collection[*Meta] = (*Informer[*Meta])(nil)
	_ Collection[*Meta] = (*Derived[*Meta])(nil)
	_ Collection[*Meta] = (*Union[*Meta])(nil)
)

func (inf *Informer[T]) collection() *hub[T] { return inf.hub }

func (inf *Informer[T]) derived() *Derived[T] { return nil }

// hubOf returns what the hub of an informer has that does not depend on T.
func (inf *Informer[T]) hubOf() *hubCore { return inf.hub.hubCore }

// coreOf returns the hubOf of an [*Informer], or nil if inf is of another type.
func coreOf(inf AnyInformer) *hubCore {
	if i, ok := inf.(interface{ hubOf() *hubCore }); ok {
		return i.hubOf()
	}
	return nil
}

// WaitFor waits until cond is true of the object of key in c, and returns that object. cond gets
// the zero T (nil) while there is no such object, so a wait can also be for the end of an object.
//
// It waits until c has synced, and may pass over short states, but never over one that lasts. cond
// is called in the goroutine of the caller, without a lock, perhaps more than once with one state.
//
// Give ctx a deadline. The error says what c is doing, and wraps its last failure, the cause of ctx
// or [ErrStopped], and why a newer version of the object could not be used. WaitFor panics if cond
// is nil.
func WaitFor[T Object](ctx context.Context, c Collection[T], key Key, cond func(obj T) bool) (T, error) {
	if cond == nil {
		panic("lw: WaitFor: nil condition")
	}
	var none T
	h := c.collection()
	if err := h.waitForSync(ctx); err != nil {
		return none, err
	}
	for {
		obj, met, cause := lookAndWait(ctx, h, key, cond)
		if met {
			return obj, nil
		}
		if cause == nil {
			continue
		}
		// The object may have changed when the wait ended: of several ready channels a select
		// chooses one at random.
		if obj, _ = h.store.Get(key); cond(obj) {
			return obj, nil
		}
		return none, h.unmet(key, !equal.IsZero(obj), cause)
	}
}

// WantedBy has the objects of c want the keys that keysOf returns for each, while the object is
// there: set names them for a [Wanted]. It is a [Handler] of c, in whose goroutine keysOf is
// called. [Registration.Synced] is closed when the objects of the first list want what they want.
// After Remove they want nothing more; if c stops, what they want stays. WantedBy panics if an
// argument is nil.
func WantedBy[T Identified](set *KeySet, c Collection[T], keysOf func(obj T) []Key) *Registration {
	if set == nil || isNil(c) || keysOf == nil {
		panic("lw: WantedBy: nil set, collection or function")
	}
	wanting := map[Key]bool{} // only the goroutine of the handler uses it
	want := func(obj Key, keys []Key) {
		if wanting[obj] = len(keys) > 0; len(keys) == 0 {
			delete(wanting, obj)
		}
		set.setFor(demand.Owner{By: &wanting, Name: obj}, keys)
	}
	return c.AddHandler(Handler[T]{
		Name:   "wanted by",
		Add:    func(obj T) { want(KeyOf(obj), keysOf(obj)) },
		Update: func(_, obj T) { want(KeyOf(obj), keysOf(obj)) },
		Delete: func(obj T) { want(KeyOf(obj), nil) },
		ended: func() {
			if isClosed(c.Stopped()) {
				return
			}
			for obj := range wanting {
				want(obj, nil)
			}
		},
	})
}

// A Follower gets the content of a [Collection], and then every change of it, one by one and in
// order, where a relist ends, and the versions that come without a change; see [Follow]. Its method
// Unseen(), if it has one, is called after a relist without differences: objects may have come and
// gone since the last Progress. The objects are shared and must not be changed.
type Follower[T Identified] interface {
	// Begin is called with the content at which the changes begin: at first, and again after a
	// relist that found differences, of which nobody knows the order. Changes that had not been
	// passed on are in snap instead. epoch: the server went back in time since, see [ErrRewound].
	Begin(snap *Snapshot[T], epoch bool)
	// Change is called for every change after that. A new UID under one name is a Deleted and then
	// an Added. The Cause is CauseWatch or CauseDerived.
	Change(d Delta[T])
	// Progress says that what was passed on is the content at version, which the store reports; while
	// an object is set aside, that it is at least as new. It is called after each Begin, after each
	// run of changes, and when the version moves without a change.
	//
	// The changes of one version, which the server's store has written at once, come before
	// Progress(version) if they arrive together. Otherwise, or if Begin came among them, some come
	// after it.
	Progress(version string)
}

// Follow tells f of c until ctx is done or c stops, and returns the cause of ctx, or [ErrStopped]
// when everything has been passed on. It waits until c has synced. f is called in the goroutine of
// the caller. What it has not taken waits in memory, without a bound: f must not block, and nobody
// waits for it.
//
// The versions of a [Derived] are the numbers of the steps of its graph. Follow panics if c or f is
// nil.
func Follow[T Identified](ctx context.Context, c Collection[T], f Follower[T]) error {
	if isNil(c) || isNil(f) {
		panic("lw: Follow: nil collection or follower")
	}
	return follow(ctx, c.collection(), f)
}

func follow[T Identified](ctx context.Context, h *hub[T], f Follower[T]) error {
	if err := h.cannotWait(); err != nil {
		return err
	}
	if h.demand != nil {
		return fmt.Errorf("lw: Follow: %s shows only what is wanted: %w", h.opts.Name, errors.ErrUnsupported)
	}
	h.follow(ctx.Done())
	defer h.followers.Add(-1)
	var at point // of the last Begin or Progress
	s := &subscription[T]{
		opts:     cursorOptions{everyUpdate: true},
		starting: func(*Snapshot[T]) { at = h.pointLocked() },
	}
	h.subscribe(s)
	defer h.unsubscribe(s)
	if err := h.waitForStart(ctx, s); err != nil {
		return err
	}
	f.Begin(s.snapshot, false)
	s.snapshot = nil // f may let it go
	f.Progress(at.version)
	for {
		// In this order: what comes after the look sends a token, and is not missed.
		woken, over := s.cursor.wait(), h.log.closed()
		now, notified := h.look()
		switch before := s.cursor.delivered.Load(); {
		case now.era != at.era:
			// All that waits, of whatever era, is in the content of a cut.
			begin := h.cut()
			if err := passOn(ctx, s.cursor, begin.position, func(Delta[T]) {}); err != nil {
				return err
			}
			f.Begin(begin.snapshot, begin.era.epochs != at.era.epochs)
			at = begin.point
			f.Progress(at.version)
		case over || notified.notifies > at.notifies:
			to := notified
			if over {
				to = now
			}
			if u, ok := f.(interface{ Unseen() }); ok && to.unseen != at.unseen {
				u.Unseen()
			}
			if err := passOn(ctx, s.cursor, to.position, f.Change); err != nil {
				return err
			}
			if to.position != at.position || to.version != at.version {
				f.Progress(to.version)
			}
			at = to
			if over {
				return ErrStopped
			}
		case now.position > before:
			// The writer has more in hand, and calls notify after it. Only then is Progress due.
			if err := passOn(ctx, s.cursor, now.position, f.Change); err != nil {
				return err
			}
		default:
			select {
			case <-woken:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

// waitForStart waits until s has started, which is when the hub has synced. The error is the cause of
// ctx, or ErrStopped.
func (h *hub[T]) waitForStart(ctx context.Context, s *subscription[T]) error {
	select {
	case <-s.started:
	case <-h.stopped:
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !isClosed(s.started):
		return ErrStopped
	}
	return nil
}

// passOn calls tell with each delta that waits at c, up to the position bound. The error is the
// cause of ctx, which ends it between two calls, or before the caller goes on.
func passOn[T Identified](ctx context.Context, c *Cursor[T], bound uint64, tell func(Delta[T])) error {
	for c.delivered.Load() < bound && ctx.Err() == nil {
		part, _, err := c.pollTo(bound, true)
		if err != nil {
			return err
		}
		for _, d := range part {
			if ctx.Err() != nil {
				break
			}
			tell(d)
		}
	}
	return context.Cause(ctx)
}
