package lw

import (
	"context"
	"iter"
)

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

// events is a consumer that needs no goroutine of its own: the loop is one.
func (h *hub[T]) events(ctx context.Context) iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
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
		for obj := range s.snapshot.All() {
			if over() || !yield(Event[T]{Type: Added, New: obj, Initial: true, Cause: Initial}) {
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
				if over() || !yield(Event[T]{Type: d.Type, Old: d.Old, New: d.New, Initial: d.Initial, Cause: d.Cause}) {
					return
				}
			}
		}
	}
}
