package websocket

import (
	"context"
	"net/http"
	"strings"

	coder "github.com/coder/websocket"
)

// Handler returns a handler that sends the watches of h over WebSockets, to clients that ask for
// that, as kube-apiserver does: each event of JSON is a text message, and each event of protobuf a
// binary one. The WebSocket is closed as planned when h returns, and without a word when h panics.
// All other requests, and the refusals of h, pass unchanged. So does a stream that is neither JSON
// nor protobuf.
//
// h sees an ordinary watch. Its request's context is done when the client has gone. A write of h
// waits for a client that is slow.
//
// A handshake must have an Origin header with the host of the request, as the client of this
// package sends it; otherwise it is refused with 403. So no web page of another site can watch with
// the credentials of a browser.
func Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isWatch(r) || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
			h.ServeHTTP(w, r)
		case r.Header.Get("Origin") == "":
			http.Error(w, "websocket: a handshake without an Origin", http.StatusForbidden)
		default:
			serve(h, w, r)
		}
	})
}

// serve lets h answer r, and sends what it answers over a WebSocket.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	plain := r.Clone(ctx)
	for _, name := range append([]string{"Sec-Websocket-Extensions", "Sec-Websocket-Protocol", "Accept-Encoding"}, handshakeHeaders...) {
		plain.Header.Del(name)
	}
	u := &upgrade{ResponseWriter: w, request: r, gone: cancel}
	// If h panics there is no close frame: the client must not take what it has for all.
	defer u.abort()
	h.ServeHTTP(u, plain)
	u.finish()
}

// An upgrade is the http.ResponseWriter of a watch whose client asks for a WebSocket. It belongs to
// the goroutine of the request.
type upgrade struct {
	http.ResponseWriter
	request *http.Request
	gone    func() // ends the request's context
	begun   bool   // the header was written
	// conn is nil if the answer is no stream, or none that can be cut into messages.
	conn *coder.Conn
	form *form
	// err is why there is no WebSocket, although the answer was a stream. The client has got it.
	err error
	// part is the beginning of a message.
	part []byte
	stop func() bool // of the function that calls gone
}

// Unwrap is for http.ResponseController, by which a handler may take over the connection instead.
func (u *upgrade) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// WriteHeader begins the answer, and the WebSocket if the watch has begun.
func (u *upgrade) WriteHeader(code int) {
	if u.begun {
		return
	}
	u.begun = code >= 200 // else it is an informational answer before the answer
	if code != http.StatusOK {
		u.ResponseWriter.WriteHeader(code)
		return
	}
	u.form = formOf(u.Header().Get("Content-Type"))
	if u.form == nil || !u.form.line && !u.form.prefix || u.Header().Get("Content-Encoding") != "" {
		u.ResponseWriter.WriteHeader(code)
		return
	}
	u.Header().Del("Content-Length")
	conn, err := coder.Accept(u.ResponseWriter, u.request, nil)
	if err != nil {
		u.err = err
		u.gone()
		return
	}
	u.conn = conn
	// It answers pings, and sees when the client closes the connection.
	u.stop = context.AfterFunc(conn.CloseRead(context.Background()), u.gone)
}

// Write sends the messages that p completes. The rest of p waits for what completes it.
func (u *upgrade) Write(p []byte) (int, error) {
	u.WriteHeader(http.StatusOK)
	if u.err != nil {
		return 0, u.err
	}
	if u.conn == nil {
		return u.ResponseWriter.Write(p)
	}
	u.part = append(u.part, p...)
	rest := u.part
	for {
		message, after, ok := u.form.cut(rest)
		if !ok {
			break
		}
		if err := u.conn.Write(context.Background(), u.form.message, message); err != nil {
			u.gone()
			return 0, err
		}
		rest = after
	}
	u.part = append(u.part[:0], rest...)
	return len(p), nil
}

// FlushError sends the header, if nothing was written yet. Messages are sent when they are
// complete.
func (u *upgrade) FlushError() error {
	u.WriteHeader(http.StatusOK)
	if u.err != nil || u.conn != nil {
		return u.err
	}
	return http.NewResponseController(u.ResponseWriter).Flush()
}

// Flush is FlushError for handlers that expect an http.Flusher.
func (u *upgrade) Flush() { _ = u.FlushError() }

// finish closes the WebSocket after its last message.
func (u *upgrade) finish() {
	if u.conn == nil {
		return
	}
	code := coder.StatusNormalClosure
	if len(u.part) > 0 {
		// In JSON the last line need not end. The length of a message shows that it has not.
		if u.form.prefix {
			code = coder.StatusInternalError
		} else if u.conn.Write(context.Background(), u.form.message, u.part) != nil {
			return
		}
	}
	// It waits some seconds for the client's answer. The connection is closed in any case.
	_ = u.conn.Close(code, "")
}

// abort closes the connection if nothing else has, and waits for its goroutine. The client that was
// refused has its whole answer, though the handler may give up as it could not write its own.
func (u *upgrade) abort() {
	if u.err != nil {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
	}
	if u.conn != nil {
		u.stop()
		u.conn.CloseNow()
	}
}
