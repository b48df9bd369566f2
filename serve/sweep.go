package serve

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A directWatch is a watch whose connection was taken over from net/http. One goroutine waits for
// the client's end. Another one writes: a sweeper, which writes for many, as long as the socket
// takes all; else one of the watch's own, until it has caught up.
type directWatch struct {
	watcher
	direct *direct
	gone   atomic.Bool // the client is
}

// sweepers write to the direct watches of a collection: each of them to a part, in turn, without
// blocking. They run while there are any.
type sweepers struct {
	next atomic.Uint32
	all  []sweeper
}

type sweeper struct {
	collection *collection
	poke       chan struct{} // has room for one token: something about parked has changed

	mu      sync.Mutex // guards the fields below
	parked  []*directWatch
	running bool
}

func (c *collection) startSweepers() {
	c.sweepers.all = make([]sweeper, runtime.GOMAXPROCS(0))
	for i := range c.sweepers.all {
		c.sweepers.all[i].collection, c.sweepers.all[i].poke = c, make(chan struct{}, 1)
	}
}

// park gives a watch that has caught up to a sweeper.
func (c *collection) park(w *directWatch) {
	n := c.sweepers.next.Add(1)
	sw := &c.sweepers.all[n%uint32(len(c.sweepers.all))]
	sw.mu.Lock()
	sw.parked = append(sw.parked, w)
	if !sw.running {
		sw.running = true
		c.watches.Go(sw.run)
	}
	sw.mu.Unlock()
	sw.wake()
}

func (sw *sweeper) wake() {
	select {
	case sw.poke <- struct{}{}:
	default: // there is a token already
	}
}

// run sweeps until no watch is parked.
func (sw *sweeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	b := newFrameBatch(sw.collection)
	var watches []*directWatch
	for {
		// Changes after this are seen by the next sweep.
		changed := sw.collection.history.waitChannel()
		sw.mu.Lock()
		if len(sw.parked) == 0 {
			sw.running = false
			sw.mu.Unlock()
			return
		}
		watches = append(watches[:0], sw.parked...)
		sw.mu.Unlock()
		var next time.Time
		var handoffs []handoff
		for _, w := range watches {
			if w.gone.Load() {
				handoffs = append(handoffs, handoff{w: w})
				continue
			}
			if out, left := sw.sweep(w, b); left {
				handoffs = append(handoffs, out)
				continue
			}
			if at := w.wake(); next.IsZero() || at.Before(next) {
				next = at
			}
		}
		clear(watches)
		if len(handoffs) > 0 {
			sw.remove(handoffs)
		}
		timer.Reset(time.Until(next))
		select {
		case <-changed:
		case <-sw.poke:
		case <-timer.C:
		}
	}
}

// A handoff is a watch that leaves its sweeper, because it is gone, has ended, or its socket does
// not take all.
type handoff struct {
	w    *directWatch
	next func() // a goroutine of its own goes on with it; nil: it is gone
}

// remove takes watches out of parked, and then lets them go on: they may be parked again at once.
func (sw *sweeper) remove(handoffs []handoff) {
	left := make(map[*directWatch]bool, len(handoffs))
	for _, l := range handoffs {
		left[l.w] = true
	}
	sw.mu.Lock()
	sw.parked = slices.DeleteFunc(sw.parked, func(w *directWatch) bool { return left[w] })
	sw.mu.Unlock()
	for _, l := range handoffs {
		if l.next != nil {
			sw.collection.watches.Go(l.next)
		}
	}
}

// sweep writes what waits for a watch. left says that the watch is to leave the sweeper.
func (sw *sweeper) sweep(w *directWatch, b *frameBatch) (out handoff, left bool) {
	for {
		r, err := b.step(w)
		if data := b.data(); len(data) > 0 {
			rest, more, failed := w.direct.offer(data)
			if failed != nil {
				w.direct.abort()
				return handoff{w: w}, true
			}
			if more {
				// What was cut in the middle must be written to its end. What comes after it waits
				// in the history.
				w.place, rest = b.cut(len(data) - len(rest))
				rest = slices.Clone(rest)
				return handoff{w, func() { w.catchUp(rest, nil) }}, true // which finds err again
			}
		}
		if err != nil {
			return handoff{w, func() { w.finish(err) }}, true
		}
		if r.wait != nil {
			return handoff{}, false
		}
	}
}

