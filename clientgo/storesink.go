package clientgo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
)

// StoreSink returns store, which may be any cache.Store, cache.UndeltaStore or Queue or one of your
// own, as a sink for lw.NewReflector. Its methods are called as client-go's reflector calls them,
// in one goroutine: Replace with each list, Add, Update and Delete with each event, Bookmark if it
// is a cache.ReflectorBookmarkStore, and UpdateResourceVersion if it is a
// cache.ResourceVersionUpdater. Several reflectors may write to it, one after the other; see
// [Reflector].
//
// An error of the store goes to runtime.ErrorHandlers of apimachinery. The sink does not read from
// the store, which may have keys of its own. So an object that cannot be decoded when a list is
// read is missing in that list, and an event that does not fit the store is not noticed.
//
// StoreSink panics if store is nil.
func StoreSink[T lw.Object](store cache.ReflectorStore) lw.Sink[T] {
	if isNil(store) {
		panic("clientgo: StoreSink: nil store")
	}
	return &storeSink[T]{store: store}
}

type storeSink[T lw.Object] struct {
	store  cache.ReflectorStore
	failed atomic.Bool // the store has refused the last list
}

func (s *storeSink[T]) Replace(objs []T, resourceVersion string) {
	list := make([]any, len(objs))
	for i, obj := range objs {
		list[i] = obj
	}
	err := s.store.Replace(list, resourceVersion)
	s.failed.Store(err != nil)
	s.report("replace", "the content", err)
}

func (s *storeSink[T]) Apply(ev lw.WatchEvent[T]) {
	switch ev.Type {
	case watch.Added:
		s.report("add", ev.Object, s.store.Add(ev.Object))
	case watch.Modified:
		s.report("update", ev.Object, s.store.Update(ev.Object))
	case watch.Deleted:
		s.report("delete", ev.Object, s.store.Delete(ev.Object))
	case watch.Bookmark:
		if to, ok := s.store.(cache.ReflectorBookmarkStore); ok {
			s.report("move", "the version", to.Bookmark(ev.ResourceVersion))
		}
	}
	// The version is "" while an object is set aside.
	if to, ok := s.store.(cache.ResourceVersionUpdater); ok && ev.ResourceVersion != "" {
		to.UpdateResourceVersion(ev.ResourceVersion)
	}
}

func (s *storeSink[T]) report(op string, what any, err error) {
	if err == nil {
		return
	}
	if obj, ok := what.(metav1.Object); ok {
		what = lw.KeyOf(obj)
	}
	utilruntime.HandleErrorWithContext(context.Background(), fmt.Errorf("clientgo: the store of a reflector refuses to %s %v: %w", op, what, err), "The store of a reflector is not up to date")
}

// A Reflector keeps a store of client-go in step with a ListerWatcher, in place of a
// *cache.Reflector. Its methods may be called by several goroutines.
type Reflector struct {
	source  lw.Source[metav1.Object]
	sink    *storeSink[metav1.Object]
	example runtime.Object
	options cache.ReflectorOptions
	given   lw.Options // of a Decoder

	running chan struct{} // has an element while Run runs

	// status is that of the last Run; nil: there was none. With an lw.Reflector here each package that
	// uses a Decoder would compile all of it anew.
	mu     sync.Mutex
	status func() lw.Status
}

// NewReflector returns a Reflector in place of cache.NewReflector: it fills store with objects like
// example, and calls the store's Resync each resync period, unless that is 0. See [StoreSink] for
// how it calls store, and [Source] for example, which may be nil.
//
// NewReflector panics if listerWatcher or store is nil.
func NewReflector(listerWatcher cache.ListerWatcher, example runtime.Object, store cache.ReflectorStore, resync time.Duration) *Reflector {
	return NewReflectorWithOptions(listerWatcher, example, store, cache.ReflectorOptions{ResyncPeriod: resync})
}

// NewReflectorWithOptions is [NewReflector] in place of cache.NewReflectorWithOptions. The options
// Backoff and Clock have no effect, nor has a MinWatchTimeout of less than 5 minutes.
func NewReflectorWithOptions(listerWatcher cache.ListerWatcher, example runtime.Object, store cache.ReflectorStore, options cache.ReflectorOptions) *Reflector {
	return newReflector("NewReflector", listerWatcher, example, store, options, plainSource, nil)
}

