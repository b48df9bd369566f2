package lw

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"
)

// numbered returns a delta of which the version says its place in the log.
func numbered(i int) Delta[*ball] {
	return Delta[*ball]{Type: Added, Cause: CauseWatch, New: newBall(strconv.Itoa(i), i, i), ResourceVersion: strconv.Itoa(i)}
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
			q.log.push(numbered(-1)) // from before the cursors
			early := q.Subscribe()
			var late *Cursor[*ball]
			for i := range n {
				if i == n/2 {
					late = q.Subscribe()
				}
				q.log.push(numbered(i))
			}
			nextIs(t, late, numbers(n/2, n))
			if got := early.pending(); got != n {
				t.Errorf("Pending = %d, want %d", got, n)
			}
			nextIs(t, early, numbers(0, n))
			if got := early.pending(); got != 0 {
				t.Errorf("Pending after Next = %d, want 0", got)
			}
			q.log.push(numbered(n))
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
	t.Run("what was woken and has read is slow as any", func(t *testing.T) {
		q := NewFIFO[*ball]()
		c := q.Subscribe()
		c.wait()
		old := newBall("a", 1, 0)
		q.log.push(Delta[*ball]{Type: Added, New: old, Cause: CauseWatch})
		if got, err := c.Next(t.Context()); err != nil || len(got) != 1 {
			t.Fatalf("Next = %d deltas, %v", len(got), err)
		}
		for i := range defaultLimit + 1 {
			next := newBall("a", 1, i+1)
			q.log.push(Delta[*ball]{Type: Updated, Old: old, New: next, Cause: CauseWatch})
			old = next
		}
		if got, err := c.Next(t.Context()); err != nil || len(got) != 1 || got[0].New != old {
			t.Errorf("Next = %d deltas, %v; want the net change", len(got), err)
		}
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := NewFIFO[*ball]()
			c := q.log.subscribe(tt.opts)
			if tt.wait {
				c.wait()
			}
			old := newBall("a", 1, 0)
			for i := range tt.n {
				next := newBall("a", 1, i+1)
				q.log.push(Delta[*ball]{Type: Updated, Old: old, New: next, Cause: CauseWatch})
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

// TestPositionPassesWhatCancelsOut: who waits for a position must not wait for a delta that will
// not come.
func TestPositionPassesWhatCancelsOut(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.log.subscribe(cursorOptions{limit: 1})
	b := newBall("a", 1, 1)
	q.log.push(Delta[*ball]{Type: Added, New: b})
	q.log.push(Delta[*ball]{Type: Deleted, Old: b})
	part, told, err := c.next(t.Context())
	if len(part) != 0 || told != q.log.position() || err != nil {
		t.Errorf("next = %v, %d, %v; want no deltas up to %d", part, told, err, q.log.position())
	}
}

// TestNextReturnsSomething: what cancels out is not worth a return of Next, which has no position
// to tell.
func TestNextReturnsSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewFIFO[*ball]()
		c := q.log.subscribe(cursorOptions{limit: 1})
		b := newBall("a", 1, 1)
		q.log.push(Delta[*ball]{Type: Added, New: b})
		q.log.push(Delta[*ball]{Type: Deleted, Old: b})
		got := make(chan []string, 1)
		go func() {
			deltas, err := c.Next(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- versions(deltas)
		}()
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("Next = %v of what has cancelled out", <-got)
		}
		q.log.push(numbered(7))
		if diff := cmp.Diff([]string{"7"}, <-got); diff != "" {
			t.Errorf("Next (-want +got):\n%s", diff)
		}
	})
}

func TestNextWaits(t *testing.T) {
	cause := errors.New("enough")
	tests := []struct {
		name string
		end  func(q *FIFO[*ball], c *Cursor[*ball], cancel context.CancelCauseFunc)
		want error
	}{
		{"for a delta", func(q *FIFO[*ball], _ *Cursor[*ball], _ context.CancelCauseFunc) { q.log.push(numbered(1)) }, nil},
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
	q.log.push(numbered(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := c.Next(ctx); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("Next with a context that is done = %v, %v", got, err)
	}
	nextIs(t, c, numbers(0, 1))
}

// TestCloseAmidNext: a cursor that is closed while Next collects several parts returns what it has.
func TestCloseAmidNext(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.log.subscribe(cursorOptions{limit: 1})
	asked := 0
	q.log.same = func(a, b *ball) bool { // poll calls it without a lock, as it does a user's function
		if asked++; asked == chunkSize+1 {
			c.Close()
		}
		return false
	}
	for i := range 3 * chunkSize {
		name := strconv.Itoa(i)
		q.log.push(Delta[*ball]{Type: Updated, Old: newBall(name, i, 1), New: newBall(name, i, 2), Cause: CauseWatch})
	}
	if got, err := c.Next(t.Context()); err != nil || len(got) <= chunkSize || len(got) > 2*chunkSize {
		t.Errorf("Next = %d deltas, %v; want those of two parts", len(got), err)
	}
	if _, err := c.Next(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("the next Next: %v, want ErrStopped", err)
	}
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
	if n := leaves.pending(); n != 0 {
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

// A consumer that looks at the end of the log, and then at whether the log is closed, is not told
// that nothing will come although deltas have come in between: at that moment the log is closed at
// an end that it has not seen.
func TestClosedAtALaterEnd(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	q.log.closedAt.Store(2 + 1)
	for i := range 2 {
		if part, _, err := c.poll(); len(part) > 0 || err != nil {
			t.Fatalf("before delta %d: %v, error %v", i, versions(part), err)
		}
		q.log.put(numbered(i))
		if part, _, err := c.poll(); err != nil || len(part) != 1 {
			t.Fatalf("delta %d: %v, error %v", i, versions(part), err)
		}
	}
	if _, _, err := c.poll(); !errors.Is(err, ErrStopped) {
		t.Errorf("at its end: %v", err)
	}
}

// TestNoLostWakeUp parks cursors and pushes in every relation of time. A wake-up that is lost
// leaves the bubble deadlocked.
func TestNoLostWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, cursors = 2000, 8
		q := NewFIFO[*ball]()
		var wg sync.WaitGroup
		for i := range cursors {
			c := q.log.subscribe(cursorOptions{everyUpdate: true})
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
			q.log.push(numbered(i))
			time.Sleep(time.Duration(rnd.IntN(4)) * time.Millisecond)
		}
		wg.Wait()
	})
}

// TestWaitBesideTimer: a consumer that has been woken by something else polls, waits again, and
// still misses nothing.
func TestWaitBesideTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewFIFO[*ball]()
		c := q.Subscribe()
		go func() {
			for i := range 100 {
				time.Sleep(7 * time.Millisecond)
				q.log.push(numbered(i))
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

// TestRace runs an appender past readers of all speeds that come and go, with the real scheduler,
// for the race detector and for what only real interleavings show.
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
		r := &reader{known: map[Key]*ball{}, cursor: q.log.subscribe(opts)}
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
					r.cursor.pending()
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
		d := Delta[*ball]{Cause: CauseWatch, Old: old, New: next, ResourceVersion: next.ResourceVersion}
		if old != nil && rnd.IntN(4) == 0 {
			d.New = nil
			delete(truth, KeyOf(next))
		} else {
			truth[KeyOf(next)] = next
		}
		emit(d, q.log.push)
		world.Unlock()
		if version%5000 == 0 {
			time.Sleep(time.Millisecond) // let them park
		}
	}
	q.Close()
	readers.Wait()
}

// TestCloseWhileReading: deltas that were handed out stay what they are while their consumer works
// on them, although the cursor is closed under it and the others have moved on.
func TestCloseWhileReading(t *testing.T) {
	q := NewFIFO[*ball]()
	c, other := q.Subscribe(), q.Subscribe()
	for i := range firstChunk {
		q.log.push(numbered(i))
	}
	part, _, err := c.poll()
	if err != nil {
		t.Fatal(err)
	}
	readDry(t, other)
	c.Close()
	other.wait()
	// Nor does the log begin anew with their chunk.
	for i := range 2 * firstChunk {
		q.log.push(numbered(100 + i))
		readDry(t, other)
		other.wait()
	}
	if diff := cmp.Diff(numbers(0, firstChunk), versions(part)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A consumer that is never behind is given every delta, however many there are, without a pause
// between them.
func TestSteadyConsumerGetsAll(t *testing.T) {
	q := NewFIFO[*ball]()
	q.log.push(numbered(-1))
	c := q.Subscribe()
	if got := c.delivered.Load(); got != q.log.position() {
		t.Errorf("a new cursor is at %d of a log of %d", got, q.log.position())
	}
	for i := range 3 * defaultLimit {
		q.log.push(numbered(i))
		part, at, err := c.poll()
		if err != nil || len(part) != 1 || at != q.log.position() {
			t.Fatalf("delta %d: %d deltas up to %d of %d, error %v", i, len(part), at, q.log.position(), err)
		}
		if cap(part) > len(part) {
			t.Fatalf("delta %d: what the consumer appends would be in the log", i)
		}
	}
	if _, folded := c.undone(); folded != 0 {
		t.Errorf("%d deltas were folded", folded)
	}
}

// When the last part of a net change is given, the consumer is where the net change ends.
func TestPositionBehindANetChange(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	for i := range 2 * defaultLimit {
		q.log.push(numbered(i))
	}
	for last := uint64(0); c.pending() > 0; {
		_, at, err := c.poll()
		if err != nil || at < last || at != c.delivered.Load() {
			t.Fatalf("from %d to %d, error %v", last, at, err)
		}
		last = at
	}
	if got := c.delivered.Load(); got != q.log.position() {
		t.Errorf("at %d of %d", got, q.log.position())
	}
}

// A log that is closed has not ended for who reads it up to a point before its end.
func TestBoundOfAClosedLog(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	q.log.push(numbered(0))
	q.log.push(numbered(1))
	q.Close()
	for i, want := range []int{1, 0} {
		if part, at, err := c.pollTo(1, true); err != nil || len(part) != want || at != 1 {
			t.Errorf("poll %d: %v up to %d, error %v", i, versions(part), at, err)
		}
	}
}

// The appender may find that a cursor is too slow, and fold it when it has been closed or has
// caught up.
func TestFoldACursorTooLate(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.log.subscribe(cursorOptions{limit: 1})
	for i := range firstChunk {
		q.log.put(numbered(i))
	}
	c.foldTo(firstChunk / 2)
	c.Close()
	c.foldTo(q.log.position())
	// What was folded before stays counted.
	if n, folded := c.undone(); n != 0 || folded != firstChunk/2 {
		t.Errorf("%d wait, %d were folded", n, folded)
	}
	// Nor is one folded that is not too slow any more.
	quick := q.Subscribe()
	q.log.push(numbered(0))
	quick.foldTo(q.log.position())
	if n, folded := quick.undone(); n != 1 || folded != 0 {
		t.Errorf("of one that has caught up %d wait, %d were folded", n, folded)
	}
}

// A consumer that waits after its cursor or the log was closed does not wait for ever.
func TestWaitOfWhatIsClosed(t *testing.T) {
	for name, end := range map[string]func(*FIFO[*ball], *Cursor[*ball]){
		"log": func(q *FIFO[*ball], _ *Cursor[*ball]) { q.Close() }, "cursor": func(_ *FIFO[*ball], c *Cursor[*ball]) { c.Close() },
	} {
		q := NewFIFO[*ball]()
		c := q.Subscribe()
		if part, _, err := c.poll(); len(part) > 0 || err != nil {
			t.Fatal(name, part, err)
		}
		end(q, c)
		select {
		case <-c.wait():
		default:
			t.Errorf("%s: the consumer waits", name)
		}
	}
}
