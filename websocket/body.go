package websocket

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	coder "github.com/coder/websocket"
)

// maxMessage is the most bytes of a message. It is above lw's limit for an object, 64 MiB, so that
// lw.HTTP says itself which object is too large.
const maxMessage = 65 << 20

// A body is the messages of a WebSocket as the body of a response. One goroutine may call Read, and
// any other Close.
type body struct {
	ctx    context.Context
	conn   *coder.Conn
	frames *frames
	form   *form // nil until the first message, if nothing else says it

	// message is what is left of the current message; nil between two.
	message io.Reader
	// extra comes before what is left of message: a length, or a line break at its end.
	extra []byte
	room  [5]byte // the memory of extra
	last  byte    // of the current message
	// err is what comes when all before it has been read.
	err error

	closed sync.Once
	// stop is the stop function of context.AfterFunc, which closes conn when ctx is done. It
	// returns false if that has begun.
	stop    func() bool
	stopped chan struct{} // closed when conn was closed because ctx is done
}

func newBody(ctx context.Context, conn *coder.Conn, f *frames) *body {
	b := &body{ctx: ctx, conn: conn, frames: f, stopped: make(chan struct{})}
	b.stop = context.AfterFunc(ctx, func() {
		defer close(b.stopped)
		conn.CloseNow()
	})
	return b
}

// Close closes the connection, without a word to the server. No goroutine is left when it returns.
func (b *body) Close() error {
	b.closed.Do(func() {
		if !b.stop() {
			<-b.stopped
		}
		b.conn.CloseNow() // the error says that it was closed before
	})
	return nil
}

// Read waits for a message, and returns as much of it as p has room for. It adds the messages
// behind it that have come as a whole, so that the reader of a burst sees that there is more.
func (b *body) Read(p []byte) (n int, err error) {
	for n < len(p) && b.err == nil {
		if b.message == nil && len(b.extra) == 0 {
			if n > 0 && !b.frames.hasMessage() {
				break
			}
			b.err = b.next()
			continue
		}
		n += b.read(p[n:])
	}
	if n == 0 && len(p) > 0 {
		return 0, b.err
	}
	return n, nil
}

// read reads from the current message. It waits if no more of it has come.
func (b *body) read(p []byte) (n int) {
	if len(b.extra) > 0 {
		n = copy(p, b.extra)
		b.extra = b.extra[n:]
		return n
	}
	n, err := b.message.Read(p)
	if n > 0 {
		b.last = p[n-1]
	}
	switch {
	case err == io.EOF:
		b.message = nil
		// A line break is what tells a reader without a doubt that the event is complete.
		if b.form.line && b.last != '\n' {
			b.extra = append(b.room[:0], '\n')
		}
	case err != nil:
		b.err = b.failed(err, true)
	}
	return n
}

// next waits for the next message.
func (b *body) next() error {
	// Reading has no deadline of its own: Close ends it.
	typ, message, err := b.conn.Reader(context.Background())
	if err != nil {
		return b.failed(err, false)
	}
	whole, size := b.frames.message.final, b.frames.message.payload
	if whole && size > maxMessage {
		return fmt.Errorf("websocket: a message of %d bytes, want at most %d: %w", size, maxMessage, coder.ErrMessageTooBig)
	}
	var first []byte
	if b.form == nil && typ == coder.MessageText {
		b.form = &jsonForm
	}
	if b.form == nil {
		first = b.room[4:5]
		switch _, err := io.ReadFull(message, first); {
		case err == io.EOF:
			return errors.New("websocket: the first message is empty")
		case err != nil:
			return b.failed(err, true)
		}
		b.form = formOfBinary(first[0])
	}
	if typ != b.form.message {
		return fmt.Errorf("websocket: a message of type %s in a stream of %s", typ, b.form.contentType)
	}
	b.message, b.extra, b.last = message, first, '\n'
	if !b.form.prefix {
		return nil
	}
	// The length comes first. A message in several frames says it only at its end.
	if !whole {
		data, err := io.ReadAll(message)
		if err != nil {
			return b.failed(err, true)
		}
		b.message, size = bytes.NewReader(data), uint64(len(first)+len(data))
	}
	b.extra = append(binary.BigEndian.AppendUint32(b.room[:0], uint32(size)), first...)
	return nil
}

// failed returns the error for err, an error of the library. within says that a message had begun.
func (b *body) failed(err error, within bool) error {
	if done := b.ctx.Err(); done != nil {
		return done
	}
	closed, ok := errors.AsType[coder.CloseError](err)
	switch {
	case ok && within:
		return fmt.Errorf("websocket: closed within a message: %w", io.ErrUnexpectedEOF)
	// A server that goes away as planned has sent all that it had, as at the end of an ordinary
	// response.
	case ok && (closed.Code == coder.StatusNormalClosure || closed.Code == coder.StatusNoStatusRcvd || closed.Code == coder.StatusGoingAway):
		return io.EOF
	case ok:
		return fmt.Errorf("websocket: closed by the server: %w", closed)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("websocket: the connection was lost: %w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("websocket: %w", err)
}
