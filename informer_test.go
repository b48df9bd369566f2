package lw_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
)

// TestInformerModel drives an informer with random writes, faults, handlers that join, leave and block, and time, and compares
// it with a model that knows the truth: what a snapshot shows is what the server had at the snapshot's version; what a handler
// was told adds up to the store; and when the faults have ended, the store is what the server has.
//
// Run it with GOMAXPROCS=1 for failures that shrink well, and with -rapid.checks=N for more histories.
func TestInformerModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bubble(t, rt, func(t *testing.T, rt *rapid.T) {
			w := newWorld(t, rt)
			defer w.stop()
			rt.Repeat(map[string]func(*rapid.T){
				"create":     w.create,
				"update":     w.update,
				"delete":     w.delete,
				"recreate":   w.recreate,
				"burst":      w.burst,
				"disconnect": func(*rapid.T) { w.server.Disconnect() },
				"compact":    func(*rapid.T) { w.server.Compact() },
				"gap":        w.gap,
				"rewind":     w.rewind,
				"fail":       w.fail,
				"join":       w.join,
				"leave":      w.leave,
				"block":      w.block,
				"time":       w.time,
				"snapshot":   w.snapshot,
				"":           w.check,
			})
			w.settle()
		})
	})
}

// bubble runs f in a synctest bubble inside a rapid check: a panic of f, which is how rapid ends a check, is carried over the
// bubble's border, from a line of its own for each kind, since rapid tells failures apart by where they come from.
func bubble(t *testing.T, rt *rapid.T, f func(*testing.T, *rapid.T)) {
	t.Helper()
	var p any
	done := false
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if !done {
				p = recover()
			}
		}()
		f(t, rt)
		done = true
	})
	if done {
		return
	}
	switch fmt.Sprintf("%T", p) {
	case "rapid.invalidData":
		panic(p)
	case "rapid.stopTest":
		rt.Fatal(p)
	case "<nil>":
		rt.Fatal("the bubble's goroutine has exited")
	default:
		panic(p)
	}
}

// world is a server, an informer of it, and what is known of both.
type world struct {
	t      *testing.T
	server *lw.Memory[*Widget]
	truth  map[string]map[lw.Key]int // the server's state at each version; of the present epoch
	inf    *lw.Informer[*Widget]
	errs   *errorLog
	cancel context.CancelFunc
	done   chan struct{}
	failed bool
	epochs int // rewinds so far
	seen   string
	seenAt int // the epoch of seen
	told   []*listener
	held   []heldSnapshot

	mu     sync.Mutex
	broken string // what the first handler that was told wrong was told; guarded by mu
}

type heldSnapshot struct {
	snap *lw.Snapshot[*Widget]
	want map[lw.Key]int
}

// listener is a handler with its story, and a gate to block it.
type listener struct {
	*story
	reg   *lw.Registration
	valve valve
}

// valve lets through, or makes wait until it does.
type valve struct {
	mu   sync.Mutex
	shut chan struct{} // guarded by mu; nil: open
}

func (v *valve) pass() {
	v.mu.Lock()
	shut := v.shut
	v.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

func (v *valve) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut == nil {
		v.shut = make(chan struct{})
	}
}

// open reports whether the valve was shut.
func (v *valve) open() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut == nil {
		return false
	}
	close(v.shut)
	v.shut = nil
	return true
}

func newWorld(t *testing.T, rt *rapid.T) *world {
	w := &world{t: t, truth: map[string]map[lw.Key]int{}, errs: &errorLog{}, done: make(chan struct{})}
	mode := rapid.SampledFrom([]lw.ListMode{lw.ListWhole, lw.ListPages, lw.ListAuto}).Draw(rt, "mode")
	n := rapid.IntRange(0, 3).Draw(rt, "preload")
	w.server = lw.NewMemory[*Widget]()
	w.note()
	for i := range n {
		w.put(fmt.Sprint(i), i)
	}
	w.inf = lw.NewInformer(w.server, &lw.Options{List: mode, PageSize: 2, OnError: w.errs.add})
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() {
		defer close(w.done)
		w.inf.Run(ctx)
	}()
	return w
}

func (w *world) stop() {
	for _, l := range w.told {
		l.valve.open()
	}
	w.cancel()
	<-w.done
}

func (w *world) note() {
	state := map[lw.Key]int{}
	for obj := range w.server.All() {
		state[lw.KeyOf(obj)] = obj.Size
	}
	w.truth[w.server.ResourceVersion()] = state
}

func (w *world) put(name string, size int) {
	obj, ok := w.server.Get(key(name))
	if ok {
		obj.Size = size
		_, err := w.server.Update(obj)
		w.must(err)
	} else {
		_, err := w.server.Create(widget(name, size))
		w.must(err)
	}
	w.note()
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

func drawName(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"0", "1", "2", "3", "4"}).Draw(rt, "name")
}
func drawSize(rt *rapid.T) int { return rapid.IntRange(0, 5).Draw(rt, "size") }

func (w *world) create(rt *rapid.T) {
	name, size := drawName(rt), drawSize(rt)
	if _, ok := w.server.Get(key(name)); !ok {
		w.put(name, size)
	}
}

func (w *world) update(rt *rapid.T) { w.put(drawName(rt), drawSize(rt)) }

func (w *world) delete(rt *rapid.T) { w.remove(drawName(rt)) }

func (w *world) remove(name string) {
	if _, ok := w.server.Get(key(name)); ok {
		w.must(w.server.Delete(key(name)))
		w.note()
	}
}

func (w *world) recreate(rt *rapid.T) {
	name, size := drawName(rt), drawSize(rt)
	w.remove(name)
	w.put(name, size)
}

