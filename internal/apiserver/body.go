package apiserver

import (
	"compress/gzip"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-lw/lw/internal/wire"
)

// A body is the body of a list or a stream, on its way to the client. If the client accepts gzip,
// streamed lists and large lists are compressed, as on a real server.
type body struct {
	w           http.ResponseWriter
	acceptsGzip bool
	buf         []byte       // what was written and not passed on yet
	started     bool         // the headers were sent
	compressed  bool         // they say that it is
	gz          *gzip.Writer // nil: what was written is sent
}

// A list is compressed if it has more bytes than compressAbove. It is passed on in pieces of
// pieceSize bytes.
const (
	compressAbove = 128 << 10
	pieceSize     = 32 << 10
)

// gzips are writers that no body uses. One has a megabyte of tables, more than most answers.
var gzips = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails only for an invalid level
	return w
}}

func newBody(w http.ResponseWriter, r *http.Request, contentType string) *body {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache, private")
	return &body{w: w, acceptsGzip: wire.AcceptsGzip(r.Header)}
}

// start sends the headers, once. A stream calls it at its beginning. The headers of a list wait
// until the body is complete and its length known, or until it is too long to wait for.
func (b *body) start(compress bool) {
	if b.started {
		return
	}
	b.started = true
	if compress && b.acceptsGzip {
		b.w.Header().Set("Content-Encoding", "gzip")
		b.w.Header().Add("Vary", "Accept-Encoding")
		b.compressed = true
	}
	b.w.WriteHeader(http.StatusOK)
}

// An encodeError says that a unit could not be encoded. Nothing of it was written, so another
// answer can be sent in its place.
type encodeError struct{ error }

func (e encodeError) Unwrap() error { return e.error }

// write calls add with the buffer, to which add appends.
func (b *body) write(add func([]byte) ([]byte, error)) error {
	buf, err := add(b.buf)
	if err != nil {
		return encodeError{err}
	}
	b.buf = buf
	if !b.started && len(b.buf) > compressAbove {
		b.start(true)
	}
	if b.started && len(b.buf) >= pieceSize {
		return b.writeBuffered()
	}
	return nil
}

// writeBuffered passes on what is in the buffer.
func (b *body) writeBuffered() (err error) {
	switch {
	case !b.compressed:
		_, err = b.w.Write(b.buf)
	case len(b.buf) > 0:
		if b.gz == nil {
			b.gz = gzips.Get().(*gzip.Writer)
			b.gz.Reset(b.w)
		}
		_, err = b.gz.Write(b.buf)
	}
	b.buf = b.buf[:0]
	return err
}

// flush sends everything that was written.
func (b *body) flush() error {
	b.start(false)
	if err := b.writeBuffered(); err != nil {
		return err
	}
	if err := b.endMember(); err != nil {
		return err
	}
	return http.NewResponseController(b.w).Flush()
}

// endMember ends a member of gzip, and what follows is another one, as with kube-apiserver: a quiet
// watch has no writer. A reader must get all of a member before its end, behind which it waits for
// the next one, so the writer is flushed first.
func (b *body) endMember() error {
	if b.gz == nil {
		return nil
	}
	if err := b.gz.Flush(); err != nil {
		return err
	}
	if err := b.gz.Close(); err != nil {
		return err
	}
	b.gz.Reset(nil) // no answer stays with a writer that waits
	gzips.Put(b.gz)
	b.gz = nil
	return nil
}

// close ends the body cleanly.
func (b *body) close() error {
	if !b.started {
		b.w.Header().Set("Content-Length", strconv.Itoa(len(b.buf)))
		b.start(false)
	}
	if err := b.writeBuffered(); err != nil {
		return err
	}
	return b.endMember()
}

// sleep waits for d. It returns false as soon as ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
