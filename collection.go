package lw

import (
	"context"
	"iter"
)

// A Collection is objects in memory that change, and what tells of their changes: an [*Informer].
// [WaitFor] waits for the state of one of its objects. No other type can implement it.
type Collection[T Identified] interface {
	// Store is [Informer.Store].
	Store() Reader[T]
	// AddHandler is [Informer.AddHandler].
	AddHandler(h Handler[T]) *Registration
	// Events is [Informer.Events].
	Events(ctx context.Context) iter.Seq[Delta[T]]
	// WaitForSync is [Informer.WaitForSync].
	WaitForSync(ctx context.Context) error
	// Changed is [Informer.Changed].
	Changed(ctx context.Context, key Key) <-chan struct{}
	// ChangedAny is [Informer.ChangedAny].
	ChangedAny(ctx context.Context) <-chan struct{}

	collection() *hub[T]
}

var _ Collection[*Meta] = (*Informer[*Meta])(nil)

func (inf *Informer[T]) collection() *hub[T] { return inf.hub }
