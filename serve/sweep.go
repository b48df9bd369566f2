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
	served *served
	poke   chan struct{} // has room for one token: something about parked has changed

	mu      sync.Mutex // guards the fields below
	parked  []*directWatch
	running bool
}

func (s *served) startSweepers() {
	s.sweepers.all = make([]sweeper, runtime.GOMAXPROCS(0))
	for i := range s.sweepers.all {
		s.sweepers.all[i].served, s.sweepers.all[i].poke = s, make(chan struct{}, 1)
	}
}

// park gives a watch that has caught up to a sweeper.
func (s *served) park(w *directWatch) {
	n := s.sweepers.next.Add(1)
	sw := &s.sweepers.all[n%uint32(len(s.sweepers.all))]
	sw.mu.Lock()
	sw.parked = append(sw.parked, w)
	if !sw.running {
		sw.running = true
		s.watches.Go(sw.run)
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
	g := newGather(sw.served)
	var watches []*directWatch
	for {
		// Changes after this are seen by the next sweep.
		changed := sw.served.history.waitChannel()
		sw.mu.Lock()
		if len(sw.parked) == 0 {
			sw.running = false
			sw.mu.Unlock()
			return
		}
		watches = append(watches[:0], sw.parked...)
		sw.mu.Unlock()
		var next time.Time
		var leaving []leave
		for _, w := range watches {
			if w.gone.Load() {
				leaving = append(leaving, leave{w: w})
				continue
			}
			if l, left := sw.sweep(w, g); left {
				leaving = append(leaving, l)
				continue
			}
			if at := w.wake(); next.IsZero() || at.Before(next) {
				next = at
			}
		}
		clear(watches)
		if len(leaving) > 0 {
			sw.remove(leaving)
		}
		timer.Reset(time.Until(next))
		select {
		case <-changed:
		case <-sw.poke:
		case <-timer.C:
		}
	}
}

// A leave is a watch that leaves its sweeper, because it is gone, has ended, or its socket does not
// take all.
type leave struct {
	w    *directWatch
	next func() // a goroutine of its own goes on with it; nil: it is gone
}

// remove takes watches out of parked, and then lets them go on: they may be parked again at once.
func (sw *sweeper) remove(leaving []leave) {
	left := make(map[*directWatch]bool, len(leaving))
	for _, l := range leaving {
		left[l.w] = true
	}
	sw.mu.Lock()
	sw.parked = slices.DeleteFunc(sw.parked, func(w *directWatch) bool { return left[w] })
	sw.mu.Unlock()
	for _, l := range leaving {
		if l.next != nil {
			sw.served.watches.Go(l.next)
		}
	}
}

// sweep writes what waits for a watch. left says that the watch is to leave the sweeper.
func (sw *sweeper) sweep(w *directWatch, g *gather) (l leave, left bool) {
	for {
		r, err := g.step(w)
		if data := g.data(); len(data) > 0 {
			rest, more, failed := w.direct.offer(data)
			if failed != nil {
				w.direct.abort()
				return leave{w: w}, true
			}
			if more {
				// What was cut in the middle must be written to its end. What comes after it waits
				// in the history.
				w.place, rest = g.cut(len(data) - len(rest))
				rest = slices.Clone(rest)
				return leave{w, func() { w.catchUp(rest, nil) }}, true // which finds err again
			}
		}
		if err != nil {
			return leave{w, func() { w.finish(err) }}, true
		}
		if r.wait != nil {
			return leave{}, false
		}
	}
}

// catchUp writes to a socket that did not take all, until it does, and parks the watch again. err
// is what the watch ends with, if it is not nil.
func (w *directWatch) catchUp(rest []byte, err error) {
	g := newGather(w.served)
	if failed := w.deliver(rest); failed != nil {
		w.direct.abort()
		return
	}
	for err == nil {
		var r reading
		r, err = g.step(w)
		if failed := w.deliver(g.data()); failed != nil {
			w.direct.abort()
			return
		}
		if err == nil && r.wait != nil {
			w.served.park(w)
			return
		}
	}
	w.finish(err)
}

// deliver writes data, for as long as the client takes something and the watch is not cut off.
func (w *directWatch) deliver(data []byte) error {
	defer context.AfterFunc(w.served.ends.cut, w.direct.abort)()
	return w.direct.send(data, w.served.opts.Limits.WriteTimeout)
}

// finish ends the watch.
func (w *directWatch) finish(err error) {
	g := newGather(w.served)
	out := g.begin(w)
	if !errors.Is(err, io.EOF) {
		_ = out.failure(err)
	}
	end := append(g.data(), "0\r\n\r\n"...)
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
		out := &stream{served: w.served, format: w.format}
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

// A gather puts the frames of a watch together, so that they are written at once.
type gather struct {
	out    stream
	w      *directWatch
	events []*event

	first  []byte // the only frame, if buf is empty
	buf    []byte
	pieces []piece
}

// A piece is where a frame ends in the bytes of a gather, and the place of the watch after it.
type piece struct {
	end   int
	place place
}

func newGather(s *served) *gather {
	g := &gather{}
	g.out = stream{served: s, put: g.put}
	return g
}

// begin empties the gather for a watch. It does not keep what large frames have taken.
func (g *gather) begin(w *directWatch) *stream {
	if cap(g.buf) > 2*maxReadBytes {
		g.buf = nil
	}
	g.w, g.out.format, g.first, g.buf, g.pieces = w, w.format, nil, g.buf[:0], g.pieces[:0]
	return &g.out
}

// step takes the next step of a watch, and gathers what it sends.
func (g *gather) step(w *directWatch) (reading, error) {
	r, err := w.step(g.begin(w), g.events[:0])
	clear(r.events) // which the history may drop while they are on their way
	g.events, r.events = r.events, nil
	return r, err
}

func (g *gather) put(f frame) error {
	switch {
	case g.first == nil:
		g.first = f.chunk
	case len(g.buf) == 0:
		g.buf = append(append(g.buf, g.first...), f.chunk...)
	default:
		g.buf = append(g.buf, f.chunk...)
	}
	end := len(f.chunk)
	if n := len(g.pieces); n > 0 {
		end += g.pieces[n-1].end
	}
	g.pieces = append(g.pieces, piece{end, g.w.place})
	return nil
}

// data returns all frames.
func (g *gather) data() []byte {
	if len(g.buf) > 0 {
		return g.buf
	}
	return g.first
}

// cut returns the rest of the frame of which the first n bytes of data have reached the socket, and
// the place of the watch after it. If n is the end of a frame there is no rest.
func (g *gather) cut(n int) (place, []byte) {
	for _, p := range g.pieces {
		if n <= p.end {
			return p.place, g.data()[n:p.end]
		}
	}
	panic("serve: more was written than there was")
}
