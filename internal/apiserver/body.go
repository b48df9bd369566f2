package apiserver

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
)

// A body is what a client reads of a list or a stream. It is compressed where the client offers that and it is worth it.
type body struct {
	w       http.ResponseWriter
	offered bool
	buf     []byte // what came before start, and what has not been handed on since
	started bool
	gz      *gzip.Writer
}

// Sizes in bytes: a list is compressed above the first, and written on in pieces of the second.
const (
	compressAbove = 128 << 10
	pieceSize     = 32 << 10
)

func newBody(w http.ResponseWriter, r *http.Request, contentType string) *body {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache, private")
	return &body{w: w, offered: strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")}
}

// start sends the headers. Without it they wait until the body has a length, or is too long to have one.
func (b *body) start(compress bool) {
	if b.started {
		return
	}
	b.started = true
	if compress && b.offered {
		b.w.Header().Set("Content-Encoding", "gzip")
		b.w.Header().Add("Vary", "Accept-Encoding")
		b.gz, _ = gzip.NewWriterLevel(b.w, gzip.BestSpeed) // the level is valid
	}
	b.w.WriteHeader(http.StatusOK)
}

// An encodeError is what write returns where there is nothing to write, and so something else can be.
type encodeError struct{ error }

func (e encodeError) Unwrap() error { return e.error }

// write calls add to append to the body.
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
		return b.hand()
	}
	return nil
}

// hand passes on what is buffered.
func (b *body) hand() (err error) {
	if b.gz != nil {
		_, err = b.gz.Write(b.buf)
	} else {
		_, err = b.w.Write(b.buf)
	}
	b.buf = b.buf[:0]
	return err
}

// flush sends all that was written.
func (b *body) flush() error {
	b.start(false)
	if err := b.hand(); err != nil {
		return err
	}
	if b.gz != nil {
		if err := b.gz.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(b.w).Flush()
}

// close ends the body cleanly.
func (b *body) close() error {
	if !b.started {
		b.w.Header().Set("Content-Length", strconv.Itoa(len(b.buf)))
		b.start(false)
	}
	if err := b.hand(); err != nil || b.gz == nil {
		return err
	}
	return b.gz.Close()
}
