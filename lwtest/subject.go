package lwtest

import (
	"time"

	"github.com/go-lw/lw"
	"k8s.io/apimachinery/pkg/api/equality"
)

// A Subject is a source under test, with functions that write to its collection. Nothing else may
// write to the collection during the test. Source, Object, Create, Update and Delete are required.
//
// The functions are called from any goroutine, one at a time, while lists and watches run. A write
// is also made while the source's yield runs: a source that holds a lock during yield which a
// writer needs is reported as one that hangs.
type Subject[T lw.Object] struct {
	// Source returns the source under test as one informer would use it. It is called for each list
	// and each watch, and these run at the same time.
	Source func() lw.Source[T]

	// Object returns a new object of key to write. Its content must depend on n.
	Object func(key lw.Key, n int) T
	// Create and Update write obj and return it as it is stored, with its UID and resource version.
	// Update replaces the object whatever version that has. If nothing changes it may store
	// nothing, and returns the stored object.
	Create func(obj T) (T, error)
	Update func(obj T) (T, error)
	// Delete removes an object at once.
	Delete func(key lw.Key) error
	// Transact creates or updates puts and removes gone, all at one version, and returns the objects
	// as they are stored, and the version. It may be nil.
	Transact func(puts []T, gone []lw.Key) (stored []T, version string, err error)

	// Compact makes the source forget all versions but the current one, so that older versions may
	// expire. Without a call of Compact the source must not answer 410. If it is nil, expiry is not
	// tested.
	Compact func()
	// Disconnect ends the open watches. If it is nil, the test ends none.
	Disconnect func()
	// Bookmark makes the source send a bookmark to every watch that allows bookmarks. If it is nil,
	// the source sends them when it likes.
	Bookmark func()
	// Close is called at the end of each history. It may be nil.
	Close func()

	// Follows says that the source is only to be followed, as one of [lw.Poll] or [lw.Feed]: it is
	// read by an informer and by nothing else. Its store must show states that the collection had, in
	// their order, and the last one within Patience. Create and Update need not return the object,
	// which has no version then, and Selectors are not used.
	Follows bool

	// Keys are the keys of the objects that are written. Default: four keys in two namespaces.
	Keys []lw.Key
	// Selectors are used by some of the lists and watches. Default: none.
	Selectors []Selector[T]
	// Equal reports whether obj, as the source yielded it, equals stored, as Create or Update
	// returned it, or Object if Follows is set. Both have the same version, unless Follows is set.
	// Default: equality.Semantic.DeepEqual of apimachinery; if Follows is set, of their JSON without
	// uid and resourceVersion.
	Equal func(stored, obj T) bool
	// Patience is how long the test waits for an event, or for the end of a call, before it fails.
	// It does not delay the test of a correct source. Default: 5 seconds.
	Patience time.Duration
}

// A Selector is a selector that the source supports. Labels or Fields may be empty.
type Selector[T lw.Object] struct {
	Labels, Fields string
	Matches        func(obj T) bool // reports whether the selector matches obj
}

// withDefaults returns s with the defaults filled in. It panics if a required field is missing.
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
	if s.Equal == nil && s.Follows {
		s.Equal = equalApartFromVersions[T]
	}
	if s.Equal == nil {
		s.Equal = func(stored, obj T) bool { return equality.Semantic.DeepEqual(stored, obj) }
	}
	if s.Patience <= 0 {
		s.Patience = 5 * time.Second
	}
	return s
}
