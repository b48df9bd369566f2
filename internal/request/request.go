// Package request has what a reflector puts into the context of a request, besides what the
// Source's signature shows. It is eight things. A Source that wraps another one passes the context
// on, and all of them with it.
//
// A [Lender] lends the objects of the reflector's store to the source that decoded them: a source
// that knows the last version of an object decodes only what has changed. The decoder finds what it
// has noted of an object behind the object, in the same piece of memory. So only objects that the
// very same source has decoded may be lent. A wrong one would make the decoder read memory that is
// not its own. That is why this package is internal, and why a source must say by a method with the
// type [Mark] that it hands on what it gets.
//
// [LeftOut] is called by a Transform or a Shard for each object of a list that it leaves out. These
// objects are not yielded, so without it a long list of them would look to the reflector like a
// list that makes no progress.
//
// A [Memo] has what a source remembers of the reflector that asks: the same source may have many,
// each at a position and with a history of its own.
//
// [IsProbe] is true of a list that asks about the server, not for objects: nobody takes what it
// yields. A Transform transforms nothing then, and forgets nothing that the list does not have.
//
// [PartOf] is a list of only some objects of the collection, which their informer wants from now
// on. Their versions count, and it says nothing of any other object.
//
// [WantedOf] says which objects the reader of a source wants: the source may pass over the others,
// and yields a Filtered bookmark, or calls LeftOut, in the place of what it has passed over.
//
// [ResourceOf] is the resource for a client that sends the request of a URL which was made before
// the resource's plural was known.
package request

import (
	"context"
	"sync"
)

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

// Reuses reports whether src is a Source whose objects may be lent.
func Reuses(src any) bool {
	s, ok := src.(Source)
	return ok && s.Reuses(Mark{})
}

type lenderKey struct{}

// WithLender returns a context that has lend.
func WithLender(ctx context.Context, lend Lender) context.Context {
	return context.WithValue(ctx, lenderKey{}, lend)
}

// WithoutLender returns a context that has no Lender.
func WithoutLender(ctx context.Context) context.Context { return WithLender(ctx, nil) }

// LenderOf returns the Lender of ctx, or nil.
func LenderOf(ctx context.Context) Lender {
	lend, _ := ctx.Value(lenderKey{}).(Lender)
	return lend
}

type leftOutKey struct{}

// WithLeftOut returns a context for a List, which has f as its LeftOut.
func WithLeftOut(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, leftOutKey{}, f)
}

// LeftOut returns the function that ctx has from WithLeftOut, or one that does nothing.
func LeftOut(ctx context.Context) func() {
	if f, ok := ctx.Value(leftOutKey{}).(func()); ok {
		return f
	}
	return func() {}
}

// A Memo is what sources remember of one reflector. Any goroutine may use it.
type Memo struct {
	bySource sync.Map
	nap      nap

	mu    sync.Mutex
	ended bool     // guarded by mu, as atEnd
	atEnd []func() // nil after the end
}

// AtEnd has f called when the reflector ends, at once if it has.
func (m *Memo) AtEnd(f func()) {
	m.mu.Lock()
	ended := m.ended
	if !ended {
		m.atEnd = append(m.atEnd, f)
	}
	m.mu.Unlock()
	if ended {
		f()
	}
}

// End says that the reflector ends.
func (m *Memo) End() {
	m.mu.Lock()
	calls := m.atEnd
	m.ended, m.atEnd = true, nil
	m.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

type memoKey struct{}

// WithMemo returns a context with an empty Memo.
func WithMemo(ctx context.Context) context.Context {
	return context.WithValue(ctx, memoKey{}, new(Memo))
}

// Recall returns what source remembers of the reflector that asks, which is what fresh returned
// when there was nothing; or the zero M if ctx has no Memo, because no reflector asks. A source of
// sources has one for each.
func Recall[M any](ctx context.Context, source any, fresh func() M) (m M) {
	memo, _ := ctx.Value(memoKey{}).(*Memo)
	if memo == nil {
		return m
	}
	known, ok := memo.bySource.Load(source)
	if !ok {
		known, _ = memo.bySource.LoadOrStore(source, fresh())
	}
	return known.(M)
}

type probeKey struct{}

// AsProbe returns a context for a List of which IsProbe is true.
func AsProbe(ctx context.Context) context.Context { return context.WithValue(ctx, probeKey{}, true) }

// IsProbe reports whether ctx is from AsProbe.
func IsProbe(ctx context.Context) bool { return ctx.Value(probeKey{}) != nil }

// A Filter reports whether the object of that name is wanted. It must not keep its arguments. Any
// goroutine may call it.
type Filter func(namespace, name string) bool

type partKey struct{}

// AsPart returns a context for a List of the objects that part selects, of which PartOf is part.
func AsPart(ctx context.Context, part Filter) context.Context {
	return context.WithValue(ctx, partKey{}, part)
}

// PartOf returns the filter of AsPart, or nil.
func PartOf(ctx context.Context) Filter {
	part, _ := ctx.Value(partKey{}).(Filter)
	return part
}

type wantedKey struct{}

// WithWanted returns a context whose reader wants only what wanted selects.
func WithWanted(ctx context.Context, wanted Filter) context.Context {
	return context.WithValue(ctx, wantedKey{}, wanted)
}

// WantedOf returns the filter of WithWanted, or nil.
func WantedOf(ctx context.Context) Filter {
	wanted, _ := ctx.Value(wantedKey{}).(Filter)
	return wanted
}
