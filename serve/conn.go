package serve

import (
	"crypto/tls"
	"net"
	"net/http"
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
// the listener is l itself.
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

// A conn is a connection that can be written to without blocking. One goroutine at a time writes.
type conn struct {
	net.Conn
	// try writes as much as the socket takes at once. An error is final.
	try func(data []byte) (n int, err error)
	// trying says that Write must not block: it keeps in rest what the socket does not take. TLS
	// writes through it.
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

// Write writes all of data, or keeps what the socket does not take.
func (c *conn) Write(data []byte) (int, error) {
	if !c.trying {
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

// A direct is a connection that was taken over from net/http.
type direct struct {
	conn *conn
	tls  *tls.Conn // over conn; nil without TLS
}

// directOf returns what was hijacked as a direct, or nil if it cannot be written to without
// blocking.
func directOf(c net.Conn) *direct {
	switch c := c.(type) {
	case *conn:
		return &direct{conn: c}
	case *tls.Conn:
		if under, ok := c.NetConn().(*conn); ok {
			return &direct{conn: under, tls: c}
		}
	}
	return nil
}

// maxRecord is the most that one record of TLS has.
const maxRecord = 16 << 10

// offer writes without blocking, and returns what the socket did not take. Of what TLS has
// encrypted, the connection keeps what was not taken: at most a record. If that is all that is
// left, rest is empty but more is true.
func (d *direct) offer(data []byte) (rest []byte, more bool, err error) {
	if d.tls == nil {
		n, err := d.conn.try(data)
		return data[n:], n < len(data), err
	}
	d.conn.trying = true
	defer func() { d.conn.trying = false }()
	for len(data) > 0 && len(d.conn.rest) == 0 {
		n := min(len(data), maxRecord)
		if _, err := d.tls.Write(data[:n]); err != nil {
			return data, true, err
		}
		data = data[n:]
	}
	return data, len(data) > 0 || len(d.conn.rest) > 0, nil
}

// send writes all of data, and what offer has left. It blocks until then. It fails if the client
// takes nothing for as long as timeout.
func (d *direct) send(data []byte, timeout time.Duration) error {
	if len(d.conn.rest) > 0 {
		if err := d.sendPieces(d.conn.Conn, d.conn.rest, timeout); err != nil {
			return err
		}
		d.conn.rest = nil
	}
	to := d.conn.Conn
	if d.tls != nil {
		to = d.tls
	}
	if err := d.sendPieces(to, data, timeout); err != nil {
		return err
	}
	return d.conn.SetWriteDeadline(time.Time{}) // offer fails after a deadline that is past
}

// sendPieces writes data in pieces. Each of them may take as long as timeout.
func (d *direct) sendPieces(to net.Conn, data []byte, timeout time.Duration) error {
	for len(data) > 0 {
		n := min(len(data), maxRecord)
		if err := d.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		if _, err := to.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// wait blocks until the client has closed the connection, or sends what it must not send.
func (d *direct) wait() {
	var one [1]byte
	if d.tls != nil {
		_, _ = d.tls.Read(one[:])
		return
	}
	_, _ = d.conn.Conn.Read(one[:])
}

// finish closes the connection after all was written. Only whoever writes calls it.
func (d *direct) finish() {
	if d.tls != nil {
		_ = d.tls.CloseWrite() // says to the client that nothing was cut off
	}
	d.abort()
}

// abort closes the connection. Any goroutine may call it, more than once.
func (d *direct) abort() { _ = d.conn.Conn.Close() }
