package main

//lint:file-ignore ST1005 The errors begin with the names of methods.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/judge"
)

// A Thing is an object of the servers.
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int    `json:"size"`
		Text string `json:"text,omitempty"`
	} `json:"spec"`
}

// hash returns the hash of all fields of t.
func hash(t *Thing) uint64 {
	return judge.Hash(t.Namespace, t.Name, string(t.UID), t.ResourceVersion, strconv.Itoa(t.Spec.Size), t.Spec.Text)
}

// shape is the size of a world, and how fast things happen in it.
type shape struct {
	names    int           // the largest number of objects
	pauses   time.Duration // the longest pause between two steps
	reads    time.Duration // the longest pause between two reads of a reader
	watch    time.Duration // the longest Options.WatchTimeout, less 2 seconds
	patience time.Duration // how long the informers may take to catch up after the faults
}

// A world is a server, two informers that follow it over HTTP, and their readers, handlers and
// waits. One goroutine calls step, settle and stop.
type world struct {
	shape
	rnd    *rand.Rand // used only by the goroutine that calls step
	server *apiserver.Server
	things *apiserver.Collection
	truth  *judge.Truth
	inf    *lw.Informer[*Thing]
	other  *lw.Informer[*Thing] // follows the same server; its handler blocks until the end
	sizes  *lw.Index[int, *Thing]
	tally  *tally
	trace  func(format string, args ...any)

	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup // the readers and the waits
	blocked  chan struct{}  // closed at the end, to free the handler of other
	stopped  sync.WaitGroup // both calls of Run
	handlers []*handler

	mu         sync.Mutex
	violations []error // guarded by mu
}

// A handler of inf, with its story. Each call first waits for the gate.
type handler struct {
	*judge.Story[*Thing]
	reg    *lw.Registration
	gate   atomic.Pointer[chan struct{}] // calls go on when this channel is closed
	closed bool
}

func newWorld(rnd *rand.Rand, sh shape, tally *tally, trace func(string, ...any)) *world {
	w := &world{shape: sh, rnd: rnd, tally: tally, trace: trace, blocked: make(chan struct{})}
	w.server = apiserver.New(apiserver.Options{
		Resources: []apiserver.Resource{{Group: "example.com", Resource: "things", Kind: "Thing"}},
		Window:    2000,
	})
	w.things = w.server.Collection("things")
	w.truth = judge.New(w.server.Line.Version(), 4000)
	for range rnd.IntN(sh.names + 1) {
		w.put()
	}
	w.inf, w.other = w.follow(), w.follow()
	w.other.AddHandler(lw.Handler[*Thing]{Add: func(*Thing) { <-w.blocked }})
	w.sizes = lw.NewIndex(w.inf, func(t *Thing) int { return t.Spec.Size })
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for _, inf := range []*lw.Informer[*Thing]{w.inf, w.other} {
		w.stopped.Go(func() {
			if err := inf.Run(w.ctx); err != nil {
				w.fail(fmt.Errorf("Run: %w", err))
			}
		})
	}
	for range 2 {
		seed := rnd.Uint64()
		w.running.Go(func() { w.read(rand.New(rand.NewPCG(seed, 0))) })
	}
	return w
}

// follow returns an informer of the server.
func (w *world) follow() *lw.Informer[*Thing] {
	source := &lw.HTTP[*Thing]{URL: w.server.URL("things", ""), Client: w.server.Client()}
	return lw.NewInformer(source, &lw.Options{
		List:         lw.ListMode(w.rnd.IntN(4)),
		PageSize:     1 + w.rnd.Int64N(int64(w.names)),
		WatchTimeout: 2*time.Second + upTo(w.rnd, w.watch),
		OnError: func(err error) {
			w.tally.errors.Add(1)
			w.trace("informer: %v", err)
		},
	})
}

// fail records a violation, which ends the soak.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, err)
	w.trace("violation: %v", err)
}

func (w *world) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.violations...)
}

// step makes one write, fault, change of the handlers, or pause.
func (w *world) step() {
	switch n := w.rnd.IntN(100); {
	case n < 45:
		w.put()
	case n < 60:
		w.remove()
	case n < 64:
		w.remove()
		w.put()
	case n < 76:
		f := faults[w.rnd.IntN(len(faults))]
		w.tally.fault(f.name)
		w.trace("fault: %s", f.name)
		f.do(w)
	case n < 80:
		w.addHandler()
	case n < 82:
		w.removeHandler()
	case n < 84:
		w.toggleHandler()
	case n < 86:
		w.wait()
	default:
		w.pause(w.pauses)
	}
}

