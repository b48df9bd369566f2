package lw

import (
	"context"
	"iter"
)

// A Collection is objects in memory that change, and what tells of their changes: an [*Informer], a
// [*Derived] or a [*Union]. It can be derived from, and [WaitFor] waits for the state of one of its
// objects. No other type can implement it.
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

// A Versioned is something of which a [Graph] shows a version: an [*Informer]. No other type can
// implement it.
type Versioned interface {
	WaitForResourceVersion(ctx context.Context, version string) error
	// hubOf returns what the informer's hub has that does not depend on T.
	hubOf() *hubCore
}

func (inf *Informer[T]) hubOf() *hubCore { return inf.hub.hubCore }
