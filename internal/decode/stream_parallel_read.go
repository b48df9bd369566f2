package decode

import (
	"errors"
	"io"
	"slices"
)

// errPassed ends the reading of a stream when it is known that nothing more of it will be yielded.
var errStopped = errors.New("ended by an object before")

// Read reads from the stream and passes on meanwhile what is under way. It needs a stream that can be closed, which ends a Read that
// waits; of another one, nothing is under way when it is read.
//
// Pieces that do not fill a batch are given to a helper when nothing else is under way any more: a stream that comes in small
// portions would otherwise wake one for each, which costs more than the little that it decodes.
func (w *workerPool) Read(p []byte) (int, error) {
	if _, ok := w.r.(io.Closer); !ok && w.drain(nil) != nil {
		return 0, errStopped
	}
	if len(w.queue) == 0 && w.filling == nil {
		return w.r.Read(p)
	}
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

// got is what a Read returned.
func (w *workerPool) finishRead(r readResult) (int, error) {
	w.reading = false
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.n, r.err
}

// stop returns when nothing of the crew is running any more.
func (w *workerPool) stop() {
	if w == nil || w.jobs == nil {
		return
	}
	w.stopped.Store(true)
	if w.reading {
		_ = w.r.(io.Closer).Close() // there is nobody to tell that it failed, and it will be closed again
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

// errDone is the error of what has been read to its end by goAlone.
var errReadAlone = errors.New("done")

// goAlone reads all from piece p of b on as if there were no crew.
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
	*buf = buffer{r: left, limit: buf.limit, base: p.base, minSize: buf.minSize}
	if err := w.readAlone(); err != nil {
		return err
	}
	return errReadAlone
}

// A leftover is a stream from a piece on.
type leftover struct {
	pool *workerPool
	data []byte // what had been read
	err  error  // that came after it
}

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
