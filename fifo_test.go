package lw

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

// numbered returns a delta of which the version says its place in the log.
func numbered(i int) Delta[*ball] {
	return Delta[*ball]{Type: Added, Cause: Watch, New: newBall(strconv.Itoa(i), i, i), ResourceVersion: strconv.Itoa(i)}
}

// versions returns what the deltas lead to, in order.
func versions(deltas []Delta[*ball]) []string {
	var out []string
	for _, d := range deltas {
		out = append(out, d.ResourceVersion)
	}
	return out
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func TestDeltaSize(t *testing.T) {
	if size := unsafe.Sizeof(Delta[*ball]{}); size > 48 {
		t.Errorf("a Delta has %d bytes, want at most 48", size)
	}
}

func TestNextReturnsAllInOrder(t *testing.T) {
	for _, n := range []int{1, chunkSize - 1, chunkSize, chunkSize + 1, defaultLimit} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			q := NewFIFO[*ball]()
			q.push(numbered(-1)) // from before the cursors
			early := q.Subscribe()
			var late *Cursor[*ball]
			for i := range n {
				if i == n/2 {
					late = q.Subscribe()
				}
				q.push(numbered(i))
			}
			nextIs(t, late, numbers(n/2, n))
			if got := early.Pending(); got != n {
				t.Errorf("Pending = %d, want %d", got, n)
			}
			nextIs(t, early, numbers(0, n))
			if got := early.Pending(); got != 0 {
				t.Errorf("Pending after Next = %d, want 0", got)
			}
			q.push(numbered(n))
			nextIs(t, early, numbers(n, n+1))
		})
	}
}

func nextIs(t *testing.T, c *Cursor[*ball], want []string) {
	t.Helper()
	got, err := c.Next(t.Context())
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	if diff := cmp.Diff(want, versions(got)); diff != "" {
		t.Errorf("Next (-want +got):\n%s", diff)
	}
}

func TestLimit(t *testing.T) {
	tests := []struct {
		name string
		opts cursorOptions
		wait bool // the consumer waits when they come
		n    int
		want int
	}{
		{"at the default limit", cursorOptions{}, false, 1024, 1024},
		{"beyond it", cursorOptions{}, false, 1025, 1},
		{"far beyond it", cursorOptions{}, false, 20_000, 1},
		{"at a limit", cursorOptions{limit: 3}, false, 3, 3},
		{"beyond a limit", cursorOptions{limit: 3}, false, 4, 1},
		{"every update", cursorOptions{everyUpdate: true}, false, 5000, 5000},
		{"more than the limit for one that waits", cursorOptions{}, true, 5000, 5000},
		{"too much for one that waits", cursorOptions{limit: 2}, true, 3 * wakingGrace, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := NewFIFO[*ball]()
			c := q.subscribe(tt.opts)
			if tt.wait {
				c.wait()
			}
			old := newBall("a", 1, 0)
			for i := range tt.n {
				next := newBall("a", 1, i+1)
				q.push(Delta[*ball]{Type: Updated, Old: old, New: next, Cause: Watch})
				old = next
			}
			got, err := c.Next(t.Context())
			if err != nil || len(got) != tt.want {
				t.Errorf("Next = %d deltas, %v, want %d", len(got), err, tt.want)
			}
			if last := got[len(got)-1].New; last != old {
				t.Errorf("the last object is %v, want %v", last, old)
			}
		})
	}
}

// TestPositionPassesWhatCancelsOut: who waits for a position must not wait for a delta that will not come.
func TestPositionPassesWhatCancelsOut(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.subscribe(cursorOptions{limit: 1})
	b := newBall("a", 1, 1)
	q.push(Delta[*ball]{Type: Added, New: b})
	q.push(Delta[*ball]{Type: Deleted, Old: b})
	part, told, err := c.next(t.Context())
	if len(part) != 0 || told != q.position() || err != nil {
		t.Errorf("next = %v, %d, %v; want no deltas up to %d", part, told, err, q.position())
	}
}

