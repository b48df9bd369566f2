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
	// parallelFrom is the offset in a stream from which it is decoded in parallel. To compile
	// another Decoder for a big type takes as long as to decode a few hundred kilobytes, so short
	// lists are better off with one.
	parallelFrom = 1 << 20
	// batchBytes is how much a worker gets at a time, if a piece is not larger: some 200
	// microseconds of work, so that the hand-over costs little beside it.
	batchBytes = 32 << 10
	// maxAhead is how many bytes may be queued, unless one batch has more. It bounds the memory if
	// yield is slow.
	maxAhead = 4 << 20
)

// A workerPool decodes the pieces of a stream, which are the objects of a list or the initial
// events of a watch, on several cores. The caller's goroutine reads the stream, cuts it into pieces
// and collects those in batches. Workers decode the batches, each with a Decoder of its own,
// because a shared one would need a lock for every string. The caller's goroutine yields the
// results, in the order of the pieces.
//
// The results are identical to those of a single Decoder. Only the timing differs. That is so
// because:
//
//   - What a piece is decoded to depends only on its bytes and its offset. What depends on the
//     pieces before it, such as the kind that all must have, is left to yield.
//   - Batches are yielded in their order, and none after an error. A worker stops at a piece that
//     it cannot decode. When its turn comes, the caller's goroutine decodes that piece again. So
//     its error, or its panic, is the one that a single Decoder has, and comes in the same
//     goroutine.
//   - The end of a piece may be a guess, such as the end of a line: to find the end of JSON for
//     certain takes a fifth of the time that it takes to decode it. Guesses are checked as they are
//     yielded. The first piece begins where it must. If a piece is exactly one value, the next one
//     begins where it must, too. If it is not, readAlone reads everything from the start of that
//     piece again, without the pool, and nothing that was decoded behind it is used.
//   - An error between pieces, such as a missing comma or the end of the stream, is found by the
//     caller's goroutine while pieces before it are still being decoded. It goes through drain,
//     which yields those first.
//   - A Read may wait for as long as the server has nothing to send. What is queued is yielded
//     meanwhile: see Read.
//
// All methods are called in the caller's goroutine, except runWorker and decodeBatch. A nil
// workerPool is valid, and does nothing: the caller decodes each piece itself.
type workerPool struct {
	// d is the caller's Decoder.
	d *Decoder
	// These three are set by configure. readAlone is nil where the ends of pieces are not guessed.
	decode    func(d *Decoder, raw []byte, base int64) (Event, error)
	yield     func(Event) error
	readAlone func() error
	// from is the offset in the stream where the pool begins to work.
	from int64
	// err is what has ended the results: an error of a piece, or of yield. Nothing is yielded after
	// it.
	err error
	// separator has the bytes that were consumed behind the last piece. readAlone needs them if
	// that piece turns out to be longer.
	separator []byte

	// filling collects pieces until it is large enough for a worker; nil if it has none.
	filling *batch
	// queue has the batches that workers have or will get, the oldest first. queuedBytes is the sum
	// of their bytes.
	queue       []*batch
	queuedBytes int
	// free has batches to use again.
	free []*batch
	// jobs has the batches of queue for which no worker has asked yet. It has room for twice as
	// many as there are workers, so that a send never blocks: flush waits for the oldest batch
	// before. It is nil after stop.
	jobs chan *batch
	// idle has the decoders of workers that have not been started, or have ended. A nil stands for
	// one that has not been made.
	idle chan *Decoder

	// r is the stream. The pool takes its place in the Decoder's buffer, and yields results while r
	// waits: see Read.
	r io.Reader
	// While reading is true a goroutine waits in r.Read(readInto), and will send the result to
	// readDone.
	readDone chan readResult
	reading  bool
	readInto []byte

	// stopped tells the workers that nobody needs their results any more.
	stopped atomic.Bool
	// running counts the workers and the goroutine that reads.
	running sync.WaitGroup
}

// A batch is some pieces that follow each other in the stream. It is owned by the caller's
// goroutine until it is sent to jobs, by one worker until that sends to done, and by the caller's
// goroutine again.
type batch struct {
	// raw has the pieces, each with the separator before it. They are copied out of the buffer,
	// which goes on reading.
	raw []byte
	// pieces says where in raw they are.
	pieces []piece
	// events has what the first of the pieces were decoded to. If they are fewer, the next piece
	// could not be decoded, or the pool was stopped.
	events []Event
	// panicked is what the decoding of the next piece panicked with.
	panicked any
	// done gets a value when the worker has finished. It has room for one, so the worker does not
	// wait.
	done chan struct{}
}