// NewReflector is like [NewReflectorWithOptions], but lw decodes the objects.
func (d Decoder) NewReflector(listerWatcher cache.ListerWatcher, example runtime.Object, store cache.ReflectorStore, options cache.ReflectorOptions) *Reflector {
	return newReflector("Decoder.NewReflector", listerWatcher, example, store, options, d.Source, d.Options)
}

func newReflector(constructor string, listerWatcher cache.ListerWatcher, example runtime.Object, store cache.ReflectorStore, options cache.ReflectorOptions,
	source func(cache.ListerWatcher, runtime.Object) lw.Source[metav1.Object], given *lw.Options) *Reflector {
	if isNil(listerWatcher) {
		panic("clientgo: " + constructor + ": nil lister-watcher")
	}
	if isNil(store) {
		panic("clientgo: " + constructor + ": nil store")
	}
	r := &Reflector{
		sink: &storeSink[metav1.Object]{store: store}, example: example, options: options,
		given: watchTimeout(given, options.MinWatchTimeout), running: make(chan struct{}, 1),
	}
	r.source = &relisted{source(listerWatcher, example), r.sink}
	return r
}

// relisted is a source whose list is made again if the store has refused it, as client-go does.
type relisted struct {
	lw.Source[metav1.Object]
	sink *storeSink[metav1.Object]
}

func (s *relisted) Hints() lw.SourceHints { return lw.HintsOf(s.Source) }

func (s *relisted) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[metav1.Object]) error) error {
	refused := apierrors.NewResourceExpired("the store has refused the list")
	if s.sink.failed.Load() && opts.SendInitialEvents == nil {
		return refused
	}
	return s.Source.Watch(ctx, opts, func(ev lw.WatchEvent[metav1.Object]) error {
		err := yield(ev)
		if err == nil && ev.InitialEventsEnd && s.sink.failed.Load() {
			return refused
		}
		return err
	})
}

// Run runs the reflector until stop is closed.
func (r *Reflector) Run(stop <-chan struct{}) { r.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext keeps the store in step until ctx is done. It may be called again, which begins
// with a list. If another call is running still it waits for its end.
func (r *Reflector) RunWithContext(ctx context.Context) {
	select {
	case r.running <- struct{}{}:
		defer func() { <-r.running }()
	case <-ctx.Done():
		return
	}
	if r.options.Logger != nil {
		ctx = klog.NewContext(ctx, *r.options.Logger)
	}
	logger := klog.FromContext(ctx)
	var log records
	log.to.Store(&logger)
	errs := newErrorReporter(r.example, r.options.TypeDescription)
	to := lw.NewReflector[metav1.Object](r.source, r.sink, optionsOf(&r.given, r.name(), &log, errs))
	r.mu.Lock()
	r.status = to.Status
	r.mu.Unlock()
	noMoreErrors, noMoreResyncs := errs.run(ctx), r.resync(ctx)
	err := to.Run(ctx)
	noMoreResyncs()
	noMoreErrors()
	if err != nil {
		logger.Error(err, "The reflector cannot go on", "reflector", r.name())
	}
}

// resync starts the resyncs of the store. The function that it returns ends them.
func (r *Reflector) resync(ctx context.Context) (end func()) {
	if r.options.ResyncPeriod <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(r.options.ResyncPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.sink.report("resync", "its objects", r.sink.store.Resync())
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

func (r *Reflector) name() string {
	if r.options.Name != "" {
		return r.options.Name
	}
	return nameOf(r.example, r.options.TypeDescription)
}

// Status returns what the reflector is doing, or has done last. Before the first Run it is
// idle.
func (r *Reflector) Status() lw.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == nil {
		return lw.Status{Phase: "idle"}
	}
	return r.status()
}

// LastSyncResourceVersion returns the resource version of what the store has, or "" before the
// first list of the last Run.
func (r *Reflector) LastSyncResourceVersion() string { return r.Status().ResourceVersion }
