package proof

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/go-lw/lw/internal/apiserver"
)

// A roamer sends each request to another of several servers, in turn: the pages of a list, the
// watch after it, and the question what a server had. A client behind a load balancer does so.
type roamer struct {
	servers []*http.Client

	mu     sync.Mutex // guards the fields below
	next   int
	open   map[*roamed]bool
	refuse bool // all requests
}

// A roamed is an answer that is being read.
type roamed struct {
	io.ReadCloser
	cancel context.CancelFunc
	left   bool // guarded by the roamer's mu
	of     *roamer
}

func (r *roamer) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	to, refuse := r.servers[r.next%len(r.servers)], r.refuse
	r.next++
	r.mu.Unlock()
	if refuse {
		return nil, errRefused()
	}
	ctx, cancel := context.WithCancel(req.Context())
	resp, err := to.Transport.RoundTrip(req.Clone(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	body := &roamed{ReadCloser: resp.Body, cancel: cancel, of: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[*roamed]bool{}
	}
	r.open[body] = true
	resp.Body = body
	return resp, nil
}

// CloseIdleConnections is what an http.Client calls.
func (r *roamer) CloseIdleConnections() {
	for _, c := range r.servers {
		c.CloseIdleConnections()
	}
}

// move leaves the servers in the middle of whatever they answer.
func (r *roamer) move() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moveLocked()
}

// cutOff is move, after which nobody can be reached until join.
func (r *roamer) cutOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = true
	r.moveLocked()
}

func (r *roamer) join() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = false
}

func (r *roamer) moveLocked() {
	for body := range r.open {
		body.left = true
		body.cancel()
	}
}

func (b *roamed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	if b.left {
		err = io.ErrUnexpectedEOF // as if the connection had broken
	}
	return n, err
}

func (b *roamed) Close() error {
	b.of.mu.Lock()
	delete(b.of.open, b)
	b.of.mu.Unlock()
	b.cancel()
	return b.ReadCloser.Close()
}

// roamFaults are what a client that roams may do at any time.
var roamFaults = []proofFault{
	{id: "V04", name: "client goes elsewhere", web: func(w *world, _ *apiserver.Server, _ int) {
		if r := roamerOf(w.server); r != nil {
			r.move()
		}
	}},
}

// roamerOf returns nil if the informer stays with one server.
func roamerOf(s partServer) *roamer {
	if over, ok := s.(*web); ok {
		return over.roamer
	}
	return nil
}
