package lw

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

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
	paths, more := changedPaths(decoded(c), decoded(now))
	if len(paths) == 0 {
		return false // two forms of equal values
	}
	m.report(&Error{Op: opMutation, Key: KeyOf(obj), Err: &mutationError{paths: paths, more: more, cached: c, now: copyOf(obj)}})
	return true
}

// A mutationError says that somebody has changed a cached object.
type mutationError struct {
	paths       []string // what is different, at most maxPaths of them
	more        int      // how many more there are
	cached, now any      // copies of the object as it came into the cache, and as it was found
}

func (e *mutationError) Error() string {
	text := "a cached object was changed: " + strings.Join(e.paths, "; ")
	if e.more > 0 {
		text += fmt.Sprintf("; and %d more", e.more)
	}
	return text
}

// Objects returns copies of the object as it came into the cache and as it was found, for lwtest's diff.
func (e *mutationError) Objects() (cached, now any) { return decoded(e.cached), decoded(e.now) }

// encoded is the copy of an object that cannot copy itself: its JSON.
type encoded string

func copyOf(obj any) any {
	if o, ok := obj.(runtime.Object); ok {
		return o.DeepCopyObject()
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return encoded(err.Error())
	}
	return encoded(b)
}

// decoded returns a copy in the form in which its parts can be told apart.
func decoded(c any) any {
	e, ok := c.(encoded)
	if !ok {
		return c
	}
	var parts any
	d := json.NewDecoder(strings.NewReader(string(e)))
	d.UseNumber() // a float64 has no room for a large integer
	if d.Decode(&parts) != nil {
		return string(e)
	}
	return parts
}
