package lw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
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
	case isBusy(o.err) || errors.As(o.err, &older):
		// Nothing is wrong with streams.
	case o.progress || isStatus(o.err) || errors.As(o.err, new(*protocolError)):
		if r.stream.cuts++; r.stream.cuts >= maxCuts {
			r.stream.cuts, o.fallback = 0, true
			r.stream.off, r.stream.skip = !isStatus(o.err), true
		}
	}
	o.progress = false
	return o
}

// pages lists in pages of so many objects, which all show one version, or in one response if limit is 0.
func (r *Reflector[T]) pages(ctx context.Context, limit int64) outcome {
	r.pace.spend(time.Now())
	r.board.setPhase(Listing)
	mode := ListPages
	if limit == 0 {
		mode = ListWhole
	}
	r.board.setMode(mode)
	var err error
	// A continue token expires when its version is compacted. Pages of two versions are never mixed: begin again, and if
	// the collection is too large to be paged in the time that its server keeps a version, ask for all of it at once.
	for attempt, size := range []int64{limit, limit, 0} {
		got := r.gather()
		if err = r.collect(ctx, size, got); err == nil {
			err = r.takeOver(opList, got)
			break
		}
		lost := size > 0 && got.pages > 0 && (isExpired(err) || errors.Is(err, errMixedPages))
		if !lost || ctx.Err() != nil {
			break
		}
		r.report(&Error{Op: opList, Failures: attempt + 1, Err: err})
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

// collect adds all pages to got.
func (r *Reflector[T]) collect(ctx context.Context, limit int64, got *gathered[T]) error {
	opts := metav1.ListOptions{Limit: limit}
	for {
		meta, err := r.page(ctx, opts, got)
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
		opts.Continue = meta.Continue
	}
}

// page makes one list request. It is ended when no item comes for too long.
func (r *Reflector[T]) page(ctx context.Context, opts metav1.ListOptions, got *gathered[T]) (metav1.ListMeta, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := newGuard(cancel, listPatience, errStalled)
	defer g.stop()
	r.board.requested(opList)
	start := time.Now()
	meta, err := r.src.List(ctx, opts, func(obj T, err error) error {
		g.heard(1)
		got.take(obj, err)
		return nil
	})
	err = causeOf(ctx, err)
	r.measure(opList, start, err)
	return meta, err
}

// ask compares the server's version with the position: a server that was restored from a backup answers a watch at a version
// of its lost future with silence.
func (r *Reflector[T]) ask(ctx context.Context) outcome {
	r.pace.spend(time.Now())
	var ignored gathered[T]
	meta, err := r.page(ctx, metav1.ListOptions{Limit: 1}, &ignored)
	o := outcome{op: opList, err: err}
	if err != nil {
		// A server that lets us watch but not list cannot be asked.
		r.probe = !isStatus(err) || isBusy(err)
		return o
	}
	r.probe, r.doubt = false, false
	if r.position.after(meta.ResourceVersion) {
		r.relist = true
		r.refused++
		o.err = &olderError{got: meta.ResourceVersion, seen: r.position.version}
	}
	return o
}

// takeOver makes a whole list the target's content and its version the position. An older state than one seen before is
// refused, until it has shown itself so often that it must be the truth.
func (r *Reflector[T]) takeOver(op string, got *gathered[T]) error {
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
	objs := got.all()
	changed := r.target.replace(replacement[T]{
		objs: objs, version: version, reached: got.version, keep: got.bad, epoch: epoch, distrust: epoch || HintsOf(r.src).Unversioned,
		duplicate: func(key Key) {
			r.report(&Error{Op: op, Key: key, Err: protocolErrorf("the list holds this key twice")})
		},
		failed: func(key Key, err error) (version string) {
			r.aside.add(key, err, false, r.report)
			return stays(key)
		},
		taken: func() { r.board.replaced(epoch, r.aside.clone()) },
	})
	r.position, r.expected = positionAt(got.version), len(objs)
	r.listed, r.relist, r.doubt, r.probe = true, false, false, false
	if r.opts.Metrics != nil {
		r.opts.Metrics.Replaced(r.opts.Name, len(objs), changed)
	}
	return nil
}

// gathered is a list on its way: the pages that have come, or the initial events of a stream.
type gathered[T Object] struct {
	objs    []T           // zero where one was deleted or updated later in the stream
	at      map[Key]int   // where in objs; nil until a stream changes what it has sent
	bad     map[Key]error // objects that could not be decoded or transformed
	version string        // of the whole list
	newest  position      // of what a stream has sent
	pages   int
}

// gather begins a list, with room for as many objects as the last one had.
func (r *Reflector[T]) gather() *gathered[T] {
	return &gathered[T]{objs: make([]T, 0, r.expected+r.expected/64)}
}

// take adds an item of a page. It does not look at it: see sift.
func (g *gathered[T]) take(obj T, err error) {
	if err != nil {
		g.fail(err)
		return
	}
	g.objs = append(g.objs, obj)
}

// sift sets aside the items of all pages that cannot stand in a collection. Those of a source that decodes whole lists have
// left the processor's cache, and a loop that does nothing else waits for many of them at a time.
func (g *gathered[T]) sift() {
	var zero T
	kept := 0
	for i, obj := range g.objs {
		if obj == zero || obj.GetName() == "" {
			g.fail(unusable(obj))
			continue
		}
		if kept != i {
			g.objs[kept] = obj
		}
		kept++
	}
	clear(g.objs[kept:])
	g.objs = g.objs[:kept]
}

// add adds what a stream has sent.
func (g *gathered[T]) add(obj T, err error) {
	if err == nil {
		err = unusable(obj)
	}
	if err != nil {
		g.fail(err)
		return
	}
	if g.at != nil {
		g.at[KeyOf(obj)] = len(g.objs)
	}
	g.objs = append(g.objs, obj)
}

func (g *gathered[T]) fail(err error) {
	if g.bad == nil {
		g.bad = map[Key]error{}
	}
	key := keyOfError(err)
	if before := g.bad[key]; before != nil && key == (Key{}) {
		err = oneMore(before, err)
	}
	g.bad[key] = err
}

// change applies an initial event, or a change that happened while they were being sent.
func (g *gathered[T]) change(ev *WatchEvent[T], h SourceHints) error {
	key := ev.Key()
	if ev.Type != watch.Added {
		g.index()
	}
	if !h.Unversioned && ev.ResourceVersion != "" {
		if err := g.check(ev, key, h); err != nil {
			return err
		}
	}
	if ev.Err == nil && g.at == nil && len(g.bad) == 0 {
		g.add(ev.Object, nil)
		return nil
	}
	g.index()
	if i, ok := g.at[key]; ok {
		var zero T
		g.objs[i] = zero
		delete(g.at, key)
	}
	if key != (Key{}) {
		delete(g.bad, key)
	}
	if ev.Err != nil || ev.Type != watch.Deleted {
		g.add(ev.Object, ev.Err)
	}
	return nil
}

// index makes at, which only a stream that changes what it has sent needs.
func (g *gathered[T]) index() {
	if g.at != nil {
		return
	}
	g.at = make(map[Key]int, len(g.objs))
	for i, obj := range g.objs {
		g.at[KeyOf(obj)] = i
	}
}

// check refuses an event of before. The objects of a list have versions in any order; a change is newer than all that has come,
// and of an object that has come.
func (g *gathered[T]) check(ev *WatchEvent[T], key Key, h SourceHints) error {
	to, newest, before := positionAt(ev.ResourceVersion), g.newest, false
	if newest.version == "" {
		g.newest = to
	} else if newer, ordered := newest.before(to); newer {
		g.newest = to
	} else {
		before = ordered
	}
	i, known := g.at[key]
	switch {
	case ev.Omitted || ev.Type == watch.Added && !known:
		return nil // an object of the list, which a Transform may have left out
	case ev.Type == watch.Added:
		held := positionAt(g.objs[i].GetResourceVersion())
		if older, ordered := held.before(to); ordered && !older {
			return protocolErrorf("%s event of %s at resource version %s came after %s", ev.Type, keyString(key), to.version, held.version)
		}
		return nil
	}
	// One transaction of the server's store may give several objects one version, but not one object twice.
	again := known && newest.version == to.version && g.objs[i].GetResourceVersion() != to.version
	if before && !again {
		return protocolErrorf("%s event of %s at resource version %s came after %s", ev.Type, keyString(key), to.version, newest.version)
	}
	first := newest.version == "" && len(g.bad) == 0
	if known || g.bad[key] != nil || g.bad[Key{}] != nil || h.Partial && !first {
		return nil
	}
	return protocolErrorf("%s event of %s, which was not there", ev.Type, keyString(key))
}

// all returns the objects, without the gaps.
func (g *gathered[T]) all() []T {
	if g.at == nil {
		return g.objs
	}
	var zero T
	kept := g.objs[:0]
	for _, obj := range g.objs {
		if obj != zero {
			kept = append(kept, obj)
		}
	}
	clear(g.objs[len(kept):])
	return kept
}
