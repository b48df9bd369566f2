package lw

import (
	"runtime"
	"strconv"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"
)

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
				q.log.push(d)
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

// TestCalmLogStaysSmall: a log whose deltas come one by one has one small chunk, and takes no
// memory for them.
func TestCalmLogStaysSmall(t *testing.T) {
	q := NewFIFO[*ball]()
	c, other := q.Subscribe(), q.Subscribe()
	n := 0
	next := func(t *testing.T) {
		d := numbered(n)
		q.log.push(d)
		n++
		for _, c := range []*Cursor[*ball]{c, other} {
			part, _, err := c.poll()
			if err != nil || len(part) != 1 || part[0].New != d.New {
				t.Fatalf("delta %d: got %v, error %v", n, part, err)
			}
			c.wait()
		}
	}
	only := q.log.tail
	for range 10 * firstChunk {
		next(t)
	}
	if got := len(q.log.tail.slots); got != firstChunk || q.log.tail != only {
		t.Errorf("a chunk of %d, want the one of %d", got, firstChunk)
	}
	// What a consumer works on is not overwritten by what comes then.
	for n%firstChunk != firstChunk-1 {
		next(t)
	}
	last := numbered(n)
	q.log.push(last)
	other.poll()
	other.wait()
	part, _, err := c.poll()
	for range 3 {
		q.log.push(numbered(-1))
		other.poll()
		other.wait()
	}
	if err != nil || len(part) != 1 || part[0].New != last.New {
		t.Errorf("what a consumer works on became %v, want %v; error %v", part, last, err)
	}
	// A busy log has larger chunks from then on.
	for range 4 * chunkSize {
		q.log.push(numbered(n))
		c.poll()
	}
	if got := len(q.log.tail.slots); got != chunkSize {
		t.Errorf("a chunk of a busy log has %d, want %d", got, chunkSize)
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

// TestBlockedCursorCostsObjects: 1M updates of 10k objects cost a cursor that does not read some
// 10k entries, not 1M.
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
		d := Delta[*ball]{Type: Updated, Cause: CauseWatch, Old: old, New: next}
		if old == nil {
			d.Type = Added
		}
		q.log.push(d)
	}
	for i := range objects {
		update(i)
	}
	for c.pending() > 0 {
		c.poll()
	}
	told := append([]*ball(nil), current...) // a consumer knows them, blocked or not
	before := heap()
	for i := range updates {
		update(i)
	}
	blocked := heap() - before
	if got := c.pending(); got < objects || got > objects+2*chunkSize {
		t.Errorf("Pending = %d, want about %d", got, objects)
	}
	// An object is 100 bytes here, an entry 40, its place in the map about 50: the bound is generous.
	if limit := int64(objects * 500); blocked > limit {
		t.Errorf("the heap has grown by %d bytes for %d objects, want at most %d", blocked, objects, limit)
	}
	var got int
	for c.pending() > 0 {
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
			q.log.push(numbered(1))
		}, 5000},
		{"a cursor whose consumer leaves with what it was given", func(t *testing.T, _ *FIFO[*ball], c *Cursor[*ball]) {
			if _, _, err := c.poll(); err != nil {
				t.Fatal(err)
			}
			c.close(true)
		}, 8},
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
				q.log.push(d)
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
	for c.pending() > 0 {
		if _, _, err := c.poll(); err != nil {
			t.Fatal(err)
		}
	}
	c.poll() // the part before is not needed any more
}

// TestBlockedCursorKeepsNetChange: a cursor that is not read holds the first and the last version
// of an object, and lets go of the chunks and versions between.
func TestBlockedCursorKeepsNetChange(t *testing.T) {
	// The chunks before the last delta are full: small ones, each of twice the size, and then others.
	const n = chunkSize - firstChunk + 19*chunkSize
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	q.log.push(numbered(0))
	inHand, _, err := c.poll() // what a callback is busy with
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]weak.Pointer[ball], n)
	old := newBall("a", 1, 0)
	for i := range kept {
		next := newBall("a", 1, i+1)
		kept[i] = weak.Make(next)
		q.log.push(Delta[*ball]{Type: Updated, Old: old, New: next, Cause: CauseWatch})
		old = next
	}
	runtime.GC()
	runtime.GC()
	for i, p := range kept[chunkSize : n-2] { // the first are in one piece with what is in hand
		if p.Value() != nil {
			t.Fatalf("version %d of %d is kept", chunkSize+i+1, n)
		}
	}
	if got := c.pending(); got > 1+chunkSize {
		t.Errorf("Pending = %d, want at most the net change and a chunk", got)
	}
	if diff := cmp.Diff(numbers(0, 1), versions(inHand)); diff != "" {
		t.Errorf("what the consumer is busy with (-want +got):\n%s", diff)
	}
	runtime.KeepAlive(old)
	runtime.KeepAlive(q)
}

