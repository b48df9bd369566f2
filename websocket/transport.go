package websocket

import (
	"net/http"
	"slices"
	"strings"
)

// Client returns a copy of c, or of http.DefaultClient if c is nil, that watches over WebSockets:
// its Transport is a [Transport] over that of c. Redirects, cookies and credentials work as with c.
// c does not change.
func Client(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	own := *c
	own.Transport = &Transport{Base: c.Transport}
	return &own
}

// A Transport is an http.RoundTripper that watches over WebSockets. A request is a watch if it is a
// GET without a body whose query has watch, other than watch=false or watch=0. Any other request
// goes to Base unchanged.
//
// The response to a watch has the status 200. Its body has the messages one after the other: lines
// of JSON; in protobuf, messages with their length before them, in four bytes; or a sequence of
// CBOR. The body ends with io.EOF if the server closes the WebSocket as planned, as it does when
// the time of the watch is over. It ends with io.ErrUnexpectedEOF if the connection ends without
// that. A message of more than 65 MiB is an error. Pings are answered while the body is read.
//
// Nothing is read ahead, but what has come in the same packets: a reader that is slow slows down
// the server. The connection is closed when the body is closed, or when the request's context is
// done.
//
// A server need not say in its handshake how it encodes the events, and kube-apiserver does not. If
// the Accept header of the request leaves a choice, RoundTrip returns with the first message, which
// shows it. It returns at once if Accept names one media type.
//
// The Origin header of the handshake, which kube-apiserver insists on, is the URL's scheme and host
// unless the request has one.
//
// The fields must not be changed once the Transport is in use. It is safe for concurrent use.
type Transport struct {
	// Base sends the requests; nil: http.DefaultTransport. In its response to the handshake, which
	// has the status 101, the body must be an io.ReadWriteCloser, as that of an *http.Transport is.
	Base http.RoundTripper
}

// RoundTrip sends a request; see [Transport]. It implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if !isWatch(req) || req.Header.Get("Upgrade") != "" || req.Body != nil && req.Body != http.NoBody {
		return base.RoundTrip(req)
	}
	return dial(base, req)
}

// CloseIdleConnections closes the idle connections of Base. An http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	// An http.Client finds the method of its transport by itself, and that of
	// http.DefaultTransport.
	(&http.Client{Transport: t.Base}).CloseIdleConnections()
}

// isWatch reports whether req is a watch, as API servers see it: every value of watch means true
// but two.
func isWatch(req *http.Request) bool {
	if req.Method != "" && req.Method != http.MethodGet || req.URL == nil {
		return false
	}
	// Lists need no more than this look.
	if !strings.Contains(req.URL.RawQuery, "watch") {
		return false
	}
	watch := req.URL.Query()["watch"]
	return len(watch) > 0 && !slices.Contains([]string{"false", "0"}, strings.ToLower(watch[0]))
}
