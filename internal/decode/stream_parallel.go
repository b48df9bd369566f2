package decode

import (
	"bytes"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// parallelFrom is the offset in a stream from which it is decoded in parallel: another Decoder of a big type takes as long
	// to compile as a few hundred kilobytes take to decode.
	parallelFrom = 1 << 20
	// batchBytes is how much a helper is given at a time, if that is more than a piece: some 200 microseconds of work.
	batchBytes = 32 << 10
	// maxAhead is how much is under way at most, unless a batch alone is more.
	maxAhead = 4 << 20
)

// A crew decodes the pieces of a stream, which are its objects or its events, on several cores. The caller's goroutine reads the
// stream, cuts it into pieces and yields what comes of them; in between, batches of pieces are decoded by helpers, each with a
// Decoder of its own, because one for all would need a lock for every string.
//
// Nothing but the time that it takes tells a crew from one Decoder:
//
//   - What a piece is decoded to depends on its bytes and its offset. What depends on the pieces before it, such as the kind that
//     all of them must have, is left to yield.
//   - Batches are passed on in their order, and none after an error. A helper stops at a piece that it cannot decode, and the
//     caller decodes that again when its turn has come: its error, or its panic, is then the one that it always was.
//   - To find where JSON ends takes a fifth of the time that it takes to decode it, so where a piece ends may be a guess, such as
//     the end of a line. If a piece is a whole value, and it is known where it begins, it is known where the next one begins. If
//     it is not, all from there on is read again by the caller, as if there were no crew, and no guess has been of any effect.
//   - What is wrong between the pieces, a missing comma or the end of the bytes, is found by the caller while pieces before it
//     are still under way. Its error goes through finish, which passes those on before it.
//   - A Read may wait for as long as the server has nothing to send. What is under way is passed on meanwhile.
//
// A nil crew is one Decoder.
type workerPool struct {
	d         *Decoder // the caller's
	decode    func(d *Decoder, raw []byte, base int64) (Event, error)
	yield     func(Event) error
	readAlone func() error // reads from a piece on without the crew; nil: where pieces end is not guessed
	from      int64        // the offset where it begins to work
	err       error        // where the results end
	separator []byte       // what has been passed behind the last piece

	filling     *batch   // nil: none
	queue       []*batch // under way, the oldest first
	queuedBytes int      // the bytes of those
	free        []*batch
	jobs        chan *batch   // twice as many as there are helpers; nil once all is over
	idle        chan *Decoder // those of helpers who have not begun, or have ended; nil is one that is not yet made

	r        io.Reader
	readDone chan readResult
	reading  bool   // what will be in read
	readInto []byte // where the bytes will be

	stopped atomic.Bool // the helpers work for nothing
	running sync.WaitGroup
}

// A batch is some pieces that follow each other.
type batch struct {
	raw      []byte // the pieces, each with the gap before it
	pieces   []piece
	events   []Event // what the first pieces were decoded to
	panicked any     // with the next one
	done     chan struct{}
}

// A piece is raw[start:end] of its batch, and begins in the stream at base.
type piece struct {
	start, end int
	base       int64
}

type readResult struct {
	n        int
	err      error
	panicked any
}

// newCrew returns a crew for what d reads, or nil where d does better alone.
func newWorkerPool(d *Decoder) *workerPool {
	n, from := d.opts.Workers, int64(0)
	if n == 0 {
		// Of two or three cores the server, or the rest of the program, needs the others.
		n, from = min(runtime.GOMAXPROCS(0)/2, 4), parallelFrom
		if n < 2 {
			return nil
		}
	}
	if n < 0 {
		return nil
	}
	w := &workerPool{
		d: d, from: from, r: d.buf.r, jobs: make(chan *batch, 2*n), idle: make(chan *Decoder, n), readDone: make(chan readResult, 1),
	}
	for _, worker := range append(d.workers, make([]*Decoder, n)...)[:n] {
		w.idle <- worker
	}
	d.workers, d.buf.r = nil, w
	return w
}

// begin says what the pieces are: how one is decoded, by the Decoder of whoever does that; what is to be done with what comes of
// them, in their order and in the caller's goroutine; and how to go on alone.
func (w *workerPool) configure(decode func(d *Decoder, raw []byte, base int64) (Event, error), yield func(Event) error, alone func() error) {
	if w != nil {
		w.decode, w.yield, w.readAlone = decode, yield, alone
	}
}

// on reports whether the next piece is one for the crew.
func (w *workerPool) active() bool { return w != nil && w.d.buf.offset() >= w.from }

