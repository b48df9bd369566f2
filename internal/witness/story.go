package witness

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/go-lw/lw"
)

// A Story is what one handler was told. It checks that each object's part is (Add Update* Delete)*, that an update begins where
// the last call ended and stays with one UID, and that versions rise.
type Story[T lw.Object] struct {
	fail func(error)
	hash func(T) uint64

	mu      sync.Mutex
	told    map[lw.Key]T
	gone    map[lw.Key]string // the version of the last object of a key that is not there
	rewound bool              // versions may fall, until every object was told anew
	calls   uint64
}

// NewStory returns a Story that hands what is wrong to fail. hash is an object's hash, as it stands in a [Truth].
func NewStory[T lw.Object](hash func(T) uint64, fail func(error)) *Story[T] {
	return &Story[T]{fail: fail, hash: hash, told: map[lw.Key]T{}, gone: map[lw.Key]string{}}
}

// Rewound says that the server has gone back in time, or is going to, so that versions tell nothing any more.
func (s *Story[T]) Rewound() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rewound = true
}

// Add is a handler's Add.
func (s *Story[T]) Add(obj T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	key := lw.KeyOf(obj)
	if _, ok := s.told[key]; ok {
		s.fail(fmt.Errorf("%v was added twice", key))
	}
	if last, ok := s.gone[key]; ok {
		s.mustRiseLocked(key, last, obj.GetResourceVersion())
	}
	s.told[key] = obj
}

// Update is a handler's Update.
func (s *Story[T]) Update(old, obj T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	key := lw.KeyOf(obj)
	last, ok := s.told[key]
	switch {
	case !ok:
		s.fail(fmt.Errorf("%v was updated and never added", key))
	case last != old:
		s.fail(fmt.Errorf("%v was updated from %s, and was told as %s before", key, old.GetResourceVersion(), last.GetResourceVersion()))
	case old.GetUID() != obj.GetUID():
		s.fail(fmt.Errorf("%v was updated from one UID to another", key))
	case old != obj:
		s.mustRiseLocked(key, old.GetResourceVersion(), obj.GetResourceVersion())
	}
	s.told[key] = obj
}

// Delete is a handler's Delete.
func (s *Story[T]) Delete(last T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	key := lw.KeyOf(last)
	if told, ok := s.told[key]; !ok || told != last {
		s.fail(fmt.Errorf("%v was deleted as %s, which is not what was told of it", key, last.GetResourceVersion()))
	}
	delete(s.told, key)
	s.gone[key] = last.GetResourceVersion()
}

func (s *Story[T]) mustRiseLocked(key lw.Key, from, to string) {
	if s.rewound {
		return
	}
	if c, err := resourceversion.CompareResourceVersion(from, to); err != nil || c >= 0 {
		s.fail(fmt.Errorf("%v went from version %s to %s (%v)", key, from, to, err))
	}
}

// State is what all calls add up to.
func (s *Story[T]) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	var state State
	for _, obj := range s.told {
		state.Add(s.hash(obj))
	}
	return state
}

// Calls returns how many calls there were.
func (s *Story[T]) Calls() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}