func TestNextWaits(t *testing.T) {
	cause := errors.New("enough")
	tests := []struct {
		name string
		end  func(q *FIFO[*ball], c *Cursor[*ball], cancel context.CancelCauseFunc)
		want error
	}{
		{"for a delta", func(q *FIFO[*ball], _ *Cursor[*ball], _ context.CancelCauseFunc) { q.push(numbered(1)) }, nil},
		{"until its context is done", func(_ *FIFO[*ball], _ *Cursor[*ball], cancel context.CancelCauseFunc) { cancel(cause) }, cause},
		{"until the FIFO is closed", func(q *FIFO[*ball], _ *Cursor[*ball], _ context.CancelCauseFunc) { q.Close() }, ErrStopped},
		{"until the cursor is closed", func(_ *FIFO[*ball], c *Cursor[*ball], _ context.CancelCauseFunc) { c.Close() }, ErrStopped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := NewFIFO[*ball]()
				c := q.Subscribe()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var returned atomic.Bool
				result := make(chan error, 1)
				go func() {
					_, err := c.Next(ctx)
					returned.Store(true)
					result <- err
				}()
				time.Sleep(time.Hour)
				synctest.Wait()
				if returned.Load() {
					t.Fatal("Next has returned from an empty log")
				}
				tt.end(q, c, cancel)
				if err := <-result; !errors.Is(err, tt.want) {
					t.Errorf("Next: %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// TestErrorConsumesNothing: a call that ends with its context leaves what waits to the next one.
func TestErrorConsumesNothing(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	q.push(numbered(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := c.Next(ctx); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("Next with a context that is done = %v, %v", got, err)
	}
	nextIs(t, c, numbers(0, 1))
}

func TestClose(t *testing.T) {
	q := NewFIFO[*ball]()
	reads, leaves := q.Subscribe(), q.Subscribe()
	q.Replace([]*ball{newBall("a", 1, 1)}, "1")
	leaves.Close()
	leaves.Close()
	if _, err := leaves.Next(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Next of a closed cursor: %v, want ErrStopped", err)
	}
	if n := leaves.Pending(); n != 0 {
		t.Errorf("Pending of a closed cursor = %d, want 0", n)
	}
	q.Close()
	q.Close()
	q.Apply(WatchEvent[*ball]{Type: watch.Added, Object: newBall("b", 2, 2), ResourceVersion: "2"})
	q.Replace(nil, "3")
	nextIs(t, reads, []string{"1"})
	for range 2 {
		if _, err := reads.Next(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("Next of a closed FIFO: %v, want ErrStopped", err)
		}
	}
	late := q.Subscribe()
	if _, err := late.Next(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Next of a cursor of a closed FIFO: %v, want ErrStopped", err)
	}
}

// TestNoLostWakeUp parks cursors and pushes in every relation of time. A wake-up that is lost leaves the bubble deadlocked.
func TestNoLostWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, cursors = 2000, 8
		q := NewFIFO[*ball]()
		var wg sync.WaitGroup
		for i := range cursors {
			c := q.subscribe(cursorOptions{everyUpdate: true})
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			wg.Go(func() {
				var got []string
				for len(got) < n {
					part, _, err := c.next(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, versions(part)...)
					time.Sleep(time.Duration(rnd.IntN(4)) * time.Millisecond)
				}
				if diff := cmp.Diff(numbers(0, n), got); diff != "" {
					t.Errorf("cursor %d (-want +got):\n%s", i, diff)
				}
			})
		}
		rnd := rand.New(rand.NewPCG(2, 2))
		for i := range n {
			q.push(numbered(i))
			time.Sleep(time.Duration(rnd.IntN(4)) * time.Millisecond)
		}
		wg.Wait()
	})
}

// TestWaitBesideTimer: a consumer that has been woken by something else polls, waits again, and still misses nothing.
func TestWaitBesideTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewFIFO[*ball]()
		c := q.Subscribe()
		go func() {
			for i := range 100 {
				time.Sleep(7 * time.Millisecond)
				q.push(numbered(i))
			}
			q.Close()
		}()
		var got []string
		ticks := 0
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			part, _, err := c.poll()
			if err != nil {
				break
			}
			got = append(got, versions(part)...)
			select {
			case <-c.wait():
			case <-ticker.C:
				ticks++
			}
		}
		if diff := cmp.Diff(numbers(0, 100), got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if ticks < 300 {
			t.Errorf("%d ticks in 700 ms, want 350 or nearly so: the waits were not waits", ticks)
		}
	})
}

