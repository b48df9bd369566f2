package decode

import (
	"errors"
	"io"
	"slices"
)

// errStopped ends the reading of a stream if nothing more of it will be yielded. The error that has
// ended it is in err.
var errStopped = errors.New("ended by an object before")

// Read reads from the stream, for the Decoder's buffer. While it waits it yields what has been
// decoded, because the next bytes may come much later. The stream must have a Close, which ends a
// Read that nobody waits for any more; from one without a Close it reads only when nothing is
// queued.
//
// A batch that is not full is given to a worker only when nothing else is queued. A stream that
// comes in small portions would otherwise wake a worker for each, which costs more than the little
// that it decodes.
func (w *workerPool) Read(p []byte) (int, error) {
	if _, ok := w.r.(io.Closer); !ok && w.drain(nil) != nil {
		return 0, errStopped
	}
	// Nothing to yield: no goroutine is needed.
	if len(w.queue) == 0 && w.filling == nil {
		return w.r.Read(p)
	}
	// The Read runs beside this goroutine, which stays free to yield. p is not touched until the
	// Read has returned.
	w.reading, w.readInto = true, p
	w.running.Go(func() {
		var got readResult
		defer func() {
			got.panicked = recover()
			w.readDone <- got
		}()
		got.n, got.err = w.r.Read(p)
	})
	for {
		if len(w.queue) == 0 {
			_ = w.flush()
		}
		// A nil channel is never ready.
		var done chan struct{}
		if len(w.queue) > 0 {
			done = w.queue[0].done
		}
		select {
		case got := <-w.readDone:
			return w.finishRead(got)
		case <-done:
			if w.deliver(w.dequeue()); w.err != nil {
				w.stop()
				return 0, errStopped
			}
		}
	}
}

// finishRead returns what a Read in the other goroutine returned, or panics as it did.
func (w *workerPool) finishRead(r readResult) (int, error) {
	w.reading = false
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.n, r.err
}

// stop ends the pool. When it returns, none of its goroutines runs any more, and the buffer reads
// from the stream again.
func (w *workerPool) stop() {
	if w == nil || w.jobs == nil {
		return
	}
	w.stopped.Store(true)
	if w.reading {
		_ = w.r.(io.Closer).Close()
		<-w.readDone
		w.reading = false
	}
	close(w.jobs)
	w.running.Wait()
	w.jobs = nil
	if w.d.buf.r == w {
		w.d.buf.r = w.r
	}
}

// errReadAlone says that continueAlone has read the stream to its end, without an error. It ends
// the callers that would read on.
var errReadAlone = errors.New("done")

// continueAlone reads everything from piece p of b on by readAlone, without the pool. It puts the
// bytes together again: the pieces that are queued, what was consumed between them, and the unread
// bytes of the buffer.
func (w *workerPool) continueAlone(b *batch, p piece) error {
	w.stopped.Store(true)
	buf := &w.d.buf
	left := &leftover{pool: w, data: slices.Clone(b.raw[p.start:]), err: buf.err}
	for _, b := range w.queue {
		left.data = append(left.data, b.raw...)
	}
	if w.filling != nil {
		left.data = append(left.data, w.filling.raw...)
	}
	left.data = append(append(left.data, w.separator...), buf.data[buf.pos:]...)
	*buf = buffer{r: left, limit: buf.limit, base: p.base, first: buf.first, enough: buf.enough}
	if err := w.readAlone(); err != nil {
		return err
	}
	return errReadAlone
}

// A leftover is the stream from a piece on: data, then err if it is not nil, else the rest of the
// stream.
type leftover struct {
	pool *workerPool
	data []byte
	err  error
}

// Read returns the bytes that had been read already, then those of a Read that may still be
// waiting, then those of the stream.
func (l *leftover) Read(p []byte) (int, error) {
	if len(l.data) == 0 && l.pool.reading {
		n, err := l.pool.finishRead(<-l.pool.readDone)
		l.data, l.err = l.pool.readInto[:n], err
	}
	if len(l.data) > 0 || l.err != nil {
		n := copy(p, l.data)
		if l.data = l.data[n:]; n > 0 {
			return n, nil
		}
		return 0, l.err
	}
	return l.pool.r.Read(p)
}
