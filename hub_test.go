package lw

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/table"
)

// newTestHub returns a hub that has its first content: objs, at version "1".
func newTestHub(mu *sync.Mutex, objs ...*ball) *hub[*ball] {
	h := newHub[*ball]((&Options{}).withDefaults("ball"), mu)
	h.status = func() Status { return Status{} }
	h.replace(objs, "1", "1")
	return h
}

// replace makes objs the content, as a list does.
func (h *hub[T]) replace(objs []T, version, report string) {
	h.commit(h.store.store.Compare(objs, table.Comparison[T]{}), version, report, func() {})
}

// A replica is what a consumer knows from the deltas that it was handed.
type replica map[Key]*ball

func (r replica) apply(t *testing.T, deltas []Delta[*ball]) {
	t.Helper()
	for _, d := range deltas {
		if was := r[d.Key()]; was != d.Old {
			t.Fatalf("%v of %v, want of %v", d.Type, d.Old, was)
		}
		if d.New == nil {
			delete(r, d.Key())
		} else {
			r[d.Key()] = d.New
		}
	}
}

func contentOf(s *Snapshot[*ball]) replica {
	all := replica{}
	for b := range s.All() {
		all[KeyOf(b)] = b
	}
	return all
}

// TestSubscriptions expects that a subscription begins with the first content, whether it was there
// before or came later, and that one which has ended before holds nothing.
func TestSubscriptions(t *testing.T) {
	h := newHub[*ball]((&Options{}).withDefaults("ball"), new(sync.Mutex))
	early, gone := &subscription[*ball]{}, &subscription[*ball]{}
	h.subscribe(early)
	h.subscribe(gone)
	h.unsubscribe(gone)
	if isClosed(early.started) || len(h.waiting) != 1 {
		t.Fatalf("before the first content: started %v, %d wait", isClosed(early.started), len(h.waiting))
	}
	a := newBall("a", 1, 1)
	h.replace([]*ball{a}, "1", "1")
	late := &subscription[*ball]{}
	h.subscribe(late)
	if isClosed(gone.started) {
		t.Error("a subscription that has ended was started")
	}
	for name, s := range map[string]*subscription[*ball]{"early": early, "late": late} {
		if !isClosed(s.started) {
			t.Fatalf("%s: not started", name)
		}
		if diff := cmp.Diff(replica{KeyOf(a): a}, contentOf(s.snapshot), sameBall); diff != "" {
			t.Errorf("%s: snapshot (-want +got):\n%s", name, diff)
		}
		if n := s.cursor.pending(); n != 0 {
			t.Errorf("%s: %d changes wait beside the snapshot", name, n)
		}
		h.unsubscribe(s)
	}
	if n := len(h.log.cursors); n != 0 {
		t.Errorf("%d cursors are left", n)
	}
}

// TestHubsOfOneLock expects that who holds the lock of two hubs sees both at one point: a writer
// that writes to one after the other is never seen to be further with the second.
func TestHubsOfOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		first, second := newTestHub(&mu), newTestHub(&mu)
		var done atomic.Bool
		var writer sync.WaitGroup
		writer.Go(func() {
			for version := 2; !done.Load(); version++ {
				b := newBall("a", 0, version)
				first.set(KeyOf(b), b, b.ResourceVersion, b.ResourceVersion)
				second.set(KeyOf(b), b, b.ResourceVersion, b.ResourceVersion)
			}
		})
		for range 2000 {
			mu.Lock()
			a, b := first.store.snapshotLocked(), second.store.snapshotLocked()
			mu.Unlock()
			v, w := decimal(a.ResourceVersion()), decimal(b.ResourceVersion())
			if v != w && v != w+1 {
				t.Fatalf("one hub is at %d and the other at %d", v, w)
			}
		}
		done.Store(true)
		writer.Wait()
	})
}

