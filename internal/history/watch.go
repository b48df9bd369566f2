package history

import (
	"context"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// An Event is what a watch tells of: a change as its selector sees it, or a bookmark.
type Event[V any] struct {
	Type             watch.EventType // Added, Modified, Deleted or Bookmark
	Object           *Object[V]      // nil for a Bookmark; for Deleted the last that matched, of an older version
	Version          uint64          // what the object's resource version is to say
	Initial          bool            // part of the state that the watch began with, not a change
	InitialEventsEnd bool            // the bookmark that ends the initial events of a streamed list
}

// A Watch is a cursor into a collection's history. It holds no buffer of its own, and nothing has to be closed.
// It is for one goroutine at a time.
type Watch[V any] struct {
	c         *Collection[V]
	filter    filter[V]
	bookmarks bool // allowed

	initial []*Object[V] // what is left of the state that it began with
	ending  bool         // the end bookmark is due after them
	from    uint64       // the version that it has told all of, or is not told before
	next    uint64       // how many changes of the collection were before the next one to look at

	opened     time.Time
	deadline   time.Time // zero: none
	bookmarkAt time.Time // when the next is due
	asked      uint64    // Line.bookmarks that were answered
	cuts       uint64    // Collection.cuts when it was opened
	err        error     // what it ended with
}

// bookmarkEvery and bookmarkBefore are when a server sends bookmarks: this often, and this long before the end of a watch.
const (
	bookmarkEvery  = time.Minute
	bookmarkBefore = 2 * time.Second
)

// Watch answers a watch request. The error is for a request that is not valid; that its version is too old or too large is
// the error of the first Next, as a real server says it in the stream. A plain watch from a version that is not there yet is
// silent until the line has passed it. The time of opts.TimeoutSeconds runs from here on; without one the watch has no end.
func (c *Collection[V]) Watch(namespace string, opts metav1.ListOptions) (*Watch[V], error) {
	if err := validateWatch(opts); err != nil {
		return nil, err
	}
	f, err := c.newFilter(namespace, opts)
	if err != nil {
		return nil, err
	}
	version, err := ParseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, errWatchVersion(err)
	}
	w := &Watch[V]{c: c, filter: f, bookmarks: opts.AllowWatchBookmarks, opened: time.Now()}
	if s := opts.TimeoutSeconds; s != nil && *s > 0 {
		w.deadline = w.opened.Add(time.Duration(*s) * time.Second)
	}
	w.bookmarkAt = w.nextBookmark(w.opened)

	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	w.cuts, w.asked = c.cuts, c.line.bookmarks
	stream := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	switch {
	case stream && version > c.line.now:
		w.err = errTooLarge(version, c.line.now)
	case stream, opts.SendInitialEvents == nil && version == 0:
		w.from = c.line.now
		w.initial = c.stateLocked(w.from)
		w.ending = stream && w.bookmarks
	case version == 0:
		w.from = c.line.now
	case version < c.oldest:
		w.err = errTooOld(version, c.oldest)
	default:
		w.from = version
	}
	w.next = c.dropped + uint64(c.afterLocked(w.from))
	return w, nil
}

// nextBookmark returns when the bookmark after one at t is due.
func (w *Watch[V]) nextBookmark(t time.Time) time.Time {
	at := t.Add(bookmarkEvery)
	if w.deadline.IsZero() {
		return at
	}
	before := w.deadline.Add(-bookmarkBefore)
	// A watch of three seconds or less gets none.
	if before.After(t) && before.Before(at) && before.Sub(w.opened) >= bookmarkBefore {
		return before
	}
	return at
}

// Next returns the next event, and waits for it. The error is io.EOF at the end of the watch, ctx's once that is done, or
// the status that a server would send as an ERROR event; the last one has ended the watch, and is returned again by later
// calls. A watch that is so far behind that its next change was compacted ends with Expired: no change is ever skipped.
func (w *Watch[V]) Next(ctx context.Context) (Event[V], error) {
	for {
		if err := ctx.Err(); err != nil {
			return Event[V]{}, err
		}
		ev, ok, changed := w.poll()
		if w.err != nil {
			return Event[V]{}, w.err
		}
		if ok {
			return ev, nil
		}
		if changed != nil {
			w.wait(ctx, changed)
		}
	}
}

// wait returns when the collection has changed, a bookmark or the end is due, or ctx is done.
func (w *Watch[V]) wait(ctx context.Context, changed <-chan struct{}) {
	wake := w.deadline
	if w.bookmarks && (wake.IsZero() || w.bookmarkAt.Before(wake)) {
		wake = w.bookmarkAt
	}
	var due <-chan time.Time
	if !wake.IsZero() {
		timer := time.NewTimer(time.Until(wake))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-due:
	}
}

// poll looks at one change. It returns the event of it, or nothing and, where there is nothing more to look at, a channel
// that is closed when there is.
func (w *Watch[V]) poll() (ev Event[V], ok bool, changed <-chan struct{}) {
	now := time.Now()
	w.c.line.mu.Lock()
	defer w.c.line.mu.Unlock()
	switch {
	case w.err != nil:
		return ev, false, nil
	case w.cuts != w.c.cuts, !w.deadline.IsZero() && !now.Before(w.deadline):
		w.err = io.EOF
		return ev, false, nil
	case len(w.initial) > 0:
		obj := w.initial[0]
		w.initial = w.initial[1:]
		return Event[V]{Type: watch.Added, Object: obj, Version: obj.Version, Initial: true}, w.filter.matches(obj), nil
	case w.ending:
		w.ending = false
		return Event[V]{Type: watch.Bookmark, Version: w.from, InitialEventsEnd: true}, true, nil
	case w.next < w.c.dropped:
		w.err = errTooOld(w.from, w.c.oldest)
		return ev, false, nil
	}
	if i := w.next - w.c.dropped; i < uint64(len(w.c.log)) {
		change := w.c.log[i]
		w.next++
		if change.Version <= w.from { // it was opened at a version that was not there yet
			return ev, false, nil
		}
		w.from = change.Version
		ev, ok = w.event(change)
		return ev, ok, nil
	}
	if w.bookmarks && w.from <= w.c.line.now && (w.asked != w.c.line.bookmarks || !now.Before(w.bookmarkAt)) {
		w.asked, w.bookmarkAt = w.c.line.bookmarks, w.nextBookmark(now)
		return Event[V]{Type: watch.Bookmark, Version: w.c.line.now}, true, nil
	}
	if !now.Before(w.bookmarkAt) {
		w.bookmarkAt = w.nextBookmark(now) // not sent, or not allowed: a past time would not be waited for
	}
	return ev, false, w.c.waitLocked()
}

// event returns change as the filter sees it.
func (w *Watch[V]) event(change Change[V]) (Event[V], bool) {
	was, is := w.filter.matches(change.Old), w.filter.matches(change.New)
	ev := Event[V]{Object: change.New, Version: change.Version}
	switch {
	case was && is:
		ev.Type = watch.Modified
	case is:
		ev.Type = watch.Added
	case was:
		ev.Type, ev.Object = watch.Deleted, change.Old
	}
	return ev, was || is
}
