package lw

import (
	"context"
	"iter"
	"runtime/debug"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/pace"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/table"
)

// An Informer keeps a typed, indexed copy of a collection in step with its [Source], and calls
// handlers for every change. All methods are safe for concurrent use. All readers and handlers
// share the objects: copy one before you change it.
type Informer[T Identified] struct {
	hub   *hub[T]
	r     *Reflector[T]
	check *mutationDetector // nil without Options.DetectMutation

	query pace.SharedQuery
	late  lateness
}

var _ AnyInformer = (*Informer[*Meta])(nil)

// NewInformer returns an informer of src, for Run. It panics if src is nil.
func NewInformer[T Object](src Source[T], opts *Options) *Informer[T] {
	if isNil(src) {
		panic("lw: NewInformer: nil source")
	}
	o := opts.withDefaults(typeName[T]())
	gate := new(gate)
	inf := &Informer[T]{hub: newHub[T](o, &gate.mu)}
	inf.hub.store.gate, inf.hub.store.single = gate, true
	inf.hub.status = inf.Status
	inf.hub.hasten = func(version string) (again time.Duration) { return inf.r.hasten(version) }
	if o.DetectMutation {
		// The detector calls o.OnError, which newReflector sets if it is nil. It does so only when
		// Run has been called.
		inf.check = newMutationDetector(o)
		inf.hub.entered = func(obj T) { inf.check.add(obj) }
		inf.hub.left = func(obj T) { inf.check.remove(obj) }
	}
	if d := demandOf(src); d != nil {
		inf.hub.demand = &wantedUnits[T]{Demand: d}
	}
	to := &informerTarget[T]{hub: inf.hub, opts: o, detector: inf.check, late: &inf.late}
	inf.r = newReflector(src, target[T](to), o)
	to.heard = &inf.r.recorder.lastEvent
	return inf
}

// Run follows the collection until ctx is done, and then returns nil. When it returns, all its
// goroutines are gone, no handler call is running and none will start. A second call returns an
// error that wraps [ErrStarted]. Whatever fails is retried as long as ctx is not done. Only an
// [ErrPermanent] of the source ends Run as if ctx was done: it is returned as an *[Error], and
// waits, Options.OnError and Status report it too.
func (inf *Informer[T]) Run(ctx context.Context) error {
	if !inf.hub.start() {
		return startedError(inf.r.opts.Name)
	}
	defer inf.r.opts.Board.addInformer(inf.r.opts.Name, inf.Status, inf.hub.object)()
	inf.ask() // TellDeleted may have run before
	inf.watchAge()
	if inf.hub.demand != nil {
		var end func()
		ctx, end = inf.beginDemand(ctx)
		defer end()
	}
	if inf.check != nil {
		stop := inf.check.watch()
		defer stop() // it compares once more, after the last call of a handler
	}
	// close comes after the reflector, so that nothing is written to a hub that is closed.
	teller := &request.Teller{Tell: func(a *request.Answer) error { return inf.Tell(a) }, TellDeleted: inf.TellDeleted}
	err := inf.r.Run(request.WithTeller(ctx, teller))
	inf.hub.close()
	teller.End()
	return err
}

// Store returns the copy of the collection, which is empty until it has synced. It may be read at
// any time, also after Run has returned.
func (inf *Informer[T]) Store() Reader[T] { return inf.hub.store }

// Fixture returns the store for writing, for tests of a controller whose informer does not run. No
// handler or wait learns of it; of the signals, only [Index.Changed].
func (inf *Informer[T]) Fixture() *Indexer[T] { return inf.hub.store }

func (inf *Informer[T]) indexer() *Indexer[T] { return inf.hub.store }

// AddHandler registers h, at any time. After the first list it gets the content of the store as
// Adds, and then the changes. If the informer has stopped, h is never called. AddHandler panics on
// a Handler without a function, and on one with a negative Resync.
func (inf *Informer[T]) AddHandler(h Handler[T]) *Registration { return inf.hub.addHandler(h) }

