package lw

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// part is an object of the benchmarks of graphs.
type part struct {
	Meta
	Group string
	Size  int
}

func (p *part) Equal(other *part) bool { return p.Group == other.Group && p.Size == other.Size }

// hubCollection is a hub as a Collection, for a graph that reads it. Nothing else of it works.
type hubCollection struct {
	Collection[*part]
	hub *hub[*part]
}

func (c hubCollection) collection() *hub[*part]  { return c.hub }
func (c hubCollection) derived() *Derived[*part] { return nil }

// partsOf returns a hub with n objects, of which each ten are a group. set changes the size of one.
func partsOf(n int) (c hubCollection, set func(i, size int)) {
	c = hubCollection{hub: newHub[*part](&Options{Name: "parts"}, new(sync.Mutex))}
	objs := make([]*part, n)
	for i := range objs {
		objs[i] = &part{Meta: Meta{Namespace: "n", Name: fmt.Sprint("part-", i), ResourceVersion: "1"},
			Group: fmt.Sprint("g", i/10)}
	}
	c.hub.replace(objs, "1", "1")
	version := 1
	return c, func(i, size int) {
		version++
		p := *objs[i]
		p.Size, p.ResourceVersion = size, strconv.Itoa(version)
		c.hub.set(KeyOf(&p), &p, p.ResourceVersion, p.ResourceVersion)
	}
}

// BenchmarkReadBesideCommit is how long the longest read takes of those that meet the commit of a
// step that changes 100,000 objects; the median of the steps. The collection has an index. What is
// measured includes that the reader waits for a processor, as "nothing" shows, which reads nothing.
// The garbage collector, which would take one too, runs between the steps.
func BenchmarkReadBesideCommit(b *testing.B) {
	const objects = 100_000
	parts, set := partsOf(objects)
	g := NewGraph(nil)
	slim := Derive(g, parts, func(p *part) *part { c := *p; return &c }, "slim")
	byGroup := NewIndex(slim, func(p *part) string { return p.Group })
	g.step()
	reads := map[string]func(){
		"nothing":  func() {},
		"Get":      func() { slim.Store().Get(Key{Namespace: "n", Name: "part-7"}) },
		"Len":      func() { slim.Store().Len() },
		"Snapshot": func() { slim.Store().Snapshot() },
		"Index":    func() { byGroup.Len("g7") },
		"Status":   func() { g.Status() },
	}
	for name, read := range reads {
		b.Run(name, func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			var stop atomic.Bool
			var longest atomic.Int64 // nanoseconds, in this step
			done := make(chan struct{})
			go func() {
				defer close(done)
				for !stop.Load() {
					seq, began := g.gate.seq.Load(), time.Now()
					read()
					took := time.Since(began)
					if now := g.gate.seq.Load(); seq%2 == 1 || now != seq {
						longest.Store(max(longest.Load(), took.Nanoseconds()))
					}
				}
			}()
			var steps []float64
			for b.Loop() {
				for i := range objects {
					set(i, len(steps)+1)
				}
				runtime.GC()
				longest.Store(0)
				g.step()
				steps = append(steps, float64(longest.Load())/1000)
			}
			stop.Store(true)
			<-done
			slices.Sort(steps)
			b.ReportMetric(steps[len(steps)/2], "µs")
		})
	}
}

// However many calls a step makes, the last one is told, and none when the step is over. The race
// detector sees that a reader may ask at any time.
func TestLastCallOfManyIsTold(t *testing.T) {
	g := NewGraph(nil)
	x := newFaults(g, "sums")
	over, asking := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asking)
		for !isClosed(over) {
			if c, began := g.calls.last(); !began.IsZero() && (c.faults != x || c.key.Name != c.function) {
				t.Errorf("half of a call is told: %v", c)
			}
		}
	}()
	defer func() { close(over); <-asking }()
	began := time.Now()
	g.calls.step(began)
	for i := range 1000 {
		name := strconv.Itoa(i)
		x.enter(name, Key{Name: name})
		if now, at := g.calls.last(); now != (call{x, name, Key{Name: name}}) || !at.Equal(began) {
			t.Fatalf("after call %d it is %v, since %v", i, now, at)
		}
	}
	g.calls.step(time.Time{})
	if c, at := g.calls.last(); !at.IsZero() {
		t.Errorf("after the step: %v", c)
	}
}

// background runs all of rs in the bubble until the test ends.
func background(t *testing.T, rs ...interface{ Run(context.Context) error }) {
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, len(rs))
	for _, r := range rs {
		go func() { ran <- r.Run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range rs {
			if err := <-ran; err != nil {
				t.Error(err)
			}
		}
	})
}

// readers returns how many consumers inf has.
func readers(inf *Informer[*ball]) int {
	inf.hub.mu.Lock()
	defer inf.hub.mu.Unlock()
	return int(inf.hub.log.live.Load()) + len(inf.hub.waiting)
}

