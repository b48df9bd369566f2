package websocket

import (
	"encoding/binary"
	"errors"
	"io"
)

// frames is a connection that ends each Read with the end of a frame (RFC 6455, section 5.2). So
// what has come of the frames behind it is here, and not in the buffer of the library, which does
// not say what it holds. So Read can distinguish a burst of events from a single one.
//
// One goroutine may call Read and hasMessage. Write and Close may be called at any time.
type frames struct {
	conn io.ReadWriteCloser
	// open is false until the handshake has been found to be right. If it is wrong the library
	// reads the connection, to show what has come, and nothing may come for seconds.
	open bool

	// buf[pos:end] was read and not passed on yet.
	buf      []byte
	pos, end int
	// err is the first error of conn. It comes when all bytes before it have been passed on.
	err error
	// left is how many bytes of the current frame have not been passed on.
	left uint64
	// message is the header of the last frame that was not a control frame.
	message frame
}

// The buffer begins with idleBuffer bytes, and is doubled up to fullBuffer when a Read has filled
// it. A program may have hundreds of watches on which hardly anything comes.
const (
	idleBuffer = 2 << 10
	fullBuffer = 8 << 10
)

// A frame is the header of a frame.
type frame struct {
	final   bool // it ends a message
	opcode  byte
	masked  bool // which no server may do
	header  int  // bytes
	payload uint64
}

const opcodeClose = 8 // and the first of the control frames

// size is the number of bytes of the frame with its header.
func (f frame) size() uint64 { return uint64(f.header) + f.payload }

func (f frame) control() bool { return f.opcode >= opcodeClose }

// parseFrame parses the header that data begins with. It returns false if that is not complete.
func parseFrame(data []byte) (f frame, ok bool) {
	if len(data) < 2 {
		return f, false
	}
	f = frame{final: data[0]&0x80 != 0, opcode: data[0] & 0xf, masked: data[1]&0x80 != 0, header: 2, payload: uint64(data[1] & 0x7f)}
	switch f.payload {
	case 126:
		f.header += 2
	case 127:
		f.header += 8
	}
	length := f.header - 2
	if f.masked {
		f.header += 4
	}
	if len(data) < f.header {
		return f, false
	}
	switch length {
	case 2:
		f.payload = uint64(binary.BigEndian.Uint16(data[2:]))
	case 8:
		// The highest bit must be 0. Without it no sum of sizes overflows.
		f.payload = binary.BigEndian.Uint64(data[2:]) &^ (1 << 63)
	}
	return f, true
}

// errMasked ends a connection, as RFC 6455, section 5.1, demands.
var errMasked = errors.New("the server has sent a masked frame")

// Read reads from the connection, and not beyond the end of a frame.
func (f *frames) Read(p []byte) (int, error) {
	if !f.open {
		return 0, io.EOF
	}
	if f.left == 0 {
		if err := f.begin(); err != nil {
			return 0, err
		}
	}
	if f.left < uint64(len(p)) {
		p = p[:f.left]
	}
	if f.pos == f.end {
		if f.err != nil {
			return 0, f.err
		}
		if len(p) >= fullBuffer { // a part of a large message needs no copy
			n, err := f.readConn(p)
			f.left -= uint64(n)
			return n, err
		}
		if err := f.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.buf[f.pos:f.end])
	f.pos += n
	f.left -= uint64(n)
	return n, nil
}

// begin waits for the header of the next frame.
func (f *frames) begin() error {
	for {
		if head, ok := parseFrame(f.buf[f.pos:f.end]); ok {
			if head.masked {
				f.err = errMasked // the library would read it
				return f.err
			}
			f.left = head.size()
			if !head.control() {
				f.message = head
			}
			return nil
		}
		if err := f.fill(); err != nil {
			return err
		}
	}
}

// fill reads at least one byte into the buffer, in which there must be room for a header.
func (f *frames) fill() error {
	if f.err != nil {
		return f.err
	}
	unread := f.buf[f.pos:f.end]
	switch {
	case f.buf == nil:
		f.buf = make([]byte, idleBuffer)
	case f.end == len(f.buf) && len(f.buf) < fullBuffer: // there was more than it has room for
		f.buf = make([]byte, 2*len(f.buf))
	}
	f.pos, f.end = 0, copy(f.buf, unread)
	for range 100 { // a reader may return nothing, but not for ever
		n, err := f.readConn(f.buf[f.end:])
		f.end += n
		f.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	f.err = io.ErrNoProgress
	return f.err
}

// readConn reads from the connection. A WebSocket does not end with io.EOF: the library would take
// that between two frames for the end of their message.
func (f *frames) readConn(p []byte) (int, error) {
	n, err := f.conn.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// hasMessage reports whether the next message is in the buffer as a whole, so that nothing needs to
// be waited for. It may be called between two frames only.
func (f *frames) hasMessage() bool {
	for data := f.buf[f.pos:f.end]; ; {
		head, ok := parseFrame(data)
		if !ok || head.size() > uint64(len(data)) || head.opcode == opcodeClose {
			return false
		}
		if head.final && !head.control() {
			return true
		}
		data = data[head.size():]
	}
}

func (f *frames) Write(p []byte) (int, error) { return f.conn.Write(p) }
func (f *frames) Close() error                { return f.conn.Close() }
