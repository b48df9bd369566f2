package lw

import (
	"context"
	"errors"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/pace"
	"github.com/go-lw/lw/internal/request"
)

const (
	// listPatience is how long a list may go without an item. A server that works on a big list
	// sends nothing for a while. kube-apiserver gives up by itself after a minute, so a longer
	// silence means that the answer is lost.
	listPatience = 90 * time.Second
	// maxBrokenStreams is how many streamed lists in a row may break before their initial events
	// end. Then the list is asked for in pages.
	maxBrokenStreams = 2
	// maxEmpty is how many pages in a row may be empty. Then the list is asked for in one response.
	// With a selector, a server may look at a page's worth of objects and find none that match.
	maxEmpty = 20
)

// streamSupport is what a reflector has learned about its server's streamed lists.
type streamSupport struct {
	unsupported bool // the server has none
	// refusedOnce says that the server refused one, perhaps for another reason. The next list is in
	// pages. If that works, streams are unsupported.
	refusedOnce   bool
	brokenStreams int // in a row, before their initial events ended
	// proved says that the server has ended the initial events of one. If a later one is silent, the
	// server is overloaded, and it is waited for as long as for any list: to give up its place in
	// the server's queue, and what it has sent, would only add to the load.
	proved bool
	// sparse says that so many pages were empty that the list is asked for in one response.
	sparse bool
}

// list brings a whole list into the target. If it fails for a while, what it brings in the end is
// doubted as after any other outage.
func (r *Reflector[T]) list(ctx context.Context) outcome {
	begun := time.Now()
	var o outcome
	if stream, limit := r.wayToList(); stream {
		o = r.follow(ctx, true)
	} else {
		o = r.pages(ctx, limit)
	}
	if o.err != nil && o.op != opWatch && !request.IsGate(o.err) {
		r.server.downtime.Lost(begun)
	}
	return o
}

// wayToList says how to list next, by what the options and the server allow: as a stream, or in
// pages of at most limit objects. It does not list itself: its frame would be on the stack as long
// as a streamed list goes on as a watch.
func (r *Reflector[T]) wayToList() (stream bool, limit int64) {
	s, mode := &r.server.streams, r.opts.List
	paged := mode == ListPages || s.unsupported || s.refusedOnce || HintsOf(r.src).NoStream
	switch {
	case mode == ListStream, mode != ListWhole && !paged:
		return true, 0
	case mode == ListWhole, s.sparse:
		return false, 0
	}
	return false, r.opts.PageSize
}

// failed notes that a streamed list has ended with err before its initial events did; came says
// that objects had come. If fallback is true, this list is asked for in pages at once.
func (s *streamSupport) failed(err error, came bool) (fallback bool) {
	blame, broke := blameOfStream(err, came)
	if broke {
		if s.brokenStreams++; s.brokenStreams < maxBrokenStreams {
			return false
		}
		s.brokenStreams = 0
	}
	switch blame {
	case blameNone:
		return false
	case blameUnclear:
		s.refusedOnce = true
	case blameStreams:
		s.unsupported = true
	}
	return true
}

// A streamBlame is whether streams are at fault when a streamed list fails.
type streamBlame int

const (
	blameNone    streamBlame = iota // they are not: the next list is streamed
	blameUnclear                    // pages may fail as well: if they work, no list is streamed any more
	blameStreams                    // they are: no list is streamed any more
)

// blameOfStream decides whether streams are at fault for err; came says that objects had come. If
// broke is true, that holds only when maxBrokenStreams streams in a row have ended so.
func blameOfStream(err error, came bool) (blame streamBlame, broke bool) {
	if _, late := errors.AsType[*request.LateError](err); late || request.IsGate(err) {
		return blameNone, false
	}
	if errors.Is(err, errNoStream) || errors.Is(err, errNoEnd) {
		// The source has no streams, or the server ignores sendInitialEvents.
		return blameStreams, false
	}
	if errors.Is(err, ErrRewound) {
		return blameNone, false
	}
	if refused, sure := pace.IsRefusal(err); sure {
		return blameStreams, false
	} else if refused {
		return blameUnclear, false // a right that is missing, for example
	}
	if _, older := errors.AsType[*olderError](err); older || pace.IsBusy(err) || pace.IsNetwork(err) && !came {
		return blameNone, false
	}
	if came && !pace.IsStatus(err) {
		return blameStreams, true // pages are shorter, and may get through
	}
	return blameUnclear, true
}