// A step that begins when an input has synced shows its first content, also while the input still
// starts its subscriptions: who has waited for the sync waits for that step.
func TestStepAfterSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := hubCollection{hub: newHub[*part](&Options{Name: "parts"}, new(sync.Mutex))}
		g := NewGraph(nil)
		all := Derive(g, parts, func(p *part) *part { return p }, "all")
		stepped := make(chan int, 1)
		parts.hub.subscribe(&subscription[*part]{starting: func(*Snapshot[*part]) {
			go func() {
				g.step()
				stepped <- all.Store().Len()
			}()
			synctest.Wait()
		}})
		g.step()
		parts.hub.replace([]*part{{Meta: Meta{Name: "a", ResourceVersion: "1"}}}, "1", "1")
		if n := <-stepped; n != 1 {
			t.Errorf("the step shows %d objects", n)
		}
	})
}

// A step shows an input at one version. What comes after that version waits for the next step, also
// if it comes before the step has read what it shows.
func TestLeafReadsUpToItsCut(t *testing.T) {
	parts, set := partsOf(3)
	g := NewGraph(nil)
	Derive(g, parts, func(p *part) *part { c := *p; return &c })
	g.start()
	defer g.end()
	for len(g.leaves) == 0 || g.leaves[0].stage() != joined {
		g.step()
	}
	l := g.leaves[0].(*leaf[*part])
	read := func(position uint64) (reached uint64, sizes []int) {
		reached = l.read(position)
		for _, c := range l.changes() {
			sizes = append(sizes, c.New.Size)
		}
		l.net.Reset()
		return reached, sizes
	}
	set(0, 10)
	cut := parts.hub.point().position
	set(1, 11)
	if reached, sizes := read(cut); reached != cut || !slices.Equal(sizes, []int{10}) {
		t.Errorf("read up to %d: %v, want up to %d: [10]", reached, sizes, cut)
	}
	if _, sizes := read(parts.hub.point().position); !slices.Equal(sizes, []int{11}) {
		t.Errorf("then %v, want [11]", sizes)
	}
}

// A collection may be made while the last other reader of its informer is closed.
func TestDeriveDuringPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(newBall("a", 1, 1))
		inf, other := NewInformer(m, nil), NewInformer(NewMemory[*ball](), nil)
		g := NewGraph(nil)
		same := func(b *ball) *ball { return newBall(b.Name, 1, 0) }
		last := Derive(g, inf, same, "last")
		Derive(g, other, same, "other")
		background(t, inf, other, g)
		synctest.Wait()
		claimed := inputOf(g, Collection[*ball](inf), "Derive").(anyLeaf) // as a Derive does before it has the collection
		last.Close()
		synctest.Wait()
		if n := readers(inf); n != 1 {
			t.Errorf("%d readers of the informer while a collection of it is being made, want 1", n)
		}
		next := Derive(g, inf, same, "next")
		g.mu.Lock()
		claimed.claim(-1)
		g.mu.Unlock()
		if _, err := m.Create(t.Context(), newBall("b", 2, 0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := next.Store().Len(); n != 2 {
			t.Errorf("the new collection has %d objects, want 2", n)
		}
		next.Close()
		synctest.Wait()
		if n := readers(inf); n != 0 {
			t.Errorf("%d readers of the informer at the end", n)
		}
	})
}

// Each level is a join of the level before with itself. A wait for the sync of the last looks at
// each level once, and not at each way through them.
func TestWaitForSyncOfDiamonds(t *testing.T) {
	for _, depth := range []int{10, 24, 1000} {
		g := NewGraph(nil)
		inf := NewInformer(NewMemory[*ball](), nil)
		on := On[string, *ball, *ball]{
			Left: SingleKey(func(b *ball) string { return b.Name }), Right: SingleKey(func(b *ball) string { return b.Name }),
		}
		last := Derive(g, inf, func(b *ball) *ball { return b }, "first")
		for i := range depth {
			last = Join(g, last, last, on, func(l, _ *ball) *ball { return l }, "level "+strconv.Itoa(i))
		}
		n := 0
		last.hub.eachUnsynced(func(*hubCore) bool { n++; return true })
		if n != depth+1 { // with the first; the last itself is not looked at
			t.Errorf("a wait for sync looks at %d collections of %d levels", n, depth)
		}
	}
}

// A program may have an informer for each namespace, all of one name. What one costs to come and to
// go does not depend on the others.
func TestBoardOfManyNames(t *testing.T) {
	for _, n := range []int{10, 1_000, 100_000} {
		var b Board
		allocated := func() uint64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.TotalAlloc
		}
		removes := make([]func(), n)
		before := allocated()
		for i := range removes {
			removes[i] = b.addInformer("Pod", func() Status { return Status{} }, noObject)
		}
		if got, most := allocated()-before, uint64(n+10)*1500; got > most {
			t.Fatalf("%d informers: %d bytes to come, want %d at most", n, got, most)
		}
		var names []string
		for name := range b.Informers() {
			names = append(names, name)
		}
		if len(names) != n || names[0] != "Pod" || names[n-1] != fmt.Sprintf("Pod#%d", n) {
			t.Errorf("%d informers: %d names, the last one is %s", n, len(names), names[len(names)-1])
		}
		before = allocated()
		for _, remove := range removes {
			remove()
		}
		if got, most := allocated()-before, uint64(n+10)*500; got > most {
			t.Fatalf("%d informers: %d bytes to go, want %d at most", n, got, most)
		}
		for name := range b.Informers() {
			t.Fatalf("%s is left", name)
		}
	}
}

