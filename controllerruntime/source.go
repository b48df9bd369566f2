package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/go-lw/lw"
)

// Source returns a source of the changes of inf, for builder.WatchesRawSource and for
// controller.Watch. The handler and the predicates are typed, and T may be any type that inf has:
// an API type, or the projection that an lw.Transform makes.
//
// The source does not run inf: add it to the manager, with [Runnable]. The controller starts its
// workers when the handler was called for all objects of inf's first list; see
// [lw.Registration.WaitForSync]. Handler and predicates are called one at a time, in a goroutine of
// the source's own, and must not change the objects. An object that was created again under its old
// name is a Delete and a Create. The source ends when its controller stops.
//
// Source panics if inf, h or one of predicates is nil.
func Source[T lw.Object](inf *lw.Informer[T], h handler.TypedEventHandler[T, reconcile.Request], predicates ...predicate.TypedPredicate[T]) source.SyncingSource {
	return TypedSource(inf, h, predicates...)
}

// TypedSource is like [Source], for a controller whose requests are of the type R.
func TypedSource[T lw.Object, R comparable](inf *lw.Informer[T], h handler.TypedEventHandler[T, R], predicates ...predicate.TypedPredicate[T]) source.TypedSyncingSource[R] {
	if inf == nil {
		panic("controllerruntime: Source: nil informer")
	}
	if h == nil {
		panic("controllerruntime: Source: nil handler")
	}
	for _, p := range predicates {
		if p == nil {
			panic("controllerruntime: Source: nil predicate")
		}
	}
	return &informerSource[T, R]{informer: inf, handler: h, predicates: predicates}
}

type informerSource[T lw.Object, R comparable] struct {
	informer   *lw.Informer[T]
	handler    handler.TypedEventHandler[T, R]
	predicates []predicate.TypedPredicate[T]

	mu      sync.Mutex
	started []*lw.Registration // guarded by mu
}

// String returns the name that a controller logs.
func (s *informerSource[T, R]) String() string {
	return "lw source: " + s.informer.Status().Informer
}

// Start adds the handler to the informer. Each call adds it once more, for another queue. It is
// removed when ctx is done.
func (s *informerSource[T, R]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[R]) error {
	var synced atomic.Bool
	r := s.informer.AddHandler(lw.Handler[T]{
		Name: fmt.Sprintf("%T", s.handler),
		Add: func(obj T) {
			e := event.TypedCreateEvent[T]{Object: obj, IsInInitialList: !synced.Load()}
			for _, p := range s.predicates {
				if !p.Create(e) {
					return
				}
			}
			s.handler.Create(ctx, e, queue)
		},
		Update: func(before, obj T) {
			e := event.TypedUpdateEvent[T]{ObjectOld: before, ObjectNew: obj}
			for _, p := range s.predicates {
				if !p.Update(e) {
					return
				}
			}
			s.handler.Update(ctx, e, queue)
		},
		Delete: func(last T) {
			e := event.TypedDeleteEvent[T]{Object: last}
			for _, p := range s.predicates {
				if !p.Delete(e) {
					return
				}
			}
			s.handler.Delete(ctx, e, queue)
		},
		Synced: func() { synced.Store(true) },
	})
	context.AfterFunc(ctx, r.Remove)
	s.mu.Lock()
	s.started = append(s.started, r)
	s.mu.Unlock()
	return nil
}

// WaitForSync waits until the handler was called for all objects of the informer's first list. If
// that does not happen before ctx's deadline, the error says what the informer is doing. As with
// controller-runtime's sources, it is nil if ctx is cancelled: the controller stops then.
func (s *informerSource[T, R]) WaitForSync(ctx context.Context) error {
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
