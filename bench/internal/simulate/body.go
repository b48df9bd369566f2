package simulate

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// chunk is how many objects are sent together. One object stands for them.
const chunk = 100

// body is the answer to a list or a watch. The client's goroutine does the server's work in Read.
type body struct {
	s            *Server
	quit         <-chan struct{} // the request's context
	died, closed chan struct{}
	once         sync.Once // closes closed
	life         int
	watch        bool // it is a watch after the initial events, if it has some

	// A list has these.

	width       int // in seats
	seated      atomic.Bool
	next, total int // chunks
	cpu         time.Duration
	more        string // the continue token of a page
	begun       bool   // an item was sent

	// A watch has these.

	version  uint64 // that the client has
	deadline time.Time
	opened   time.Time
	live     atomic.Bool

	buf []byte
	err error // after buf
}

// plan sets what a list will send.
func (b *body) plan(kind Kind, query url.Values) {
	m := b.s.model.Load()
	first, objects := 0, m.Objects
	b.cpu = m.WholeCPU
	if kind == Stream {
		b.cpu = m.StreamCPU
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	if at, from, ok := strings.Cut(query.Get("continue"), "."); ok {
		b.version, _ = strconv.ParseUint(at, 10, 64)
		first, _ = strconv.Atoi(from)
	}
	if limit > 0 && query.Get("resourceVersion") != "0" {
		b.cpu = m.PageCPU
		objects = min(limit, m.Objects-first)
		if end := first + objects; end < m.Objects {
			b.more = fmt.Sprintf("%d.%d", b.version, end)
		}
	}
	b.next, b.total = first/chunk, (first+objects+chunk-1)/chunk
	// As the server's estimate: a seat for each hundred objects, at most ten.
	b.width = min(10, max(1, objects/100))
}

// work waits until the server has done some work.
func (b *body) work(d time.Duration) error { return b.until(b.s.cpu.done(d)) }

// until waits for a moment.
func (b *body) until(at time.Time) error {
	if d := time.Until(at); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		wait(t.C, b.quit, b.died, b.closed)
	}
	return b.broken()
}

// broken returns an error if the client or the server has gone.
func (b *body) broken() error {
	select {
	case <-b.quit:
		return errQuit
	case <-b.closed:
		return errQuit
	case <-b.died:
		return io.ErrUnexpectedEOF
	default:
		return nil
	}
}

// Read reads what the server sends next.
func (b *body) Read(p []byte) (int, error) {
	for len(b.buf) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		switch {
		case b.seated.Load():
			b.err = b.list()
		case b.live.Load():
			b.err = b.follow()
		default:
			b.err = io.EOF
		}
		if b.err != nil {
			b.end()
		}
	}
	n := copy(p, b.buf)
	b.buf = b.buf[n:]
	return n, nil
}

// list sends the next chunk, or what follows the last one.
func (b *body) list() error {
	if b.next == b.total {
		b.release()
		if !b.watch {
			b.buf = append(b.buf, "]}"...)
			return io.EOF
		}
		b.buf = fmt.Appendf(b.buf, bookmarkFormat, b.version, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
		b.begin()
		return nil
	}
	m := b.s.model.Load()
	objects := min(chunk, m.Objects-b.next*chunk)
	if err := b.work(time.Duration(objects) * b.cpu); err != nil {
		return err
	}
	bytes := int64(objects * m.Bytes)
	b.s.rec.note(func(r *Record) { r.Bytes += bytes })
	if err := b.until(b.s.link.done(time.Duration(float64(bytes) / m.Link * float64(time.Second)))); err != nil {
		return err
	}
	item := itemOf(b.next)
	switch {
	case b.watch:
		b.buf = fmt.Appendf(b.buf, `{"type":"ADDED","object":%s}`+"\n", item)
	case b.begun:
		b.buf = append(append(b.buf, ','), item...)
	default:
		b.begun = true
		b.buf = append(fmt.Appendf(b.buf, listBegin, b.version, b.more), item...)
	}
	b.next++
	return nil
}

// release gives the seats of a list back.
func (b *body) release() {
	if b.seated.CompareAndSwap(true, false) {
		b.s.seats.give(b.width)
		b.s.rec.listing(-1)
	}
}

// end gives back what the request has, whatever it was.
func (b *body) end() {
	b.release()
	if b.live.CompareAndSwap(true, false) {
		b.s.watches(-1, b.life)
	}
}

// begin begins the part that is a watch.
func (b *body) begin() {
	b.opened = time.Now()
	b.live.Store(true)
	b.s.watches(1, b.life)
}

// tick is how often a watcher is told of the newest event. Those between are not sent: the server's
// cores have their load, and the client's is not of interest here.
const tick = 5 * time.Second

// every is how often a watcher gets a bookmark if there are no events.
const every = time.Minute

// follow waits for what a watch sends next. It ends with the server, which first sends what it has:
// a client then has its last version.
func (b *body) follow() error {
	m := b.s.model.Load()
	now := time.Now()
	pace := every
	if m.Events > 0 {
		pace = tick
	}
	at := b.opened.Add((now.Sub(b.opened)/pace + 1) * pace)
	ends := !at.Before(b.deadline)
	if ends {
		at = b.deadline
	}
	err := b.until(at)
	if err == errQuit || err == nil && ends {
		if err == nil {
			err = io.EOF
		}
		return err
	}
	version := b.s.now(err != nil)
	switch {
	case version > b.version && m.Events > 0:
		b.buf = fmt.Appendf(b.buf, `{"type":"MODIFIED","object":`+objectFormat+"}\n", 0, 0, version)
	case err == nil:
		b.buf = fmt.Appendf(b.buf, bookmarkFormat, version, "")
	}
	b.version = version
	return err
}

// Close ends the request. Another goroutine may be in Read.
func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	b.end()
	return nil
}