// Events returns a sequence of all changes, which begins with the content of the store as Added,
// once there is one. Each loop over it begins anew, and ends when ctx is done or the informer has
// stopped. Its body may block, and gets the net effect if it is far behind, as with a [Handler].
func (inf *Informer[T]) Events(ctx context.Context) iter.Seq[Delta[T]] { return inf.hub.events(ctx) }

// WaitForSync waits until a whole list of one state of the server is in the store, and then returns
// nil. If it fails, the error says what the informer is doing, and wraps its last failure and the
// cause of ctx or [ErrStopped]. It does not wait for handlers: see [Registration.WaitForSync].
func (inf *Informer[T]) WaitForSync(ctx context.Context) error { return inf.hub.waitForSync(ctx) }

// Synced returns a channel that is closed when the informer has synced.
func (inf *Informer[T]) Synced() <-chan struct{} { return inf.hub.synced }

// Stopped returns a channel that is closed when the informer stops. The store does not change from
// then on, and handlers are removed. [Informer.Run] returns when their last call has.
func (inf *Informer[T]) Stopped() <-chan struct{} { return inf.hub.stopped }

// WaitForResourceVersion waits until the store shows the collection as it was at version or later.
// After a write, wait for the version that the write returned: then every read shows the write.
//
// Give ctx a deadline, since a version may never come. The error wraps the cause of ctx;
// [ErrStopped]; [ErrRewound] if the server went back in time meanwhile; and the errors of
// Status.SetAside if an object on the way could not be applied. It is another one if version or
// those of the server are not decimal numbers, and so have no order.
//
// A kind that nobody serves has no version: the wait goes on until the kind is listed.
//
// That a version of which the collection is not shown an event has passed is known with a bookmark.
// A wait of more than 0.2 s asks for one, as CatchUp does: it takes one to five seconds.
func (inf *Informer[T]) WaitForResourceVersion(ctx context.Context, version string) error {
	return inf.hub.waitForResourceVersion(ctx, version, inf.asking(), inf.hub.store.ResourceVersion)
}

// CatchUp waits until the store is at least as new as the server was when CatchUp was called, and
// returns the version that the server had. Reads of the store are then as new as a list would be.
//
// The callers share requests: a list of at most one object, ten times in a second at most, in a
// goroutine of its own, also during a Watch. If the store is older and no event comes, the watch is
// resumed for three seconds. A kube-apiserver then sends a bookmark within two; a server that sends
// none takes until the next event.
//
// Give ctx a deadline. The error is as that of WaitForResourceVersion, or wraps the *[Error] of the
// list, which OnError does not get; or errors.ErrUnsupported if the source has no versions. Of a kind
// that nobody serves the version is "".
func (inf *Informer[T]) CatchUp(ctx context.Context) (version string, err error) {
	if err := inf.hub.waitForSync(ctx); err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", inf.hub.notCaughtUp(context.Cause(ctx))
	}
	hints := HintsOf(inf.r.src)
	if hints.Unserved != "" {
		return "", nil // there is nothing that the server could be newer with
	}
	if hints.Unversioned {
		return "", inf.hub.notCaughtUp(errNoVersions)
	}
	a := inf.query.Join(inf.r.serverVersion, inf.hub.spawn, inf.hub.stopped, ErrStopped)
	select {
	case <-a.Done:
	case <-ctx.Done():
		return "", inf.hub.notCaughtUp(context.Cause(ctx))
	}
	if a.Err != nil {
		return "", inf.hub.notCaughtUp(a.Err)
	}
	unserved := func() bool { return HintsOf(inf.r.src).Unserved != "" }
	if a.Version == "" && unserved() { // the kind has gone meanwhile
		return "", nil
	}
	known, first := time.Now(), inf.late.answer.Swap(a) != a
	pace.Answered(ctx)
	ask := inf.asking()
	ask.after, ask.unserved = 0, unserved
	err = inf.hub.waitForResourceVersion(ctx, a.Version, ask, inf.hub.store.ResourceVersion)
	switch {
	case err == errUnserved:
		return "", nil
	case err == nil && first:
		inf.late.took(byAsked, time.Since(known))
	}
	return a.Version, err
}

