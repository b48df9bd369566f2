package clientgo

import (
	"fmt"
	"maps"
	"reflect"
	goruntime "runtime"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
	failed bool            // the last call has panicked
}

func (h *eventHandler[T]) handler(name string, resync time.Duration) lw.Handler[T] {
	return lw.Handler[T]{Change: h.change, Name: name, Resync: resync}
}

// change defers HandleCrashWithLogger itself, because its log message names the line that panicked
// by counting the frames between.
func (h *eventHandler[T]) change(d lw.Delta[T]) {
	if h.failed && !h.pause() {
		return
	}
	h.failed = true
	defer utilruntime.HandleCrashWithLogger(h.logger)
	switch d.Type {
	case lw.Added:
		h.to.OnAdd(latest(d.New), d.Initial)
	case lw.Updated:
		h.to.OnUpdate(last(d.Old), latest(d.New))
	case lw.Deleted:
		h.to.OnDelete(deletedAt(last(d.Old), d.ResourceVersion))
	}
	h.failed = false
}

// deletedAt returns obj as its DELETED event has it: with the version of the deletion, which the
// program may wait for. obj is not changed.
func deletedAt(obj any, version string) any {
	if m, ok := obj.(metav1.Object); ok && version != "" && version != m.GetResourceVersion() {
		if m, ok = cloneToSetVersion(m); ok {
			m.SetResourceVersion(version)
			return m
		}
	}
	return obj
}

// cloneToSetVersion returns a copy of obj whose version can be set. Where it knows where the
// version is, it copies nothing but what holds it: many objects may go at once.
func cloneToSetVersion(obj metav1.Object) (clone metav1.Object, ok bool) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			content["metadata"] = maps.Clone(metadata)
		}
		return &unstructured.Unstructured{Object: content}, true
	}
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct {
		meta, ok := v.Type().Elem().FieldByName("ObjectMeta")
		if ok && meta.Type == reflect.TypeFor[metav1.ObjectMeta]() && len(meta.Index) == 1 {
			to := reflect.New(v.Type().Elem())
			to.Elem().Set(v.Elem())
			return to.Interface().(metav1.Object), true
		}
	}
	if o, ok := obj.(runtime.Object); ok {
		clone, ok = o.DeepCopyObject().(metav1.Object)
		return clone, ok
	}
	return nil, false
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
			if fn := goruntime.FuncForPC(reflect.ValueOf(f).Pointer()); fn != nil {
				return fn.Name()
			}
		}
	}
	return fmt.Sprintf("%T", handler)
}
