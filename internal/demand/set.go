// Package demand knows which objects of a collection somebody wants, and what an informer has done
// about each.
package demand

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// A Key names an object, or with an empty name all of a namespace.
type Key = types.NamespacedName

// An Owner wants keys. By distinguishes owners of the same name.
type Owner struct {
	By   any
	Name Key
}

// A Set is which keys its owners want. The zero value is an empty set of objects.
type Set struct {
	spaces atomic.Bool

	mu      sync.Mutex
	of      map[Owner][]Key // guarded by mu, as those below
	count   map[Key]int     // how many owners want a key
	past    []Key           // namespaces that were wanted and are not any more, the last of them last
	demands map[*Demand]struct{}
	changed chan struct{} // closed by the next Set; nil: nobody waits for it
}

// SetSpaces says that the keys are namespaces.
func (s *Set) SetSpaces() { s.spaces.Store(true) }

// Set replaces what owner wants.
func (s *Set) Set(owner Owner, keys []Key) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, compare)
	keys = slices.Compact(keys)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of, s.count = map[Owner][]Key{}, map[Key]int{}
	}
	changed := map[Key]int{}
	for _, key := range s.of[owner] {
		changed[key]--
	}
	for _, key := range keys {
		changed[key]++
	}
	if s.of[owner] = keys; len(keys) == 0 {
		delete(s.of, owner)
	}
	for key, by := range changed {
		before := s.count[key]
		after := before + by
		if s.count[key] = after; after == 0 {
			delete(s.count, key)
		}
		if s.spaces.Load() {
			s.letGoLocked(key, before > 0 && after == 0)
		}
		if before > 0 == (after > 0) {
			delete(changed, key)
		}
	}
	for d := range s.demands {
		d.touch(changed)
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// letGoLocked notes whether a namespace was let go.
func (s *Set) letGoLocked(key Key, gone bool) {
	if at := slices.Index(s.past, key); at >= 0 {
		s.past = slices.Delete(s.past, at, at+1)
	}
	if !gone {
		return
	}
	if len(s.past) == maxPast {
		s.past = slices.Delete(s.past, 0, 1)
	}
	s.past = append(s.past, key)
}

// maxPast is how many namespaces that were let go a Set knows: who is still called for their
// objects is so soon.
const maxPast = 1000

// ErrLetGo says of a namespace that nobody wants that somebody wanted it before: handlers were
// called for its objects as deleted.
var ErrLetGo = errors.New("it was wanted before")

// LetGo reports whether the unit is one of the last namespaces that were let go.
func (s *Set) LetGo(unit Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.past, unit)
}

// Changed returns a channel that the next Set closes.
func (s *Set) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func compare(a, b Key) int {
	switch {
	case a == b:
		return 0
	case a.Namespace < b.Namespace, a.Namespace == b.Namespace && a.Name < b.Name:
		return -1
	}
	return 1
}

// Wants reports whether somebody wants the unit.
func (s *Set) Wants(unit Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[unit] > 0
}

// All returns what is wanted, in no order.
func (s *Set) All() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.count))
}

// follow calls touch of d for changes, until the function is called that it returns.
func (s *Set) follow(d *Demand) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.demands == nil {
		s.demands = map[*Demand]struct{}{}
	}
	s.demands[d] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.demands, d)
	}
}