// asking returns when a wait for a version asks the source for it.
func (inf *Informer[T]) asking() asking {
	hints, ask := HintsOf(inf.r.src), asks
	if hints.Progress != nil {
		ask = progressAsks
	}
	ask.unversioned = hints.Unversioned
	return ask
}

// Status returns what the informer is doing.
func (inf *Informer[T]) Status() Status {
	s := inf.r.Status()
	s.Ahead = int(inf.hub.marks.count.Load())
	inf.late.status(&s)
	s.Objects, s.Indexes = inf.hub.store.Len(), inf.hub.store.store.IndexSizes()
	s.Handlers, s.Pending = inf.hub.handlers()
	return s
}

// Changed returns a channel that is closed at the next change of an object of keys: when it is
// stored, and when it is removed. Without keys it is closed at the next change of any object, and
// at the first list even if that is empty; a bookmark is no change. Take the channel before you
// read. Then what you have read is as it was, or the channel is closed.
//
// Every read that begins after that shows the change. A list is a change of each object that
// differs. The channel stays open, and is let go of, if ctx is done or the informer stops before
// there is a change. [WaitFor] waits for a condition, and does all this for you.
func (inf *Informer[T]) Changed(ctx context.Context, keys ...Key) <-chan struct{} {
	return inf.hub.changes.Wait(ctx, nil, keys...)
}

// An informerTarget is the target of an informer's reflector: it writes to the hub, as its only
// writer. All methods but version are called in the goroutine of Run.
type informerTarget[T Identified] struct {
	hub         *hub[T]
	opts        *Options
	detector    *mutationDetector // nil without Options.DetectMutation
	holdingBack bool              // a version has come that the store does not report
	batch       *table.Batch[T]   // of the present group; nil before the first one
	failed      []*Error          // the objects of it at which an index has panicked
	move        move[T]           // of the present group or list; its fates are empty between two
	strange     []Key             // of marks that the present list ends although it does not have their version

	late  *lateness
	heard *atomic.Int64 // statusRecorder.lastEvent
	look  int64         // from when by heard on it is looked at when an object was written

	// distrusted has the objects that stayed as they were at the last list whose equal versions
	// were not believed, because their new versions could not be used. Their resource versions may
	// be of a former epoch, so an object of now with an equal version may have other content. The
	// values are not used.
	distrusted map[Key]error
}

// apply makes the changes of g in the hub, which shows them to every read. It then decides the
// waits for a version. Handlers are woken by notify.
func (t *informerTarget[T]) apply(g *eventGroup[T], report string) {
	if t.batch == nil {
		t.batch = t.hub.store.store.NewBatch()
		if t.opts.OnPanic != nil {
			t.batch.Recover = func(key Key, v any) (drop bool) {
				t.failed = append(t.failed, t.panicked(t.indexPanic(key, v)))
				return true
			}
		}
	}
	t.move.version, t.move.report, t.move.to = g.at.version, report, g.to.number
	if t.hub.marks.count.Load() > 0 || t.hub.demand != nil && len(g.events)+len(g.kept) > 0 {
		t.plan(g)
	} else if len(g.events) == 0 && t.hub.progress(&t.move) { // a bookmark
		t.reportProgress(g.at.version, report != "")
		return
	}
	for t.put(g); !t.hub.write(t.batch, &t.move); t.put(g) {
		t.withdraw(g)
		t.plan(g)
	}
	for i := range t.move.fates {
		if since := t.move.fates[i].since; !since.IsZero() {
			t.late.took(byTold, time.Since(since))
		}
	}
	clear(t.move.fates)
	t.move.fates = t.move.fates[:0]
	g.known = true
	if t.settle(g) {
		t.reportProgress(g.at.version, report != "")
	}
}

// put fills the batch.
func (t *informerTarget[T]) put(g *eventGroup[T]) {
	for i := range g.events {
		if e := &g.events[i]; e.writes() {
			obj := e.object()
			if !equal.IsZero(obj) {
				t.enter(obj) // before it is stored, since others can change it from then on
			}
			t.batch.Put(e.key, obj)
		}
	}
}

