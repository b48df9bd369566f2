package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// A world is a server, an informer, and the record of both.
type world struct {
	server   partServer
	log      *oracle.Log
	seq      bool // after each command all is done that it led to
	mode     lw.ListMode
	selector string
	turns    bool // with a transform
	down     bool // the server refuses everything
	injected []string
	lags     int // faults that show older states, since all was settled
	restored int // when the server began to be overtaken, if it was since all was settled
	lateBy   lateness
	old      []*answer // that the copy was told of, or could have been
	flood    bool      // so much was written since then that a handler that comes now may be told of it as the net effect

	copy    int
	inf     *lw.Informer[*Part]
	cancel  context.CancelFunc
	done    chan struct{}
	ran     error
	session string
	byGroup *lw.Index[string, *Part]
	late    []*lw.Index[int, *Part]
	told    []*listening
	held    []heldParts
	graphed bool // each copy has a graph over it
	graph   *watched
	begun   int // handlers so far
	waiting sync.WaitGroup

	last map[lw.Key]*Part // what the server has

	transacted atomic.Bool // a write has changed several objects at one version

	mu     sync.Mutex
	byName map[string]*oracle.Handler // guarded by mu
}

type heldParts struct {
	name string
	copy int
	snap *lw.Snapshot[*Part]
}

func newWorld(rt *rapid.T, server partServer) *world {
	w := &world{server: server, log: oracle.New(), last: map[lw.Key]*Part{}, byName: map[string]*oracle.Handler{}}
	w.seq = !rapid.Bool().Draw(rt, "concurrent")
	w.mode = rapid.SampledFrom([]lw.ListMode{lw.ListWhole, lw.ListPages, lw.ListAuto, lw.ListStream}).Draw(rt, "mode")
	w.selector = rapid.SampledFrom([]string{"", "group=x"}).Draw(rt, "selector")
	w.turns = rapid.Bool().Draw(rt, "transform")
	for i := range rapid.IntRange(0, 4).Draw(rt, "preload") {
		w.put(fmt.Sprintf("%c", 'a'+i), "x", i)
	}
	w.graphed = rapid.Bool().Draw(rt, "graph")
	w.start()
	return w
}

// A transform that leaves out parts of one size and cannot read those of another.
const (
	sizeLeftOut = 7
	sizeBad     = 8
	turned      = 100
)

func (w *world) transform(p *Part) (*Part, error) {
	w.log.Turns(p)
	switch p.Size {
	case sizeLeftOut:
		return nil, nil
	case sizeBad:
		return nil, errors.New("cannot read it")
	}
	p.Size += turned
	return p, nil
}

// expect is what a write is to an informer.
func (w *world) expect(p *Part, version uint64) oracle.Write {
	out := oracle.Write{Version: version, Key: lw.KeyOf(p)}
	if w.selector != "" && p.Group != "x" {
		return out
	}
	own := *p
	switch {
	case p.Size == sizeBroken:
		out.Bad = true
		return out
	case w.turns && p.Size == sizeBad:
		out.Bad = true
		return out
	case w.turns && p.Size == sizeLeftOut:
		return out
	case w.turns:
		own.Size += turned
	}
	out.Item = describe(&own)
	out.Item.Ref = nil
	return out
}

