package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A proxy is the network between clients and one server.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool          // connections are closed at once
	hole  bool          // nothing gets through, and nothing is closed
	slow  time.Duration // that each piece takes
}

// newProxy returns a proxy of the server at target. It is closed when the test ends.
func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.set(func() { p.down, p.hole = true, false })
		all.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set changes the network. Connections break if it is down.
func (p *proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.down {
		p.cutLocked()
	}
}

// cut breaks the connections. New ones can be made.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

func (p *proxy) cutLocked() {
	for c := range p.conns {
		c.Close()
	}
}

// enter notes a connection, unless the network is down.
func (p *proxy) enter(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) serve(from net.Conn) {
	defer from.Close()
	if !p.enter(from) {
		return
	}
	defer p.leave(from)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	if !p.enter(to) {
		return
	}
	defer p.leave(to)
	var both sync.WaitGroup
	both.Go(func() { p.pump(from, to); to.Close() })
	both.Go(func() { p.pump(to, from); from.Close() })
	both.Wait()
}

func (p *proxy) leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// pump copies until a connection breaks. What comes into a hole is held back until it is filled.
func (p *proxy) pump(from io.Reader, to io.Writer) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		for {
			p.mu.Lock()
			hole, slow, down := p.hole, p.slow, p.down
			p.mu.Unlock()
			if time.Sleep(slow); !hole || down {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