// A piece is raw[start:end] of its batch. Its offset in the stream is base.
type piece struct {
	start, end int
	base       int64
}

// A readResult is what a Read returned, or panicked with.
type readResult struct {
	n        int
	err      error
	panicked any
}

// newWorkerPool returns a pool for the stream that d is about to read, or nil if d does better
// alone. It makes no goroutine and no Decoder before there is a batch for one.
func newWorkerPool(d *Decoder) *workerPool {
	n, from := d.opts.Workers, int64(0)
	if n == 0 {
		// With two or three cores, the server or the rest of the program needs the others.
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

// configure says what the pieces are. decode decodes one, by the Decoder of the goroutine that
// calls it. yield gets the results in the order of the pieces, in the caller's goroutine. alone
// reads on without the pool, up to the end of the stream.
func (w *workerPool) configure(decode func(d *Decoder, raw []byte, base int64) (Event, error), yield func(Event) error, alone func() error) {
	if w != nil {
		w.decode, w.yield, w.readAlone = decode, yield, alone
	}
}

// active reports whether the next piece is one for the pool.
func (w *workerPool) active() bool { return w != nil && w.d.buf.offset() >= w.from }

// peek is b.peek for the space between pieces: it remembers what it consumes.
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

// addSeparator remembers what has been consumed between pieces. If no piece is waiting, none can
// turn out to be longer, and there is nothing to remember.
func (w *workerPool) addSeparator(gap []byte) {
	if w == nil {
		return
	}
	if w.separator = append(w.separator, gap...); len(w.queue) == 0 && w.filling == nil {
		w.separator = w.separator[:0]
	}
}

// add takes the next piece, whose offset in the stream is base. An error is that of an earlier
// piece, or of this one.
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

// flush gives the pieces that add has collected to a worker. If too much is queued, it yields the
// oldest batches first, and waits for those: that is how a slow yield or slow workers hold up the
// reading.
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
	// Start another worker for this batch, as long as there are some that do not run. They are
	// started one by one, so that a short list does not make a Decoder for each.
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

// runWorker decodes batches by d until there are no more. A nil d means a new Decoder. It runs in a
// goroutine of its own.
func (w *workerPool) runWorker(d *Decoder) {
	var b *batch
	// b is nil at the regular end. Otherwise the decoding has panicked or called runtime.Goexit.
	// Nobody knows in what state d is then, so another worker takes over with a new one.
	defer func() {
		if b == nil {
			w.idle <- d
			return
		}
		b.panicked = recover()
		b.done <- struct{}{}
		w.running.Go(func() { w.runWorker(nil) })
	}()
	if d == nil {
		// It cannot fail: the caller's Decoder was made of the same.
		d, _ = New(w.d.root.typ, w.d.opts)
	}
	d.p.stop, d.lend, d.wanted, d.listing = w.d.p.stop, w.d.lend, w.d.wanted, true
	for b = range w.jobs {
		w.decodeBatch(d, b)
		d.releaseInput()
		b.done <- struct{}{}
	}
	b = nil
}

// decodeBatch decodes the pieces of a batch, up to one that has an error. The caller's goroutine
// decodes that piece again.
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

// deliverOldest waits for the oldest batch and yields its events.
func (w *workerPool) deliverOldest() {
	b := w.dequeue()
	<-b.done
	w.deliver(b)
}

// dequeue takes the oldest batch out of the queue.
func (w *workerPool) dequeue() *batch {
	b := w.queue[0]
	w.queue = w.queue[:copy(w.queue, w.queue[1:])]
	w.queuedBytes -= len(b.raw)
	return b
}

// deliver yields what the pieces of b were decoded to, and sets err if that ends.
//
// A worker may have stopped at a piece. The piece is decoded again here, where its error or panic
// belongs. If it fails again and its end was a guess, the guess may be to blame: then the stream is
// read again from there. If it does not fail although the worker panicked, the panic is passed on.
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
	// Use the batch again, unless a large object has grown it. Clear the events, so that they keep
	// no objects alive.
	clear(b.events)
	b.raw, b.pieces, b.events = b.raw[:0], b.pieces[:0], b.events[:0]
	if cap(b.raw) <= maxKeptBuffer {
		w.free = append(w.free, b)
	}
}

// drain yields all pieces that have been added. It returns the error with which they end, or else
// err, which has come behind them.
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

// keepWorkers leaves the workers' decoders to the Decoder, for the next page of the list. Without a
// next page they would only be memory.
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
