package serve

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/serve/internal/order"
)

// A watcher is a watch of a client: a place in a history, and what is sent from there. Its memory
// does not depend on what it has not sent.
type watcher struct {
	collection *collection
	place      place
	filter     *filter
	format     format
	bookmarks  bool
	opened     time.Time
	deadline   time.Time // its time is over
	bookmark   time.Time // the next bookmark is due
	endAt      time.Time // when it ends because the history has begun anew or ended; zero: it has not
}

const (
	// bookmarkBefore is how long before the end of a watch a last bookmark is sent.
	bookmarkBefore = 2 * time.Second
	// staleSpread is the time over which the watches end after a new beginning, since each of them
	// is followed by a list; closeSpread that over which they end when the Handler is closed.
	staleSpread = 5 * time.Second
	closeSpread = 2 * time.Second
)

// initialEvents are what a watch sends before the first change.
type initialEvents struct {
	state    order.List[*item]
	version  uint64
	send     bool // the state
	bookmark bool // the end of the state
}

// nextBookmark returns when the bookmark after t is due.
func (w *watcher) nextBookmark(t time.Time) time.Time {
	at := t.Add(w.collection.opts.BookmarkEvery)
	if last := w.deadline.Add(-bookmarkBefore); last.After(t) && last.Before(at) {
		return last
	}
	return at
}

// wake returns when the watch has something to do although nothing has changed.
func (w *watcher) wake() time.Time {
	at := w.deadline
	if w.bookmarks && w.bookmark.Before(at) {
		at = w.bookmark
	}
	if !w.endAt.IsZero() && w.endAt.Before(at) {
		at = w.endAt
	}
	return at
}

// run sends the watch, until it ends or the client is gone.
func (w *watcher) run(ctx context.Context, out *stream, initial initialEvents) error {
	err := w.sendInitial(ctx, out, initial)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var buf []*event
	for err == nil {
		var r reading
		if r, err = w.step(out, buf[:0]); err != nil {
			break
		}
		buf = r.events
		clear(buf) // a watch that waits keeps nothing that the history may drop
		if err = out.flush(); err != nil {
			break
		}
		if r.wait == nil {
			continue
		}
		timer.Reset(time.Until(w.wake()))
		select {
		case <-r.wait:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
	return out.end(err)
}

// sendInitial sends the state with which the watch begins.
func (w *watcher) sendInitial(ctx context.Context, out *stream, initial initialEvents) error {
	if initial.send {
		for i := range w.filter.selected(&initial.state, "") {
			if err := w.halted(ctx); err != nil {
				return err
			}
			if err := out.item(watch.Added, i); err != nil {
				return err
			}
		}
	}
	if initial.bookmark {
		if err := out.bookmark(initial.version, true); err != nil {
			return err
		}
	}
	if out.flush == nil {
		return nil
	}
	return out.flush()
}

// halted returns why the state is not sent to its end: the client has gone, or its time is over.
// When the history ends, the client gets the rest if it is fast enough, else the connection breaks:
// it must not take a part of the state for all of it.
func (w *watcher) halted(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return gone(err)
	}
	if !time.Now().Before(w.deadline) {
		return io.EOF
	}
	return nil
}

// step sends the events that are at the watch's place, or does what is due. io.EOF ends the watch,
// and so does any other error.
func (w *watcher) step(out *stream, buf []*event) (reading, error) {
	now := time.Now()
	if !now.Before(w.deadline) {
		return reading{}, io.EOF
	}
	r, err := w.collection.history.read(w.place, buf)
	switch {
	case err != nil:
		return r, err
	case r.stale:
		within := staleSpread
		if r.ended { // the server does not wait for so long
			within = r.endWithin
		}
		if w.ending(now, within) {
			return r, listopts.TooOld(w.place.after, w.collection.history.extent().oldest)
		}
		w.bookmarks = false // there is no version that it could say; one that is due would keep it awake
		return r, nil
	}
	for _, e := range r.events {
		w.place.position++
		if e.version <= w.place.after {
			continue
		}
		if err := w.send(out, e); err != nil {
			return r, err
		}
	}
	switch {
	case r.ended && w.ending(now, r.endWithin):
		return r, errors.Join(w.sendBookmark(out, r.here), io.EOF)
	case r.wait != nil && !now.Before(w.bookmark):
		w.bookmark = w.nextBookmark(now)
		return r, w.sendBookmark(out, r.here)
	}
	return r, nil
}

// ending reports whether the time has come at which the watch ends, within a while from now on. A
// shorter while than before counts.
func (w *watcher) ending(now time.Time, within time.Duration) bool {
	if w.endAt.IsZero() || w.endAt.After(now.Add(within)) {
		w.endAt = now.Add(rand.N(within + 1))
	}
	return !now.Before(w.endAt)
}

// sendBookmark sends a bookmark, if the client allows them and there is something to say.
func (w *watcher) sendBookmark(out *stream, version uint64) error {
	if !w.bookmarks || version < w.place.after {
		return nil
	}
	return out.bookmark(version, false)
}

// send sends an event as the watch's filter sees it. An object that begins to match is Added, and
// one that stops is Deleted.
func (w *watcher) send(out *stream, e *event) error {
	was, is := w.filter.change(w.place, e)
	switch {
	case was && is:
		return out.event(e, watch.Modified)
	case is:
		return out.event(e, watch.Added)
	case was:
		return out.event(e, watch.Deleted)
	}
	return nil
}