func (w *world) burst(rt *rapid.T) {
	name, n := drawName(rt), rapid.SampledFrom([]int{3, 10, 1500}).Draw(rt, "writes")
	for i := range n {
		w.put(name, i)
		if i%200 == 0 {
			synctest.Wait()
		}
	}
}

// gap is what a watch cannot see: a write whose history is gone before the informer is back.
func (w *world) gap(rt *rapid.T) {
	name, size, gone := drawName(rt), drawSize(rt), rapid.Bool().Draw(rt, "gone")
	w.server.Disconnect()
	w.remove(name)
	if !gone {
		w.put(name, size)
	}
	w.server.Compact()
}

func (w *world) rewind(rt *rapid.T) {
	versions := slices.SortedFunc(maps.Keys(w.truth), func(a, b string) int {
		return cmp.Or(len(a)-len(b), strings.Compare(a, b))
	})
	back := rapid.SampledFrom(versions[max(0, len(versions)-10):]).Draw(rt, "version")
	if w.server.Rewind(back) != nil {
		return // compacted
	}
	// Versions after it are going to mean something else.
	maps.DeleteFunc(w.truth, func(rv string, _ map[lw.Key]int) bool { return longer(rv, back) })
	w.epochs++
	for _, l := range w.told {
		l.rewound.Store(true)
	}
	w.note()
	// What the informer shows until it notices is a state of the epoch before: it is compared again when it has caught up.
	w.recover()
}

func (w *world) fail(rt *rapid.T) {
	w.failed = rapid.Bool().Draw(rt, "fail")
	if w.failed {
		w.server.Fail(errors.New("connection refused"))
	} else {
		w.server.Fail(nil)
	}
}

func (w *world) join(rt *rapid.T) {
	l := &listener{story: newStory(w.t)}
	l.fail = w.breaks
	l.rewound.Store(w.epochs > 0)
	every := rapid.Bool().Draw(rt, "every update")
	h := lw.Handler[*Widget]{
		Add:         func(obj *Widget) { l.valve.pass(); l.add(obj) },
		Update:      func(old, obj *Widget) { l.valve.pass(); l.story.update(old, obj) },
		Delete:      func(obj *Widget) { l.valve.pass(); l.story.delete(obj) },
		EveryUpdate: every,
	}
	l.reg = w.inf.AddHandler(h)
	w.told = append(w.told, l)
}

func (w *world) leave(rt *rapid.T) {
	if len(w.told) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.told)-1).Draw(rt, "handler")
	l := w.told[i]
	l.reg.Remove()
	l.valve.open()
	<-l.reg.Done()
	w.told = append(w.told[:i], w.told[i+1:]...)
}

func (w *world) block(rt *rapid.T) {
	if len(w.told) == 0 {
		return
	}
	l := w.told[rapid.IntRange(0, len(w.told)-1).Draw(rt, "handler")]
	if !l.valve.open() {
		l.valve.close()
	}
}

func (w *world) time(rt *rapid.T) {
	time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 31 * time.Second, 6 * time.Minute}).Draw(rt, "time"))
}

func (w *world) snapshot(rt *rapid.T) {
	snap := w.inf.Store().Snapshot()
	w.held = append(w.held, heldSnapshot{snap, sizes(snap)})
}

// check compares the store with the truth, and the handlers that have nothing to wait for with the store.
func (w *world) check(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "wait") {
		synctest.Wait()
	}
	snap := w.inf.Store().Snapshot()
	rv := snap.ResourceVersion()
	if rv == "" {
		if snap.Len() != 0 {
			rt.Fatalf("objects before the first list")
		}
		return
	}
	want, ok := w.truth[rv]
	if !ok {
		rt.Fatalf("the server never had version %s", rv)
	}
	if diff := gocmp.Diff(want, sizes(snap)); diff != "" {
		rt.Fatalf("store at %s (-server +store):\n%s", rv, diff)
	}
	if w.seenAt == w.epochs && longer(w.seen, rv) {
		rt.Fatalf("the store went back from version %s to %s", w.seen, rv)
	}
	w.seen, w.seenAt = rv, w.epochs
	for _, h := range w.held {
		if diff := gocmp.Diff(h.want, sizes(h.snap)); diff != "" {
			rt.Fatalf("a snapshot changed (-then +now):\n%s", diff)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != "" {
		rt.Fatalf("a handler was told wrong: %s", w.broken)
	}
}

func (w *world) breaks(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// recover ends the faults and gives the informer time.
func (w *world) recover() {
	w.server.Fail(nil)
	w.failed = false
	time.Sleep(30 * time.Minute)
	synctest.Wait()
}

// settle checks that all is well some time after the faults have ended.
func (w *world) settle() {
	w.recover()
	for _, l := range w.told {
		l.valve.open()
	}
	synctest.Wait()
	if diff := gocmp.Diff(w.truth[w.server.ResourceVersion()], sizes(w.inf.Store())); diff != "" {
		panic("the store did not catch up (-server +store):\n" + diff)
	}
	status := w.inf.Status()
	if !status.Synced || status.Failures != 0 || status.Pending != 0 || status.ResourceVersion != w.server.ResourceVersion() {
		panic(fmt.Sprintf("half an hour after the faults: %+v, server at %s", status, w.server.ResourceVersion()))
	}
	for _, l := range w.told {
		if err := l.reg.WaitForSync(context.Background()); err != nil {
			panic(err)
		}
		l.mustEqual(sizes(w.inf.Store()))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != "" {
		panic("a handler was told wrong: " + w.broken)
	}
}

func longer(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }
