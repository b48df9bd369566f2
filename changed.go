package lw

import (
	"context"
	"errors"
	"fmt"
)

// lookAndWait returns the object of key if it meets cond. If not, it waits for the next change of
// the object. An error is the cause why it has not waited for that.
func lookAndWait[T Identified](ctx context.Context, h *hub[T], key Key, cond func(T) bool) (obj T, met bool, cause error) {
	changed, forget := h.changes.Take(key)
	defer forget()
	obj, _ = h.store.Get(key)
	if cond(obj) {
		return obj, true, nil
	}
	if err := h.cannotWait(); err != nil {
		return obj, false, err
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
	if c.doing != nil {
		what += c.doing()
	}
	return &statusError{what: what, status: s, cause: cause}
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