// TestRace runs an appender past readers of all speeds that come and go, with the real scheduler, for the race detector and for
// what only real interleavings show.
func TestRace(t *testing.T) {
	const keys = 50
	q := NewFIFO[*ball]()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var world sync.Mutex // the appender's write lock: a snapshot and a cursor are taken at one point
	truth := map[Key]*ball{}
	join := func(opts cursorOptions) *reader {
		world.Lock()
		defer world.Unlock()
		r := &reader{known: map[Key]*ball{}, cursor: q.subscribe(opts)}
		for key, b := range truth {
			r.known[key] = b
		}
		return r
	}
	var readers sync.WaitGroup
	for i := range 6 {
		opts := cursorOptions{everyUpdate: i == 0, limit: []int{0, 1, 300, defaultLimit}[i%4]}
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 3))
			for ctx.Err() == nil || i < 3 { // the last three come and go
				r := join(opts)
				for i < 3 || rnd.IntN(50) > 0 {
					part, err := r.cursor.Next(context.Background())
					if errors.Is(err, ErrStopped) {
						if diff := cmp.Diff(truth, r.known, sameBall); diff != "" {
							t.Errorf("at the end reader %d knows (-truth +known):\n%s", i, diff)
						}
						return
					}
					if err := r.learn(part); err != nil {
						t.Errorf("reader %d: %v", i, err)
						return
					}
					if i != 0 {
						for range rnd.IntN(2000) {
							runtime.Gosched()
						}
					}
					r.cursor.Pending()
				}
				if rnd.IntN(2) == 0 {
					go r.cursor.Close() // while Next is called
					for {
						if _, err := r.cursor.Next(context.Background()); err != nil {
							break
						}
					}
				}
				r.cursor.Close()
			}
		})
	}
	rnd := rand.New(rand.NewPCG(4, 4))
	for version := 1; ctx.Err() == nil; version++ {
		next := newBall(strconv.Itoa(rnd.IntN(keys)), rnd.IntN(2), version)
		world.Lock()
		old := truth[KeyOf(next)]
		d := Delta[*ball]{Cause: Watch, Old: old, New: next, ResourceVersion: next.ResourceVersion}
		if old != nil && rnd.IntN(4) == 0 {
			d.New = nil
			delete(truth, KeyOf(next))
		} else {
			truth[KeyOf(next)] = next
		}
		emit(d, q.push)
		world.Unlock()
		if version%5000 == 0 {
			time.Sleep(time.Millisecond) // let them park
		}
	}
	q.Close()
	readers.Wait()
}

// TestPushAllocates: a push costs its share of a chunk, whatever the number of cursors.
func TestPushAllocates(t *testing.T) {
	for _, cursors := range []int{0, 1, 4, 16} {
		q := NewFIFO[*ball]()
		var all []*Cursor[*ball]
		for range cursors {
			all = append(all, q.Subscribe())
		}
		d := numbered(1)
		const batch = 32
		perBatch := testing.AllocsPerRun(2000, func() {
			for range batch {
				q.push(d)
			}
			for _, c := range all {
				if _, _, err := c.poll(); err != nil {
					t.Fatal(err)
				}
				c.wait()
			}
		})
		// AllocsPerRun rounds down to whole allocations a batch.
		if per := (perBatch + 1) / batch; per > 0.05 {
			t.Errorf("%d cursors: up to %.3f allocations a push, want at most 0.05", cursors, per)
		}
	}
}

