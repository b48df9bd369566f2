package clientgo

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
)

// pauseAfterPanic is how long a handler pauses after a panic, where panics do not crash the
// program.
const pauseAfterPanic = time.Second

// An eventHandler makes the calls of one cache.ResourceEventHandler, in the goroutine of its
// registration.
type eventHandler[T lw.Object] struct {
	to     cache.ResourceEventHandler
	logger klog.Logger
	reg    *registration
	stop   <-chan struct{} // closed when the informer stops
	synced bool            // the Adds of the first list are done
	failed bool            // the last call has panicked
}

func (h *eventHandler[T]) handler(name string, resync time.Duration) lw.Handler[T] {
	return lw.Handler[T]{
		Add: h.add, Update: h.update, Delete: h.delete,
		Synced: func() { h.synced = true },
		Name:   name, Resync: resync,
	}
}

// The three functions below defer HandleCrashWithLogger themselves, because its log message names
// the line that panicked by counting the frames between.

func (h *eventHandler[T]) add(obj T) {
	if h.failed && !h.pause() {
		return
	}
	h.failed = true
	defer utilruntime.HandleCrashWithLogger(h.logger)
	h.to.OnAdd(latest(obj), !h.synced)
	h.failed = false
}

func (h *eventHandler[T]) update(old, new T) {
	if h.failed && !h.pause() {
		return
	}
	h.failed = true
	defer utilruntime.HandleCrashWithLogger(h.logger)
	h.to.OnUpdate(last(old), latest(new))
	h.failed = false
}

func (h *eventHandler[T]) delete(obj T) {
	if h.failed && !h.pause() {
		return
	}
	h.failed = true
	defer utilruntime.HandleCrashWithLogger(h.logger)
	h.to.OnDelete(last(obj))
	h.failed = false
}

// pause waits after a panic. It returns false if the handler was removed or the informer
// stopped meanwhile.
func (h *eventHandler[T]) pause() bool {
	timer := time.NewTimer(pauseAfterPanic)
	defer timer.Stop()
	select {
	case <-timer.C:
		return !isClosed(h.reg.gone) // select takes either if both are there
	case <-h.reg.gone:
		return false
	case <-h.stop:
		return false
	}
}

// A registration is the handle of a handler.
type registration struct {
	informer any // the *sharedInformer that it belongs to
	reg      *lw.Registration
	name     string

	gone chan struct{} // closed when the handler is removed
	once sync.Once     // closes gone
}

func (r *registration) remove() {
	r.once.Do(func() { close(r.gone) })
	r.reg.Remove()
}

// HasSynced reports whether the handler was called for all objects of its first list.
func (r *registration) HasSynced() bool { return isClosed(r.reg.Synced()) }

// HasSyncedChecker is HasSynced to wait for.
func (r *registration) HasSyncedChecker() cache.DoneChecker { return checker{r.name, r.reg.Synced()} }

// ShutdownChan is what cache.ShutDownEventHandler waits for: no call is running, none will start.
func (r *registration) ShutdownChan() <-chan struct{} { return r.reg.Done() }

// A checker is a cache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// handlerName returns a name of handler for logs: that of its first function, or of its type.
func handlerName(handler cache.ResourceEventHandler) string {
	var funcs []any
	switch h := handler.(type) {
	case *cache.ResourceEventHandlerFuncs:
		funcs = []any{h.AddFunc, h.UpdateFunc, h.DeleteFunc}
	case cache.ResourceEventHandlerFuncs:
		funcs = []any{h.AddFunc, h.UpdateFunc, h.DeleteFunc}
	case cache.ResourceEventHandlerDetailedFuncs:
		funcs = []any{h.AddFunc, h.UpdateFunc, h.DeleteFunc}
	}
	for _, f := range funcs {
		if !isNil(f) {
			if fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer()); fn != nil {
				return fn.Name()
			}
		}
	}
	return fmt.Sprintf("%T", handler)
}
