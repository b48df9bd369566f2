package cache

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The tests of this package look into the fields of *sharedIndexInformer. They are rewritten to ask
// a handled, which answers by what it observes through the interface.

// A handled is an informer that knows the handlers that were added to it.
type handled struct {
	SharedIndexInformer
	mu      sync.Mutex
	added   []ResourceEventHandlerRegistration
	removed map[ResourceEventHandlerRegistration]bool // RemoveEventHandler was called
}

// newHandled stands for NewSharedInformer.
func newHandled(lw ListerWatcher, example runtime.Object, resync time.Duration) *handled {
	return &handled{
		SharedIndexInformer: NewSharedIndexInformer(lw, example, resync, Indexers{}),
		removed:             map[ResourceEventHandlerRegistration]bool{},
	}
}

func (h *handled) record(reg ResourceEventHandlerRegistration, err error) (ResourceEventHandlerRegistration, error) {
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.added = append(h.added, reg)
	}
	return reg, err
}

func (h *handled) AddEventHandler(handler ResourceEventHandler) (ResourceEventHandlerRegistration, error) {
	return h.record(h.SharedIndexInformer.AddEventHandler(handler))
}

func (h *handled) AddEventHandlerWithResyncPeriod(handler ResourceEventHandler, resync time.Duration) (ResourceEventHandlerRegistration, error) {
	return h.record(h.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, resync))
}

func (h *handled) AddEventHandlerWithOptions(handler ResourceEventHandler, opts HandlerOptions) (ResourceEventHandlerRegistration, error) {
	return h.record(h.SharedIndexInformer.AddEventHandlerWithOptions(handler, opts))
}

func (h *handled) RemoveEventHandler(reg ResourceEventHandlerRegistration) error {
	err := h.SharedIndexInformer.RemoveEventHandler(reg)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removed[reg] = true
	return err
}

// active reports whether the handler of reg has not ended. If it was removed it ends when a call
// that is running has returned, and active waits for that.
func (h *handled) active(reg ResourceEventHandlerRegistration) bool {
	done := reg.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
	if h.removed[reg] {
		select {
		case <-done:
			return false
		case <-time.After(10 * time.Second):
			return true
		}
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

func eventHandlerCount(i SharedInformer) int {
	h := i.(*handled)
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, reg := range h.added {
		if h.active(reg) {
			n++
		}
	}
	return n
}

func isRegistered(i SharedInformer, reg ResourceEventHandlerRegistration) bool {
	h := i.(*handled)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, known := range h.added {
		if known == reg {
			return h.active(reg)
		}
	}
	return false
}

// isStarted uses that a transform can only be set before the start.
func isStarted(i SharedInformer) bool {
	identity := func(obj any) (any, error) { return obj, nil }
	return i.SetTransform(identity) != nil
}

// newPodIndexer stands for NewIndexer with MetaNamespaceKeyFunc. It returns the store of an
// informer that is not run.
func newPodIndexer(_ KeyFunc, indexers Indexers) Indexer {
	return NewSharedIndexInformer(&ListWatch{}, &v1.Pod{}, 0, indexers).GetIndexer()
}

// TestSharedInformerWatchDisruption runs upstream's test of that name in a bubble, since an
// informer need not have a clock that can be set.
func TestSharedInformerWatchDisruption(t *testing.T) {
	synctest.Test(t, sharedInformerWatchDisruption)
}

// A bubbleClock stands for the FakeClock of a test in a bubble.
type bubbleClock struct{}

// newBubbleClock also sets a watch error handler: the default one sleeps on a clock that bubbles
// cannot share.
func newBubbleClock(informer SharedInformer) bubbleClock {
	if err := informer.SetWatchErrorHandler(func(*Reflector, error) {}); err != nil {
		panic(err)
	}
	return bubbleClock{}
}

func (bubbleClock) Step(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
