package lw

import (
	"context"
	"iter"
)

// A Collection is what can be derived from, and what is derived: an [*Informer], a [*Derived] or a
// [*Union]. No other type can implement it.
type Collection[T Identified] interface {
	// Store returns the copy of the collection.
	Store() Reader[T]
	// AddHandler registers h. See [Informer.AddHandler].
	AddHandler(h Handler[T]) *Registration
	// Events returns a sequence of all changes. See [Informer.Events].
	Events(ctx context.Context) iter.Seq[Delta[T]]
	// WaitForSync waits until the collection shows a first whole state.
	WaitForSync(ctx context.Context) error

	// collection returns the hub that has the content and the changes.
	collection() *hub[T]
	// derived returns the collection itself if it is derived, else nil.
	derived() *Derived[T]
}

var (
	_ Collection[*Meta] = (*Informer[*Meta])(nil)
	_ Collection[*Meta] = (*Derived[*Meta])(nil)
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
