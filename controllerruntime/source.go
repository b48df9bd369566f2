package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/go-lw/lw"
)

// Source returns a source of the changes of c, an informer or a derived collection, for
// builder.WatchesRawSource and for controller.Watch. The handler and the predicates are typed, and
// T may be any type that c has: an API type, the projection that an lw.Transform makes, or what a
// graph derives.
//
// The source does not run c: add the informer, or the informers and their graph, to the manager
// with [Runnable]. The controller starts its workers when the handler was called for all objects
// that c has first; see [lw.Registration.WaitForSync]. Handler and predicates are called one at a
// time, in a goroutine of the source's own, and must not change the objects. An object that was
// created again under its old name is a Delete and a Create. The source ends when its controller
// stops.
//
// Source panics if c, h or one of predicates is nil.
func Source[T lw.Object](c lw.Collection[T], h handler.TypedEventHandler[T, reconcile.Request], predicates ...predicate.TypedPredicate[T]) source.SyncingSource {
	return TypedSource(c, h, predicates...)
}

// TypedSource is like [Source], for a controller whose requests are of the type R.
func TypedSource[T lw.Object, R comparable](c lw.Collection[T], h handler.TypedEventHandler[T, R], predicates ...predicate.TypedPredicate[T]) source.TypedSyncingSource[R] {
	if isNil(c) {
		panic("controllerruntime: Source: nil collection")
	}
	if h == nil {
		panic("controllerruntime: Source: nil handler")
	}
	for _, p := range predicates {
		if p == nil {
			panic("controllerruntime: Source: nil predicate")
		}
	}
	return &collectionSource[T, R]{collection: c, handler: h, predicates: predicates}
}

// isNil reports whether v is nil, or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

type collectionSource[T lw.Object, R comparable] struct {
	collection lw.Collection[T]
	handler    handler.TypedEventHandler[T, R]
	predicates []predicate.TypedPredicate[T]

	mu      sync.Mutex
	started []*lw.Registration // guarded by mu
}

// String returns the name that a controller logs.
func (s *collectionSource[T, R]) String() string {
	return "lw source: " + s.collection.Status().Name
}

// Start adds the handler to the collection. Each call adds it once more, for another queue. It is
// removed when ctx is done.
func (s *collectionSource[T, R]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[R]) error {
	passes, synced := predicate.And(s.predicates...), false
	r := s.collection.AddHandler(lw.Handler[T]{
		Name: fmt.Sprintf("%T", s.handler),
		Add: func(obj T) {
			e := event.TypedCreateEvent[T]{Object: obj, IsInInitialList: !synced}
			if passes.Create(e) {
				s.handler.Create(ctx, e, queue)
			}
		},
		Update: func(before, obj T) {
			e := event.TypedUpdateEvent[T]{ObjectOld: before, ObjectNew: obj}
			if passes.Update(e) {
				s.handler.Update(ctx, e, queue)
			}
		},
		Delete: func(last T) {
			e := event.TypedDeleteEvent[T]{Object: last}
			if passes.Delete(e) {
				s.handler.Delete(ctx, e, queue)
			}
		},
		Synced: func() { synced = true },
	})
	context.AfterFunc(ctx, r.Remove)
	s.mu.Lock()
	s.started = append(s.started, r)
	s.mu.Unlock()
	return nil
}

// WaitForSync waits until the handler was called for all objects that the collection has first. If
// that does not happen before ctx's deadline, the error says what the collection is doing. As with
// controller-runtime's sources, it is nil if ctx is cancelled: the controller stops then.
func (s *collectionSource[T, R]) WaitForSync(ctx context.Context) error {
	s.mu.Lock()
	started := s.started
	s.mu.Unlock()
	if len(started) == 0 {
		return errors.New("controllerruntime: WaitForSync of a source that was not started")
	}
	for _, r := range started {
		if err := r.WaitForSync(ctx); errors.Is(ctx.Err(), context.Canceled) {
			return nil
		} else if err != nil {
			return fmt.Errorf("controllerruntime: %v: %w", s, err)
		}
	}
	return nil
}