// catchUp writes to a socket that did not take all, until it does, and parks the watch again. err
// is what the watch ends with, if it is not nil.
func (w *directWatch) catchUp(rest []byte, err error) {
	b := newFrameBatch(w.collection)
	if failed := w.deliver(rest); failed != nil {
		w.direct.abort()
		return
	}
	for err == nil {
		var r reading
		r, err = b.step(w)
		if failed := w.deliver(b.data()); failed != nil {
			w.direct.abort()
			return
		}
		if err == nil && r.wait != nil {
			w.collection.park(w)
			return
		}
	}
	w.finish(err)
}

// deliver writes data, for as long as the client takes something and the watch is not cut off.
func (w *directWatch) deliver(data []byte) error {
	defer context.AfterFunc(w.collection.ends.cut, w.direct.abort)()
	return w.direct.send(data, w.collection.opts.Limits.WriteTimeout)
}

// finish ends the watch.
func (w *directWatch) finish(err error) {
	b := newFrameBatch(w.collection)
	out := b.begin(w)
	if !errors.Is(err, io.EOF) {
		_ = out.failure(err)
	}
	end := append(b.data(), "0\r\n\r\n"...)
	if w.deliver(end) != nil {
		w.direct.abort()
		return
	}
	w.direct.finish()
}

// begin sends the head of the answer and the state, and then goes on as a watch that catches up.
func (w *directWatch) begin(initial initialEvents, head []byte) {
	err := w.deliver(head)
	if err == nil {
		out := &stream{collection: w.collection, format: w.format}
		buf := make([]byte, 0, maxRecord)
		out.put = func(f frame) error {
			if len(buf)+len(f.chunk) > cap(buf) {
				if err := w.deliver(buf); err != nil {
					return gone(err)
				}
				buf = buf[:0]
			}
			if len(f.chunk) > cap(buf) {
				return gone(w.deliver(f.chunk))
			}
			buf = append(buf, f.chunk...)
			return nil
		}
		err = w.sendInitial(context.Background(), out, initial)
		if sent := w.deliver(buf); sent != nil {
			err = gone(sent)
		}
	}
	if errors.Is(err, errGone) {
		w.direct.abort()
		return
	}
	w.catchUp(nil, err)
}

// A frameBatch puts the frames of a watch together, so that they are written at once.
type frameBatch struct {
	out    stream
	w      *directWatch
	events []*event

	first  []byte // the only frame, if buf is empty
	buf    []byte
	pieces []piece
}

// A piece is where a frame ends in the bytes of a frameBatch, and the place of the watch after it.
type piece struct {
	end   int
	place place
}

func newFrameBatch(c *collection) *frameBatch {
	b := &frameBatch{}
	b.out = stream{collection: c, put: b.put}
	return b
}

// begin empties the batch for a watch. It does not keep what large frames have taken.
func (b *frameBatch) begin(w *directWatch) *stream {
	if cap(b.buf) > 2*maxReadBytes {
		b.buf = nil
	}
	b.w, b.out.format, b.first, b.buf, b.pieces = w, w.format, nil, b.buf[:0], b.pieces[:0]
	return &b.out
}

// step takes the next step of a watch, and adds what it sends.
func (b *frameBatch) step(w *directWatch) (reading, error) {
	r, err := w.step(b.begin(w), b.events[:0])
	clear(r.events) // which the history may drop while they are on their way
	b.events, r.events = r.events, nil
	return r, err
}

func (b *frameBatch) put(f frame) error {
	switch {
	case b.first == nil:
		b.first = f.chunk
	case len(b.buf) == 0:
		b.buf = append(append(b.buf, b.first...), f.chunk...)
	default:
		b.buf = append(b.buf, f.chunk...)
	}
	end := len(f.chunk)
	if n := len(b.pieces); n > 0 {
		end += b.pieces[n-1].end
	}
	b.pieces = append(b.pieces, piece{end, b.w.place})
	return nil
}

// data returns all frames.
func (b *frameBatch) data() []byte {
	if len(b.buf) > 0 {
		return b.buf
	}
	return b.first
}

// cut returns the rest of the frame of which the first n bytes of data have reached the socket, and
// the place of the watch after it. If n is the end of a frame there is no rest.
func (b *frameBatch) cut(n int) (place, []byte) {
	for _, p := range b.pieces {
		if n <= p.end {
			return p.place, b.data()[n:p.end]
		}
	}
	panic("serve: more was written than there was")
}