// A delta has the version that the change leads to, also where the store does not report it.
func TestVersionsOfDeltas(t *testing.T) {
	a, a2, b := newBall("a", 1, 1), newBall("a", 1, 2), newBall("b", 2, 1)
	h := newTestHub(new(sync.Mutex), a)
	c := h.log.subscribe(cursorOptions{})
	h.set(KeyOf(a), a2, "2", "")
	h.set(KeyOf(b), b, "3", "")
	h.remove(KeyOf(a), "4", "")
	h.replace([]*ball{a2}, "5", "1")
	deltas, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2", "3", "4", "5", "5"}, versions(deltas)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := h.store.ResourceVersion(); got != "1" {
		t.Errorf("the store reports %s", got)
	}
}

// Who makes a commit learns that the store has the content before any consumer or wait does, and a
// consumer that has waited for the first content has it in its snapshot alone.
func TestOrderOfTheFirstContent(t *testing.T) {
	h := newHub[*ball]((&Options{}).withDefaults("ball"), new(sync.Mutex))
	starting := false
	waits := &subscription[*ball]{}
	waits.starting = func(*Snapshot[*ball]) {
		if starting = true; isClosed(waits.started) {
			t.Error("the consumer was told before it was prepared")
		}
	}
	h.subscribe(waits)
	shown := 0
	a := newBall("a", 1, 1)
	h.commit(h.store.store.Compare([]*ball{a}, table.Comparison[*ball]{}), "1", "1", func() {
		now, _ := h.store.Get(KeyOf(a))
		if shown++; starting || isClosed(h.synced) || now != a {
			t.Error("the first content: a consumer knows of it before it is shown")
		}
	})
	if n := waits.cursor.pending(); !starting || n != 0 {
		t.Errorf("started %v, %d changes wait beside the snapshot", starting, n)
	}
	h.commit(h.store.store.Compare(nil, table.Comparison[*ball]{}), "2", "2", func() {
		if now, _ := h.store.Get(KeyOf(a)); waits.cursor.pending() != 0 || now != nil {
			t.Error("a relist: a consumer knows of it before it is shown")
		}
		shown++
	})
	if shown != 2 {
		t.Errorf("shown %d times, want 2", shown)
	}
	if n := waits.cursor.pending(); n != 1 {
		t.Errorf("%d changes wait after the relist, want 1", n)
	}
}

// What waits for the slowest handler is what waits for the hub's handlers, whichever of them it is.
func TestPendingOfTheSlowest(t *testing.T) {
	h := newTestHub(new(sync.Mutex), newBall("a", 1, 1))
	var regs []*Registration
	for range 5 {
		regs = append(regs, h.addHandler(Handler[*ball]{Synced: func() {}}))
	}
	regs[2].runner.(*handlerRunner[*ball]).left.Store(7)
	for range 20 { // the registrations are in a map
		if _, slowest := h.handlers(); slowest != 7 {
			t.Fatalf("%d wait for the slowest, want 7", slowest)
		}
	}
}

// A handler that was told of all objects of its snapshot has let go of it, and its counts are shown
// before Synced is called. Nothing waits for one that was removed.
func TestHandlerAfterItsSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHub(new(sync.Mutex), newBall("a", 1, 1), newBall("b", 2, 1))
		idle := h.addHandler(Handler[*ball]{Add: func(*ball) {}})
		idle.Remove()
		if got := idle.status().Pending; got != 0 {
			t.Errorf("%d changes wait for a handler that was removed", got)
		}
		gate := make(chan struct{})
		reg := h.addHandler(Handler[*ball]{Add: func(*ball) {}, Synced: func() { <-gate }})
		h.start()
		synctest.Wait()
		if got := reg.status(); got.Calls[Added] != 2 || got.Pending != 0 || got.Synced {
			t.Errorf("before Synced: %+v", got)
		}
		if reg.runner.(*handlerRunner[*ball]).sub.snapshot != nil {
			t.Error("the snapshot is kept")
		}
		close(gate)
		h.close()
	})
}

