package serve

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Listener returns a listener whose connections can be written to without blocking. With it, the
// watches of HTTP/1.1 go past net/http: each of them has a goroutine that waits for the client's
// end, and no buffer, and an event costs it one write. It is for plain HTTP and for TLS:
//
//	srv := &http.Server{Handler: h, Protocols: new(http.Protocols)}
//	srv.Protocols.SetHTTP1(true)
//	srv.ServeTLS(serve.Listener(l), "cert.pem", "key.pem")
//
// Over HTTP/2 the watches stay with net/http, which costs several times as much CPU and memory. So
// a server of many watches offers HTTP/1.1 alone, as above. Where the system has no such writes,
// the listener is l itself. Another listener may be around this one: its connections are then
// written to by goroutines that block. A connection of l that has the SyscallConn of a socket is
// written to as one, past a Write of its own: a listener whose connections embed a net.TCPConn and
// change or count what is written belongs around this one.
func Listener(l net.Listener) net.Listener {
	if !canTry {
		return l
	}
	return listener{l}
}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	try := trier(c)
	if try == nil {
		return c, nil
	}
	return &conn{Conn: c, try: try}, nil
}

// A conn is a connection that can be written to without blocking.
type conn struct {
	net.Conn
	// try writes as much as the socket takes at once. An error is final.
	try func(data []byte) (n int, err error)

	// mu guards the fields below. TLS writes through Write, and not only what it is given: while it
	// reads it may answer the client, in another goroutine.
	mu sync.Mutex
	// trying says that Write must not block: it keeps in rest what the socket does not take.
	trying bool
	rest   []byte
}

// LocalAddr returns the address, marked so that a Handler recognizes the connection: a request has
// the local address of its connection in its context.
func (c *conn) LocalAddr() net.Addr { return directAddr{c.Conn.LocalAddr()} }

type directAddr struct{ net.Addr }

// isDirect reports whether a request came over a connection of a [Listener].
func isDirect(r *http.Request) bool {
	_, ok := r.Context().Value(http.LocalAddrContextKey).(directAddr)
	return ok
}

// Write writes all of data behind what it has kept before. What the socket does not take it keeps,
// unless it may block.
func (c *conn) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.trying {
		if len(c.rest) > 0 {
			if _, err := c.Conn.Write(c.rest); err != nil {
				return 0, err
			}
			c.rest = nil
		}
		if len(data) == 0 {
			return 0, nil
		}
		return c.Conn.Write(data)
	}
	n := 0
	if len(c.rest) == 0 {
		var err error
		if n, err = c.try(data); err != nil {
			return n, err
		}
	}
	c.rest = append(c.rest, data[n:]...)
	return len(data), nil
}

// block says whether Write may block.
func (c *conn) block(may bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying = !may
}

// kept reports whether Write has kept something.
func (c *conn) kept() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.rest) > 0
}

// A direct is a connection that was taken over from net/http.
type direct struct {
	conn net.Conn
	tls  *tls.Conn // over conn; nil without TLS
	// closed says that conn was closed. It may be another's, who counts that.
	closed atomic.Bool
}

// directOf returns what was hijacked as a direct.
func directOf(c net.Conn) *direct {
	d := &direct{conn: c}
	if secure, ok := c.(*tls.Conn); ok {
		d.tls, d.conn = secure, secure.NetConn()
	}
	if own := d.own(); own != nil {
		own.block(false)
	}
	return d
}

// own returns conn as a connection that can be written to without blocking. It is nil if the
// program has put something between the Listener and net/http, such as a counter of bytes. What is
// written to such a connection goes through it, by a goroutine that blocks.
func (d *direct) own() *conn {
	own, _ := d.conn.(*conn)
	return own
}

// maxRecord is the most that one record of TLS has.
const maxRecord = 16 << 10

// offer writes without blocking, and returns what the socket did not take. Of what TLS has
// encrypted, the connection keeps what was not taken: at most a record. If that is all that is
// left, rest is empty but more is true.
func (d *direct) offer(data []byte) (rest []byte, more bool, err error) {
	own := d.own()
	if own == nil {
		return data, len(data) > 0, nil
	}
	if d.tls == nil {
		n, err := own.try(data)
		return data[n:], n < len(data), err
	}
	for len(data) > 0 && !own.kept() {
		n := min(len(data), maxRecord)
		if _, err := d.tls.Write(data[:n]); err != nil {
			return data, true, err
		}
		data = data[n:]
	}
	return data, len(data) > 0 || own.kept(), nil
}

// send writes all of data, behind what offer has left. It blocks until then. It fails if the client
// takes nothing for as long as timeout.
func (d *direct) send(data []byte, timeout time.Duration) error {
	if own := d.own(); own != nil {
		own.block(true)
		defer own.block(false)
		if err := d.sendPiece(own, nil, timeout); err != nil { // what is kept, on its own deadline
			return err
		}
	}
	to := d.conn
	if d.tls != nil {
		to = d.tls
	}
	for len(data) > 0 {
		n := min(len(data), maxRecord)
		if err := d.sendPiece(to, data[:n], timeout); err != nil {
			return err
		}
		data = data[n:]
	}
	return d.conn.SetWriteDeadline(time.Time{}) // offer fails after a deadline that is past
}

// sendPiece writes a piece, which may take as long as timeout.
func (d *direct) sendPiece(to net.Conn, piece []byte, timeout time.Duration) error {
	if err := d.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := to.Write(piece)
	return err
}

// maxIgnored is how much a client may send behind the request for a watch.
const maxIgnored = 1 << 20

// wait blocks until the client has closed the connection, or says that it sends nothing more. It
// may have sent an empty line or its next request already. That is not answered: the answer to the
// watch says that the connection ends with it.
func (d *direct) wait() {
	from := d.conn
	if d.tls != nil {
		from = d.tls
	}
	buf := make([]byte, 1) // clients that do so are few
	for ignored := 0; ignored <= maxIgnored; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if ignored += n; len(buf) == 1 {
			buf = make([]byte, 4<<10)
		}
	}
}

// finish closes the connection after all was written. Only whoever writes calls it.
func (d *direct) finish() {
	if d.tls != nil {
		_ = d.tls.CloseWrite() // says to the client that nothing was cut off
	}
	d.abort()
}

// abort closes the connection. Any goroutine may call it, more than once.
func (d *direct) abort() {
	if d.closed.CompareAndSwap(false, true) {
		_ = d.conn.Close()
	}
}