// peek is b.peek for what stands between pieces.
func (w *workerPool) peek(b *buffer) (byte, error) {
	if w == nil {
		return b.peek()
	}
	for {
		space := b.data[b.pos:]
		space = space[:len(space)-len(bytes.TrimLeft(space, " \t\r\n"))]
		w.addSeparator(space)
		if b.pos += len(space); b.pos < len(b.data) {
			return b.data[b.pos], nil
		}
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
}

// passed remembers what has been passed between pieces for as long as it may turn out to be part of one.
func (w *workerPool) addSeparator(gap []byte) {
	if w == nil {
		return
	}
	if w.separator = append(w.separator, gap...); len(w.queue) == 0 && w.filling == nil {
		w.separator = w.separator[:0]
	}
}

// add takes the next piece, which begins in the stream at base. An error is that of a piece before it, or its own.
func (w *workerPool) add(raw []byte, base int64) error {
	b := w.filling
	if b == nil {
		if last := len(w.free) - 1; last >= 0 {
			b, w.free = w.free[last], w.free[:last]
		} else {
			b = &batch{done: make(chan struct{}, 1)}
		}
		w.filling = b
	}
	b.raw = append(b.raw, w.separator...)
	w.separator = w.separator[:0]
	start := len(b.raw)
	b.raw = append(b.raw, raw...)
	b.pieces = append(b.pieces, piece{start, len(b.raw), base})
	if len(b.raw) < w.d.batch {
		return nil
	}
	return w.flush()
}

// flush gives the pieces that have been added to a helper.
func (w *workerPool) flush() error {
	if w.filling == nil {
		return w.err
	}
	for w.err == nil && len(w.queue) > 0 && (len(w.queue) == cap(w.jobs) || w.queuedBytes+len(w.filling.raw) > maxAhead) {
		w.deliverOldest()
	}
	if w.err != nil {
		return w.err
	}
	select {
	case d := <-w.idle:
		w.running.Go(func() { w.runWorker(d) })
	default:
	}
	w.queuedBytes += len(w.filling.raw)
	w.queue = append(w.queue, w.filling)
	w.jobs <- w.filling
	w.filling = nil
	return nil
}

// help decodes batches until there are no more.
func (w *workerPool) runWorker(d *Decoder) {
	var b *batch
	defer func() {
		if b == nil {
			w.idle <- d
			return
		}
		// The decoding panicked or left the goroutine, and nobody knows what d is like now.
		b.panicked = recover()
		b.done <- struct{}{}
		w.running.Go(func() { w.runWorker(nil) })
	}()
	if d == nil {
		d, _ = New(w.d.root.typ, w.d.opts) // it has no error, or there would be no w.d
	}
	d.p.stop = w.d.p.stop
	for b = range w.jobs {
		w.decodeBatch(d, b)
		d.releaseInput()
		b.done <- struct{}{}
	}
	b = nil
}

// run decodes a batch as far as that goes.
func (w *workerPool) decodeBatch(d *Decoder, b *batch) {
	for _, p := range b.pieces {
		if w.stopped.Load() {
			return
		}
		ev, err := w.decode(d, b.raw[p.start:p.end:p.end], p.base)
		if err != nil {
			return
		}
		b.events = append(b.events, ev)
	}
}

// next waits for the oldest batch and passes it on.
func (w *workerPool) deliverOldest() {
	b := w.dequeue()
	<-b.done
	w.deliver(b)
}

func (w *workerPool) dequeue() *batch {
	b := w.queue[0]
	w.queue = w.queue[:copy(w.queue, w.queue[1:])]
	w.queuedBytes -= len(b.raw)
	return b
}

// pass yields what a batch was decoded to.
func (w *workerPool) deliver(b *batch) {
	for i, p := range b.pieces {
		var ev Event
		if i < len(b.events) {
			ev = b.events[i]
		} else if ev, w.err = w.decode(w.d, b.raw[p.start:p.end:p.end], p.base); w.err != nil {
			if w.readAlone != nil {
				w.err = w.continueAlone(b, p)
			}
			return
		} else if i == len(b.events) && b.panicked != nil {
			panic(b.panicked)
		}
		if w.err = w.yield(ev); w.err != nil {
			return
		}
	}
	clear(b.events)
	b.raw, b.pieces, b.events = b.raw[:0], b.pieces[:0], b.events[:0]
	if cap(b.raw) <= maxKeptBuffer {
		w.free = append(w.free, b)
	}
}

// finish passes on all that has been added. It returns the error that this ends with, or else err, which came after it.
func (w *workerPool) drain(err error) error {
	if w == nil {
		return err
	}
	_ = w.flush()
	for len(w.queue) > 0 && w.err == nil {
		w.deliverOldest()
	}
	if w.err != nil {
		return w.err
	}
	return err
}

// keep keeps the helpers for the next page of the list, if there is one, after which they are memory for nothing.
func (w *workerPool) keepWorkers(list *metav1.ListMeta) {
	if w == nil || list.Continue == "" {
		return
	}
	w.stop()
	for len(w.idle) > 0 {
		if worker := <-w.idle; worker != nil {
			w.d.workers = append(w.d.workers, worker)
		}
	}
}
