package apiserver

import (
	"context"
	"errors"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/wire"
)

// list answers with a list, or with one page of a list.
func (x *exchange) list() error {
	f, err := x.negotiate(wire.WantList)
	if err != nil {
		return err
	}
	opts := x.req.Options
	if x.lag > 0 {
		if opts, err = x.behind(opts); err != nil {
			return err
		}
	}
	page, err := x.collection.history.List(x.req.Namespace, opts)
	if err != nil {
		return err
	}
	return x.sendPage(f, page)
}

// sendPage answers with a list that was read.
func (x *exchange) sendPage(f wire.Format, page history.Page[*content]) error {
	a := x.answer(f, false)
	meta := metav1.ListMeta{
		ResourceVersion:    listopts.FormatVersion(page.Version),
		Continue:           page.Continue,
		RemainingItemCount: page.Remaining,
		ShardInfo:          page.Shard,
	}
	if x.listMeta != nil {
		x.listMeta(&meta)
	}
	tail, err := a.begin(meta)
	if err == nil {
		err = a.open()
	}
	for _, obj := range page.Items {
		if err != nil {
			break
		}
		err = a.send(Unit{Key: obj.Key, Version: obj.Version, obj: obj})
	}
	// If nothing was sent yet the client can get a proper error.
	if bad := (encodeError{}); errors.As(err, &bad) && !a.body.started {
		return bad
	}
	x.end(a, err, tail)
	return nil
}

// end finishes an answer that has begun. Its status was sent already, so an error can only be shown
// to the client by breaking the connection.
func (x *exchange) end(a *answer, err error, tail []byte) {
	if a.finish(err, tail) != nil && x.r.Context().Err() == nil {
		panic(http.ErrAbortHandler)
	}
}

// behind returns options with which the history answers a list as a replica does that lags. A
// replica answers a request for any version with its own, and one for a version that it has not
// reached with "too large". It does not answer requests for an exact or for the newest version: a
// real server passes these to etcd.
func (x *exchange) behind(opts metav1.ListOptions) (metav1.ListOptions, error) {
	if opts.Continue != "" || opts.ResourceVersion == "" || listopts.Exact(opts) {
		return opts, nil
	}
	want, err := listopts.ListVersion(opts.ResourceVersion)
	if err != nil {
		return opts, err
	}
	have := x.replica()
	if want > have {
		return opts, listopts.TooLarge(want, have)
	}
	if want == 0 {
		opts.Limit = 0
	}
	opts.ResourceVersion, opts.ResourceVersionMatch = listopts.FormatVersion(have), metav1.ResourceVersionMatchExact
	return opts, nil
}

// replica returns the version that a lagging replica has reached.
func (x *exchange) replica() uint64 {
	h := x.collection.history
	now := h.Version()
	return max(now-min(x.lag, now), h.Oldest())
}

// watch answers with a stream of events.
func (x *exchange) watch(s *Server) error {
	f, err := x.negotiate(wire.WantWatch)
	if err != nil {
		return err
	}
	before, opts, err := x.initial()
	if err != nil {
		return err
	}
	w, err := x.collection.history.Watch(x.req.Namespace, opts)
	if err != nil {
		return err
	}
	if !x.collection.served.Load() { // any more: the watch would last for ever
		return routed(http.StatusNotFound)
	}
	next := paced(w, x.trail, x.ends)
	a := x.answer(f, true)
	a.body.start(x.req.Verb == Stream)
	ctx := s.attach(a, x.req)
	defer s.detach(a)
	err = a.body.flush()
	if err == nil {
		err = a.open()
	}
	if err == nil {
		err = a.sendAll(before)
	}
	// The initial events of a streamed list are sent together with the bookmark that ends them, so
	// they are not flushed one by one. Without the bookmark nobody could tell when to flush.
	together := x.req.Verb == Stream && opts.AllowWatchBookmarks
	for err == nil {
		if !together {
			if err = a.body.flush(); err != nil {
				break
			}
		}
		var ev history.Event[*content]
		ev, err = next(ctx)
		end, ended := errors.AsType[*timedEnd](err)
		switch {
		case ended:
			err = a.apply([]UnitEffect{end.do}, &end.unit)
		case err == nil:
			together = together && ev.Initial
			if err = a.send(unitOf(ev)); errors.As(err, new(encodeError)) {
				err = a.refuse(err)
			}
		case errors.Is(err, io.EOF):
			err = endCut
		case a.ctx.Err() != nil: // the client has gone
		case ctx.Err() != nil: // Interrupt has cancelled the wait
			var do []UnitEffect
			do, ctx = s.interrupted(a)
			err = a.apply(do, &Unit{none: true})
		default:
			err = a.refuse(err)
		}
	}
	x.end(a, err, nil)
	return nil
}

