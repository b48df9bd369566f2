package proof

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// describe is what the oracle is told of a part.
func describe(p *Part) *oracle.Item {
	if p == nil {
		return nil
	}
	version, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
	if err != nil {
		version = 0
	}
	return &oracle.Item{
		Key: lw.KeyOf(p), UID: p.UID, Version: version, Content: fmt.Sprintf("%s %d", p.Group, p.Size), Ref: p,
	}
}

func describeAll(parts []*Part) []oracle.Item {
	out := make([]oracle.Item, len(parts))
	for i, p := range parts {
		out[i] = *describe(p)
	}
	return out
}

// recorded is a source that tells the log of each request. It stands next to the server, below all
// that narrows or transforms.
type recorded struct {
	src       lw.Source[*Part]
	log       *oracle.Log
	copy      int
	transform bool
	late      *lateness

	mu     sync.Mutex
	recent []time.Time // guarded by mu
}

// Reuses is part of [request.Source]: the log sees the objects as the source has decoded them.
func (r *recorded) Reuses(request.Mark) bool {
	_, decodes := r.src.(*lw.HTTP[*Part])
	return decodes
}

// hot is how many requests within a second are so many that the history has to be ended: time does
// not pass on its own in a loop without a pause.
const hot = 40

func (r *recorded) begin(ctx context.Context, q oracle.Request) *oracle.Request {
	r.mu.Lock()
	now := time.Now()
	for len(r.recent) > 0 && now.Sub(r.recent[0]) > time.Second {
		r.recent = r.recent[1:]
	}
	r.recent = append(r.recent, now)
	stop := len(r.recent) > hot
	r.mu.Unlock()
	q.Copy, q.At = r.copy, now
	q.Cause = func() error { return context.Cause(ctx) }
	rec := r.log.Requests(q)
	if stop {
		<-ctx.Done()
	}
	return rec
}

// ended tells the log how a request ended; refused is what the informer itself said.
func ended(q *oracle.Request, err, refused error) {
	q.Err, q.Refused = err, refused != nil
	// What ends an answer early comes from the source's yield, and so from the informer.
	q.Lost = apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
	q.Rewound = errors.Is(err, lw.ErrRewound) || apierrors.HasStatusCause(err, listopts.CauseReplaced)
	q.Invalid = apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
	q.Injected = apierrors.IsInvalid(err) && q.Verb == oracle.Stream
}

func (r *recorded) List(ctx context.Context, opts metav1.ListOptions, yield func(*Part, error) error) (metav1.ListMeta,
	error) {
	if !r.isReflectors(ctx) {
		return r.src.List(ctx, opts, yield)
	}
	q := r.begin(ctx, oracle.Request{Verb: oracle.List, Version: opts.ResourceVersion, Limit: opts.Limit,
		Continue: opts.Continue})
	var refused error
	meta, err := r.src.List(ctx, opts, func(p *Part, err error) error {
		if err == nil && r.transform && opts.Limit != 1 { // nobody transforms what a probe has
			r.log.Gives(p)
		}
		refused = yield(p, err)
		return refused
	})
	q.Ends(func(q *oracle.Request) {
		ended(q, err, refused)
		q.Listed, q.More = meta.ResourceVersion, meta.Continue
	})
	return meta, err
}

func (r *recorded) Hints() lw.SourceHints { return lw.SourceHints{StillHas: r.had} }

func (r *recorded) had(ctx context.Context, obj lw.Meta, version string) (had bool, err error) {
	q := r.begin(ctx, oracle.Request{Verb: oracle.Witness, Version: version})
	had, err = lw.HintsOf(r.src).StillHas(ctx, obj, version)
	q.Ends(func(q *oracle.Request) {
		if errors.Is(err, errors.ErrUnsupported) {
			// The server has answered, and the answer leaves the question open: no request has failed,
			// and the position is as good as before.
			q.Had = true
			return
		}
		ended(q, err, nil)
		q.Had = had
	})
	return had, err
}

func (r *recorded) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Part]) error) error {
	verb := oracle.Watch
	if opts.SendInitialEvents != nil {
		verb = oracle.Stream
	}
	q := r.begin(ctx, oracle.Request{Verb: verb, Version: opts.ResourceVersion})
	var refused error
	err := r.src.Watch(ctx, opts, func(ev lw.WatchEvent[*Part]) error {
		if err := r.arrive(ctx); err != nil {
			return err
		}
		if r.transform && ev.Err == nil && ev.Object != nil && ev.Type != watch.Deleted {
			r.log.Gives(ev.Object)
		}
		ev.More = ev.More && r.late.Load() == 0 // the next one is late
		refused = yield(ev)
		q.Yields(oracle.Event{Version: ev.ResourceVersion, End: ev.InitialEventsEnd, Open: ev.Open, Refused: refused != nil})
		return refused
	})
	q.Ends(func(q *oracle.Request) { ended(q, err, refused) })
	return err
}