func (w *world) pause(most time.Duration) {
	// Mostly short pauses: events that come close together find more mistakes.
	d := upTo(w.rnd, most)
	if w.rnd.IntN(4) > 0 {
		d /= 100
	}
	w.sleep(d)
}

// sleep pauses for d, or until the world is stopped.
func (w *world) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.ctx.Done():
	}
}

func (w *world) key() types.NamespacedName {
	n := w.rnd.IntN(w.names)
	return types.NamespacedName{Namespace: fmt.Sprint("ns", n%3), Name: fmt.Sprint("thing", n)}
}

// put creates or updates an object.
func (w *world) put() (version uint64) {
	thing := &Thing{}
	key := w.key()
	thing.Namespace, thing.Name = key.Namespace, key.Name
	thing.Spec.Size = w.rnd.IntN(5)
	thing.Spec.Text = strconv.Itoa(w.rnd.IntN(1000))
	return w.truth.Write(key.String(), func() (uint64, uint64) {
		before := w.server.Line.Version()
		obj, err := w.things.Create(thing)
		if err != nil {
			obj, err = w.things.Update(thing)
		}
		if err != nil {
			// A mistake of the test server, not of the informer.
			panic(fmt.Sprintf("soak: put %v: %v", key, err))
		}
		if obj.Version <= before {
			return 0, 0 // an update that changes nothing
		}
		thing.UID, thing.ResourceVersion = obj.UID, strconv.FormatUint(obj.Version, 10)
		w.trace("server: put %v at %d", key, obj.Version)
		return obj.Version, hash(thing)
	})
}

// remove deletes an object, if it exists.
func (w *world) remove() {
	key := w.key()
	w.truth.Write(key.String(), func() (uint64, uint64) {
		obj, err := w.things.Delete(key)
		if err != nil {
			return 0, 0 // the object does not exist
		}
		w.trace("server: remove %v at %d", key, obj.Version)
		return obj.Version, 0
	})
}

// read compares the store with the server until the end. It reads less often while the version does
// not change.
func (w *world) read(rnd *rand.Rand) {
	seen, most := "", w.reads
	for w.ctx.Err() == nil {
		r := w.truth.Begin()
		snap := w.inf.Store().Snapshot()
		if err := w.truth.End(r, snap.ResourceVersion(), stateOf(snap.All())); err != nil {
			w.fail(err)
			return
		}
		if version := snap.ResourceVersion(); version != seen {
			seen, most = version, w.reads
		} else {
			most = min(2*most, time.Minute)
		}
		w.sleep(upTo(rnd, most))
	}
}

func stateOf(things iter.Seq[*Thing]) (state judge.State) {
	for t := range things {
		state.Add(hash(t))
	}
	return state
}

// addHandler adds a handler to inf. If there are six already it removes one first.
func (w *world) addHandler() {
	if len(w.handlers) >= 6 {
		w.removeHandler()
	}
	h := &handler{Story: judge.NewStory[*Thing](w.fail)}
	if _, _, epoch := w.truth.Now(); epoch > 0 {
		h.Rewound()
	}
	open := make(chan struct{})
	close(open)
	h.gate.Store(&open)
	var slow time.Duration
	if w.rnd.IntN(4) == 0 {
		slow = upTo(w.rnd, w.pauses/1000)
	}
	enter := func() {
		<-*h.gate.Load()
		if slow > 0 {
			w.sleep(slow)
		}
	}
	h.reg = w.inf.AddHandler(lw.Handler[*Thing]{
		Add:         func(t *Thing) { enter(); h.Add(t) },
		Update:      func(old, t *Thing) { enter(); h.Update(old, t) },
		Delete:      func(t *Thing) { enter(); h.Delete(t) },
		EveryUpdate: w.rnd.IntN(2) == 0,
	})
	w.handlers = append(w.handlers, h)
}

