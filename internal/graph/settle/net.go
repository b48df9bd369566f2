package settle

import (
	"github.com/go-lw/lw/internal/equal"
	"k8s.io/apimachinery/pkg/types"
)

// Key names an object within its collection.
type Key = types.NamespacedName

// A Change is what has become of the object of a key. Old is zero if there was none, and New is
// zero if there is none any more.
type Change[T any] struct {
	Key      Key
	Old, New T
}

// A Net is the net change of each key, from what was before the first change of the key to what is
// after the last. It keeps the order in which the keys first changed. Its zero value is empty.
type Net[T any] struct {
	changes []Change[T]
	// places has the index in changes of each key. It is used from few keys on: a short slice is
	// searched faster than a map.
	places map[Key]int
}

const (
	few = 8
	// most is the number of changes whose memory is kept for the next step.
	most = 1024
)

// Set notes that obj is the object of key now, and that old was it before.
func (n *Net[T]) Set(key Key, old, obj T) {
	if i := n.find(key); i >= 0 {
		n.changes[i].New = obj
		return
	}
	n.changes = append(n.changes, Change[T]{key, old, obj})
	switch count := len(n.changes); {
	case count < few:
	case count == few:
		if n.places == nil {
			n.places = make(map[Key]int, 4*few)
		}
		for i := range n.changes {
			n.places[n.changes[i].Key] = i
		}
	default:
		n.places[key] = count - 1
	}
}

// Get returns the object that key has after its last change. ok is false if it has not changed.
func (n *Net[T]) Get(key Key) (obj T, ok bool) {
	if i := n.find(key); i >= 0 {
		return n.changes[i].New, true
	}
	return obj, false
}

func (n *Net[T]) find(key Key) int {
	if len(n.changes) >= few {
		if i, ok := n.places[key]; ok {
			return i
		}
		return -1
	}
	for i := range n.changes {
		if n.changes[i].Key == key {
			return i
		}
	}
	return -1
}

// Changes returns the changes. They are valid until the next Set or Reset.
func (n *Net[T]) Changes() []Change[T] { return n.changes }

// Drop removes the changes for which same reports that they lead back to the object of before.
func (n *Net[T]) Drop(same func(old, obj T) bool) {
	kept := n.changes[:0]
	for _, c := range n.changes {
		if equal.Same(c.Old, c.New) || !equal.IsZero(c.Old) && !equal.IsZero(c.New) && same(c.Old, c.New) {
			continue
		}
		kept = append(kept, c)
	}
	if len(kept) == len(n.changes) {
		return
	}
	clear(n.changes[len(kept):])
	clear(n.places)
	n.changes = kept
	if len(kept) >= few {
		for i := range kept {
			n.places[kept[i].Key] = i
		}
	}
}

// Reset empties n.
func (n *Net[T]) Reset() {
	if cap(n.changes) > most {
		*n = Net[T]{}
		return
	}
	clear(n.changes)
	clear(n.places)
	n.changes = n.changes[:0]
}