// pages lists in pages of at most limit objects, all of one version. If limit is 0 it asks for the
// whole list in one response.
func (r *Reflector[T]) pages(ctx context.Context, limit int64) outcome {
	r.limiter.Spend(time.Now())
	r.recorder.setPhase(phaseListing)
	mode := ListPages
	if limit == 0 {
		mode = ListWhole
	}
	r.recorder.setMode(mode)
	var err error
	// A continue token expires when its version is compacted. Pages of two versions are never
	// mixed, so the list begins again. If that happens twice, the collection is too large to be
	// paged in the time that the server keeps a version. Then the list is asked for in one
	// response.
	size := limit
	for attempt := 1; ; attempt++ {
		got := r.newListBuilder()
		if err = r.collect(ctx, metav1.ListOptions{Limit: size}, got, &r.limiter); err == nil {
			got.validate(HintsOf(r.src).unnamed)
			err = r.takeOver(opList, got)
			break
		}
		empty := errors.Is(err, errEmptyPages)
		if size == 0 || ctx.Err() != nil || !got.lost(err) {
			break
		}
		r.server.rewound = r.server.rewound || errors.Is(err, ErrRewound)
		r.report(&Error{Op: opList, Failures: attempt, Err: err})
		if r.server.streams.sparse = r.server.streams.sparse || empty; empty || attempt == 2 {
			size = 0
		}
	}
	streams := &r.server.streams
	if err == nil {
		r.server.answered()
		streams.unsupported = streams.unsupported || streams.refusedOnce
	} else {
		streams.sparse = false // if one response failed, pages may work
	}
	streams.refusedOnce = streams.refusedOnce && err == nil
	return outcome{op: opList, err: err}
}

// lost reports whether the pages behind those that have come cannot be had, or bring nothing.
func (b *listBuilder[T]) lost(err error) bool {
	return b.pages > 0 && (pace.IsExpired(err) || errors.Is(err, errMixedPages) || errors.Is(err, errEmptyPages))
}

// errMixedPages says that the pages of a list show different versions.
var errMixedPages = &protocolError{msg: "pages of one list have different resource versions"}

// collect adds all pages of the list of opts to got. It fails if no item comes for listPatience,
// however many pages come. limiter is for the pages after empty ones. Any goroutine may call it.
func (r *Reflector[T]) collect(ctx context.Context, opts metav1.ListOptions, got *listBuilder[T], limiter *pace.Limiter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := pace.NewStallTimer(cancel, listPatience, errStalled)
	defer g.Stop()
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
			return nil
		}
		if meta.Continue == opts.Continue {
			return protocolErrorf("a page continues with itself")
		}
		if err := got.checkPage(meta.Continue, from); err != nil {
			return err
		}
		opts.Continue = meta.Continue
		if got.items > items {
			empty = 0
			continue
		}
		if empty++; empty >= maxEmpty && opts.Limit > 0 {
			return errEmptyPages
		}
		// An empty page counts against the request limit, as a server may send many.
		pace.Sleep(ctx, limiter.Wait(time.Now()))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		limiter.Spend(time.Now())
	}
}

// page makes one list request, and adds its items to got. Each item is a sign of life for g, also
// one that a Transform leaves out.
func (r *Reflector[T]) page(ctx context.Context, op string, opts metav1.ListOptions, got *listBuilder[T], g *pace.StallTimer) (metav1.ListMeta, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.recorder.requested(op)
	begun := r.recorder.now()
	leftOut := func() {
		g.Note()
		got.leaveOut()
	}
	meta, err := r.src.List(request.WithLeftOut(ctx, leftOut), opts, func(obj T, err error) error {
		g.Note()
		if err == nil {
			r.target.coming(obj)
		}
		got.addItem(obj, err)
		if err != nil && !isKeep(err) {
			r.recorder.undecoded.Add(1)
		}
		return nil
	})
	err = causeOf(ctx, err)
	r.recorder.ended(op, err, r.recorder.now()-begun)
	if errors.Is(err, request.ErrUnasked) && !errors.Is(err, request.ErrMoved) {
		err = nil // of a kind that nobody serves there is nothing
	}
	return meta, err
}