// Done is closed last: the log has no cursor of the handler by then, so it keeps nothing for it.
func TestDoneAfterTheLogIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHub(new(sync.Mutex), newBall("a", 1, 1))
		reg := h.addHandler(Handler[*ball]{Add: func(*ball) {}})
		h.start()
		defer h.close()
		synctest.Wait()
		if got := h.log.live.Load(); got != 1 {
			t.Fatalf("the log has %d cursors, want 1", got)
		}
		// A cursor that is closed leaves the log, and then takes its own lock. So the handler's
		// goroutine stands still right behind the first.
		cursor := reg.runner.(*handlerRunner[*ball]).sub.cursor
		cursor.mu.Lock()
		reg.Remove()
		for h.log.live.Load() != 0 && !isClosed(reg.Done()) {
			runtime.Gosched()
		}
		if isClosed(reg.Done()) {
			t.Error("Done is closed before the cursor is")
		}
		cursor.mu.Unlock()
		<-reg.Done()
		if got := h.log.live.Load(); got != 0 || len(h.regs) != 0 {
			t.Errorf("after Done the log has %d cursors, and the hub %d handlers", got, len(h.regs))
		}
	})
}

// A mirror is a Follower that copies the content, and checks it at each Progress.
type mirror struct {
	t        *testing.T
	content  replica
	epochs   int
	progress func(version string)
}

func (c *mirror) Begin(snap *Snapshot[*ball], epoch bool) {
	if c.content = contentOf(snap); epoch {
		c.epochs++
	}
}

func (c *mirror) Change(d Delta[*ball]) {
	if d.Cause == CauseRelist {
		c.t.Errorf("%v of %v, which is in the snapshot", d.Type, d.Object())
	}
	c.content.apply(c.t, []Delta[*ball]{d})
}

func (c *mirror) Progress(version string) { c.progress(version) }

// TestFollowWaits expects that a follower first asks to be woken and then looks, or it would miss
// what comes in between: while the test keeps it from looking, it has asked.
func TestFollowWaits(t *testing.T) {
	h := newTestHub(new(sync.Mutex))
	told, goOn := make(chan string), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- follow(t.Context(), h, &mirror{t: t, progress: func(version string) {
			told <- version
			<-goOn
		}})
	}()
	for version := 1; version < 20; version++ {
		if got := <-told; got != strconv.Itoa(version) {
			t.Fatalf("version %s, want %d", got, version)
		}
		h.mu.Lock()
		goOn <- struct{}{}
		stacks := make([]byte, 1<<20)
		for h.log.sleepers.Load() == 0 {
			for text := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
				if strings.Contains(text, "[sync.Mutex.Lock") && strings.Contains(text, ").look(") && h.log.sleepers.Load() == 0 {
					t.Fatal("the follower looks before it has asked to be woken")
				}
			}
			runtime.Gosched()
		}
		h.mu.Unlock()
		h.progress(&move[*ball]{report: strconv.Itoa(version + 1)})
		h.notify()
	}
	<-told
	goOn <- struct{}{}
	h.close()
	if err := <-ended; err != ErrStopped {
		t.Error(err)
	}
	if n := len(h.log.cursors); n != 0 || h.followers.Load() != 0 {
		t.Errorf("%d cursors and %d followers are left", n, h.followers.Load())
	}
}

// TestFollowHub expects that what a follower was told adds up to the content at each version that
// it is told, while a writer writes and lists, with and without differences, and in new epochs.
func TestFollowHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHub(new(sync.Mutex))
		var truth sync.Map // by version
		truth.Store("1", replica{})
		var followers sync.WaitGroup
		ends := func() {
			c := &mirror{t: t}
			c.progress = func(version string) {
				want, _ := truth.Load(version)
				if diff := cmp.Diff(want, any(c.content), sameBall); diff != "" {
					t.Errorf("at %s (-want +got):\n%s", version, diff)
				}
			}
			followers.Go(func() {
				if err := follow(t.Context(), h, c); err != ErrStopped {
					t.Error(err)
				}
			})
		}
		now := replica{}
		for version := 2; version < 20000; version++ {
			if version%4000 == 2 {
				ends()
			}
			v := strconv.Itoa(version)
			b := newBall(strconv.Itoa(rand.N(20)), 0, version)
			next := maps.Clone(now)
			shown := func() {}
			switch list := rand.N(500); {
			case list < 3:
				if list > 0 {
					next[KeyOf(b)] = b
				}
				if list > 1 {
					shown = func() { h.era.epochs++ }
				}
				truth.Store(v, next)
				staged := h.store.store.Compare(slices.Collect(maps.Values(next)), table.Comparison[*ball]{Same: unchanged[*ball]})
				h.commit(staged, v, v, shown)
			case list < 50:
				truth.Store(v, next)
				h.progress(&move[*ball]{report: v})
			case list < 150:
				delete(next, KeyOf(b))
				truth.Store(v, next)
				h.remove(KeyOf(b), v, v)
			default:
				next[KeyOf(b)] = b
				truth.Store(v, next)
				h.set(KeyOf(b), b, v, v)
			}
			if now = next; rand.N(3) == 0 {
				h.notify()
			}
		}
		h.notify()
		h.close()
		followers.Wait()
		if n := len(h.log.cursors); n != 0 || h.followers.Load() != 0 {
			t.Errorf("%d cursors and %d followers are left", n, h.followers.Load())
		}
	})
}

