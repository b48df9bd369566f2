package lw

import (
	"context"
	"iter"
)

// events implements [Informer.Events]. Each iteration is a subscription of its own, and ends it. It
// needs no goroutine of its own, unlike a handler: the loop that ranges over it reads the cursor.
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
		// Checked before each yield: once the loop must end, changes that still wait do not keep it
		// going.
		over := func() bool { return ctx.Err() != nil || isClosed(h.stopped) }
		first := Delta[T]{Type: Added, Cause: CauseInitial, Initial: true, ResourceVersion: s.snapshot.ResourceVersion()}
		for first.New = range s.snapshot.All() {
			if over() || !yield(first) {
				return
			}
		}
		s.snapshot = nil
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
