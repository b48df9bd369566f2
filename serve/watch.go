package serve

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw/internal/listopts"
)

// watch answers with a watch.
func (q *request) watch() error {
	done, err := q.collection.beginWatch(q.r)
	if err != nil {
		return err
	}
	taken := false
	defer func() {
		if !taken {
			done()
		}
	}()
	w, initial, err := q.opened()
	if gone := apierrors.IsResourceExpired(err); err != nil && !gone {
		return err
	}
	if err != nil {
		out := q.stream()
		defer out.guard.close()
		if !canFlush(q.w) {
			out.flush = func() error { return nil } // the end of the answer sends it
		}
		return out.end(err) // a client of a watch gets a 410 in its stream
	}
	if taken = q.takeOver(w, initial, done); taken {
		return nil
	}
	if !canFlush(q.w) {
		return q.h.cannotStream()
	}
	out := q.stream()
	defer out.guard.close()
	defer context.AfterFunc(q.collection.ends.cut, out.guard.cut)()
	return w.run(q.r.Context(), out, initial)
}

// canFlush reports whether an http.ResponseController can flush w.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// cannotStream is the answer to a watch through a ResponseWriter that cannot be flushed.
func (h *Handler) cannotStream() error {
	const text = "watches cannot be answered: what is around the Handler has a ResponseWriter without Flush"
	h.noFlush.Do(func() { h.opts.Logger.Error("lw/serve: " + text) })
	return apierrors.NewInternalError(errors.New(text))
}

// opened is open, and fails when the watches are to end.
func (q *request) opened() (*watcher, initialEvents, error) {
	ctx, cancel := context.WithCancel(q.r.Context())
	defer cancel()
	defer context.AfterFunc(q.collection.ends.closing, cancel)()
	w, initial, err := q.open(ctx)
	if err != nil && ctx.Err() != nil && q.r.Context().Err() == nil {
		err = tooSoon("the server is shutting down")
	}
	return w, initial, err
}

// open finds the place at which the watch begins.
func (q *request) open(ctx context.Context) (*watcher, initialEvents, error) {
	var initial initialEvents
	c, opts := q.collection, &q.opts
	if err := listopts.ValidateWatch(*opts); err != nil {
		return nil, initial, err
	}
	f, err := q.filter()
	if err != nil {
		return nil, initial, err
	}
	version, err := listopts.WatchVersion(opts.ResourceVersion)
	if err != nil {
		return nil, initial, err
	}
	limits := &q.h.opts.Limits
	w := &watcher{collection: c, filter: f, format: q.format, bookmarks: opts.AllowWatchBookmarks, opened: time.Now()}
	timeout := limits.WatchTimeout + rand.N(limits.WatchTimeout)
	if t := opts.TimeoutSeconds; t != nil && *t > 0 {
		timeout = time.Duration(min(*t, int64(24*time.Hour/time.Second))) * time.Second
	}
	w.deadline = w.opened.Add(timeout)
	w.bookmark = w.nextBookmark(w.opened)

	streamed := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	initial.send = streamed || opts.SendInitialEvents == nil && version == 0
	initial.bookmark = streamed && w.bookmarks
	if !initial.send && version > 0 {
		if err := c.resolve(ctx, version); err != nil {
			return nil, initial, err
		}
		w.place, err = c.history.open(version)
		return w, initial, err
	}
	switch {
	case opts.ResourceVersion == "":
		err = q.collection.newest(ctx)
	case version > 0:
		err = c.reach(ctx, version)
	}
	if err != nil {
		return nil, initial, err
	}
	w.place, initial.state = c.history.openNow()
	initial.version = w.place.after
	return w, initial, nil
}

// stream begins the answer to a watch over net/http.
func (q *request) stream() *stream {
	control := http.NewResponseController(q.w)
	g := newGuard(control, q.h.opts.Limits.WriteTimeout)
	header := q.w.Header()
	header.Set("Content-Type", q.format.codec.Format().ContentType(true))
	header.Set("Cache-Control", "no-cache, private")
	q.w.WriteHeader(http.StatusOK)
	return &stream{
		collection: q.collection, format: q.format, guard: g,
		put: func(f frame) error {
			g.begin()
			_, err := q.w.Write(f.event())
			return gone(err)
		},
		flush: func() error {
			g.begin()
			err := control.Flush()
			g.rest()
			return gone(err)
		},
	}
}

// takeOver answers a watch past net/http, if it can. The request must be of HTTP/1.1, and its
// filter one that a sweeper need not wait for. If it returns true, done is called at the end of the
// watch.
func (q *request) takeOver(w *watcher, initial initialEvents, done func()) bool {
	if q.r.ProtoMajor != 1 || q.r.ProtoMinor != 1 || w.filter.shared != nil {
		return false
	}
	hijacker, ok := q.w.(http.Hijacker)
	if !ok {
		return false
	}
	// A body is for net/http to pass over, and a middleware that compresses has said so in the header.
	if !isDirect(q.r) || q.r.ContentLength != 0 || q.w.Header().Get("Content-Encoding") != "" {
		return false
	}
	c, _, err := hijacker.Hijack()
	if err != nil {
		return false
	}
	d := directOf(c)
	dw := &directWatch{watcher: *w, direct: d}
	first := head(q.format, q.w.Header()) // now: a middleware may set more when this returns
	// The watch is counted until done, and what is started here before that, so Serve waits for all.
	q.collection.watches.Go(func() { dw.begin(initial, first) })
	go func() {
		defer done()
		d.wait()
		dw.gone.Store(true)
		d.abort()
		for i := range dw.collection.sweepers.all {
			dw.collection.sweepers.all[i].wake()
		}
	}()
	return true
}

// head returns what is before the first event of a watch on a connection that net/http is done
// with, with the headers that others have set. The connection ends with the watch.
func head(f format, header http.Header) []byte {
	header = header.Clone()
	header.Set("Content-Type", f.codec.Format().ContentType(true))
	header.Set("Cache-Control", "no-cache, private")
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	header.Set("Transfer-Encoding", "chunked")
	header.Set("Connection", "close")
	b := bytes.NewBufferString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(b) // a buffer takes all
	b.WriteString("\r\n")
	return b.Bytes()
}