// withdraw empties the batch, which was not written.
func (t *informerTarget[T]) withdraw(g *eventGroup[T]) {
	t.batch.Release()
	t.failed = nil
	for i := range g.events {
		if e := &g.events[i]; e.writes() && !equal.IsZero(e.object()) {
			t.leaveUnlessStored(e.object())
		}
	}
}

// settle notes in g what the batch has found, and empties the batch. It reports whether all writes
// were made.
func (t *informerTarget[T]) settle(g *eventGroup[T]) bool {
	writes := 0
	for i := range g.events {
		e := &g.events[i]
		if !e.writes() {
			continue
		}
		old := t.batch.Old(writes)
		writes++
		if !e.marked {
			e.existed = !equal.IsZero(old)
		}
		if at := t.heard.Load(); at >= t.look && e.way == wayEvent && e.ev.Type != watch.Deleted {
			t.look = at + int64(time.Second)
			t.wrote(old, e.ev.Object)
		}
		t.leave(old)
	}
	t.batch.Release()
	if len(t.failed) == 0 {
		return true
	}
	for _, err := range t.failed {
		e := g.of(err.Key)
		e.err = err
		t.leaveUnlessStored(e.object())
	}
	t.failed = nil
	return false
}

// wrote notes when obj was written, which has come in place of old.
func (t *informerTarget[T]) wrote(old, obj T) {
	if equal.IsZero(old) {
		t.late.wrote(nil, obj)
	} else {
		t.late.wrote(old, obj)
	}
}

func (t *informerTarget[T]) heldBack(version string) { t.reportProgress(version, false) }

func (t *informerTarget[T]) notify() { t.hub.notify() }

// indexPanic returns the panic v of the function of an index at the object of key. It is called
// where the panic is recovered, since it takes the stack.
func (t *informerTarget[T]) indexPanic(key Key, v any) *Panic {
	return &Panic{Informer: t.opts.Name, Handler: "index", Key: key, Value: v, Stack: debug.Stack()}
}

// panicked calls OnPanic, and returns p as an error.
func (t *informerTarget[T]) panicked(p *Panic) *Error {
	t.opts.OnPanic(p)
	return &Error{Op: opIndex, Key: p.Key, Err: p}
}

// enter, leave and leaveUnlessStored keep the mutation detector in step with the store. enter is
// called before obj is stored, leave when it no longer is, and leaveUnlessStored when it may not
// have been stored after all. Without a detector they do nothing, but for a packed object, which
// learns that it has left: it is not asked for again.
func (t *informerTarget[T]) enter(obj T) {
	if t.detector != nil {
		t.detector.add(obj)
	}
}

func (t *informerTarget[T]) leave(obj T) {
	if p, ok := any(obj).(packedObject); ok && !equal.IsZero(obj) {
		if now, ok := t.hub.store.Get(KeyOf(obj)); !ok || !equal.Same(now, obj) {
			p.left()
		}
	}
	if t.detector != nil && !equal.IsZero(obj) {
		t.detector.remove(obj)
	}
}

func (t *informerTarget[T]) leaveUnlessStored(obj T) {
	if t.detector == nil {
		return
	}
	if now, ok := t.hub.store.Get(KeyOf(obj)); !ok || !equal.Same(now, obj) {
		t.detector.forget(obj)
	}
}

// coming has the functions of the indexes called for a packed object that may be let go before it is
// written.
func (t *informerTarget[T]) coming(obj T) { t.hub.store.store.Note(obj) }

