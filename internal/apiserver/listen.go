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

// Start serves on an address such as "127.0.0.1:0". stop closes the port with all its connections.
// It returns when no request is being served any more.
func (s *Server) Start(address string) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("apiserver: start: %w", err)
	}
	return "http://" + l.Addr().String(), s.serve(l), nil
}

// Client returns a client whose connections are pipes in memory. Every host name is this server.
// All its goroutines belong to the synctest bubble in which Client is called. [Server.Close] ends
// them.
func (s *Server) Client() *http.Client {
	pipes := &pipes{server: s, conns: make(chan net.Conn), closed: make(chan struct{})}
	s.serve(pipes)
	return &http.Client{Transport: &http.Transport{DialContext: pipes.dial}}
}

// URL returns the address of a collection for the client of [Server.Client]. An empty namespace
// means all namespaces.
func (s *Server) URL(resource, namespace string) string {
	return "http://apiserver" + s.Collection(resource).URL(namespace)
}

// Close closes everything that Start and Client have opened. It returns when no request is being
// served any more.
func (s *Server) Close() {
	s.mu.Lock()
	fronts := s.fronts
	s.fronts = nil
	s.mu.Unlock()
	for _, f := range fronts {
		f.stop()
	}
}

// SetDown stops the server as if it did not run, or starts it again. While it is down it refuses
// connections. Going down breaks the open ones.
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

// A front is a listener with the connections that it has accepted.
type front struct {
	net.Listener
	server *Server
	http   *http.Server
	served sync.WaitGroup // counts Serve, and the connections that it has accepted

	mu    sync.Mutex        // guards conns
	conns map[net.Conn]bool // whether a handler has taken it over
}

// serve answers the connections of l. stop closes l and all of them, and waits for their requests.
func (s *Server) serve(l net.Listener) (stop func()) {
	f := &front{Listener: l, server: s, conns: map[net.Conn]bool{}}
	f.http = &http.Server{
		Handler:   f,
		ConnState: f.track,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		// It would only report connections that a fault broke.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.mu.Lock()
	s.fronts = append(s.fronts, f)
	s.mu.Unlock()
	f.served.Go(func() { _ = f.http.Serve(f) }) // the error is always ErrServerClosed
	return f.stop
}

// track is called by net/http, in its own goroutines, when a connection is opened or closed.
func (f *front) track(conn net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch state {
	case http.StateNew:
		f.served.Add(1)
		f.conns[conn] = false
	case http.StateHijacked:
		f.conns[conn] = true
	case http.StateClosed:
		f.forgetLocked(conn)
	}
}

func (f *front) forgetLocked(conn net.Conn) {
	delete(f.conns, conn)
	f.served.Done()
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// inMemory reports whether the request has come from a client of [Server.Client]. The connection of
// an answer that may stop half-way is not used again there: else net/http (since Go 1.27) reads on
// after the client has closed the body, for up to 50 ms. In a bubble that never ends if a Read is in
// progress, since time stands still while a goroutine waits for the lock that the Read holds.
func inMemory(r *http.Request) bool {
	conn, ok := r.Context().Value(connKey{}).(net.Conn)
	return ok && conn.LocalAddr().Network() == pipeNetwork
}

// pipeNetwork is what net.Pipe calls its network.
const pipeNetwork = "pipe"

// ServeHTTP answers a request. A handler that takes the connection over has it until it returns.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if conn := r.Context().Value(connKey{}).(net.Conn); f.conns[conn] {
			f.forgetLocked(conn)
		}
	}()
	f.server.wrapped.ServeHTTP(w, r)
}

// Accept returns the next connection. While the server is down it resets what comes in: the port
// must be kept, and this is as close to a closed port as an open one gets.
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
	_ = f.http.Close() // it closes all that can be closed, whatever error it returns
	f.breakAll()       // those that a handler has taken over
	f.served.Wait()
}

// reset closes a connection without a proper end, so that the other side gets an error.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only if there is nothing left to reset
	}
	_ = conn.Close()
}

// pipes is a listener to which clients in the same process connect with dial.
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
func (p *pipes) Network() string { return pipeNetwork }
func (p *pipes) String() string  { return "apiserver" }
