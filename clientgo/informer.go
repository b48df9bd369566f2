package clientgo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
)

// SharedIndexInformer returns c, an informer or a derived collection, as client-go's interface, for
// code that expects it. Both are used side by side: c's own methods go on to work, and one
// collection may have several adapters. The indexes of an adapter are its own.
//
// Run of the adapter runs an informer. If its owner runs it already, and of a derived collection,
// Run waits until c stops or its context is done. A transform, a shard selector and a handler of
// errors belong to the source and the options of c: SetTransform, SetShardSelector and
// SetWatchErrorHandler return an error that says so.
// An adapter has no resync period of its own, but honours that of each handler. The store of a
// derived collection refuses writes.
func SharedIndexInformer[T lw.Object](c lw.Collection[T]) cache.SharedIndexInformer {
	if isNil(c) {
		panic("clientgo: SharedIndexInformer: nil collection")
	}
	return newAdapter(c, 0)
}

func newAdapter[T lw.Object](c lw.Collection[T], resync time.Duration) *adapter[T] {
	return &adapter[T]{shared: newShared(c, reflect.TypeFor[T]().String(), resync)}
}

// Status returns what informer is doing, which may also be the cache.Controller of [NewController].
// ok is false if it is not of this package.
func Status(informer interface{ HasSynced() bool }) (status lw.Status, ok bool) {
	if s, ok := informer.(interface{ status() lw.Status }); ok {
		return s.status(), true
	}
	return lw.Status{}, false
}

// adapter is the result of SharedIndexInformer.
type adapter[T lw.Object] struct {
	*shared[T]
	refused error // of SetTransform or SetShardSelector, which a factory does not look at; guarded by mu
}

// Run runs the informer until stop is closed.
func (a *adapter[T]) Run(stop <-chan struct{}) { a.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext runs the informer until ctx is done. If somebody else runs it, it waits.
func (a *adapter[T]) RunWithContext(ctx context.Context) {
	if !a.start(ctx) {
		return
	}
	err := error(lw.ErrStarted) // the owner of a graph runs what is derived
	if inf, ok := a.of.(lw.AnyInformer); ok {
		err = inf.Run(ctx)
	}
	if errors.Is(err, lw.ErrStarted) {
		select {
		case <-ctx.Done():
		case <-a.of.Stopped():
		}
		return
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The informer cannot go on", "informer", a.name)
	}
}

// SetTransform returns an error.
func (a *adapter[T]) SetTransform(f cache.TransformFunc) error {
	if f == nil {
		return nil
	}
	return a.refuse(fmt.Errorf("clientgo: %s: SetTransform: the transform of this informer is set where it is made: lw.NewInformer(lw.Transform(source, f), options)", a.name))
}

// SetShardSelector returns an error.
func (a *adapter[T]) SetShardSelector(selector sharding.Selector) error {
	if textOf(selector) == "" {
		return nil
	}
	return a.refuse(fmt.Errorf("clientgo: %s: SetShardSelector: the shard of this informer is set where it is made: lw.NewInformer(lw.Shard(source, i, n), options)", a.name))
}

func (a *adapter[T]) refuse(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = err
	return err
}

// SetWatchErrorHandler returns an error.
func (a *adapter[T]) SetWatchErrorHandler(cache.WatchErrorHandler) error {
	return a.SetWatchErrorHandlerWithContext(nil)
}

// SetWatchErrorHandlerWithContext returns an error.
func (a *adapter[T]) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return fmt.Errorf("clientgo: %s: SetWatchErrorHandler: the errors of this informer are handled where it is made: by lw.Options.OnError", a.name)
}

// shared is what the adapter of any collection does, whoever made it.
type shared[T lw.Object] struct {
	of      lw.Collection[T]
	indexer *indexer[T]
	metrics *metrics // nil: none
	name    string   // of the objects' type

	mu      sync.Mutex
	started bool         // RunWithContext was called
	resyncs resyncPeriod // guarded by mu
}

