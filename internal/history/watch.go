package history

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// An Event is what a watch tells of: a change as its selector sees it, or a bookmark.
type Event[V any] struct {
	Type             watch.EventType // Added, Modified, Deleted or Bookmark
	Object           *Object[V]      // nil for a Bookmark; for Deleted the last content that matched, of an older version than Version
	Version          uint64          // what the object's resource version is to say
	Initial          bool            // part of the state that the watch began with, not a change
	InitialEventsEnd bool            // the bookmark that ends the initial events of a streamed list
}

// A Watch is a cursor into a collection's history. It holds no buffer of its own, and nothing has to be closed.
// It is for one goroutine at a time.
type Watch[V any] struct{}

// Watch answers a watch request. The error is for a request that is not valid; that its version is too old or too large is
// the error of the first Next, as a real server says it in the stream. The time of opts.TimeoutSeconds runs from here on.
func (c *Collection[V]) Watch(namespace string, opts metav1.ListOptions) (*Watch[V], error) {
	panic("not written yet")
}

// Next returns the next event, and waits for it. The error is io.EOF at the end of the watch, ctx's once that is done, or the
// status that a server would send as an ERROR event, with which the watch has ended.
func (w *Watch[V]) Next(ctx context.Context) (Event[V], error) { panic("not written yet") }
