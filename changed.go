package lw

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-lw/lw/internal/equal"
)

// WaitFor waits until cond is true of the object of key in c, and returns that object. cond gets
// the zero T (nil) while there is no such object, so a wait can also be for the end of an object:
//
//	_, err := lw.WaitFor(ctx, pods, key, func(p *corev1.Pod) bool { return p == nil || p.UID != uid })
//
// WaitFor first waits until c has synced, because before that nobody knows whether there is an
// object. It then calls cond with the object as it is, and after each of its changes. If changes
// follow each other fast, it may pass over states in between, but never over one that lasts: a
// state that is still there when cond returns is looked at. cond is called in the goroutine of the
// caller, without a lock. It must not change the object, and may be called more than once with one
// state.
//
// Give ctx a deadline. The error says what c is doing, and wraps its last failure, if there is one,
// the cause of ctx or [ErrStopped], and why a newer version of the object could not be used;
// errors.Is and errors.As find them. A state for which cond is true counts also if ctx is done or c
// has stopped. WaitFor panics if cond is nil.
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

// lookAndWait returns the object of key if it meets cond. If not, it waits for the next change of
// the object. An error is the cause why it has not waited for that.
func lookAndWait[T Identified](ctx context.Context, h *hub[T], key Key, cond func(T) bool) (obj T, met bool, cause error) {
	changed, forget := h.changes.Take(key)
	defer forget()
	obj, _ = h.store.Get(key)
	if cond(obj) {
		return obj, true, nil
	}
	select {
	case <-changed:
		return obj, false, nil
	case <-h.stopped:
		return obj, false, ErrStopped
	case <-ctx.Done():
		return obj, false, context.Cause(ctx)
	}
}

// unmet returns the error of a wait for a condition of the object of key, which cause has ended.
func (c *hubCore) unmet(key Key, exists bool, cause error) error {
	s := c.status()
	state := "does not exist"
	if exists {
		state = "does not meet it"
	}
	if err := s.SetAside[key]; err != nil {
		cause = errors.Join(cause, err) // there is a newer version, which could not be used
	}
	what := fmt.Sprintf("waiting for a condition of %s, which %s at %s (%s)", keyString(key), state, s.ResourceVersion, s.Phase)
	return &statusError{what: what, status: s, cause: cause}
}

// Changed returns a channel that is closed at the next change of the object of key: when an object
// is stored under key, and when it is removed. Take the channel before you read. Then what you have
// read is as it was, or the channel is closed:
//
//	for {
//		changed := pods.Changed(ctx, key)
//		show(pods.Store().Get(key))
//		select {
//		case <-changed:
//		case <-pods.Stopped():
//			return
//		case <-ctx.Done():
//			return
//		}
//	}
//
// The channel is closed when every read that begins from then on shows the change, and before a
// handler is called for it. One channel stands for any number of changes: take another one for the
// next. The first list is a change of each object that it has, and a later one of those that
// differ.
//
// The channel stays open if ctx is done or the informer stops before there is a change. It is let
// go of at both, so let ctx end no later than your interest. [WaitFor] waits for a condition, and
// does all this for you.
func (inf *Informer[T]) Changed(ctx context.Context, key Key) <-chan struct{} {
	return inf.hub.changes.Wait(ctx, key, nil)
}

// ChangedAny is like [Informer.Changed], for a change of any object. The first list is a change
// even if it is empty. A bookmark is none, although it changes the resource version.
func (inf *Informer[T]) ChangedAny(ctx context.Context) <-chan struct{} {
	return inf.hub.changes.WaitAny(ctx)
}

// Changed returns a channel that is closed at the next change of what the index has for key: when
// an object with the value key comes, changes or goes, and when an object gets or loses that value.
// Take the channel before you read. Then what you have read is as it was, or the channel is closed.
//
// As with [Informer.Changed], the channel is closed when every read that begins from then on shows
// the change, and before a handler is called for it. It stays open if ctx is done before there is a
// change, and is let go of then. It also stays open when an informer stops.
func (ix *Index[K, T]) Changed(ctx context.Context, key K) <-chan struct{} {
	return ix.groups.Changed(ctx, key)
}