// TestBatchIsFreedAsItIsTold: a large net change does not keep the objects that it has told until
// the last one is.
func TestBatchIsFreedAsItIsTold(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	kept := make([]weak.Pointer[ball], 5000)
	for i := range kept {
		d := numbered(i)
		kept[i] = weak.Make(d.New)
		q.log.push(d)
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
	if want := len(kept) - c.pending(); want <= n {
		t.Errorf("%d deltas are told, want more than %d", want, n)
	}
	runtime.KeepAlive(q)
	runtime.KeepAlive(c)
}

// What has come since a consumer parked is not cleared before it has read it, although another one
// is done with it; and is cleared when nobody will read it. The log may have gone on to another
// chunk by then.
func TestSweepBesideAParkedCursor(t *testing.T) {
	for _, n := range []int{1, firstChunk, 3 * firstChunk} {
		q := NewFIFO[*ball]()
		quick, late, leaves := q.Subscribe(), q.Subscribe(), q.Subscribe()
		for _, c := range q.log.cursors {
			c.wait()
		}
		for i := range n {
			q.log.put(numbered(i)) // nobody is woken yet
		}
		readDry(t, quick)
		quick.wait()
		first := late.chunk
		if d := first.slots[0]; d.New == nil {
			t.Errorf("%d deltas: the first one is cleared", n)
		}
		readDry(t, late)
		late.wait()
		if d := first.slots[0]; d.New == nil {
			t.Errorf("%d deltas: the first one is cleared before the last consumer has read it", n)
		}
		leaves.Close()
		for i, d := range q.log.tail.slots {
			if d.New != nil {
				t.Errorf("%d deltas: slot %d of the tail is not cleared when the last one has left", n, i)
			}
		}
	}
}

// A consumer that was parked and polls again is not taken for one that is done with its deltas.
func TestSweepBesideAConsumerThatPolls(t *testing.T) {
	q := NewFIFO[*ball]()
	c, other := q.Subscribe(), q.Subscribe()
	c.wait()
	other.wait()
	q.log.put(numbered(0))
	part, _, err := c.poll()
	if err != nil {
		t.Fatal(err)
	}
	readDry(t, other)
	other.wait()
	if len(part) != 1 || part[0].New == nil {
		t.Errorf("its delta was cleared: %v", part)
	}
}

// A calm log clears its chunk again each time that it begins anew with it, and keeps no cursor that
// has left.
func TestCalmLogClears(t *testing.T) {
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	c.wait()
	for i := range 3*firstChunk + 1 {
		q.log.push(numbered(i))
		readDry(t, c)
		c.wait()
		for at, d := range q.log.tail.slots {
			if d.New != nil {
				t.Fatalf("slot %d is not cleared after delta %d", at, i)
			}
		}
	}
	q.log.push(numbered(0))
	c.Close()
	for _, parked := range q.log.parked[:cap(q.log.parked)] {
		if parked != nil {
			t.Error("a cursor that has left is kept among the parked ones")
		}
	}
	slow := q.Subscribe()
	for i := range 2 * defaultLimit {
		q.log.push(numbered(i))
	}
	if _, folded := slow.undone(); folded == 0 {
		t.Fatal("nothing was folded")
	}
	for _, kept := range q.log.tooSlow[:cap(q.log.tooSlow)] {
		if kept != nil {
			t.Error("a cursor that was too slow is kept")
		}
	}
	q.Replace(nil, "1")
	q.Close()
	if q.known != nil {
		t.Error("a closed log keeps its content")
	}
}