// takeOver makes a whole list the target's content, and its version the position, unless judge
// refuses it.
func (r *Reflector[T]) takeOver(op string, got *listBuilder[T]) error {
	if err := got.checkUsable(); err != nil {
		return err
	}
	epoch, doubted, err := r.judge(op, got)
	if err != nil {
		return err
	}
	if epoch {
		r.setAside.release()
	}
	// listed forgets a key that is not in bad, but an index may still panic at its object.
	held := maps.Clone(r.setAside.holding)
	r.setAside.listed(r.reallyBad(got.bad), r.report)
	hints := HintsOf(r.src)
	objs := len(got.objs)
	r.recorder.decodedBy(hints.Decoder)
	l := &wholeList[T]{objs: got.objs, keep: got.bad, version: got.version, began: got.began, epoch: epoch, distrust: epoch || doubted || r.at.distrust || hints.Unversioned}
	for failed := r.target.compare(l); len(failed) > 0; failed = r.target.compare(l) {
		for _, err := range failed {
			r.setAside.add(err.Key, err, false, r.report)
		}
		l.without(failed)
	}
	report := r.reportable(l, held)
	duplicates := r.target.replace(l, report, func() { r.recorder.replaced(epoch, r.cause) })
	for _, key := range duplicates {
		r.report(&Error{Op: op, Key: key, Err: protocolErrorf("the list holds this key twice")})
	}
	r.at.moveTo(positionAt(got.version))
	r.outage.relisted, r.outage.answered = r.at.listed, true
	r.at.listed, r.at.objects, r.server.refused, r.server.rewound = true, objs, 0, false
	r.server.downtime.Listed()
	r.verified()
	r.log.listed(op, objs, got.version, hints)
	return nil
}

// reallyBad returns those of bad that no Transform keeps as they are. It takes out of bad what
// cannot be kept, because the target has an object with another UID.
func (r *Reflector[T]) reallyBad(bad map[Key]error) map[Key]error {
	others := maps.Clone(bad)
	for key, err := range bad {
		if !isKeep(err) {
			continue
		}
		delete(others, key)
		e, _ := errors.AsType[*Error](err)
		if obj, ok := r.target.get(key); ok && e.UID != "" && obj.GetUID() != "" && obj.GetUID() != e.UID {
			delete(bad, key)
		}
	}
	return others
}

// reportable returns the version to report with l. held has the keys that held back the version
// before.
//
// The target may have an older version of an object that stays as it was than the list has. So the
// version before the list stays the reported one. Two exceptions: a key that the target never had
// and that held nothing back; and a new epoch, where older versions mean nothing.
func (r *Reflector[T]) reportable(l *wholeList[T], held map[Key]struct{}) string {
	for key, err := range l.keep {
		if isKeep(err) {
			continue
		}
		_, hold := held[key]
		if _, there := r.target.get(key); !l.epoch && (hold || there) {
			r.setAside.hold(key)
		}
	}
	if r.setAside.holds() {
		return r.target.version()
	}
	return l.version
}

// part lists some objects of the collection: those of the filter in ctx. Any goroutine may call it.
func (r *Reflector[T]) part(ctx context.Context, opts metav1.ListOptions) (*listBuilder[T], error) {
	for {
		seen, got := positionAt(r.target.version()), &listBuilder[T]{began: time.Now()}
		err := r.collect(ctx, opts, got, new(pace.Limiter))
		switch {
		case err == nil && seen.after(got.version):
			return nil, &olderError{got: got.version, seen: seen.version}
		case err == nil:
			got.validate(false)
			return got, nil
		case opts.Limit == 0 || !got.lost(err):
			return nil, err
		}
		r.report(&Error{Op: opList, Err: err})
		opts.Limit = 0 // as in pages
	}
}
