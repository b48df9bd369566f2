package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// Start serves on a port: "127.0.0.1:0". stop closes it with all its connections, and returns when no request is served any more.
func (s *Server) Start(address string) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("apiserver: start: %w", err)
	}
	return "http://" + l.Addr().String(), s.serve(l), nil
}

// Client returns a client whose connections are pipes in memory: any host is this server. Nothing of it leaves the synctest
// bubble in which Client is called. [Server.Close] ends what it has started.
func (s *Server) Client() *http.Client {
	pipes := &pipes{server: s, conns: make(chan net.Conn), closed: make(chan struct{})}
	s.serve(pipes)
	return &http.Client{Transport: &http.Transport{DialContext: pipes.dial}}
}

// URL is where a collection is for a [Server.Client]; namespace may be empty.
func (s *Server) URL(resource, namespace string) string {
	return "http://apiserver" + s.Collection(resource).URL(namespace)
}

// Close ends what Start and Client have started, with all connections, and returns when no request is served any more.
func (s *Server) Close() {
	s.mu.Lock()
	fronts := s.fronts
	s.fronts = nil
	s.mu.Unlock()
	for _, f := range fronts {
		f.stop()
	}
}

// SetDown makes the server one that does not run, or run again: connections are refused, and those that are open break.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	s.down = down
	fronts := s.fronts
	s.mu.Unlock()
	if !down {
		return
	}
	for _, f := range fronts {
		f.breakAll()
	}
}

func (s *Server) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// A front is a listener with the connections that came in by it.
type front struct {
	net.Listener
	server *Server
	http   *http.Server
	served sync.WaitGroup // Serve, and each connection that it has taken

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (s *Server) serve(l net.Listener) (stop func()) {
	f := &front{Listener: l, server: s, conns: map[net.Conn]struct{}{}}
	f.http = &http.Server{
		Handler:   s,
		ConnState: f.track,
		ErrorLog:  log.New(io.Discard, "", 0), // it would only tell of the connections that a fault breaks
	}
	s.mu.Lock()
	s.fronts = append(s.fronts, f)
	s.mu.Unlock()
	f.served.Go(func() { _ = f.http.Serve(f) }) // it ends with ErrServerClosed
	return f.stop
}

func (f *front) track(conn net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch state {
	case http.StateNew:
		f.served.Add(1)
		f.conns[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(f.conns, conn)
		f.served.Done()
	}
}

// Accept resets what comes in while the server is down, which is as near to a closed port as one that is to be kept gets.
func (f *front) Accept() (net.Conn, error) {
	for {
		conn, err := f.Listener.Accept()
		if err != nil || !f.server.isDown() {
			return conn, err
		}
		reset(conn)
	}
}

func (f *front) breakAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		reset(conn)
	}
}

func (f *front) stop() {
	_ = f.http.Close() // what it cannot close is closed
	f.served.Wait()
}

// reset closes a connection so that the other side sees it break.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it fails where there is nothing to reset any more
	}
	_ = conn.Close()
}

// pipes is a listener on which a client of the same process dials.
type pipes struct {
	server *Server
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	if p.server.isDown() {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: p, Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	err := error(&net.OpError{Op: "dial", Net: network, Addr: p, Err: syscall.ECONNREFUSED})
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.closed:
	}
	return nil, errors.Join(err, client.Close(), server.Close())
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr  { return p }
func (p *pipes) Network() string { return "pipe" }
func (p *pipes) String() string  { return "apiserver" }
