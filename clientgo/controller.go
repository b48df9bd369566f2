package clientgo

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
)

// NewController returns a store and a controller that fills it and calls handler, as
// cache.NewInformer does, and as cache.NewIndexerInformer does if indexers are given: only the
// function's name is to be changed. The Indexer may be assigned to a cache.Store.
//
// The controller is lw's informer with one handler, and differs from client-go's as the package
// says of informers. Beside that:
//   - handler is called by a goroutine of its own, so the store may be ahead of it. client-go calls
//     it in between the changes of the store.
//   - HasSynced is true when handler was called for the whole first list.
//   - RunWithContext returns when no call of handler is running any more.
//
// handler may be nil. NewController panics if listerWatcher is nil.
func NewController(listerWatcher cache.ListerWatcher, example runtime.Object, resync time.Duration, handler cache.ResourceEventHandler, indexers ...cache.Indexers) (cache.Indexer, cache.Controller) {
	options := cache.InformerOptions{ListerWatcher: listerWatcher, ObjectType: example, ResyncPeriod: resync, Handler: handler, Indexers: cache.Indexers{}}
	for _, more := range indexers {
		for name, values := range more {
			options.Indexers[name] = values
		}
	}
	return newController("NewController", options, plainSource, nil)
}

// NewControllerWithOptions is [NewController] in place of cache.NewInformerWithOptions. A
// MinWatchTimeout of less than 5 minutes has no effect, as there.
func NewControllerWithOptions(options cache.InformerOptions) (cache.Indexer, cache.Controller) {
	return newController("NewControllerWithOptions", options, plainSource, nil)
}

// NewController is like [NewControllerWithOptions], but lw decodes the objects.
func (d Decoder) NewController(options cache.InformerOptions) (cache.Indexer, cache.Controller) {
	return newController("Decoder.NewController", options, d.packable, d.Options)
}

func plainSource(listerWatcher cache.ListerWatcher, example runtime.Object) lw.Source[metav1.Object] {
	return newSource[metav1.Object](listerWatcher, example)
}

// shortestWatch is the shortest MinWatchTimeout that client-go honours.
const shortestWatch = 5 * time.Minute

// watchTimeout returns given, which may be nil, with the duration of watches that client-go's
// options ask for.
func watchTimeout(given *lw.Options, least time.Duration) (opts lw.Options) {
	if given != nil {
		opts = *given
	}
	opts.WatchTimeout = max(opts.WatchTimeout, least, shortestWatch)
	return opts
}

func newController(constructor string, options cache.InformerOptions, source func(cache.ListerWatcher, runtime.Object) lw.Source[metav1.Object], given *lw.Options) (cache.Indexer, cache.Controller) {
	if isNil(options.ListerWatcher) {
		panic("clientgo: " + constructor + ": nil lister-watcher")
	}
	opts := watchTimeout(given, options.MinWatchTimeout)
	o := newSharedInformer(source(options.ListerWatcher, options.ObjectType), options.ObjectType, cache.SharedIndexInformerOptions{
		Indexers: options.Indexers, Identifier: options.Identifier, InformerMetricsProvider: options.InformerMetricsProvider,
	}, &opts, nil)
	o.source.transform = options.Transform
	c := &ownController{owned: o, logger: options.Logger}
	if !isNil(options.Handler) {
		logger := klog.Background()
		if options.Logger != nil {
			logger = *options.Logger
		}
		c.handle = o.add(options.Handler, logger, max(options.ResyncPeriod, 0))
	}
	return o.indexer, c
}

// An ownController is the result of NewController.
type ownController struct {
	owned  *owned
	handle *registration // nil: there is no handler
	logger *klog.Logger  // nil: that of the context
}

func (c *ownController) Run(stop <-chan struct{}) { c.owned.Run(stop) }

func (c *ownController) RunWithContext(ctx context.Context) {
	if c.logger != nil {
		ctx = klog.NewContext(ctx, *c.logger)
	}
	c.owned.RunWithContext(ctx)
}

func (c *ownController) HasSynced() bool { return isClosed(c.HasSyncedChecker().Done()) }

func (c *ownController) HasSyncedChecker() cache.DoneChecker {
	if c.handle == nil {
		return c.owned.HasSyncedChecker()
	}
	return c.handle.HasSyncedChecker()
}

func (c *ownController) LastSyncResourceVersion() string { return c.owned.LastSyncResourceVersion() }

func (c *ownController) status() lw.Status { return c.owned.status() }