// heap is the live heap in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestBlockedCursorCostsObjects: 1M updates of 10k objects cost a cursor that does not read some 10k entries, not 1M.
func TestBlockedCursorCostsObjects(t *testing.T) {
	const objects, updates = 10_000, 1_000_000
	current := make([]*ball, objects)
	q := NewFIFO[*ball]()
	q.Subscribe().Close() // chunks do not count below
	c := q.Subscribe()
	names := make([]string, objects)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	update := func(i int) {
		old, next := current[i%objects], &ball{Meta{Name: names[i%objects], UID: "1", ResourceVersion: "1"}}
		current[i%objects] = next
		d := Delta[*ball]{Type: Updated, Cause: Watch, Old: old, New: next}
		if old == nil {
			d.Type = Added
		}
		q.push(d)
	}
	for i := range objects {
		update(i)
	}
	for c.Pending() > 0 {
		c.poll()
	}
	told := append([]*ball(nil), current...) // a consumer knows them, blocked or not
	before := heap()
	for i := range updates {
		update(i)
	}
	blocked := heap() - before
	if got := c.Pending(); got < objects || got > objects+2*chunkSize {
		t.Errorf("Pending = %d, want about %d", got, objects)
	}
	// An object is 100 bytes here, an entry 40, its place in the map about 50: the bound is generous.
	if limit := int64(objects * 500); blocked > limit {
		t.Errorf("the heap has grown by %d bytes for %d objects, want at most %d", blocked, objects, limit)
	}
	var got int
	for c.Pending() > 0 {
		part, _, err := c.poll()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range part {
			i, _ := strconv.Atoi(d.New.Name)
			if d.Type != Updated || d.Old != told[i] || d.New != current[i] {
				t.Fatalf("told %v %v -> %v, want an update of %v to %v", d.Type, d.Old, d.New, told[i], current[i])
			}
		}
		got += len(part)
	}
	if got != objects {
		t.Errorf("told %d changes, want %d", got, objects)
	}
	clear(told)
	c.wait()
	if after := heap() - before; after > objects*50 {
		t.Errorf("after it was read the heap is %d bytes larger than before, want next to nothing", after)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(current)
}

// TestNothingIsKept: the log lets go of objects when those who should have read them have done so.
func TestNothingIsKept(t *testing.T) {
	tests := []struct {
		name string
		// after the objects are pushed
		do func(t *testing.T, q *FIFO[*ball], c *Cursor[*ball])
		n  int
	}{
		{"a cursor that has caught up and waits", func(t *testing.T, _ *FIFO[*ball], c *Cursor[*ball]) {
			readDry(t, c)
			c.wait()
		}, 100},
		{"chunks that are passed", func(t *testing.T, _ *FIFO[*ball], c *Cursor[*ball]) {
			readDry(t, c)
			c.wait()
		}, 1000},
		{"a net change that is told", func(t *testing.T, _ *FIFO[*ball], c *Cursor[*ball]) {
			readDry(t, c)
			c.wait()
		}, 5000},
		{"a closed cursor, once something comes", func(_ *testing.T, q *FIFO[*ball], c *Cursor[*ball]) {
			c.Close()
			q.push(numbered(1))
		}, 5000},
		{"a parked cursor that is closed", func(t *testing.T, _ *FIFO[*ball], c *Cursor[*ball]) {
			readDry(t, c)
			c.wait()
			c.Close()
		}, 300},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := NewFIFO[*ball]()
			c := q.Subscribe()
			kept := make([]weak.Pointer[ball], tt.n)
			for i := range kept {
				d := numbered(i)
				kept[i] = weak.Make(d.New)
				q.push(d)
			}
			tt.do(t, q, c)
			runtime.GC()
			runtime.GC()
			n := 0
			for _, p := range kept {
				if p.Value() != nil {
					n++
				}
			}
			if n > 1 { // the compiler may keep the last one
				t.Errorf("%d of %d objects are kept", n, tt.n)
			}
			runtime.KeepAlive(q)
			runtime.KeepAlive(c)
		})
	}
}

func readDry(t *testing.T, c *Cursor[*ball]) {
	for c.Pending() > 0 {
		if _, _, err := c.poll(); err != nil {
			t.Fatal(err)
		}
	}
	c.poll() // the part before is not needed any more
}

// TestBlockedCursorKeepsNetChange: a cursor that is not read holds the first and the last version of an object, and lets go of
// the chunks and versions between.
func TestBlockedCursorKeepsNetChange(t *testing.T) {
	const n = 20 * chunkSize
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	q.push(numbered(0))
	inHand, _, err := c.poll() // what a callback is busy with
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]weak.Pointer[ball], n)
	old := newBall("a", 1, 0)
	for i := range kept {
		next := newBall("a", 1, i+1)
		kept[i] = weak.Make(next)
		q.push(Delta[*ball]{Type: Updated, Old: old, New: next, Cause: Watch})
		old = next
	}
	runtime.GC()
	runtime.GC()
	for i, p := range kept[chunkSize : n-2] { // the first are in one piece with what is in hand
		if p.Value() != nil {
			t.Fatalf("version %d of %d is kept", chunkSize+i+1, n)
		}
	}
	if got := c.Pending(); got > 1+chunkSize {
		t.Errorf("Pending = %d, want at most the net change and a chunk", got)
	}
	if diff := cmp.Diff(numbers(0, 1), versions(inHand)); diff != "" {
		t.Errorf("what the consumer is busy with (-want +got):\n%s", diff)
	}
	runtime.KeepAlive(old)
	runtime.KeepAlive(q)
}