// start begins a new copy of the collection.
func (w *world) start() {
	w.copy++
	w.session = fmt.Sprintf("the main session of copy %d", w.copy)
	number := w.copy
	var src lw.Source[*Part] = &recorded{src: w.server.source(), log: w.log, copy: number, transform: w.turns,
		late: &w.lateBy}
	if w.selector != "" {
		src = lw.WithListOptions(src, func(o *metav1.ListOptions) { o.LabelSelector = w.selector })
	}
	if w.turns {
		src = lw.Transform(src, w.transform)
	}
	w.inf = lw.NewInformer(src, &lw.Options{
		List: w.mode, PageSize: 2, WatchTimeout: time.Minute,
		OnError: func(err error) {
			w.log.Reports(oracle.Report{Copy: number, Err: err, Rewound: errors.Is(err, lw.ErrRewound)})
		},
		OnPanic: func(p *lw.Panic) {
			w.mu.Lock()
			h := w.byName[p.Handler]
			w.mu.Unlock()
			if h != nil && errors.Is(p, errHandlerPanics) {
				h.Recovers()
			}
		},
	})
	w.byGroup = lw.NewIndex(w.inf, func(p *Part) string { return p.Group })
	w.late = nil
	first := w.listen(oracle.Handler{First: true, Lossless: true})
	h := first.handler()
	h.EveryUpdate, first.every = true, true
	w.register(first, h)
	if w.graphed {
		w.graph = w.watch()
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.done = make(chan struct{})
	inf, done := w.inf, w.done
	go func() {
		defer close(done)
		w.ran = inf.Run(ctx)
	}()
}

// listen makes a handler that is not registered yet.
func (w *world) listen(o oracle.Handler) *listening {
	w.begun++
	o.Name, o.Copy = fmt.Sprintf("handler %d", w.begun), w.copy
	o.Before = w.inf.Store().ResourceVersion()
	l := &listening{inf: w.inf, byGroup: w.byGroup, log: w.log, whole: &w.transacted, o: w.log.Handlers(o)}
	w.mu.Lock()
	w.byName[o.Name] = l.o
	w.mu.Unlock()
	w.told = append(w.told, l)
	return l
}

func (w *world) register(l *listening, h lw.Handler[*Part]) {
	l.reg = w.inf.AddHandler(h)
	l.o.Registered()
}

// stop ends the copy, and checks that it ends.
func (w *world) stop() {
	if w.graph != nil && w.copy%2 == 0 {
		w.graph.stop() // before the copy; else after it
	}
	call, at := w.log.Tick(), time.Now()
	w.cancel()
	for _, l := range w.told {
		l.open()
	}
	within(w.done, "Run to return")
	w.log.Stops(oracle.Stop{Copy: w.copy, Call: call, Took: time.Since(at)})
	if w.ran != nil {
		panic(fmt.Sprintf("Run: %v", w.ran))
	}
	for _, l := range w.told {
		if l.reg == nil {
			within(l.done, "a loop over Events to end")
		} else {
			within(l.reg.Done(), "a handler to be done")
		}
	}
	if err := w.inf.Run(context.Background()); !errors.Is(err, lw.ErrStarted) {
		panic(fmt.Sprintf("a second Run: %v", err))
	}
	reg := w.inf.AddHandler(lw.Handler[*Part]{Add: func(*Part) { panic("a handler was called that came after the end") }})
	within(reg.Done(), "a handler that came after the end to be done")
	if err := reg.WaitForSync(context.Background()); !errors.Is(err, lw.ErrStopped) && !errors.Is(err, nil) {
		panic(fmt.Sprintf("a handler that came after the end: %v", err))
	}
	w.told = nil
	if w.graph != nil && w.copy%2 != 0 {
		w.graph.stop()
	}
	w.graph = nil
}

// end stops everything, also when a command has failed.
func (w *world) end() {
	w.server.clear()
	w.stop()
	w.waiting.Wait()
	w.server.close()
	synctest.Wait()
}

// within waits for c for an hour, in which time nothing may happen: then something hangs.
func within(c <-chan struct{}, what string) {
	select {
	case <-c:
	case <-time.After(time.Hour):
		panic("waited for an hour for " + what)
	}
}

// settled ends a command.
func (w *world) settled() {
	if !w.seq {
		return
	}
	synctest.Wait()
	for _, l := range w.told {
		if l.reg != nil && l.slow == 0 && !l.blocked() {
			w.log.Rests(l.reg.Pending())
		}
	}
}

func (w *world) put(name, group string, size int) {
	key := partKey(name)
	w.log.Writes(func() []oracle.Write {
		p := newPart(name, group, size)
		before := w.last[key]
		given := *p // the server's from here on
		uid, version := w.server.put(&given)
		if before != nil && before.ResourceVersion == fmt.Sprint(version) {
			return nil
		}
		p.UID, p.ResourceVersion = uid, fmt.Sprint(version)
		w.last[key] = p
		return []oracle.Write{w.expect(p, version)}
	})
}

func (w *world) remove(name string) {
	key := partKey(name)
	w.log.Writes(func() []oracle.Write {
		if w.last[key] == nil {
			return nil
		}
		delete(w.last, key)
		return []oracle.Write{{Version: w.server.remove(key), Key: key}}
	})
}

// touch moves the version on, as a write to another collection does.
func (w *world) touch(n uint64) {
	w.log.Moves(func() uint64 {
		w.server.line().Advance(n)
		return w.server.line().Version()
	})
}

// age makes all versions that anybody may hold too old.
func (w *world) age() {
	w.touch(1)
	w.server.line().Compact(w.server.line().Version())
}

// maySeeOlder reports whether a fault may show an older state: the copy has a newer one to compare
// it with, and it will not be shown so often that it must be believed.
func (w *world) maySeeOlder() bool {
	if w.inf.Store().ResourceVersion() == "" || w.lags >= 2 {
		return false
	}
	w.lags++
	w.log.Lags()
	return true
}

const (
	// calm is how long after the last fault all must be well.
	calm = 10 * time.Minute
)

// settle ends the faults and checks that the copy has recovered some time later.
func (w *world) settle() {
	w.server.clear()
	w.lags, w.down = 0, false
	w.lateBy.Store(0)
	for _, l := range w.told {
		l.open()
	}
	if w.useless() {
		w.mustSayUseless()
		w.put("usable", "x", 1)
	}
	before := w.inf.Status()
	time.Sleep(calm)
	synctest.Wait()
	w.flood = false
	w.quiet(requests(before))
}

func requests(s lw.Status) int {
	return int(s.Requests["list"].Started + s.Requests["probe"].Started + s.Requests["watch"].Started +
		s.Requests["stream"].Started)
}

// useless reports whether a list has objects, but none that can be used: that is no list, so
// nothing recovers by it.
func (w *world) useless() bool {
	bad := 0
	for _, p := range w.last {
		switch {
		case w.selector != "" && p.Group != "x":
		case w.expect(p, 1).Bad:
			bad++
		default:
			return false // also one that the transform leaves out: it was read
		}
	}
	return bad > 0
}

// mustSayUseless checks that a copy that needs such a list, and no other, says why it has none.
func (w *world) mustSayUseless() {
	time.Sleep(calm)
	synctest.Wait()
	s := w.inf.Status()
	if s.Failures == 0 && s.Synced {
		return // a watch told it of the bad objects
	}
	if s.Err == nil || !strings.Contains(s.Err.Error(), "can be used") && !strings.Contains(s.Err.Error(),
		"cannot be used") {
		panic(fmt.Sprintf("all objects are bad, and the copy says: %+v", s))
	}
}

func (w *world) quiet(before int) {
	for _, l := range w.told {
		if l.reg == nil && !l.o.IsSynced() && w.inf.Status().Synced {
			l.o.Syncs() // a loop over Events is not told
		}
	}
	s := w.inf.Status()
	q := oracle.Quiet{
		Copy: w.copy, Items: describeAll(w.inf.Store().List()), Version: s.ResourceVersion,
		Synced: s.Synced, Failures: s.Failures, Pending: s.Pending, Ahead: s.Ahead,
		Requests: requests(s) - before, Most: 60, Restored: w.restored,
	}
	w.restored = 0
	for key := range s.SetAside {
		q.SetAside = append(q.SetAside, key)
	}
	w.log.Quiets(q)
	if w.graph != nil {
		w.graph.quiet()
	}
	w.look()
}

// look reads all there is, in each way.
func (w *world) look() {
	w.settled()
	call := w.log.Tick()
	snap := w.inf.Store().Snapshot()
	w.log.Reads(oracle.Read{
		Session: w.session, Copy: w.copy, Call: call, What: "a snapshot", Version: snap.ResourceVersion(),
		Items: describeAll(snap.List()),
	})
	w.lower("a list", nil, func() []*Part { return w.inf.Store().List() })
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		key := partKey(name)
		w.lower("a get of "+name, func(i oracle.Item) bool { return i.Key == key }, func() []*Part {
			if p, ok := w.inf.Store().Get(key); ok {
				return []*Part{p}
			}
			return nil
		})
	}
	for _, group := range []string{"x", "y"} {
		w.lower("the index by group of "+group, func(i oracle.Item) bool { return strings.HasPrefix(i.Content, group+" ") },
			func() []*Part { return w.byGroup.List(group) })
	}
	for _, ix := range w.late {
		for parity := range 2 {
			w.lower(fmt.Sprintf("a late index of %d", parity),
				func(i oracle.Item) bool { return i.Content[len(i.Content)-1]%2 == byte(parity) },
				func() []*Part { return slices.Collect(ix.Lookup(parity)) })
		}
	}
	for _, h := range w.held {
		w.rereads(h)
	}
	if w.graph != nil {
		w.graph.look(w.seq)
	}
}

// lower records a read that reports no version: with all at rest it is that of the copy, else a
// lower bound.
func (w *world) lower(what string, of func(oracle.Item) bool, read func() []*Part) {
	call := w.log.Tick()
	version := w.inf.Store().ResourceVersion()
	items := describeAll(read())
	r := oracle.Read{Session: w.session, Copy: w.copy, Call: call, What: what, Version: version, Lower: !w.seq,
		Items: items, Of: of}
	if strings.Contains(what, "index") {
		r = r.Index()
	}
	w.log.Reads(r)
}

func (w *world) rereads(h heldParts) {
	call := w.log.Tick()
	w.log.Reads(oracle.Read{
		Session: h.name, Copy: h.copy, Call: call, What: h.name, Held: true,
		Version: h.snap.ResourceVersion(), Items: describeAll(h.snap.List()),
	})
}