// compare works out what l changes in the store. Writers of the store wait until replace.
//
// If indexes panic, failed has an error for each object at which one did. Then no writer waits, and
// nothing has changed. The caller takes these objects out of l, and calls compare again.
func (t *informerTarget[T]) compare(l *wholeList[T]) (failed []*Error) {
	var compared []T // the objects of l, with the overlay
	var panics []*Panic
	how := table.Comparison[T]{
		Same:     func(old, new T) bool { return t.same(l, old, new) },
		Distrust: l.distrust,
		Newer:    notOlder[T],
		Keep:     func(key Key) bool { _, ok := l.keep[key]; return ok },
		Amend: func(objs []T) []T { // writers wait, so the overlay stays as it is
			compared = t.withOverlay(l, objs)
			for _, obj := range compared {
				t.enter(obj)
			}
			return compared
		},
	}
	if t.opts.OnPanic != nil {
		how.Recover = func(key Key, v any) { panics = append(panics, t.indexPanic(key, v)) }
	}
	l.staged = t.hub.store.store.Compare(l.objs, how)
	for _, p := range panics {
		failed = append(failed, t.panicked(p))
	}
	if l.staged == nil {
		for _, obj := range compared {
			t.leaveUnlessStored(obj) // the next compare enters the objects that are left
		}
	}
	return failed
}

// same reports whether new, which is in l, has the content of old.
func (t *informerTarget[T]) same(l *wholeList[T], old, new T) bool {
	_, doubted := t.distrusted[KeyOf(new)]
	return sameContent(old, new, l.distrust || doubted)
}

// replace makes l, which was compared, the store's content. See hub.commit for what is appended to
// the log.
func (t *informerTarget[T]) replace(l *wholeList[T], report string, shown func()) (duplicates []Key) {
	t.hub.commit(l.staged, l.version, report, func() {
		if l.epoch {
			t.hub.era.epochs++ // under hub.mu
		}
		at := decimal(l.version)
		t.hub.marks.opaque = at == 0
		t.hub.marks.settleLocked(at, t.move.fates)
		if t.hub.demand != nil {
			t.hub.demand.listedLocked()
		}
		shown()
	})
	clear(t.move.fates)
	t.move.fates = t.move.fates[:0]
	for _, key := range t.strange {
		t.opts.OnError(&Error{Informer: t.opts.Name, Op: opTell, Key: key, Err: errStrange})
	}
	for old := range l.staged.All() {
		if _, packed := any(old).(packedObject); !packed && t.detector == nil {
			break // nobody wants to know it
		}
		t.leave(old)
	}
	if t.detector != nil {
		// The store does not take an object whose version it has already.
		for _, obj := range l.objs {
			t.leaveUnlessStored(obj)
		}
	}
	if l.distrust {
		t.distrusted = l.keep
	}
	if l.epoch {
		t.hub.waits.fail(ErrRewound)
	}
	t.reportProgress(l.version, report == l.version)
	return l.staged.Duplicates
}

func (t *informerTarget[T]) get(key Key) (T, bool) { return t.hub.store.Get(key) }

func (t *informerTarget[T]) base(key Key) (T, bool) { return t.hub.base(key) }

// newest looks at all objects: it is called after an outage, and no event pays for it. What a test
// has written into the store is not the server's.
func (t *informerTarget[T]) newest(skip func(Key) bool) Meta {
	if t.hub.store.foreign.Load() {
		return Meta{}
	}
	content, bases := t.hub.bases()
	return newestOf(func(yield func(T) bool) {
		for obj := range content.All() {
			if _, marked := bases[KeyOf(obj)]; !marked && !yield(obj) {
				return
			}
		}
		for _, obj := range bases {
			if !equal.IsZero(obj) && !yield(obj) {
				return
			}
		}
	}, skip)
}

func (t *informerTarget[T]) version() string { return t.hub.store.ResourceVersion() }

// reportProgress notes that the reflector has read up to version, and whether the store reports
// that version. It then decides the waits. It first notes a version that is held back, because a
// wait for that version fails.
func (t *informerTarget[T]) reportProgress(version string, reported bool) {
	w := &t.hub.waits
	switch {
	case !reported && version != "":
		t.holdingBack = true
		w.hold(version)
	case t.holdingBack:
		t.holdingBack = false
		w.hold("")
	}
	if w.any() {
		w.moved(t.version(), true)
	}
}

// lend returns the object of that name for a source that decodes the next version of it, or nil.
// The store of a test may have objects that no source has decoded: they are never lent.
func (t *informerTarget[T]) lend(namespace, name string) any {
	obj, ok := t.get(Key{Namespace: namespace, Name: name})
	if !ok || t.hub.store.foreign.Load() {
		return nil
	}
	return obj
}
