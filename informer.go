package lw

import (
	"context"
	"iter"
	"sync"

	"github.com/go-lw/lw/internal/table"
)

// An Informer keeps a typed, indexed copy of a collection in step with its [Source], and tells handlers of every change.
//
// The objects that it hands out, by reads and to handlers, are shared by all and must not be changed; copy one before.
type Informer[T Object] struct {
	*informerCore
	r     *Reflector[T]
	store *Indexer[T]
	log   *FIFO[T]
	check *mutationDetector[T] // nil: not asked for

	// mu is held while the store and the log change together: who holds it sees both at one point. Nothing of a user's runs
	// under it.
	mu      sync.Mutex
	waiting []*feed[T] // consumers that came before the first list; guarded by mu
}

// informerCore is what of an informer does not depend on T.
type informerCore struct {
	opts    *Options
	status  func() Status
	synced  chan struct{} // closed when the first whole list is in the store
	stopped chan struct{} // closed when Run is about to return
	waits   versionWaits

	regMu   sync.Mutex
	phase   lifecycle                // guarded by regMu, as all below
	regs    map[*Registration]func() // with what runs in the handler's goroutine
	running sync.WaitGroup           // of these goroutines; they are started under regMu
}

type lifecycle int

const (
	notStarted lifecycle = iota
	started
	ended
)

// NewInformer returns an informer of src's collection, which does nothing until [Informer.Run]. It panics if src is nil.
func NewInformer[T Object](src Source[T], opts *Options) *Informer[T] {
	if isNil(src) {
		panic("lw: NewInformer: nil source")
	}
	o := opts.withDefaults(typeName[T]())
	inf := &Informer[T]{
		informerCore: &informerCore{
			opts: o, synced: make(chan struct{}), stopped: make(chan struct{}), regs: map[*Registration]func(){},
		},
		log: NewFIFO[T](),
	}
	inf.store = &Indexer[T]{store: table.NewOwned(KeyOf[T], stampOf[T], &inf.mu)}
	inf.r = newReflector(src, target[T](&informerTarget[T]{inf: inf}), o)
	inf.status = inf.Status
	if o.DetectMutation {
		inf.check = newMutationDetector[T](o)
	}
	return inf
}

// Run follows the collection until ctx is done, and then returns nil: with all goroutines gone, after the handler calls that
// run have returned, and with no call to come. Whatever fails is tried again for as long as that. Only what can never work ends
// Run before, as cancel does, with an *[Error] that is an [ErrPermanent]: a URL or a selector that does not parse, a field to
// drop that T does not have, a T that is no pointer to a struct. Waits, Options.OnError and Status say it too. A second call
// returns [ErrStarted].
func (inf *Informer[T]) Run(ctx context.Context) error {
	if !inf.start() {
		return ErrStarted
	}
	if inf.check != nil {
		stop := inf.check.watch()
		defer stop()
	}
	err := inf.r.Run(ctx)
	inf.stop()
	inf.log.Close()
	inf.running.Wait()
	return err
}

// start lets the handlers that wait begin.
func (c *informerCore) start() bool {
	c.regMu.Lock()
	defer c.regMu.Unlock()
	if c.phase != notStarted {
		return false
	}
	c.phase = started
	for _, run := range c.regs {
		c.running.Go(run)
	}
	return true
}

// stop removes all handlers, without waiting for calls that run.
func (c *informerCore) stop() {
	c.regMu.Lock()
	c.phase = ended
	regs := make([]*Registration, 0, len(c.regs))
	for reg := range c.regs {
		regs = append(regs, reg)
	}
	close(c.stopped)
	c.regMu.Unlock()
	for _, reg := range regs {
		reg.Remove()
	}
}

// forget removes reg from the list. A handler that has no goroutine yet is run here: it has been removed, so that all it does
// is to let go of what it holds.
func (c *informerCore) forget(reg *Registration) {
	c.regMu.Lock()
	run, ok := c.regs[reg]
	delete(c.regs, reg)
	waits := ok && c.phase == notStarted
	c.regMu.Unlock()
	if waits {
		run()
	}
}

// Store returns the copy of the collection. It is empty until the informer has synced.
func (inf *Informer[T]) Store() Reader[T] { return inf.store }

func (inf *Informer[T]) indexer() *Indexer[T] { return inf.store }

