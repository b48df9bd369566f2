package judge

import (
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/go-lw/lw"
)

// A Story checks the calls of one handler while they come. The calls for a key must be (Add Update*
// Delete)*. The old object of an Update or Delete must be the one of the call before. An Update
// must not change the UID, and versions must rise. A Story is safe for concurrent use.
type Story[T lw.Object] struct {
	fail func(error)

	mu      sync.Mutex
	present map[lw.Key]T
	deleted map[lw.Key]string // the version of the last object of a key that is not there
	calls   uint64
}

// NewStory returns a Story that passes each mistake to fail, which is called with the Story locked.
func NewStory[T lw.Object](fail func(error)) *Story[T] {
	return &Story[T]{fail: fail, present: map[lw.Key]T{}, deleted: map[lw.Key]string{}}
}

// Handler returns a handler whose calls the Story checks.
func (s *Story[T]) Handler() lw.Handler[T] {
	return lw.Handler[T]{Add: s.Add, Update: s.Update, Delete: s.Delete}
}

// Tell calls the callback that a handler would be called with for d, so that a Story can check the
// deltas of a cursor or of [lw.Informer.Events].
func (s *Story[T]) Tell(d lw.Delta[T]) {
	switch d.Type {
	case lw.Added:
		s.Add(d.New)
	case lw.Updated:
		s.Update(d.Old, d.New)
	case lw.Deleted:
		s.Delete(d.Old)
	}
}

// Add is the handler's Add callback.
func (s *Story[T]) Add(obj T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	key := lw.KeyOf(obj)
	if _, ok := s.present[key]; ok {
		s.fail(fmt.Errorf("%v was added twice", key))
	}
	if last, ok := s.deleted[key]; ok {
		s.mustRiseLocked(key, last, obj.GetResourceVersion())
	}
	s.present[key] = obj
}

// Update is the handler's Update callback.
func (s *Story[T]) Update(old, obj T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	key := lw.KeyOf(obj)
	last, ok := s.present[key]
	switch {
	case !ok:
		s.fail(fmt.Errorf("%v was updated and never added", key))
	case last != old:
		s.fail(fmt.Errorf("%v was updated from %s, and was told as %s before", key, old.GetResourceVersion(),
			last.GetResourceVersion()))
	case old.GetUID() != obj.GetUID():
		s.fail(fmt.Errorf("%v was updated from one UID to another", key))
	case old != obj:
		s.mustRiseLocked(key, old.GetResourceVersion(), obj.GetResourceVersion())
	}
	s.present[key] = obj
}

// Delete is the handler's Delete callback.
func (s *Story[T]) Delete(last T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	key := lw.KeyOf(last)
	if told, ok := s.present[key]; !ok || told != last {
		s.fail(fmt.Errorf("%v was deleted as %s, which is not what was told of it", key, last.GetResourceVersion()))
	}
	delete(s.present, key)
	s.deleted[key] = last.GetResourceVersion()
}

// mustRiseLocked fails unless version to of key is newer than from. The caller holds mu.
func (s *Story[T]) mustRiseLocked(key lw.Key, from, to string) {
	if c, err := resourceversion.CompareResourceVersion(from, to); err != nil || c >= 0 {
		s.fail(fmt.Errorf("%v went from version %s to %s (%v)", key, from, to, err))
	}
}

// Objects returns the objects that all calls so far add up to.
func (s *Story[T]) Objects() map[lw.Key]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.present)
}

// State returns the hash of the objects that all calls so far add up to. hash returns the hash of
// an object that the [Truth] uses too.
func (s *Story[T]) State(hash func(T) uint64) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	var state State
	for _, obj := range s.present {
		state.Add(hash(obj))
	}
	return state
}

// Calls returns the number of calls.
func (s *Story[T]) Calls() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}