// sendAll sends what a stream begins with. Nothing comes after an error.
func (a *answer) sendAll(units []Unit) error {
	for _, u := range units {
		if err := a.send(u); err != nil {
			return err
		}
		if u.Type == watch.Error {
			return endCut
		}
	}
	return nil
}

// refuse ends a stream with an ERROR event that has the Status of err.
func (a *answer) refuse(err error) error {
	if err := a.send(Unit{Type: watch.Error, status: wire.Status(err)}); err != nil {
		return err
	}
	return endCut
}

// initial returns, for a replica that lags, the events of its state and the options to go on with.
// A plain watch from a given version needs nothing here. A replica that has not reached that
// version is silent until it has, and a client cannot tell that from a watch that was opened later.
func (x *exchange) initial() ([]Unit, metav1.ListOptions, error) {
	opts := x.req.Options
	stream := x.req.Verb == Stream
	if x.lag == 0 || !stream && opts.ResourceVersion != "" && opts.ResourceVersion != "0" || stream && opts.ResourceVersion == "" {
		return nil, opts, nil
	}
	want, err := listopts.ParseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, opts, nil // the history will reject it
	}
	have := x.replica()
	if want > have {
		// A server reports errors about the version of a watch in the stream.
		return []Unit{{Type: watch.Error, status: wire.Status(listopts.TooLarge(want, have))}}, opts, nil
	}
	page, err := x.collection.history.List(x.req.Namespace, metav1.ListOptions{
		LabelSelector: opts.LabelSelector, FieldSelector: opts.FieldSelector, ShardSelector: opts.ShardSelector,
		ResourceVersion: listopts.FormatVersion(have), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil {
		return nil, opts, err
	}
	var units []Unit
	for _, obj := range page.Items {
		units = append(units, Unit{Type: watch.Added, Key: obj.Key, Version: obj.Version, obj: obj})
	}
	if stream && opts.AllowWatchBookmarks {
		units = append(units, Unit{Type: watch.Bookmark, Version: have, End: true})
	}
	opts.ResourceVersion = listopts.FormatVersion(have)
	opts.ResourceVersionMatch, opts.SendInitialEvents = "", nil
	return units, opts, nil
}

// attach registers a stream so that Interrupt finds it. The stream waits with the context that
// attach returns, which Interrupt cancels.
func (s *Server) attach(a *answer, req Request) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[a] = req
	var ctx context.Context
	ctx, a.wake = context.WithCancel(a.ctx)
	return ctx
}

// detach undoes attach.
func (s *Server) detach(a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, a)
	a.wake()
}

// interrupted returns the effects that Interrupt asks for, and the context to go on with.
func (s *Server) interrupted(a *answer) ([]UnitEffect, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do := a.pending
	a.pending = nil
	var ctx context.Context
	ctx, a.wake = context.WithCancel(a.ctx)
	return do, ctx
}

// answer returns the answer to the request, of which nothing is sent yet.
func (x *exchange) answer(f wire.Format, stream bool) *answer {
	if inMemory(x.r) && (stream || len(x.filters) > 0) { // an answer that may stop half-way
		x.w.Header().Set("Connection", "close")
	}
	return &answer{
		codec:   newCodec(&x.collection.Resource, f, x.include),
		ctx:     x.r.Context(),
		body:    newBody(x.w, x.r, f.ContentType(stream)),
		stream:  stream,
		filters: x.filters,
	}
}