// removeHandler removes a handler. It must not be called any more when Done is closed.
func (w *world) removeHandler() {
	if len(w.handlers) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.handlers))
	h := w.handlers[i]
	h.open()
	h.reg.Remove()
	<-h.reg.Done()
	calls := h.Calls()
	w.sleep(time.Millisecond)
	if h.Calls() != calls {
		w.fail(errors.New("a handler was called after it was done"))
	}
	w.tally.calls.Add(calls)
	w.handlers = append(w.handlers[:i], w.handlers[i+1:]...)
}

// toggleHandler blocks the calls of a handler, or lets them go on if they are blocked.
func (w *world) toggleHandler() {
	if len(w.handlers) == 0 {
		return
	}
	h := w.handlers[w.rnd.IntN(len(w.handlers))]
	if h.closed {
		h.open()
		return
	}
	gate := make(chan struct{})
	h.gate.Store(&gate)
	h.closed = true
}

// open lets blocked calls go on.
func (h *handler) open() {
	if h.closed {
		close(*h.gate.Load())
		h.closed = false
	}
}

// wait makes a write and waits, in a goroutine, until inf shows it. Reads after that must be at
// least as new.
func (w *world) wait() {
	version := w.put()
	if version == 0 {
		return
	}
	_, _, epoch := w.truth.Now()
	w.running.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, w.patience)
		defer cancel()
		if w.inf.WaitForResourceVersion(ctx, strconv.FormatUint(version, 10)) != nil {
			return // a fault, a rewind or the end of the world; settle checks that inf catches up
		}
		got, err := strconv.ParseUint(w.inf.Store().ResourceVersion(), 10, 64)
		if _, _, now := w.truth.Now(); now == epoch && (err != nil || got < version) {
			w.fail(fmt.Errorf("a wait for version %d ended at %d (%v)", version, got, err))
		}
	})
}

// settle ends all faults and waits until the informers and the handlers have caught up. Then it
// compares the index with the store.
func (w *world) settle() {
	w.trace("settle")
	w.server.Clear()
	w.server.SetDown(true) // breaks what is stalled
	w.server.SetDown(false)
	for _, h := range w.handlers {
		h.open()
	}
	deadline := time.Now().Add(w.patience)
	for {
		err := w.behind()
		if err == nil {
			break
		}
		if time.Now().After(deadline) || w.ctx.Err() != nil {
			w.fail(fmt.Errorf("%v after the faults: %w; %+v", w.patience, err, w.inf.Status()))
			return
		}
		w.sleep(w.patience / 500)
	}
	w.truth.Settled()
	bySize := map[int]int{}
	for t := range w.inf.Store().All() {
		bySize[t.Spec.Size]++
	}
	for size := range 5 {
		if n := w.sizes.Len(size); n != bySize[size] {
			w.fail(fmt.Errorf("the index has %d things of size %d, the store %d", n, size, bySize[size]))
		}
	}
}

// behind returns an error that says what has not caught up with the server, or nil.
func (w *world) behind() error {
	version, state, _ := w.truth.Now()
	for _, inf := range []*lw.Informer[*Thing]{w.inf, w.other} {
		snap := inf.Store().Snapshot()
		at, err := strconv.ParseUint(snap.ResourceVersion(), 10, 64)
		switch {
		case err != nil:
			return fmt.Errorf("the store: %w", err)
		case at < version || at > w.server.Line.Version():
			return fmt.Errorf("the store is at version %d, the server at %d", at, version)
		case stateOf(snap.All()) != state:
			return fmt.Errorf("the store at version %d has other objects than the server at %d", at, version)
		}
	}
	for i, h := range w.handlers {
		if h.reg.Pending() != 0 || h.State(hash) != state {
			return fmt.Errorf("handler %d of %d has %d changes to come, or adds up to another state", i+1, len(w.handlers), h.reg.Pending())
		}
	}
	return nil
}

// stop stops the informers, which must not take long, and then the server.
func (w *world) stop() {
	for _, h := range w.handlers {
		h.open()
		w.tally.calls.Add(h.Calls())
	}
	began := time.Now()
	w.cancel()
	close(w.blocked)
	w.stopped.Wait()
	if d := time.Since(began); d > 5*time.Second {
		w.fail(fmt.Errorf("Run returned %v after its context was done", d))
	}
	w.running.Wait()
	w.server.Close()
	w.tally.reads.Add(w.truth.Judged())
}

// upTo returns a random duration in [0, d).
func upTo(rnd *rand.Rand, d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }
