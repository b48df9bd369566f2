package lw

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/internal/equal/mutation"
)

// mutationPeriod is the interval at which all cached objects are compared with their copies. An
// object is also compared when it leaves the cache, and all are compared when the informer stops.
// So a change is found unless it is undone before the next comparison.
const mutationPeriod = time.Second

// A mutationDetector implements Options.DetectMutation. It keeps a copy of each cached object, and
// reports the objects that no longer equal their copies. Whoever changes the cache calls add,
// remove and forget: the reflector, or Tell. watch compares in a goroutine of its own.
//
// A change that is made while its object is compared is a data race. The race detector reports it,
// which is as welcome as a report from here.
type mutationDetector struct {
	report func(*Error) // calls OnError; called by both goroutines, without mu

	mu sync.Mutex
	// copies has the copy of each object: a deep copy, or encoded JSON. Guarded by mu, which is not
	// held while objects are compared.
	copies map[Identified]any
	// opened has what was decoded of packed objects, by their *Packed; nil: nothing. It is kept, since
	// a change would else vanish with the next collection. Guarded by mu.
	opened map[any]any
}

// asBytes is the copy of a packed object: its bytes, which nobody can change.
type asBytes struct{}

func newMutationDetector(opts *Options) *mutationDetector {
	return &mutationDetector{
		copies: map[Identified]any{}, opened: map[any]any{},
		report: func(err *Error) { err.Informer = opts.Name; opts.OnError(err) },
	}
}

// add keeps a copy of obj. It is called before obj enters the cache, when nobody else can change it
// yet. An object that is in the cache already, since a list has brought it as it was, keeps the
// copy that it has.
func (m *mutationDetector) add(obj Identified) {
	m.mu.Lock()
	_, known := m.copies[obj]
	m.mu.Unlock()
	if known {
		return
	}
	if p, ok := obj.(packedObject); ok {
		m.addPacked(p)
		return
	}
	c := copyOf(obj)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copies[obj] = c
}

// addPacked is add for a packed object.
func (m *mutationDetector) addPacked(p packedObject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.opened) == 0 {
		p.watch(m.open)
	}
	m.copies[p], m.opened[p.self()] = asBytes{}, p.peekAny()
}

// open is called with what was decoded of p.
func (m *mutationDetector) open(p, obj any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.opened[p]; ok {
		m.opened[p] = obj
	}
}

// remove compares obj, which has left the cache, for the last time.
func (m *mutationDetector) remove(obj Identified) {
	m.mu.Lock()
	c, ok := m.copies[obj]
	now := m.forgetLocked(obj)
	m.mu.Unlock()
	if ok {
		m.compare(obj, now, c)
	}
}

// forget removes the copy of an object that did not enter the cache after all.
func (m *mutationDetector) forget(obj Identified) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked(obj)
}

// forgetLocked removes the copy of obj, and returns what nowLocked does.
func (m *mutationDetector) forgetLocked(obj Identified) (now any) {
	now = m.nowLocked(obj)
	delete(m.copies, obj)
	if p, ok := obj.(packedObject); ok {
		delete(m.opened, p.self())
	}
	return now
}

// nowLocked returns what readers have of obj: obj, or what was decoded of it; nil if nothing was.
func (m *mutationDetector) nowLocked(obj Identified) any {
	if p, ok := obj.(packedObject); ok {
		return m.opened[p.self()]
	}
	return obj
}

// watch starts a goroutine that compares all objects every mutationPeriod. stop makes it compare
// once more and end, and returns when it has ended.
func (m *mutationDetector) watch() (stop func()) {
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

// sweep compares all objects with their copies. It works on a copy of the map, so that a long
// comparison does not keep the reflector waiting for mu.
func (m *mutationDetector) sweep() {
	type pair struct{ now, copy any }
	m.mu.Lock()
	all := make(map[Identified]pair, len(m.copies))
	for obj, c := range m.copies {
		all[obj] = pair{m.nowLocked(obj), c}
	}
	m.mu.Unlock()
	for obj, of := range all {
		if !m.compare(obj, of.now, of.copy) {
			continue
		}
		// Compare with the present content from now on, so that a change is reported once. If obj
		// has left the cache meanwhile, there is no copy of it to replace.
		c := copyOf(of.now)
		m.mu.Lock()
		if _, ok := m.copies[obj]; ok {
			m.copies[obj] = c
		}
		m.mu.Unlock()
	}
}

// compare reports obj if what readers have of it, now, differs from its copy c, and returns whether
// it has reported it.
func (m *mutationDetector) compare(obj Identified, now, c any) (changed bool) {
	if now == nil {
		return false
	}
	held := now
	switch c.(type) {
	case encoded:
		now = copyOf(held)
	case asBytes:
		if c = obj.(packedObject).copyAny(); c == nil {
			return false // nothing is left to compare with
		}
	}
	if reflect.DeepEqual(c, now) {
		return false
	}
	paths, more := mutation.Paths(decoded(c), decoded(now))
	if len(paths) == 0 {
		return false // only the form differs, such as the time zone of an equal time
	}
	m.report(&Error{Op: opMutation, Key: KeyOf(obj), Err: &mutationError{paths: paths, more: more, cached: c, now: copyOf(held)}})
	return true
}

// A mutationError says that a cached object was changed.
type mutationError struct {
	paths       []string // the fields that differ, some of them; see mutation.Paths
	more        int      // the number of fields that differ and are not in paths
	cached, now any      // copies of the object as it came into the cache, and as it was found
}

// Error names the fields that differ.
func (e *mutationError) Error() string {
	text := "a cached object was changed: " + strings.Join(e.paths, "; ")
	if e.more > 0 {
		text += fmt.Sprintf("; and %d more", e.more)
	}
	return text
}

// Objects returns copies of the object as it entered the cache and as it was found.
// lwtest.MutationDiff uses it.
func (e *mutationError) Objects() (cached, now any) { return decoded(e.cached), decoded(e.now) }

// encoded is the copy of an object that has no DeepCopyObject: its JSON.
type encoded string

// copyOf returns a copy that shares nothing with obj: its DeepCopyObject, or its JSON if it has
// none. Changes to fields that are not in the JSON are then not found.
func copyOf(obj any) any {
	if o, ok := obj.(runtime.Object); ok {
		return o.DeepCopyObject()
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return encoded(err.Error()) // equal until the object changes to one that can be encoded
	}
	return encoded(b)
}

// decoded returns the copy c in a form that mutation.Paths can walk: JSON is decoded into maps and
// slices.
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
