package lw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// listPatience is how long a list may go without an item. A server that works on a big list sends nothing for a while,
	// and gives up by itself after a minute.
	listPatience = 90 * time.Second
	// maxRefused is how many older states in a row are refused. A replica that lags has caught up by then, or another one
	// has answered: every list here is a consistent read, which by its definition is never behind. What is still older is
	// the truth: the server went back in time.
	maxRefused = 3
	// maxCuts is how many streams may break before their initial events end until the list is asked for in pages.
	maxCuts = 2
	// maxEmpty is how many pages in a row may be without an item until all is asked for at once. A server that looks at so
	// many objects a page, whether the selector takes them or not, may send many: it is quicker when it need not stop.
	maxEmpty = 20
)

// streamMemory is what a reflector has learned about its server's streamed lists.
type streamMemory struct {
	off  bool // it has none
	skip bool // it refused one: the next list is in pages, and if that works, off is set
	cuts int  // streams in a row that broke before their initial events ended
}

// list brings a whole list into the target, by the means that the options and the server allow.
func (r *Reflector[T]) list(ctx context.Context) outcome {
	switch {
	case r.opts.List == ListStream:
		return r.follow(ctx, true)
	case r.opts.List == ListWhole:
		return r.pages(ctx, 0)
	case r.opts.List == ListPages || r.stream.off || r.stream.skip || HintsOf(r.src).NoStream:
		if r.sparse {
			return r.pages(ctx, 0)
		}
		return r.pages(ctx, r.opts.PageSize)
	default:
		return r.follow(ctx, true)
	}
}

// streamFailed decides what follows from a streamed list that err ended too early.
func (r *Reflector[T]) streamFailed(o outcome) outcome {
	if r.opts.List != ListAuto {
		o.progress = false
		return o
	}
	var older *olderError
	refused, sure := isRefusal(o.err)
	switch {
	case errors.Is(o.err, errNoStream):
		r.stream.off, o.fallback, o.quiet = true, true, true
	case errors.Is(o.err, errNoEnd):
		r.stream.off, o.fallback = true, true
	case refused:
		r.stream.off, r.stream.skip, o.fallback = sure, true, true
	case isBusy(o.err) || errors.As(o.err, &older) || isNetwork(o.err) && !o.progress:
		// Nothing is wrong with streams.
	default:
		if r.stream.cuts++; r.stream.cuts >= maxCuts {
			r.stream.cuts, o.fallback = 0, true
			// What was cut is the stream's own fault. Of other errors pages may be no better: if they are, off is set.
			r.stream.off, r.stream.skip = o.progress && !isStatus(o.err), true
		}
	}
	o.progress = false
	return o
}

// pages lists in pages of so many objects, which all show one version, or in one response if limit is 0.
func (r *Reflector[T]) pages(ctx context.Context, limit int64) outcome {
	r.pace.spend(time.Now())
	r.board.setPhase(PhaseListing)
	mode := ListPages
	if limit == 0 {
		mode = ListWhole
	}
	r.board.setMode(mode)
	var err error
	// A continue token expires when its version is compacted. Pages of two versions are never mixed: begin again, and if
	// the collection is too large to be paged in the time that its server keeps a version, ask for all of it at once.
	size := limit
	for attempt := 1; ; attempt++ {
		got := r.gather()
		if err = r.collect(ctx, size, got); err == nil {
			err = r.takeOver(opList, got)
			break
		}
		empty := errors.Is(err, errEmptyPages)
		lost := size > 0 && (empty || got.pages > 0 && (isExpired(err) || errors.Is(err, errMixedPages)))
		if !lost || ctx.Err() != nil {
			break
		}
		r.report(&Error{Op: opList, Failures: attempt, Err: err})
		if r.sparse = r.sparse || empty; empty || attempt == 2 {
			size = 0
		}
	}
	if err == nil {
		r.answered()
	} else {
		r.sparse = false
	}
	if err == nil && r.stream.skip {
		r.stream.off = true
	} else {
		r.stream.skip = false
	}
	return outcome{op: opList, err: err}
}

// errMixedPages is the protocol error of pages that show different versions.
var errMixedPages = &protocolError{"pages of one list have different resource versions"}