// TestBatchIsFreedAsItIsTold: a large net change does not keep the objects that it has told until the last one is.
func TestBatchIsFreedAsItIsTold(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	kept := make([]weak.Pointer[ball], 5000)
	for i := range kept {
		d := numbered(i)
		kept[i] = weak.Make(d.New)
		q.push(d)
	}
	first, _, err := c.poll()
	n := len(first)
	if _, _, err2 := c.poll(); n == 0 || err != nil || err2 != nil {
		t.Fatalf("poll: %d deltas, %v, %v", n, err, err2)
	}
	runtime.GC()
	runtime.GC()
	for i, p := range kept[:n] {
		if p.Value() != nil {
			t.Fatalf("object %d of the %d that were told first is kept", i, n)
		}
	}
	if want := len(kept) - c.Pending(); want <= n {
		t.Errorf("%d deltas are told, want more than %d", want, n)
	}
	runtime.KeepAlive(q)
	runtime.KeepAlive(c)
}

// TestCloseWhileReading: deltas that were handed out stay what they are while their consumer works on them, although the cursor
// is closed under it and the others have moved on.
func TestCloseWhileReading(t *testing.T) {
	q := NewFIFO[*ball]()
	c, other := q.Subscribe(), q.Subscribe()
	for i := range 10 {
		q.push(numbered(i))
	}
	part, _, err := c.poll()
	if err != nil {
		t.Fatal(err)
	}
	readDry(t, other)
	c.Close()
	other.wait()
	if diff := cmp.Diff(numbers(0, 10), versions(part)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSink(t *testing.T) {
	a1, a2, b1, c1 := newBall("a", 1, 1), newBall("a", 1, 2), newBall("b", 2, 1), newBall("c", 3, 3)
	again := newBall("a", 9, 9)
	bare, bareAgain := &ball{Meta{Name: "x"}}, &ball{Meta{Name: "x"}}
	apply := func(typ watch.EventType, b *ball, rv string) func(*FIFO[*ball]) {
		return func(q *FIFO[*ball]) { q.Apply(WatchEvent[*ball]{Type: typ, Object: b, ResourceVersion: rv}) }
	}
	replace := func(rv string, balls ...*ball) func(*FIFO[*ball]) {
		return func(q *FIFO[*ball]) { q.Replace(balls, rv) }
	}
	type deltas = []Delta[*ball]
	first := func(b *ball, rv string) Delta[*ball] {
		return Delta[*ball]{Type: Added, Cause: Initial, Initial: true, New: b, ResourceVersion: rv}
	}
	tests := []struct {
		name   string
		before func(*FIFO[*ball]) // the cursor comes after it
		do     func(*FIFO[*ball])
		want   deltas
	}{
		{"the first list is initial", nil, replace("5", a1, b1), deltas{first(a1, "5"), first(b1, "5")}},
		{"a relist tells what is missing, then the rest", replace("5", a1, b1), replace("6", c1, a2), deltas{
			{Type: Deleted, Cause: Relist, Old: b1, ResourceVersion: "6"},
			{Type: Added, Cause: Relist, New: c1, ResourceVersion: "6"},
			{Type: Updated, Cause: Relist, Old: a1, New: a2, ResourceVersion: "6"}}},
		{"a relist is silent about the unchanged", replace("5", a1, b1), replace("6", newBall("a", 1, 1), b1), nil},
		{"a relist tells another UID apart", replace("5", a1), replace("9", again), deltas{
			{Type: Deleted, Cause: Relist, Old: a1, ResourceVersion: "9"},
			{Type: Added, Cause: Relist, New: again, ResourceVersion: "9"}}},
		{"of one key the newest counts", nil, replace("5", a2, b1, a1), deltas{first(a2, "5"), first(b1, "5")}},
		{"added", nil, apply(watch.Added, a1, "1"), deltas{{Type: Added, Cause: Watch, New: a1, ResourceVersion: "1"}}},
		{"modified of the unknown is added", nil, apply(watch.Modified, a1, "1"),
			deltas{{Type: Added, Cause: Watch, New: a1, ResourceVersion: "1"}}},
		{"added of the known is updated", replace("1", a1), apply(watch.Added, a2, "2"),
			deltas{{Type: Updated, Cause: Watch, Old: a1, New: a2, ResourceVersion: "2"}}},
		{"another UID is two", replace("1", a1), apply(watch.Modified, again, "9"), deltas{
			{Type: Deleted, Cause: Watch, Old: a1, ResourceVersion: "9"},
			{Type: Added, Cause: Watch, New: again, ResourceVersion: "9"}}},
		{"the same version again is nothing", replace("1", a1), apply(watch.Modified, newBall("a", 1, 1), "1"), nil},
		{"deleted carries what was known", replace("1", a1), apply(watch.Deleted, a2, "2"),
			deltas{{Type: Deleted, Cause: Watch, Old: a1, ResourceVersion: "2"}}},
		{"deleted of the unknown is nothing", nil, apply(watch.Deleted, a1, "2"), nil},
		{"deleted by key", replace("1", a1), func(q *FIFO[*ball]) {
			q.Apply(WatchEvent[*ball]{Type: watch.Deleted, ResourceVersion: "2", meta: &Meta{Namespace: "default", Name: "a"}})
		}, deltas{{Type: Deleted, Cause: Watch, Old: a1, ResourceVersion: "2"}}},
		{"a bookmark is nothing", replace("1", a1), apply(watch.Bookmark, nil, "7"), nil},
		{"an error is nothing", replace("1", a1), func(q *FIFO[*ball]) {
			q.Apply(WatchEvent[*ball]{Type: watch.Deleted, Object: a2, Err: errors.New("bad")})
		}, nil},
		{"versions that are not stamped are news", replace("", bare), replace("", bareAgain),
			deltas{{Type: Updated, Cause: Relist, Old: bare, New: bareAgain}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := NewFIFO[*ball]()
			if tt.before != nil {
				tt.before(q)
			}
			c := q.Subscribe()
			tt.do(q)
			q.Close()
			got, err := c.Next(t.Context())
			if len(tt.want) == 0 && errors.Is(err, ErrStopped) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, append(deltas(nil), got...), sameBall); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSinkModel: whatever lists and events come in, what a cursor tells adds up to the content and obeys the contract.
func TestSinkModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := NewFIFO[*ball]()
		r := &reader{known: map[Key]*ball{}, cursor: q.subscribe(cursorOptions{limit: rapid.IntRange(1, 8).Draw(t, "limit")})}
		truth := map[Key]*ball{}
		version := 0
		draw := func(t *rapid.T) *ball {
			version++
			return newBall(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), rapid.IntRange(1, 2).Draw(t, "uid"), version)
		}
		t.Repeat(map[string]func(*rapid.T){
			"replace": func(t *rapid.T) {
				var balls []*ball
				for _, name := range []string{"a", "b", "c"} { // in one order, so that a failure can be run again
					if b := truth[Key{Namespace: "default", Name: name}]; b != nil && rapid.Bool().Draw(t, "stays "+name) {
						again := *b
						balls = append(balls, &again)
					}
				}
				if rapid.Bool().Draw(t, "new") {
					balls = append(balls, draw(t))
				}
				clear(truth)
				for _, b := range balls {
					truth[KeyOf(b)] = b
				}
				q.Replace(balls, strconv.Itoa(version))
			},
			"apply": func(t *rapid.T) {
				b := draw(t)
				typ := rapid.SampledFrom([]watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}).Draw(t, "type")
				switch typ {
				case watch.Added, watch.Modified:
					truth[KeyOf(b)] = b
				case watch.Deleted:
					delete(truth, KeyOf(b))
				}
				q.Apply(WatchEvent[*ball]{Type: typ, Object: b, ResourceVersion: b.ResourceVersion})
			},
			"": func(t *rapid.T) {
				if !rapid.Bool().Draw(t, "read") {
					return
				}
				for {
					part, _, err := r.cursor.poll()
					if err != nil {
						t.Fatal(err)
					}
					if err := r.learn(part); err != nil {
						t.Fatal(err)
					}
					if len(part) == 0 {
						break
					}
				}
				// Unchanged objects of a relist keep their place, so what is compared is what they say.
				if diff := cmp.Diff(fmt.Sprint(truth), fmt.Sprint(r.known)); diff != "" {
					t.Fatalf("(-truth +known):\n%s", diff)
				}
			},
		})
	})
}
