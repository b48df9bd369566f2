package lw

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-lw/lw/internal/table/signal"
	"github.com/go-lw/lw/internal/why/names"
)

// A hubCore is the part of a hub that does not depend on T: the registrations with their
// goroutines, and the waits. The compiler generates its code once, not once for each T.
type hubCore struct {
	opts    *Options
	status  func() Status                              // of the hub's owner, for the errors of waits; called without a lock
	explain func(cause error) error                    // the error of a wait for sync; nil: that of an informer
	hasten  func(version string) (again time.Duration) // has an informer learn of a version soon; nil: nothing can
	needs   iter.Seq[*hubCore]                         // the hubs that must sync before that of a derived collection; nil: none
	refuses func() error                               // why the calling goroutine cannot wait for the hub; nil: any can
	doing   func() string                              // what the owner does, for the errors of waits; nil: nothing to say
	synced  chan struct{}                              // closed when the store has its first whole content
	stopped chan struct{}                              // closed by stop, before it removes the handlers
	waits   versionWaits
	changes signal.Set[Key] // see Informer.Changed

	// regMu guards the fields below. It is the first in the order of the locks: hub.mu may be taken
	// under it. No callback of the user runs under it.
	regMu sync.Mutex
	phase lifecycle
	regs  map[*Registration]struct{} // those that were not removed
	names names.Set                  // of regs
	added int                        // how many were ever registered
	// running counts these goroutines, for a derived collection those of its graph. They start under
	// regMu, so none starts after stop.
	running *sync.WaitGroup
}

// A lifecycle is the phase of a hub. It only goes forward.
type lifecycle int

const (
	notStarted lifecycle = iota // handlers may be registered, but have no goroutine
	started                     // every handler has a goroutine
	ended                       // no handler can be registered any more
)

func newHubCore(opts *Options) *hubCore {
	return &hubCore{
		opts: opts, synced: make(chan struct{}), stopped: make(chan struct{}), regs: map[*Registration]struct{}{}, running: new(sync.WaitGroup),
	}
}

// start starts the goroutines of the handlers that were registered before. It returns false, and
// does nothing, unless it is the first call.
func (c *hubCore) start() bool {
	c.regMu.Lock()
	defer c.regMu.Unlock()
	if c.phase != notStarted {
		return false
	}
	c.phase = started
	for reg := range c.regs {
		c.running.Go(reg.runner.run)
	}
	return true
}

// runs reports whether the hub has started and has not stopped.
func (c *hubCore) runs() bool {
	c.regMu.Lock()
	defer c.regMu.Unlock()
	return c.phase == started
}

// spawn runs f in a goroutine that close waits for. It returns false, and does not run f, unless
// the hub has started and has not stopped.
func (c *hubCore) spawn(f func()) bool {
	c.regMu.Lock()
	defer c.regMu.Unlock()
	if c.phase != started {
		return false
	}
	c.running.Go(f)
	return true
}

// stop removes all handlers, and ends the waits with ErrStopped. It does not wait for calls that
// are running. Only hub.close calls it, once.
func (c *hubCore) stop() {
	c.regMu.Lock()
	c.phase = ended
	regs := slices.Collect(maps.Keys(c.regs))
	close(c.stopped)
	c.regMu.Unlock()
	// regMu is not held here, because Remove takes it.
	for _, reg := range regs {
		reg.Remove()
	}
}

// register adds reg, as a handler of that name. It calls subscribe under regMu, and then runs the
// runner in a goroutine of its own. If the hub has not started, start runs it later. If the hub has
// stopped, register calls neither, and reg is removed and done at once.
func (c *hubCore) register(reg *Registration, name string, subscribe func()) {
	c.regMu.Lock()
	defer c.regMu.Unlock()
	if c.phase == ended {
		reg.removed.Store(true)
		close(reg.done)
		return
	}
	subscribe()
	reg.base, reg.number = name, c.added
	c.added++
	reg.name, reg.alike = c.names.Take(name)
	c.regs[reg] = struct{}{}
	if c.phase == started {
		c.running.Go(reg.runner.run)
	}
}

// unregister removes reg from regs, if it is there. Remove calls it, and run when it ends.
//
// If the hub has not started, reg has no goroutine that could clean up. Then unregister calls run
// itself. That does not block: run finds that reg was removed, and only unsubscribes.
func (c *hubCore) unregister(reg *Registration) {
	c.regMu.Lock()
	_, ok := c.regs[reg]
	if ok {
		delete(c.regs, reg)
		c.names.Release(reg.base, reg.alike)
	}
	idle := ok && c.phase == notStarted
	c.regMu.Unlock()
	if idle {
		reg.runner.run()
	}
}

// handlers returns the status of each handler, in the order in which they were registered, and the
// number of changes that wait for the slowest of them. It asks each without regMu: that takes the
// lock of its cursor, which may be folding for a while.
func (c *hubCore) handlers() (_ []HandlerStatus, slowest int) {
	c.regMu.Lock()
	regs, all := slices.Collect(maps.Keys(c.regs)), []HandlerStatus{}
	c.regMu.Unlock()
	slices.SortFunc(regs, func(a, b *Registration) int { return a.number - b.number })
	for _, reg := range regs {
		s := reg.status()
		all, slowest = append(all, s), max(slowest, s.Pending)
	}
	return all, slowest
}

// addHandler implements [Informer.AddHandler].
func (h *hub[T]) addHandler(handler Handler[T]) *Registration {
	handler.validate(h.opts.Logger)
	reg := &Registration{
		hub:    h.hubCore,
		synced: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	r := &handlerRunner[T]{h: handler, hub: h, reg: reg}
	r.sub = &subscription[T]{
		opts:     cursorOptions{everyUpdate: handler.EveryUpdate, skipTold: handler.SkipTold, timing: true},
		starting: func(snap *Snapshot[T]) { r.left.Store(int64(snap.Len())) },
	}
	reg.runner = r
	h.register(reg, handler.Name, func() { h.subscribe(r.sub) })
	return reg
}

// close removes the handlers, ends the log, and waits until no handler call is running. It is
// called once, after the hub's writer has ended.
func (h *hub[T]) close() {
	h.mu.Lock()
	h.marks.over = true
	h.mu.Unlock()
	h.stop()
	h.log.close()
	h.changes.Close() // nothing changes any more
	h.running.Wait()
}

// events implements [Informer.Events]. Each loop over the sequence has a subscription of its own,
// which ends with the loop. Unlike a handler it needs no goroutine: the loop itself reads the
// cursor. The sequence ends when the loop is left, ctx is done, or the hub has stopped.
func (h *hub[T]) events(ctx context.Context) iter.Seq[Delta[T]] {
	return func(yield func(Delta[T]) bool) {
		s := &subscription[T]{}
		h.subscribe(s)
		defer h.unsubscribe(s)
		select {
		case <-s.started:
		case <-h.stopped:
			return
		case <-ctx.Done():
			return
		}
		// over reports whether the sequence must end. It is called before each yield, so that
		// changes that still wait do not keep the loop going.
		over := func() bool { return ctx.Err() != nil || isClosed(h.stopped) }
		first := Delta[T]{Type: Added, Cause: CauseInitial, Initial: true, ResourceVersion: s.snapshot.ResourceVersion()}
		for first.New = range s.snapshot.All() {
			if over() || !yield(first) {
				return
			}
		}
		s.snapshot = nil // only needed until its objects are yielded
		for {
			part, _, err := s.cursor.next(ctx)
			if err != nil {
				return
			}
			for _, d := range part {
				if over() || !yield(d) {
					return
				}
			}
		}
	}
}