// collect adds all pages to got. It is ended when no item comes for too long, however many pages do.
func (r *Reflector[T]) collect(ctx context.Context, limit int64, got *gathered[T]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := newGuard(cancel, listPatience, errStalled)
	defer g.stop()
	opts := metav1.ListOptions{Limit: limit}
	for empty := 0; ; {
		items, from := got.items, len(got.objs)
		meta, err := r.page(ctx, opList, opts, got, g)
		if err != nil {
			return err
		}
		switch {
		case got.pages == 0:
			got.version = meta.ResourceVersion
		case meta.ResourceVersion != got.version:
			return errMixedPages
		}
		got.pages++
		if meta.Continue == "" {
			got.sift()
			return nil
		}
		if meta.Continue == opts.Continue {
			return protocolErrorf("a page continues with itself")
		}
		if err := got.turn(meta.Continue, from); err != nil {
			return err
		}
		opts.Continue = meta.Continue
		if got.items > items {
			empty = 0
			continue
		}
		if empty++; empty >= maxEmpty && limit > 0 {
			return errEmptyPages
		}
		// It has brought nothing, so the next one counts as a request of its own.
		r.pause(ctx, r.pace.due(time.Now()))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.pace.spend(time.Now())
	}
}

// page makes one list request, on which g is told of each item.
func (r *Reflector[T]) page(ctx context.Context, op string, opts metav1.ListOptions, got *gathered[T], g *guard) (metav1.ListMeta, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.board.requested(op)
	omitted := func() {
		g.heard(1)
		got.omit()
	}
	meta, err := r.src.List(withLeftOutByTransform(ctx, omitted), opts, func(obj T, err error) error {
		g.heard(1)
		got.take(obj, err)
		return nil
	})
	return meta, causeOf(ctx, err)
}

// ask compares the server's version with the position: a server that was restored from a backup answers a watch at a version
// of its lost future with silence.
func (r *Reflector[T]) ask(ctx context.Context) outcome {
	r.pace.spend(time.Now())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := newGuard(cancel, listPatience, errStalled)
	defer g.stop()
	var ignored gathered[T]
	meta, err := r.page(ctx, opProbe, metav1.ListOptions{Limit: 1}, &ignored, g)
	o := outcome{op: opList, err: err}
	if err != nil {
		if isStatus(err) && !isBusy(err) {
			r.denied()
		}
		return o
	}
	r.answered()
	r.probe, r.doubt = false, false
	if r.position.after(meta.ResourceVersion) {
		r.relist = true
		r.refused++
		o.err = &olderError{got: meta.ResourceVersion, seen: r.position.version}
	}
	return o
}

const (
	// askAgain is after how long a server that refused to say its version is asked again. It doubles each time, up to
	// askSeldom, which is about once for each watch that is quiet all the time.
	askAgain  = 30 * time.Second
	askSeldom = 5 * time.Minute
)

// denied notes that the server answers watches, but not the question for its version: it may let us watch but not list. The
// watch goes on in doubt.
func (r *Reflector[T]) denied() {
	r.probe = false
	r.askNext = time.Now().Add(min(askAgain<<min(r.denials, 10), askSeldom))
	r.denials++
}

// answered notes that the server lets us list.
func (r *Reflector[T]) answered() { r.denials, r.askNext = 0, time.Time{} }

// takeOver makes a whole list the target's content and its version the position. An older state than one seen before is
// refused, until it has shown itself so often that it must be the truth.
func (r *Reflector[T]) takeOver(op string, got *gathered[T]) error {
	if err := got.usable(); err != nil {
		return err
	}
	epoch := false
	if r.listed && r.position.after(got.version) {
		if r.refused++; r.refused <= maxRefused {
			return &olderError{got: got.version, seen: r.position.version}
		}
		epoch = true
		r.report(&Error{Op: op, Err: fmt.Errorf("%w: from resource version %s to %s", ErrRewound, r.position.version, got.version)})
	}
	r.refused, r.relisted = 0, r.listed
	if epoch {
		r.aside.release()
	}
	// What stays as it was may be older than the list, and then so is the version that is reported.
	was := maps.Clone(r.aside.held)
	r.aside.listed(got.bad, r.report)
	stays := func(key Key) (version string) {
		_, hold := was[key]
		if _, there := r.target.get(key); !epoch && (hold || there) {
			r.aside.hold(key)
		}
		if r.aside.holds() {
			return r.target.version()
		}
		return got.version
	}
	version := got.version
	for key := range got.bad {
		version = stays(key)
	}
	objs := got.objs
	r.target.replace(replacement[T]{
		objs: objs, version: version, reached: got.version, keep: got.bad, epoch: epoch, distrust: epoch || HintsOf(r.src).Unversioned,
		duplicate: func(key Key) {
			r.report(&Error{Op: op, Key: key, Err: protocolErrorf("the list holds this key twice")})
		},
		failed: func(key Key, err error) (version string) {
			r.aside.add(key, err, false, r.report)
			return stays(key)
		},
		taken: func() { r.board.replaced(epoch) },
	})
	r.position, r.expected = positionAt(got.version), len(objs)
	r.listed, r.relist, r.doubt, r.probe = true, false, false, false
	r.log.listed(op, len(objs), got.version)
	return nil
}
