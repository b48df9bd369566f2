package lw

import (
	"context"
	"iter"
)

// events implements [Informer.Events]. Each loop over the sequence has a subscription of its own,
// which ends with the loop. Unlike a handler it needs no goroutine: the loop itself reads the
// cursor. The sequence ends when the loop is left, ctx is done, or the hub has stopped.
func (h *hub[T]) events(ctx context.Context) iter.Seq[Delta[T]] {
	return func(yield func(Delta[T]) bool) {
		s := &subscription[T]{}
		h.subscribe(s)
		defer h.unsubscribe(s)
		select {
		case <-s.started:
		case <-h.stopped:
			return
		case <-ctx.Done():
			return
		}
		// over reports whether the sequence must end. It is called before each yield, so that
		// changes that still wait do not keep the loop going.
		over := func() bool { return ctx.Err() != nil || isClosed(h.stopped) }
		first := Delta[T]{Type: Added, Cause: CauseInitial, Initial: true, ResourceVersion: s.snapshot.ResourceVersion()}
		for first.New = range s.snapshot.All() {
			if over() || !yield(first) {
				return
			}
		}
		s.snapshot = nil // only needed until its objects are yielded
		for {
			part, _, err := s.cursor.next(ctx)
			if err != nil {
				return
			}
			for _, d := range part {
				if over() || !yield(d) {
					return
				}
			}
		}
	}
}
