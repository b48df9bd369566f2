package history

import (
	"context"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/listopts"
)

// An Event is what a watch sends: a change as the watch's selectors see it, or a bookmark.
type Event[V any] struct {
	Type watch.EventType // Added, Modified, Deleted or Bookmark
	// Object is nil for a Bookmark. For Deleted it is the last object that matched the selectors;
	// its own Version is older than the event's.
	Object *Object[V]
	// Version is the resource version to send, in the object or bookmark.
	Version uint64
	// Initial is set if the object is part of the state at which the watch began.
	Initial bool
	// InitialEventsEnd marks the bookmark after the initial events of a streamed list (KEP-3157).
	InitialEventsEnd bool
	// Open says that the next event has the same version: both are of one Transact. A watch does not
	// end between them, except that the context of Next is done.
	Open bool
}

// A Watch is a cursor into the log of a collection. It buffers what is left of one Transact at
// most, and need not be closed. It is for one goroutine at a time.
type Watch[V any] struct {
	c         *Collection[V]
	filter    *listopts.Filter
	bookmarks bool // the client allows them

	// The events come in this order: initial, the end bookmark if ending is set, then the log.
	initial []*Object[V] // what is left of the state at which the watch began
	ending  bool
	// version is the version up to which all changes were sent. If the watch began at a version
	// that the line has not reached, it is that version, and changes up to it are not sent.
	version uint64
	// rest are the events that follow an Open one.
	rest []Event[V]
	// next is the number, from the first change ever, of the next change to look at. The change is
	// log[next-compacted].
	next uint64

	opened        time.Time
	deadline      time.Time // zero: none
	bookmarkAt    time.Time // when the next bookmark is due
	bookmarksSeen uint64    // Line.bookmarks when the last bookmark was sent
	disconnects   uint64    // Collection.disconnects when the watch was opened
	finishes      uint64    // Collection.finishes when the watch was opened
	err           error     // how the watch ended
}

// A server sends a bookmark once in bookmarkEvery, and bookmarkBefore the end of a watch.
const (
	bookmarkEvery  = time.Minute
	bookmarkBefore = 2 * time.Second
)

// Watch answers a watch request. It returns an error if the request is not valid.
//
// If the version is compacted, or older than the collection, the first Next returns Expired: a real
// server sends that in the stream as well. If the line has not reached the version, a streamed list
// ends in the same way with a Timeout. A plain watch sends nothing until the line has passed that
// version.
//
// opts.TimeoutSeconds counts from this call. Without it the watch does not end by itself.
func (c *Collection[V]) Watch(namespace string, opts metav1.ListOptions) (*Watch[V], error) {
	if err := listopts.ValidateWatch(opts); err != nil {
		return nil, err
	}
	f, err := c.newFilter(namespace, opts)
	if err != nil {
		return nil, err
	}
	version, err := listopts.WatchVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &Watch[V]{c: c, filter: f, bookmarks: opts.AllowWatchBookmarks, opened: time.Now()}
	if s := opts.TimeoutSeconds; s != nil && *s > 0 {
		w.deadline = w.opened.Add(time.Duration(*s) * time.Second)
	}
	w.bookmarkAt = w.nextBookmark(w.opened)

	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	w.disconnects, w.finishes, w.bookmarksSeen = c.disconnects, c.finishes, c.line.bookmarks
	stream := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	// A streamed list (KEP-3157) begins with the current state, and a bookmark ends that. A plain
	// watch from "0" or from no version begins with the current state as well, without the
	// bookmark. With sendInitialEvents=false it begins at the current version and sends no state.
	switch {
	case stream && version > c.line.now:
		w.err = listopts.TooLarge(version, c.line.now)
	case stream, opts.SendInitialEvents == nil && version == 0:
		w.version = c.line.now
		w.initial = c.stateLocked(w.version)
		w.ending = stream && w.bookmarks
	case version == 0:
		w.version = c.line.now
	case version < max(c.oldest, c.born):
		w.err = listopts.TooOld(version, max(c.oldest, c.born))
	default:
		w.version = version
	}
	w.next = c.compacted + uint64(c.afterLocked(w.version))
	return w, nil
}

// nextBookmark returns when the bookmark after t is due.
func (w *Watch[V]) nextBookmark(t time.Time) time.Time {
	at := t.Add(bookmarkEvery)
	if w.deadline.IsZero() {
		return at
	}
	before := w.deadline.Add(-bookmarkBefore)
	// So a watch of three seconds gets one after a second, and a shorter watch none.
	if before.After(t) && before.Before(at) {
		return before
	}
	return at
}

