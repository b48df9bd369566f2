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
	if o.err != nil && o.op != opWatch {
		r.server.doubt.Lost(begun)
	}
	return o
}

// wayToList says how to list next, by what the options and the server allow: as a stream, or in
// pages of at most limit objects. It does not list itself: its frame would be on the stack as long
// as a streamed list goes on as a watch.
func (r *Reflector[T]) wayToList() (stream bool, limit int64) {
	switch {
	case r.opts.List == ListStream:
		return true, 0
	case r.opts.List == ListWhole:
		return false, 0
	case r.opts.List == ListPages || r.server.streams.unsupported || r.server.streams.refusedOnce || HintsOf(r.src).NoStream:
		if r.server.streams.sparse {
			return false, 0
		}
		return false, r.opts.PageSize
	default:
		return true, 0
	}
}

// streamFailed completes the outcome of a streamed list that ended before its initial events did.
// With ListAuto it may set fallback: the list is then asked for in pages at once. It also notes
// whether later lists should be streamed. It clears progress, because a list that is not whole must
// not end the backoff.
func (r *Reflector[T]) streamFailed(o outcome) outcome {
	if r.opts.List != ListAuto {
		o.progress = false
		return o
	}
	var older *olderError
	refused, sure := isRefusal(o.err)
	switch {
	case errors.Is(o.err, errNoStream): // the source cannot, so the server is not at fault
		r.server.streams.unsupported, o.fallback, o.unreported = true, true, true
	case errors.Is(o.err, errNoEnd): // as of a server that ignores sendInitialEvents
		r.server.streams.unsupported, o.fallback = true, true
	case refused && !errors.Is(o.err, ErrRewound):
		r.server.streams.unsupported, r.server.streams.refusedOnce, o.fallback = sure, true, true
	case isBusy(o.err) || errors.Is(o.err, ErrRewound) || errors.As(o.err, &older) || isNetwork(o.err) && !o.progress:
		// Nothing is wrong with streams.
	default:
		if r.server.streams.brokenStreams++; r.server.streams.brokenStreams >= maxBrokenStreams {
			r.server.streams.brokenStreams, o.fallback = 0, true
			// If objects came and the stream then broke without a status, streams are at fault:
			// they are not tried again. After any other error pages may fail as well. So this only
			// sets refusedOnce, and pages sets unsupported if it succeeds.
			r.server.streams.unsupported, r.server.streams.refusedOnce = o.progress && !isStatus(o.err), true
		}
	}
	o.progress = false
	return o
}

// pages lists in pages of at most limit objects, all of one version. If limit is 0 it asks for the
// whole list in one response.
func (r *Reflector[T]) pages(ctx context.Context, limit int64) outcome {
	r.limiter.Spend(time.Now())
	r.recorder.setPhase(PhaseListing)
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
		if err = r.collect(ctx, size, got); err == nil {
			err = r.takeOver(opList, got)
			break
		}
		empty := errors.Is(err, errEmptyPages)
		if size == 0 || ctx.Err() != nil || !empty && !got.lost(err) {
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

// lost reports whether the pages behind those that have come cannot be had any more.
func (b *listBuilder[T]) lost(err error) bool {
	return b.pages > 0 && (isExpired(err) || errors.Is(err, errMixedPages))
}

// errMixedPages says that the pages of a list show different versions.
var errMixedPages = &protocolError{msg: "pages of one list have different resource versions"}

// collect adds all pages to got. It fails if no item comes for listPatience, however many pages
// come.
func (r *Reflector[T]) collect(ctx context.Context, limit int64, got *listBuilder[T]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := pace.NewStallTimer(cancel, listPatience, errStalled)
	defer g.Stop()
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
			got.validate(HintsOf(r.src).Unnamed)
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
		if empty++; empty >= maxEmpty && limit > 0 {
			return errEmptyPages
		}
		// An empty page counts against the request limit, as a server may send many.
		r.pause(ctx, r.limiter.Wait(time.Now()))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.limiter.Spend(time.Now())
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
		got.addItem(obj, err)
		if err != nil && !isKeep(err) {
			r.recorder.undecoded.Add(1)
		}
		return nil
	})
	err = causeOf(ctx, err)
	r.recorder.ended(op, err, r.recorder.now()-begun)
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
	r.outage.relisted = r.at.listed
	r.at.listed, r.at.objects, r.server.refused, r.server.rewound = true, objs, 0, false
	r.server.doubt.Listed()
	r.verified()
	r.log.listed(op, objs, got.version, hints.Decoder)
	return nil
}

// reallyBad returns those of bad that no Transform keeps as they are. It takes out of bad what cannot
// be kept, because the target has an object with another UID.
func (r *Reflector[T]) reallyBad(bad map[Key]error) map[Key]error {
	var others map[Key]error // nil: all are
	for key, err := range bad {
		if !isKeep(err) {
			continue
		}
		if others == nil {
			others = maps.Clone(bad)
		}
		delete(others, key)
		e, _ := errors.AsType[*Error](err)
		if obj, ok := r.target.get(key); ok && e.UID != "" && obj.GetUID() != "" && obj.GetUID() != e.UID {
			delete(bad, key)
		}
	}
	if others == nil {
		return bad
	}
	return others
}

// reportable returns the version to report with l. held has the keys that held back the version
// before.
//
// The target may have an older version of an object that stays as it was than the list has. So the
// version before the list stays the reported one. That is not so if the target has no such object
// and the key held back no version before, nor in a new epoch, in which the older version means
// nothing.
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