func newShared[T lw.Object](c lw.Collection[T], name string, resync time.Duration) *shared[T] {
	return &shared[T]{of: c, indexer: newIndexer(c), name: name, resyncs: resyncPeriod{standard: resync, check: resync, asked: true}}
}

// start reports whether this is the first call. Of a later one it only logs.
func (s *shared[T]) start(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		klog.FromContext(ctx).Info("The informer was started before: this call of Run does nothing", "informer", s.name)
		return false
	}
	s.started = true
	return true
}

// AddEventHandler adds handler with the default resync period.
func (s *shared[T]) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds handler with a resync period of its own.
func (s *shared[T]) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds handler.
func (s *shared[T]) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	if handler == nil {
		return nil, fmt.Errorf("clientgo: %s: AddEventHandler: nil handler", s.name)
	}
	if s.IsStopped() {
		return nil, fmt.Errorf("clientgo: %s: handler %s was not added to shared informer because it has stopped already", s.name, handlerName(handler))
	}
	logger := klog.Background()
	if options.Logger != nil {
		logger = *options.Logger
	}
	s.mu.Lock()
	period := s.resyncs.of(options.ResyncPeriod, s.started, logger)
	s.mu.Unlock()
	return s.add(handler, logger, period), nil
}

// add adds handler with that resync period; 0 is none.
func (s *shared[T]) add(handler cache.ResourceEventHandler, logger klog.Logger, resync time.Duration) *registration {
	name := handlerName(handler)
	r := &registration{informer: s, name: s.checkerName() + " + event handler " + name, gone: make(chan struct{})}
	h := &eventHandler[T]{to: s.metrics.timed(handler), logger: logger, reg: r, stop: s.of.Stopped()}
	r.reg = s.of.AddHandler(h.handler(name, resync))
	return r
}

// RemoveEventHandler removes the handler of handle.
func (s *shared[T]) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("clientgo: %s: RemoveEventHandler: a %T is no handle of AddEventHandler", s.name, handle)
	}
	if r.informer == any(s) {
		r.remove()
	}
	return nil
}

// GetStore returns the store.
func (s *shared[T]) GetStore() cache.Store { return s.indexer }

// GetIndexer returns the store.
func (s *shared[T]) GetIndexer() cache.Indexer { return s.indexer }

// AddIndexers adds indexes to the store.
func (s *shared[T]) AddIndexers(indexers cache.Indexers) error {
	if s.IsStopped() {
		return fmt.Errorf("clientgo: %s: indexer was not added because it has stopped already", s.name)
	}
	return s.indexer.AddIndexers(indexers)
}

// HasSynced reports whether the store has a whole list.
func (s *shared[T]) HasSynced() bool { return isClosed(s.of.Synced()) }

// HasSyncedChecker is HasSynced to wait for.
func (s *shared[T]) HasSyncedChecker() cache.DoneChecker {
	return checker{s.checkerName(), s.of.Synced()}
}

func (s *shared[T]) checkerName() string { return "SharedIndexInformer " + s.name }

// LastSyncResourceVersion returns the resource version of the store.
func (s *shared[T]) LastSyncResourceVersion() string { return s.of.Store().ResourceVersion() }

// IsStopped reports whether the informer has stopped.
func (s *shared[T]) IsStopped() bool { return isClosed(s.of.Stopped()) }

func (s *shared[T]) status() lw.Status { return s.of.Status() }

// GetController returns a view of the informer that cannot run it.
func (s *shared[T]) GetController() cache.Controller { return controller[T]{s} }

// controller is the result of GetController. Run does nothing: the informer runs.
type controller[T lw.Object] struct{ s *shared[T] }

func (c controller[T]) Run(<-chan struct{})                 {}
func (c controller[T]) RunWithContext(context.Context)      {}
func (c controller[T]) HasSynced() bool                     { return c.s.HasSynced() }
func (c controller[T]) HasSyncedChecker() cache.DoneChecker { return c.s.HasSyncedChecker() }
func (c controller[T]) LastSyncResourceVersion() string     { return c.s.LastSyncResourceVersion() }