// AddHandler registers h, before Run or at any time after. A handler that is added after the first list begins with the store's
// content, then is told what changes; joining takes the informer constant time. After the informer has stopped it returns a
// registration that is done. It panics on a Handler without a function.
func (inf *Informer[T]) AddHandler(h Handler[T]) *Registration {
	h.validate()
	reg := &Registration{
		informer: inf.informerCore,
		synced:   make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	c := &caller[T]{h: h, inf: inf, reg: reg, feed: &feed[T]{opts: cursorOptions{everyUpdate: h.EveryUpdate}}}
	reg.pending = c.pending
	c.feed.joining = func(snap *Snapshot[T]) { c.left.Store(int64(snap.Len())) }
	c.feed.joined = make(chan struct{})

	inf.regMu.Lock()
	defer inf.regMu.Unlock()
	if inf.phase == ended {
		reg.removed.Store(true)
		close(reg.done)
		return reg
	}
	inf.join(c.feed)
	inf.regs[reg] = c.run
	if inf.phase == started {
		inf.running.Go(c.run)
	}
	return reg
}

// leave lets go of what a handler that is gone has held.
func (inf *Informer[T]) leave(c *caller[T]) {
	inf.forget(c.reg)
	inf.part(c.feed)
}

// join gives f a snapshot and the changes after it: now, or at the first list.
func (inf *Informer[T]) join(f *feed[T]) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	select {
	case <-inf.synced:
		inf.joinLocked(f)
	default:
		inf.waiting = append(inf.waiting, f)
	}
}

func (inf *Informer[T]) joinLocked(f *feed[T]) {
	f.snap, f.cursor = inf.store.snapshotLocked(), inf.log.subscribe(f.opts)
	if f.joining != nil {
		f.joining(f.snap)
	}
	close(f.joined)
}

// part ends what join began.
func (inf *Informer[T]) part(f *feed[T]) {
	inf.mu.Lock()
	inf.waiting = without(inf.waiting, f)
	inf.mu.Unlock()
	select {
	case <-f.joined:
		f.cursor.Close()
	default:
	}
}

// cut returns what waits at c and the store's content as of one point, which is the log's position at.
func (inf *Informer[T]) cut(c *Cursor[T]) (waiting []Delta[T], snap *Snapshot[T], at uint64) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	for poll := c.poll; ; poll = c.pollMore {
		part, _, err := poll()
		waiting = append(waiting, part...)
		if err != nil || len(part) == 0 && c.Pending() == 0 {
			return waiting, inf.store.snapshotLocked(), inf.log.position()
		}
	}
}

// Events returns a sequence of all changes, beginning with the content of the store (or of the first list) as Added. Each
// iteration begins anew, and goes on until ctx is done, the informer has stopped, or its loop ends. As with a handler, a loop
// that is more than 1024 changes behind sees the net effect of those that wait.
func (inf *Informer[T]) Events(ctx context.Context) iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		f := &feed[T]{joined: make(chan struct{})}
		inf.join(f)
		defer inf.part(f)
		select {
		case <-f.joined:
		case <-inf.stopped:
			return
		case <-ctx.Done():
			return
		}
		// What is there to be read does not keep the loop going once it is to end.
		over := func() bool { return ctx.Err() != nil || isClosed(inf.stopped) }
		for obj := range f.snap.All() {
			if over() || !yield(Event[T]{Type: Added, New: obj, Initial: true, Cause: Initial}) {
				return
			}
		}
		f.snap = nil
		for {
			part, _, err := f.cursor.next(ctx)
			if err != nil {
				return
			}
			for _, d := range part {
				if over() || !yield(Event[T]{Type: d.Type, Old: d.Old, New: d.New, Initial: d.Initial, Cause: d.Cause}) {
					return
				}
			}
		}
	}
}

// Status returns what the informer is doing.
func (inf *Informer[T]) Status() Status {
	s := inf.r.Status()
	s.Objects = inf.store.Len()
	inf.regMu.Lock()
	pending := make([]func() int, 0, len(inf.regs))
	for reg := range inf.regs {
		pending = append(pending, reg.pending)
	}
	inf.regMu.Unlock()
	for _, f := range pending {
		s.Pending = max(s.Pending, f())
	}
	return s
}