// listening is a handler with its record, and a gate to block it.
type listening struct {
	o    *oracle.Handler
	log  *oracle.Log
	inf  *lw.Informer[*Part]
	reg  *lw.Registration // nil: an iterator over events
	stop context.CancelFunc
	done chan struct{} // closed when an iterator has ended

	byGroup *lw.Index[string, *Part]
	whole   *atomic.Bool // each call reads the whole copy
	slow    time.Duration
	panics  int  // every so many calls; 0: never
	leave   int  // Remove from inside this call; 0: never
	busy    bool // calls back into the informer

	mu    sync.Mutex
	n     int           // calls; guarded by mu, as all below
	gate  chan struct{} // nil: open
	every bool
}

func (l *listening) block() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate == nil {
		l.gate = make(chan struct{})
	}
}

func (l *listening) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate != nil {
		close(l.gate)
		l.gate = nil
	}
}

func (l *listening) blocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gate != nil
}

var errHandlerPanics = errors.New("a handler panics")

// call is every callback of a handler: it records what it is told and what the copy shows, and
// misbehaves as it was drawn.
func (l *listening) call(kind oracle.Kind, old, obj *Part, initial int) {
	c := oracle.Call{Kind: kind, Old: describe(old), New: describe(obj), At: time.Now(), Initial: initial}
	began := l.log.Tick()
	if p := cmpOr(obj, old); p != nil {
		c.Read = true
		seen, ok := l.inf.Store().Get(lw.KeyOf(p))
		c.Grouped = true
		if ok {
			c.Seen = describe(seen)
			c.Grouped = l.grouped(seen)
		}
	}
	if l.whole.Load() {
		snap := l.inf.Store().Snapshot()
		c.Snapshot, c.Version = true, snap.ResourceVersion()
		l.log.Reads(oracle.Read{
			Session: l.o.Name, Copy: l.o.Copy, Call: began, What: "a snapshot in a call", Version: c.Version,
			Items: describeAll(snap.List()),
		})
	}
	end := l.o.Calls(c)
	defer end()
	l.mu.Lock()
	l.n++
	n, gate := l.n, l.gate
	l.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if l.slow > 0 {
		time.Sleep(l.slow)
	}
	if l.busy {
		l.inf.Status()
		l.inf.Store().List()
		l.inf.AddHandler(lw.Handler[*Part]{Synced: func() {}}).Remove()
	}
	if l.leave > 0 && n == l.leave {
		l.reg.Remove()
		l.o.Removed(false)
	}
	if l.panics > 0 && n%l.panics == 0 {
		l.o.Panics()
		panic(errHandlerPanics)
	}
}

func cmpOr(a, b *Part) *Part {
	if a != nil {
		return a
	}
	return b
}

// grouped reports whether the index by group has seen, or the copy has moved on.
func (l *listening) grouped(seen *Part) bool {
	for p := range l.byGroup.Lookup(seen.Group) {
		if p == seen {
			return true
		}
	}
	now, ok := l.inf.Store().Get(lw.KeyOf(seen))
	return !ok || now != seen
}

func (l *listening) handler() lw.Handler[*Part] {
	return lw.Handler[*Part]{
		Name:   l.o.Name,
		Add:    func(p *Part) { l.call(oracle.Add, nil, p, 0) },
		Update: func(old, p *Part) { l.call(oracle.Update, old, p, 0) },
		Delete: func(p *Part) { l.call(oracle.Delete, p, nil, 0) },
		Synced: l.o.Syncs,
	}
}

// follow reads the informer's events until it ends.
func (l *listening) follow(ctx context.Context) {
	defer close(l.done)
	for ev := range l.inf.Events(ctx) {
		if !ev.Initial && !l.o.IsSynced() {
			l.o.Syncs()
		}
		initial := -1
		if ev.Initial {
			initial = 1
		}
		switch ev.Type {
		case lw.Added:
			l.call(oracle.Add, nil, ev.New, initial)
		case lw.Updated:
			l.call(oracle.Update, ev.Old, ev.New, initial)
		case lw.Deleted:
			l.call(oracle.Delete, ev.Old, nil, 0)
		}
	}
}
