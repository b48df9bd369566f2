package websocket

import (
	"fmt"
	"io"
	"net/http"

	coder "github.com/coder/websocket"
)

// dial sends req as the handshake of a WebSocket. If the server agrees it returns a response with
// the messages; otherwise what base has returned.
func dial(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	h := &handshake{base: base, watch: req}
	// The URL does not matter: h sends the request that it has.
	conn, _, err := coder.Dial(req.Context(), "http://websocket", &coder.DialOptions{HTTPClient: &http.Client{Transport: h}})
	switch {
	case h.err != nil:
		return nil, h.err
	case h.refused != nil:
		return h.refused, nil
	case err != nil:
		return nil, fmt.Errorf("websocket: %w", err)
	}
	return h.response(conn)
}

// A handshake is the transport that the WebSocket library sends its handshake through. It keeps
// what the library would drop: the error of base, and the whole of a refusal.
type handshake struct {
	base  http.RoundTripper
	watch *http.Request

	// One of these is set when the server has answered, or has not.
	err      error
	refused  *http.Response
	accepted *http.Response
	frames   *frames // the connection, with accepted
}

// handshakeHeaders are what the library adds to a request, apart from what it is not asked for.
var handshakeHeaders = []string{"Connection", "Upgrade", "Sec-Websocket-Version", "Sec-Websocket-Key"}

// RoundTrip sends the watch with the headers of the library's request.
func (h *handshake) RoundTrip(library *http.Request) (*http.Response, error) {
	req := h.watch.Clone(h.watch.Context())
	if req.Header == nil {
		req.Header = http.Header{}
	}
	for _, name := range handshakeHeaders {
		req.Header[name] = library.Header[name]
	}
	if req.Header.Get("Origin") == "" {
		req.Header.Set("Origin", req.URL.Scheme+"://"+req.URL.Host)
	}
	resp, err := h.base.RoundTrip(req)
	if err != nil {
		h.err = err
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Request = h.watch
		h.refused = resp
		// The library sees that it is no WebSocket. It would read and close the body.
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: library}, nil
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		resp.Body.Close()
		h.err = fmt.Errorf("websocket: the body of the response to a handshake is a %T, which a transport has wrapped: want an io.ReadWriteCloser", resp.Body)
		return nil, h.err
	}
	h.accepted, h.frames = resp, &frames{conn: conn}
	return &http.Response{StatusCode: resp.StatusCode, Header: resp.Header, Body: h.frames, Request: library}, nil
}

// response returns the response to the watch, whose events come over conn.
func (h *handshake) response(conn *coder.Conn) (*http.Response, error) {
	ctx := h.watch.Context()
	h.frames.open = true
	conn.SetReadLimit(maxMessage)
	b := newBody(ctx, conn, h.frames)
	header := h.accepted.Header.Clone()
	b.form = formOf(header.Get("Content-Type"))
	if b.form == nil {
		b.form = onlyForm(h.watch.Header.Values("Accept"))
	}
	if b.form == nil {
		b.err = b.next()
		if err := ctx.Err(); err != nil {
			b.Close()
			return nil, err
		}
		if b.form == nil { // the WebSocket has ended without a message
			b.form = &jsonForm
		}
	}
	for _, name := range []string{"Connection", "Upgrade", "Sec-Websocket-Accept"} {
		header.Del(name)
	}
	header.Set("Content-Type", b.form.contentType)
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK,
		Proto: h.accepted.Proto, ProtoMajor: h.accepted.ProtoMajor, ProtoMinor: h.accepted.ProtoMinor,
		Header: header, Body: b, ContentLength: -1, Request: h.watch, TLS: h.accepted.TLS,
	}, nil
}
