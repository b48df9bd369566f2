// Package reuse lets a reflector lend the objects of its store to the source that decoded them: a
// source that knows the last version of an object decodes only what has changed.
//
// The decoder finds what it has noted of an object behind the object, in the same piece of memory.
// So only objects that the very same source has decoded may be lent. A wrong one would make the
// decoder read memory that is not its own. That is why this package is internal, and why a source
// must say by a method with the type Mark that it hands on what it gets.
package reuse

import "context"

// A Lender returns the last version of the object of that name, or nil if there is none or if it
// may not be lent. Any goroutine may call it.
type Lender func(namespace, name string) any

// Mark is in the signature of a method that a user of lw cannot write.
type Mark struct{}

// A Source decodes objects, or hands on those of another Source as they are.
type Source interface {
	// Reuses reports whether all objects come from a decoder that notes what it needs, and have not
	// been changed since.
	Reuses(Mark) bool
}

// Of reports whether src is a Source whose objects may be lent.
func Of(src any) bool {
	s, ok := src.(Source)
	return ok && s.Reuses(Mark{})
}

type key struct{}

// With returns a context that has lend.
func With(ctx context.Context, lend Lender) context.Context {
	return context.WithValue(ctx, key{}, lend)
}

// Without returns a context that has no Lender.
func Without(ctx context.Context) context.Context { return With(ctx, nil) }

// From returns the Lender of ctx, or nil.
func From(ctx context.Context) Lender {
	lend, _ := ctx.Value(key{}).(Lender)
	return lend
}
