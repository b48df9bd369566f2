package servers

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-lw/lw/internal/verify/rig"
)

// Beside returns another API server on the etcd of s, which it reaches through link, or directly if
// that is nil. args are as those of New. Both are signed by one authority, and have the same tokens.
// It starts nothing; etcd is that of s.
func (s *Server) Beside(link *Link, args ...string) (*Server, error) {
	dir, err := os.MkdirTemp(s.Dir, "beside-")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"tls.crt", "tls.key", "sa.key", "tokens.csv"} {
		data, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	other := &Server{Kind: s.Kind, Dir: dir, EtcdURL: s.EtcdURL, CA: s.CA, Args: args, bin: s.bin}
	if link != nil {
		other.EtcdURL = link.URL
	}
	if other.port, err = rig.FreePort(); err != nil {
		return nil, err
	}
	other.URL = fmt.Sprintf("https://127.0.0.1:%d", other.port)
	return other, nil
}

// A Link is a way to etcd that can be held: a server behind it does not learn what others write.
type Link struct {
	URL string // http://127.0.0.1:port

	to       string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	free  *sync.Cond // of mu
	held  bool
	over  bool
	conns map[net.Conn]bool
}

// NewLink returns a link to the etcd of s. Its Close must be called.
func (s *Server) NewLink() (*Link, error) {
	to, err := url.Parse(s.EtcdURL)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{URL: "http://" + listener.Addr().String(), to: to.Host, listener: listener, conns: map[net.Conn]bool{}}
	l.free = sync.NewCond(&l.mu)
	l.running.Go(l.accept)
	return l, nil
}

// Hold keeps back what etcd says from now on. etcd's clients take that for a failure after some
// forty seconds.
func (l *Link) Hold() { l.hold(true) }

// Release lets through what was kept back.
func (l *Link) Release() { l.hold(false) }

func (l *Link) hold(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held
	l.free.Broadcast()
}

// Close ends all connections, and waits for that.
func (l *Link) Close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.over = true
	for c := range l.conns {
		_ = c.Close()
	}
	l.free.Broadcast()
	l.mu.Unlock()
	l.running.Wait()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", l.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !l.add(client, server) {
			return
		}
		l.running.Go(func() { l.pass(server, client, false) })
		l.running.Go(func() { l.pass(client, server, true) })
	}
}

// add notes connections, or closes them if the link is over.
func (l *Link) add(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = true
		if l.over {
			_ = c.Close()
		}
	}
	return !l.over
}

// pass copies from one connection to the other until either ends, and then ends both.
func (l *Link) pass(to, from net.Conn, holds bool) {
	var in io.Reader = from
	if holds {
		in = &heldReader{from, l}
	}
	_, _ = io.Copy(struct{ io.Writer }{to}, in)
	_, _ = to.Close(), from.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, to)
	delete(l.conns, from)
}

// A heldReader returns what it has read once its link is free.
type heldReader struct {
	io.Reader
	link *Link
}

func (r *heldReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	for r.link.held && !r.link.over {
		r.link.free.Wait()
	}
	return n, err
}
