package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// A lazyInformer is an informer of a factory that runs once somebody wants it. The factory has one
// of every type, and does not tell it who has asked for it. Only the calls of its own methods do.
//
// The waits of the factory ask all informers whether they have synced. They are not made to wait
// for one that nobody wants. But the program may have been given it before, and read its store
// next. So the answer to such a wait is a promise, which the store keeps: see [promisedStore].
type lazyInformer struct {
	*owned
	waits  string        // how the names of the factory's waits begin
	wanted chan struct{} // closed once somebody wants the informer
	failed chan struct{} // closed at the first failure

	mu       sync.Mutex // held while wanted is closed
	promised bool       // HasSynced has said so to a wait; does not change once wanted is closed
}

// newLazyInformer returns the informer that newInformer makes with the function for its failures.
func newLazyInformer(waits string, newInformer func(onError func(error)) *owned) *lazyInformer {
	l := &lazyInformer{waits: waits, wanted: make(chan struct{}), failed: make(chan struct{})}
	var first sync.Once
	l.owned = newInformer(func(error) { first.Do(func() { close(l.failed) }) })
	return l
}

// want has the informer run.
func (l *lazyInformer) want() *owned {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isClosed(l.wanted) {
		close(l.wanted)
	}
	return l.owned
}

// promise promises to a wait that the informer has synced, if nobody wants it. It reports whether
// that was promised, now or before.
func (l *lazyInformer) promise() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isClosed(l.wanted) {
		l.promised = true
	}
	return l.promised
}

// waitsOf returns how the names of the functions begin that wait for all informers of factory.
func waitsOf(factory any) string {
	const known = "InformerFor" // it has this method, and the name of its type precedes both
	m, _ := reflect.TypeOf(factory).MethodByName(known)
	return strings.TrimSuffix(runtime.FuncForPC(m.Func.Pointer()).Name(), known) + "WaitForCacheSync"
}

// calledBy reports whether the name of a function that waits for the caller's caller begins with
// prefix.
func calledBy(prefix string) bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, prefix) {
			return true
		}
		if !more {
			return false
		}
	}
}

// Run runs the informer until stop is closed.
func (l *lazyInformer) Run(stop <-chan struct{}) { l.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext runs the informer until ctx is done, from the moment on that somebody wants it.
func (l *lazyInformer) RunWithContext(ctx context.Context) {
	select {
	case <-l.wanted:
	case <-ctx.Done():
	}
	l.owned.RunWithContext(ctx)
}

func (l *lazyInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return l.want().AddEventHandler(handler)
}

func (l *lazyInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return l.want().AddEventHandlerWithResyncPeriod(handler, period)
}

func (l *lazyInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return l.want().AddEventHandlerWithOptions(handler, options)
}

func (l *lazyInformer) GetController() cache.Controller { return l.want().GetController() }

func (l *lazyInformer) AddIndexers(indexers cache.Indexers) error {
	return l.want().AddIndexers(indexers)
}

// HasSynced reports whether the store has a whole list. A wait of the factory is promised that it
// will have one. After a promise HasSynced says what has become of the first request.
func (l *lazyInformer) HasSynced() bool {
	if l.owned.HasSynced() {
		return true
	}
	if calledBy(l.waits) {
		return l.promise()
	}
	if l.want(); l.promised {
		select {
		case <-l.inf.Synced():
		case <-l.inf.Stopped():
		case <-l.failed:
		}
	}
	return l.owned.HasSynced()
}

// HasSyncedChecker is HasSynced to wait for.
func (l *lazyInformer) HasSyncedChecker() cache.DoneChecker {
	if calledBy(l.waits) && l.promise() && !isClosed(l.wanted) {
		done := make(chan struct{})
		close(done)
		return checker{l.owned.checkerName(), done}
	}
	return l.want().HasSyncedChecker()
}

// SetWatchErrorHandler sets the handler of errors.
func (l *lazyInformer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	defer l.want()
	return l.owned.SetWatchErrorHandler(handler)
}

// SetWatchErrorHandlerWithContext sets the handler of errors; nil is the default one.
func (l *lazyInformer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	defer l.want()
	return l.owned.SetWatchErrorHandlerWithContext(handler)
}

// LastSyncResourceVersion returns the resource version of the store.
func (l *lazyInformer) LastSyncResourceVersion() string {
	l.want()
	_ = l.settle() // a stopped informer has the version that it has
	return l.owned.LastSyncResourceVersion()
}

// GetStore returns the store.
func (l *lazyInformer) GetStore() cache.Store { return l.GetIndexer() }

// GetIndexer returns the store.
func (l *lazyInformer) GetIndexer() cache.Indexer {
	store := l.want().GetIndexer()
	if !l.promised || l.owned.HasSynced() {
		return store
	}
	return promisedStore{store, l.settle}
}

// settle waits until a promise is kept, or the informer has stopped. Somebody must want it.
func (l *lazyInformer) settle() error {
	if !l.promised {
		return nil
	}
	select {
	case <-l.inf.Synced():
	case <-l.inf.Stopped():
		if !l.owned.HasSynced() {
			return fmt.Errorf("clientgo: %s: the informer has stopped before its first list", l.name)
		}
	}
	return nil
}

// A promisedStore is the store of an informer that was called synced before it made a request. Its
// reads keep the promise: they wait for the first list, as that wait would have.
type promisedStore struct {
	cache.Indexer
	settle func() error
}

func (s promisedStore) List() []any {
	_ = s.settle()
	return s.Indexer.List()
}

func (s promisedStore) ListKeys() []string {
	_ = s.settle()
	return s.Indexer.ListKeys()
}

func (s promisedStore) LastStoreSyncResourceVersion() string {
	_ = s.settle()
	return s.Indexer.LastStoreSyncResourceVersion()
}

func (s promisedStore) ListIndexFuncValues(name string) []string {
	_ = s.settle()
	return s.Indexer.ListIndexFuncValues(name)
}

func (s promisedStore) Get(obj any) (item any, exists bool, err error) {
	if err := s.settle(); err != nil {
		return nil, false, err
	}
	return s.Indexer.Get(obj)
}

func (s promisedStore) GetByKey(key string) (item any, exists bool, err error) {
	if err := s.settle(); err != nil {
		return nil, false, err
	}
	return s.Indexer.GetByKey(key)
}

func (s promisedStore) Index(name string, obj any) ([]any, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	return s.Indexer.Index(name, obj)
}

func (s promisedStore) IndexKeys(name, value string) ([]string, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	return s.Indexer.IndexKeys(name, value)
}

func (s promisedStore) ByIndex(name, value string) ([]any, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	return s.Indexer.ByIndex(name, value)
}
