package lw

import (
	"sync"

	"github.com/go-lw/lw/internal/signal"
)

// A hubCore is the part of a hub that does not depend on T: the registrations with their
// goroutines, and the waits. The compiler generates its code once, not once for each T.
type hubCore struct {
	opts    *settings
	status  func() Status           // of the hub's owner, for the errors of waits; called without a lock
	explain func(cause error) error // the error of a wait for sync; nil: that of an informer
	synced  chan struct{}           // closed when the store has its first whole content
	stopped chan struct{}           // closed by stop, before it removes the handlers
	waits   versionWaits
	changes signal.Set[Key] // see Informer.Changed

	// regMu guards the fields below. It is the first in the order of the locks: hub.mu may be taken
	// under it. No callback of the user runs under it.
	regMu sync.Mutex
	phase lifecycle
	// regs has the registrations that were not removed, each with the function that its goroutine
	// runs.
	regs map[*Registration]func()
	// running counts these goroutines. They start under regMu, so none starts after stop.
	running sync.WaitGroup
}

// A lifecycle is the phase of a hub. It only goes forward.
type lifecycle int

const (
	notStarted lifecycle = iota // handlers may be registered, but have no goroutine
	started                     // every handler has a goroutine
	ended                       // no handler can be registered any more
)

func newHubCore(opts *settings) *hubCore {
	return &hubCore{
		opts: opts, synced: make(chan struct{}), stopped: make(chan struct{}), regs: map[*Registration]func(){},
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
	for _, run := range c.regs {
		c.running.Go(run)
	}
	return true
}

// stop removes all handlers, and ends the waits with ErrStopped. It does not wait for calls that
// are running. Only hub.close calls it, once.
func (c *hubCore) stop() {
	c.regMu.Lock()
	c.phase = ended
	regs := make([]*Registration, 0, len(c.regs))
	for reg := range c.regs {
		regs = append(regs, reg)
	}
	close(c.stopped)
	c.regMu.Unlock()
	// regMu is not held here, because Remove takes it.
	for _, reg := range regs {
		reg.Remove()
	}
}

// register adds reg. It calls subscribe under regMu, and then runs run in a goroutine of its own.
// If the hub has not started, start runs it later. If the hub has stopped, register calls neither,
// and reg is removed and done at once.
func (c *hubCore) register(reg *Registration, subscribe, run func()) {
	c.regMu.Lock()
	defer c.regMu.Unlock()
	if c.phase == ended {
		reg.removed.Store(true)
		close(reg.done)
		return
	}
	subscribe()
	c.regs[reg] = run
	if c.phase == started {
		c.running.Go(run)
	}
}

// unregister removes reg from regs, if it is there. Remove calls it, and run when it ends.
//
// If the hub has not started, reg has no goroutine that could clean up. Then unregister calls run
// itself. That does not block: run finds that reg was removed, and only unsubscribes.
func (c *hubCore) unregister(reg *Registration) {
	c.regMu.Lock()
	run, ok := c.regs[reg]
	delete(c.regs, reg)
	idle := ok && c.phase == notStarted
	c.regMu.Unlock()
	if idle {
		run()
	}
}

// pending returns the number of changes that wait for the slowest handler.
func (c *hubCore) pending() (most int) {
	c.regMu.Lock()
	counts := make([]func() int, 0, len(c.regs))
	for reg := range c.regs {
		counts = append(counts, reg.pending)
	}
	c.regMu.Unlock()
	// regMu is not held here: counting takes the lock of each cursor, which may be folding for a
	// while.
	for _, count := range counts {
		most = max(most, count())
	}
	return most
}

// addHandler implements [Informer.AddHandler].
func (h *hub[T]) addHandler(handler Handler[T]) *Registration {
	handler.validate()
	reg := &Registration{
		hub:    h.hubCore,
		synced: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	r := &handlerRunner[T]{h: handler, hub: h, reg: reg}
	r.sub = &subscription[T]{
		opts:     cursorOptions{everyUpdate: handler.EveryUpdate},
		starting: func(snap *Snapshot[T]) { r.left.Store(int64(snap.Len())) },
	}
	reg.pending = r.pending
	h.register(reg, func() { h.subscribe(r.sub) }, r.run)
	return reg
}

// close removes the handlers, ends the log, and waits until no handler call is running. It is
// called once, after the hub's writer has ended.
func (h *hub[T]) close() {
	h.stop()
	h.log.Close()
	h.changes.Close() // nothing changes any more
	h.running.Wait()
}