// TestTogetherWhileItIsCommitted reads an informer's store in the middle of a long commit: it is
// answered at once, from the state before, and by what needs store and log when the commit is over.
func TestTogetherWhileItIsCommitted(t *testing.T) {
	for _, n := range []int{2, table.Brief + 1} {
		synctest.Test(t, func(t *testing.T) {
			inf := NewInformer(NewMemory[*ball](), nil)
			h := inf.hub
			byUID := NewIndex(inf, func(b *ball) types.UID { return b.UID })
			h.status = func() Status { return Status{} }
			h.replace([]*ball{newBall("0", 0, 1), newBall("gone", 0, 1)}, "1", "1")
			sub := &subscription[*ball]{}
			h.subscribe(sub)
			defer h.unsubscribe(sub)
			known := contentOf(sub.snapshot)
			check := func(when, version string, objs int) {
				t.Helper()
				obj, _ := inf.Store().Get(Key{Namespace: "default", Name: "0"})
				snap := inf.Store().Snapshot()
				got := []any{obj.ResourceVersion, inf.Store().Len(), inf.Store().ResourceVersion(), len(inf.Store().List()),
					snap.Len(), snap.ResourceVersion(), byUID.Len("u0") + byUID.Len("u1"), len(byUID.List("u0")) +
						len(byUID.List("u1")), len(slices.Collect(byUID.Keys()))}
				want := []any{version, objs, version, objs, objs, version, objs, objs, 1}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", when, diff)
				}
			}
			during := make(chan struct{})
			h.midCommit = func() {
				check("in the middle", "1", 2)
				go func() {
					h.cut()
					close(during)
				}()
			}
			// What needs no lock of the writer shows the end as soon as one of them does.
			h.afterShow = func() {
				obj, _ := inf.Store().Get(Key{Namespace: "default", Name: "0"})
				_, gone := inf.Store().Get(Key{Namespace: "default", Name: "gone"})
				got := []any{obj.ResourceVersion, gone, byUID.Len("u0"), byUID.Len("u1"), len(byUID.List("u0")),
					len(byUID.List("u1"))}
				if diff := cmp.Diff([]any{"2", false, 0, n, 0, n}, got); diff != "" {
					t.Errorf("when it is shown (-want +got):\n%s", diff)
				}
			}
			batch := h.store.store.NewBatch()
			for i := range n {
				b := newBall(strconv.Itoa(i), 1, 2)
				batch.Put(KeyOf(b), b)
			}
			batch.Put(Key{Namespace: "default", Name: "gone"}, nil)
			h.write(batch, &move[*ball]{version: "2", report: "2"})
			batch.Release()
			check("after", "2", n)
			if n > table.Brief {
				<-during
			}
			deltas, at, err := h.readToCut(sub.cursor, h.cut())
			if known.apply(t, deltas); err != nil || !maps.Equal(known, contentOf(at.snapshot)) {
				t.Errorf("the log has %d deltas, %v", len(deltas), err)
			}
			if last := deltas[len(deltas)-1]; last.Type != Deleted || last.Cause != CauseWatch || last.ResourceVersion != "2" {
				t.Errorf("the last delta is %+v", last)
			}
		})
	}
}