// TestReadToCut expects that what a consumer has read up to a cut amounts to the cut's snapshot,
// while a writer writes and the log folds what a slow consumer has not read.
func TestReadToCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHub(new(sync.Mutex), newBall("0", 0, 1))
		s := &subscription[*ball]{opts: cursorOptions{limit: 1}}
		h.subscribe(s)
		defer h.unsubscribe(s)
		known := contentOf(s.snapshot)

		var done atomic.Bool
		var writer sync.WaitGroup
		defer func() {
			done.Store(true)
			writer.Wait()
		}()
		writer.Go(func() {
			for version := 2; !done.Load(); version++ {
				b := newBall(strconv.Itoa(rand.N(20)), 0, version)
				if rand.N(4) == 0 {
					h.remove(KeyOf(b), b.ResourceVersion, b.ResourceVersion)
				} else {
					h.set(KeyOf(b), b, b.ResourceVersion, b.ResourceVersion)
				}
				if rand.N(1000) == 0 {
					h.replace([]*ball{b}, b.ResourceVersion, b.ResourceVersion)
				}
			}
		})
		for range 3000 {
			backlog, at, err := h.readToCut(s.cursor, h.cut())
			if err != nil {
				t.Fatal(err)
			}
			known.apply(t, backlog)
			if want := contentOf(at.snapshot); !maps.Equal(known, want) {
				t.Fatalf("read up to position %d (-snapshot +read):\n%s", at.position, cmp.Diff(want, known, sameBall))
			}
		}
	})
}

// TestCut expects that a cut's snapshot and position are of one point: here each version is one
// delta.
func TestCut(t *testing.T) {
	h := newTestHub(new(sync.Mutex), newBall("a", 0, 1))
	first := h.cut()
	var done atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for version := 2; !done.Load(); version++ {
			b := newBall("a", 0, version)
			h.set(KeyOf(b), b, b.ResourceVersion, b.ResourceVersion)
		}
	})
	defer writer.Wait()
	defer done.Store(true)
	// Only cuts that the writer was busy beside say anything: on a busy machine the two take turns for
	// long.
	before, moves := first.position, 20_000
	if testing.Short() {
		moves = 2_000
	}
	for moved, rounds := 0, 0; moved < moves && rounds < 1000*moves; rounds++ {
		at := h.cut()
		if want := first.position + decimal(at.snapshot.ResourceVersion()) - 1; at.position != want {
			t.Fatalf("position %d at version %s, want %d", at.position, at.snapshot.ResourceVersion(), want)
		}
		if at.position != before {
			moved++
		}
		before = at.position
	}
}

// TestReadToCutOfAFoldedLog expects a later cut where the log was folded past the one that was
// asked for.
func TestReadToCutOfAFoldedLog(t *testing.T) {
	h := newTestHub(new(sync.Mutex))
	s := &subscription[*ball]{opts: cursorOptions{limit: 1}}
	h.subscribe(s)
	defer h.unsubscribe(s)
	write := func(from, to int) {
		for version := from; version < to; version++ {
			b := newBall(strconv.Itoa(version%3), 0, version)
			h.set(KeyOf(b), b, b.ResourceVersion, b.ResourceVersion)
		}
	}
	write(2, 20)
	at := h.cut()
	write(20, 20+2*chunkSize)
	known := replica{}
	backlog, reached, err := h.readToCut(s.cursor, at)
	known.apply(t, backlog)
	if err != nil || reached.position <= at.position {
		t.Fatalf("reached position %d, asked for %d, error %v: nothing was folded", reached.position, at.position, err)
	}
	if diff := cmp.Diff(contentOf(reached.snapshot), known, sameBall); diff != "" {
		t.Errorf("read up to position %d (-snapshot +read):\n%s", reached.position, diff)
	}
}

// TestReadToCutOfAClosedCursor expects the cursor's error, and no wait.
func TestReadToCutOfAClosedCursor(t *testing.T) {
	h := newTestHub(new(sync.Mutex))
	s := &subscription[*ball]{}
	h.subscribe(s)
	b := newBall("a", 1, 2)
	h.set(KeyOf(b), b, "2", "2")
	h.unsubscribe(s)
	if _, _, err := h.readToCut(s.cursor, h.cut()); err != ErrStopped {
		t.Errorf("error %v, want %v", err, ErrStopped)
	}
}
