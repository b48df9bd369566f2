package lw

import (
	"context"
	"iter"
)

// events is a consumer that needs no goroutine of its own: the loop is one.
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
		// What is there to be read does not keep the loop going once it is to end.
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