// TestReadThatMeetsABriefCommit reads an informer's store at a moment at which a brief commit is
// going on, and gets what is there.
func TestReadThatMeetsABriefCommit(t *testing.T) {
	inf := NewInformer(NewMemory[*ball](), nil)
	inf.hub.replace([]*ball{newBall("0", 0, 1)}, "1", "1")
	inf.hub.store.gate.seq.Add(1)
	defer inf.hub.store.gate.seq.Add(1)
	snap, all := inf.Store().Snapshot(), inf.Store().List()
	if diff := cmp.Diff([]any{1, "1", 1}, []any{snap.Len(), snap.ResourceVersion(), len(all)}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnsubscribeKeepsNothing: whoever leaves in the middle of what it was given leaves no object
// behind.
func TestUnsubscribeKeepsNothing(t *testing.T) {
	h := newTestHub(new(sync.Mutex))
	s := &subscription[*ball]{}
	h.subscribe(s)
	gone := func() weak.Pointer[ball] {
		b := newBall("a", 1, 2)
		h.replace([]*ball{b}, "2", "2")
		return weak.Make(b)
	}()
	if part, _, err := s.cursor.poll(); len(part) != 1 || err != nil {
		t.Fatalf("%d changes, error %v", len(part), err)
	}
	h.replace(nil, "3", "3")
	h.unsubscribe(s)
	runtime.GC()
	runtime.GC()
	if gone.Value() != nil {
		t.Error("the deleted object is kept")
	}
	runtime.KeepAlive(h)
}

// TestToldIsNoWitness: the object that a server is asked for after an outage is the newest that
// lists and watches have told, also where another is shown in its place, or nothing was there.
func TestToldIsNoWitness(t *testing.T) {
	old, newest := newBall("old", 1, 3), newBall("newest", 1, 5)
	h := newTestHub(new(sync.Mutex), old, newest)
	to := &informerTarget[*ball]{hub: h, opts: h.opts}
	for _, told := range []*ball{newBall("old", 1, 11), newBall("new", 1, 12), newBall("newest", 1, 13)} {
		if news, err := h.tell(KeyOf(told), &mark[*ball]{version: decimal(told.ResourceVersion), shown: told}); !news ||
			err != nil {
			t.Fatal(news, err)
		}
		if diff := cmp.Diff(MetaOf(newest), to.newest(func(Key) bool { return false })); diff != "" {
			t.Errorf("told of %v (-want +got):\n%s", told, diff)
		}
	}
	if diff := cmp.Diff(MetaOf(old), to.newest(func(key Key) bool { return key == KeyOf(newest) })); diff != "" {
		t.Errorf("without the newest (-want +got):\n%s", diff)
	}
}

// TestBookmarkStopsAtAFence: a bookmark does not pass what was told since the writer has looked.
func TestBookmarkStopsAtAFence(t *testing.T) {
	h := newTestHub(new(sync.Mutex), newBall("a", 1, 3))
	told := newBall("a", 1, 7)
	if _, err := h.tell(KeyOf(told), &mark[*ball]{version: 7, shown: told}); err != nil {
		t.Fatal(err)
	}
	if h.progress(&move[*ball]{report: "9", to: 9}) || h.store.ResourceVersion() != "1" {
		t.Errorf("the store is at %s, and shows what version 9 has passed", h.store.ResourceVersion())
	}
}

// TestCommitOpensTheGate expects that a commit of several writes leaves the gate open. If it does
// not, readers see half of the next one.
func TestCommitOpensTheGate(t *testing.T) {
	for _, n := range []int{2, table.Brief + 1} {
		g := &gate{}
		h := newTestHub(&g.mu)
		h.store.gate = g
		for version := 2; version < 5; version++ {
			batch := h.store.store.NewBatch()
			for i := range n {
				b := newBall(strconv.Itoa(i), 1, version)
				batch.Put(KeyOf(b), b)
			}
			before := g.seq.Load()
			h.write(batch, &move[*ball]{version: strconv.Itoa(version)})
			batch.Release()
			if now := g.seq.Load(); now%2 != 0 || now == before {
				t.Errorf("%d writes, version %d: the gate is at %d, and was at %d", n, version, now, before)
			}
		}
	}
}
