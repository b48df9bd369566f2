package lw

import "sync"

// A hubCore is what of a hub does not depend on T, so that the compiler makes it once and not for each type: the registrations
// with their goroutines, and the waits.
type hubCore struct {
	opts    *Options
	status  func() Status // what the hub's owner says of it in the errors of waits
	synced  chan struct{} // closed when the first whole content is in the store
	stopped chan struct{} // closed when the handlers are about to be removed
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

func newHubCore(opts *Options) *hubCore {
	return &hubCore{
		opts: opts, synced: make(chan struct{}), stopped: make(chan struct{}), regs: map[*Registration]func(){},
	}
}

// start lets the handlers that were registered before it run. It returns false unless it is the first call.
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

// stop removes all handlers, without waiting for calls that run.
func (c *hubCore) stop() {
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

// register runs run in a goroutine of its own, from start on, until reg is removed. It calls subscribe first, unless the hub
// has stopped: then reg is done at once.
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

// unregister forgets reg. Before start reg has no goroutine, so run is called here: reg has been removed, and all that run does
// is to release what reg holds.
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

// pending returns how many changes wait for the slowest handler.
func (c *hubCore) pending() (most int) {
	c.regMu.Lock()
	counts := make([]func() int, 0, len(c.regs))
	for reg := range c.regs {
		counts = append(counts, reg.pending)
	}
	c.regMu.Unlock()
	for _, count := range counts {
		most = max(most, count())
	}
	return most
}

// addHandler registers h, whose calls are made by a goroutine of its own.
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

// close ends the hub: it removes the handlers, ends the log, and waits for the handler calls that run.
func (h *hub[T]) close() {
	h.stop()
	h.log.Close()
	h.running.Wait()
}
