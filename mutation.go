package lw

import (
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// mutationPeriod is how often all cached objects are compared with their copies. An object is compared once more when it leaves
// the cache, and all when the informer stops, so that no change goes unseen.
const mutationPeriod = time.Second

// mutationDetector keeps a copy of each cached object, to find those that somebody changed.
type mutationDetector[T Object] struct {
	report func(*Error)

	mu     sync.Mutex
	copies map[T]any // guarded by mu
}

func newMutationDetector[T Object](opts *Options) *mutationDetector[T] {
	return &mutationDetector[T]{
		copies: map[T]any{},
		report: func(err *Error) { err.Informer = opts.Name; opts.OnError(err) },
	}
}

// add copies obj, which nobody else holds yet.
func (m *mutationDetector[T]) add(obj T) {
	c := copyOf(obj)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copies[obj] = c
}

// remove compares an object that has left the cache for the last time.
func (m *mutationDetector[T]) remove(obj T) {
	m.mu.Lock()
	c, ok := m.copies[obj]
	delete(m.copies, obj)
	m.mu.Unlock()
	if ok {
		m.compare(obj, c)
	}
}

// forget drops the copy of an object that never came into the cache.
func (m *mutationDetector[T]) forget(obj T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.copies, obj)
}

// watch compares all objects again and again. The function that it returns ends that with a last look.
func (m *mutationDetector[T]) watch() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(mutationPeriod)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				m.sweep()
			case <-quit:
				m.sweep()
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

func (m *mutationDetector[T]) sweep() {
	m.mu.Lock()
	all := make(map[T]any, len(m.copies))
	for obj, c := range m.copies {
		all[obj] = c
	}
	m.mu.Unlock()
	for obj, c := range all {
		if !m.compare(obj, c) {
			continue
		}
		// Reported once: what it is now is what the next look compares with.
		c := copyOf(obj)
		m.mu.Lock()
		if _, ok := m.copies[obj]; ok {
			m.copies[obj] = c
		}
		m.mu.Unlock()
	}
}

// compare reports obj if it is not what its copy says.
func (m *mutationDetector[T]) compare(obj T, c any) (changed bool) {
	now := any(obj)
	if _, ok := c.(encoded); ok {
		now = copyOf(obj)
	}
	if reflect.DeepEqual(c, now) {
		return false
	}
	diff := cmp.Diff(c, now, cmp.Exporter(func(reflect.Type) bool { return true }))
	if diff == "" {
		return false // equal in all that its types call equal
	}
	m.report(&Error{Op: opMutation, Key: KeyOf(obj), Err: errors.New("a cached object was changed (-cached +now):\n" + diff)})
	return true
}

// encoded is the copy of an object that cannot copy itself.
type encoded string

func copyOf(obj any) any {
	if o, ok := obj.(runtime.Object); ok {
		return o.DeepCopyObject()
	}
	b, err := json.MarshalIndent(obj, "", "\t")
	if err != nil {
		return encoded(err.Error())
	}
	return encoded(b)
}
