package decode

import (
	"errors"
	"io"
	"slices"
)

// errPassed ends the reading of a stream when it is known that nothing more of it will be yielded.
var errPassed = errors.New("ended by an object before")

// Read reads from the stream and passes on meanwhile what is under way. It needs a stream that can be closed, which ends a Read that
// waits; of another one, nothing is under way when it is read.
//
// Pieces that do not fill a batch are given to a helper when nothing else is under way any more: a stream that comes in small
// portions would otherwise wake one for each, which costs more than the little that it decodes.
func (c *crew) Read(p []byte) (int, error) {
	if _, ok := c.r.(io.Closer); !ok && c.finish(nil) != nil {
		return 0, errPassed
	}
	if len(c.queue) == 0 && c.filling == nil {
		return c.r.Read(p)
	}
	c.reading, c.into = true, p
	c.running.Go(func() {
		var got readResult
		defer func() {
			got.panicked = recover()
			c.read <- got
		}()
		got.n, got.err = c.r.Read(p)
	})
	for {
		if len(c.queue) == 0 {
			_ = c.flush()
		}
		var done chan struct{}
		if len(c.queue) > 0 {
			done = c.queue[0].done
		}
		select {
		case got := <-c.read:
			return c.got(got)
		case <-done:
			if c.pass(c.pop()); c.err != nil {
				c.stop()
				return 0, errPassed
			}
		}
	}
}

// got is what a Read returned.
func (c *crew) got(r readResult) (int, error) {
	c.reading = false
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.n, r.err
}

// stop returns when nothing of the crew is running any more.
func (c *crew) stop() {
	if c == nil || c.work == nil {
		return
	}
	c.stopped.Store(true)
	if c.reading {
		_ = c.r.(io.Closer).Close() // there is nobody to tell that it failed, and it will be closed again
		<-c.read
		c.reading = false
	}
	close(c.work)
	c.running.Wait()
	c.work = nil
	if c.d.buf.r == c {
		c.d.buf.r = c.r
	}
}

// errDone is the error of what has been read to its end by goAlone.
var errDone = errors.New("done")

// goAlone reads all from piece p of b on as if there were no crew.
func (c *crew) goAlone(b *batch, p piece) error {
	c.stopped.Store(true)
	buf := &c.d.buf
	left := &leftover{c: c, data: slices.Clone(b.raw[p.start:]), err: buf.err}
	for _, b := range c.queue {
		left.data = append(left.data, b.raw...)
	}
	if c.filling != nil {
		left.data = append(left.data, c.filling.raw...)
	}
	left.data = append(append(left.data, c.gap...), buf.data[buf.pos:]...)
	*buf = buffer{r: left, limit: buf.limit, base: p.base, least: buf.least}
	if err := c.alone(); err != nil {
		return err
	}
	return errDone
}

// A leftover is a stream from a piece on.
type leftover struct {
	c    *crew
	data []byte // what had been read
	err  error  // that came after it
}

func (l *leftover) Read(p []byte) (int, error) {
	if len(l.data) == 0 && l.c.reading {
		n, err := l.c.got(<-l.c.read)
		l.data, l.err = l.c.into[:n], err
	}
	if len(l.data) > 0 || l.err != nil {
		n := copy(p, l.data)
		if l.data = l.data[n:]; n > 0 {
			return n, nil
		}
		return 0, l.err
	}
	return l.c.r.Read(p)
}
