package lwtest

import (
	"time"

	"github.com/go-lw/lw"
	"k8s.io/apimachinery/pkg/api/equality"
)

// A Subject is a source under test, and the way to write to its collection. Nobody else may write to it while it is tested.
// The first five fields are required.
//
// All functions may be called from any goroutine, but not two at once, while the source lists and watches, also from within its
// yield: a source that holds a lock over yield which a writer needs is reported as one that hangs.
type Subject[T lw.Object] struct {
	// Source returns the source under test, as one informer has it. It is called for each list and each watch, which go on at the
	// same time.
	Source func() lw.Source[T]

	// Object returns a new object of key to write, whose content depends on n.
	Object func(key lw.Key, n int) T
	// Create and Update write obj, and return it as it is stored, with UID and resource version. An Update replaces whatever
	// version is there. It may store nothing where nothing changes, and returns the stored object then too.
	Create func(obj T) (T, error)
	Update func(obj T) (T, error)
	// Delete removes an object at once.
	Delete func(key lw.Key) error

	// Compact makes the source forget the states before the present one, so that older versions may expire: only after it may
	// the source answer 410. Nil: not tested.
	Compact func()
	// Disconnect ends the open watches. Nil: not tested.
	Disconnect func()
	// Bookmark makes the source send bookmarks to the watches that allow them. Nil: they come when they come.
	Bookmark func()
	// Close is called at the end of each history. Nil: nothing is.
	Close func()

	// Keys are those that are written. Nil: four in two namespaces.
	Keys []lw.Key
	// Selectors are used by some of the lists and watches. Nil: none is.
	Selectors []Selector[T]
	// Equal reports whether obj, which the source has yielded, is what Create or Update returned as stored; both are of one
	// version. Nil: equality.Semantic.DeepEqual of apimachinery.
	Equal func(stored, obj T) bool
	// Patience is how long is waited for what must come, or end. 0: 5 s. It delays nothing while the source is right.
	Patience time.Duration
}

// A Selector is one that a source understands, and what it means. One of its strings may be empty.
type Selector[T lw.Object] struct {
	Labels, Fields string
	Matches        func(obj T) bool
}

// withDefaults panics where a required field is missing.
func (s Subject[T]) withDefaults() Subject[T] {
	if s.Source == nil || s.Object == nil || s.Create == nil || s.Update == nil || s.Delete == nil {
		panic("lwtest: Source: a Subject needs Source, Object, Create, Update and Delete")
	}
	if s.Keys == nil {
		s.Keys = []lw.Key{
			{Namespace: "lwtest-a", Name: "one"}, {Namespace: "lwtest-a", Name: "two"},
			{Namespace: "lwtest-b", Name: "one"}, {Namespace: "lwtest-b", Name: "three"},
		}
	}
	if s.Equal == nil {
		s.Equal = func(stored, obj T) bool { return equality.Semantic.DeepEqual(stored, obj) }
	}
	if s.Patience <= 0 {
		s.Patience = 5 * time.Second
	}
	return s
}