// Next waits for the next event and returns it. It returns io.EOF at the end of the watch, and
// ctx's error when ctx is done. Any other error is the status that a server sends as an ERROR
// event. Such an error and io.EOF are final: later calls return the same.
//
// If a change was compacted before the watch has read it, the watch ends with Expired. So a watch
// never skips a change.
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

// wait returns when the collection has changed, when a bookmark or the end is due, or when ctx is
// done.
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

// poll looks at the next initial object, change or bookmark. It returns the event for it and true.
// It returns false if there is none, or the filter does not match. changed is nil if there is more
// to look at; otherwise it is closed when that may have changed.
func (w *Watch[V]) poll() (ev Event[V], ok bool, changed <-chan struct{}) {
	now := time.Now()
	w.c.line.mu.Lock()
	defer w.c.line.mu.Unlock()
	switch {
	case w.err != nil: // it has ended
		return ev, false, nil
	case len(w.rest) > 0:
		ev, w.rest = w.rest[0], behindFirst(w.rest)
		return ev, true, nil
	case w.disconnects != w.c.disconnects, !w.deadline.IsZero() && !now.Before(w.deadline):
		w.err = io.EOF
		return ev, false, nil
	case len(w.initial) > 0:
		obj := w.initial[0]
		w.initial = behindFirst(w.initial)
		return Event[V]{Type: watch.Added, Object: obj, Version: obj.Version, Initial: true}, w.c.matches(w.filter, obj), nil
	case w.ending:
		w.ending = false
		return Event[V]{Type: watch.Bookmark, Version: w.version, InitialEventsEnd: true}, true, nil
	case w.next < w.c.compacted: // its next change is gone
		w.err = listopts.TooOld(w.version, w.c.oldest)
		return ev, false, nil
	}
	if i := w.next - w.c.compacted; i < uint64(len(w.c.log)) {
		together := w.c.togetherLocked(int(i))
		w.next += uint64(len(together))
		// Only a watch that began at a version beyond the line's end meets such changes.
		if together[0].Version <= w.version {
			return ev, false, nil
		}
		w.version = together[0].Version
		ev, ok = w.events(together)
		return ev, ok, nil
	}
	if w.finishes != w.c.finishes {
		w.err = io.EOF
		return ev, false, nil
	}
	// All changes were sent, so a bookmark may name the line's version, which writes to other
	// collections have raised as well.
	if w.bookmarks && w.version <= w.c.line.now && (w.bookmarksSeen != w.c.line.bookmarks || !now.Before(w.bookmarkAt)) {
		w.bookmarksSeen, w.bookmarkAt = w.c.line.bookmarks, w.nextBookmark(now)
		return Event[V]{Type: watch.Bookmark, Version: w.c.line.now}, true, nil
	}
	if !now.Before(w.bookmarkAt) {
		// The bookmark was due but is not allowed, or the line has not reached the watch's version.
		// Next must not wait for a time that is past.
		w.bookmarkAt = w.nextBookmark(now)
	}
	return ev, false, w.c.waitLocked()
}

// behindFirst returns what is behind the first of all: nil at the end, since a watch lasts, and an
// empty slice would keep all that was in it.
func behindFirst[E any](all []E) []E {
	if len(all) == 1 {
		return nil
	}
	return all[1:]
}

// events returns the first event of changes of one version, and keeps the others in rest. ok is
// false if the filter matches none.
func (w *Watch[V]) events(together []Change[V]) (first Event[V], ok bool) {
	if len(together) == 1 {
		return w.event(together[0])
	}
	var all []Event[V]
	for _, change := range together {
		if ev, ok := w.event(change); ok {
			ev.Open = true
			all = append(all, ev)
		}
	}
	if len(all) == 0 {
		return first, false
	}
	all[len(all)-1].Open = false
	w.rest = all[1:]
	return all[0], true
}

// event returns change as the filter sees it. An object that begins to match is Added, and one that
// stops matching is Deleted. ok is false if it matches neither before nor after.
func (w *Watch[V]) event(change Change[V]) (Event[V], bool) {
	was, is := w.c.matches(w.filter, change.Old), w.c.matches(w.filter, change.New)
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
