package lw

import (
	"context"
	"iter"

	"github.com/go-lw/lw/internal/equal"
)

// A Collection is objects in memory that change, and what tells of their changes: an [*Informer],
// of which its methods are described, a [*Derived] or a [*Union]. It can be derived from, and
// [WaitFor] waits for the state of one of its objects. No other type can implement it.
type Collection[T Identified] interface {
	Store() Reader[T]
	AddHandler(h Handler[T]) *Registration
	Events(ctx context.Context) iter.Seq[Delta[T]]
	WaitForSync(ctx context.Context) error
	Changed(ctx context.Context, key Key) <-chan struct{}
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

// hubOf returns what the hub of an informer has that does not depend on T.
func (inf *Informer[T]) hubOf() *hubCore { return inf.hub.hubCore }

// coreOf returns the hubOf of an [*Informer], or nil if inf is of another type.
func coreOf(inf AnyInformer) *hubCore {
	if i, ok := inf.(interface{ hubOf() *hubCore }); ok {
		return i.hubOf()
	}
	return nil
}

// WaitFor waits until cond is true of the object of key in c, and returns that object. cond gets
// the zero T (nil) while there is no such object, so a wait can also be for the end of an object:
//
//	_, err := lw.WaitFor(ctx, pods, key, func(p *corev1.Pod) bool { return p == nil || p.UID != uid })
//
// It waits until c has synced, and then calls cond with the object as it is, and after its changes.
// It may pass over short states, but never over one that lasts. cond is called in the goroutine of
// the caller, without a lock, perhaps more than once with one state. It must not change the object.
//
// Give ctx a deadline. The error says what c is doing, and wraps its last failure, the cause of ctx
// or [ErrStopped], and why a newer version of the object could not be used. A state for which cond
// is true counts also if ctx is done or c has stopped. WaitFor panics if cond is nil.
func WaitFor[T Object](ctx context.Context, c Collection[T], key Key, cond func(obj T) bool) (T, error) {
	if cond == nil {
		panic("lw: WaitFor: nil condition")
	}
	var none T
	h := c.collection()
	if err := h.waitForSync(ctx); err != nil {
		return none, err
	}
	for {
		obj, met, cause := lookAndWait(ctx, h, key, cond)
		if met {
			return obj, nil
		}
		if cause == nil {
			continue
		}
		// The object may have changed when the wait ended: of several ready channels a select
		// chooses one at random.
		if obj, _ = h.store.Get(key); cond(obj) {
			return obj, nil
		}
		return none, h.unmet(key, !equal.IsZero(obj), cause)
	}
}
