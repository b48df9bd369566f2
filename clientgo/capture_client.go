package clientgo

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Capture returns a client that does what client does, and lets the informers of a [Decoder] take
// over the lists and watches that their ListerWatchers make through it. All other requests go to
// client unchanged. Give it to a constructor of client-go that takes a client, such as
// kubernetes.NewForConfigAndClient, dynamic.NewForConfigAndClient or
// metadata.NewForConfigAndClient. Capture does not change client; nil is http.DefaultClient.
//
// What lw takes over is sent by client too, with its transport, its credentials, its cookies and its
// policy for redirects. Only client's Timeout does not count, since it would end every watch.
func Capture(client *http.Client) *http.Client {
	if client == nil {
		client = http.DefaultClient
	}
	if _, ok := client.Transport.(*capturing); ok {
		return client
	}
	direct := *client
	direct.Timeout = 0
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	captured := *client
	captured.Transport = &capturing{next: next, client: &direct}
	return &captured
}

// errCaptured is what a request that lw takes over ends with, as the client that made it sees it.
// It must not look like a failure of the network, which client-go would try again.
var errCaptured = errors.New("clientgo: lw sends this request itself")

// capturing is the transport of a client that [Capture] returned.
type capturing struct {
	next   http.RoundTripper
	client *http.Client // sends what is taken over; its transport is next
}

// RoundTrip sends r, or records it if its context has a probe that wants it.
func (c *capturing) RoundTrip(r *http.Request) (*http.Response, error) {
	if p, ok := r.Context().Value(probeKey{}).(*probe); ok && p.take(c.client, r) {
		return nil, errCaptured
	}
	return c.next.RoundTrip(r)
}

// CloseIdleConnections makes the method of http.Client work, which looks for it.
func (c *capturing) CloseIdleConnections() { c.client.CloseIdleConnections() }

// WrappedRoundTripper lets apimachinery find the http.Transport below.
func (c *capturing) WrappedRoundTripper() http.RoundTripper { return c.next }

// A probe goes with the context of a call of a ListerWatcher, and records the requests of that call
// that lw can send itself.
type probe struct {
	object reflect.Type // what lw would decode into

	mu sync.Mutex
	// first is the first request of the call; nil if there was none. Guarded by mu.
	first *request
	// several: the call has made two requests that differ. lw cannot know how the ListerWatcher
	// would have made one answer of two, so it takes over neither. Guarded by mu.
	several bool
}

type probeKey struct{}

// with returns a context for a call of a ListerWatcher.
func (p *probe) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, probeKey{}, p)
}

// take records r, which is of client, and reports whether it has done so.
func (p *probe) take(client *http.Client, r *http.Request) bool {
	if r.Method != http.MethodGet || r.Body != nil && r.Body != http.NoBody || !isCollection(r.URL.Path) {
		return false
	}
	accept, ok := acceptFor(r.Header.Get("Accept"), p.object)
	if !ok {
		return false
	}
	req := &request{url: collectionURL(r.URL), accept: accept, header: r.Header.Clone(), client: client}
	req.header.Del("Accept")
	if client.Jar != nil {
		// The client has put them there, from its Jar, and will do so again.
		req.header.Del("Cookie")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == nil {
		p.first = req
	} else if !p.first.equal(req) {
		p.several = true
	}
	return true
}

// taken returns the request that was recorded, or nil. several is true if there was another one.
func (p *probe) taken() (r *request, several bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first, p.several
}

// A request is what the lists and watches of a collection have in common.
type request struct {
	url    string // with the selectors, and without what differs from one request to the next
	accept string // for lw.HTTP
	header http.Header
	client *http.Client
}

// equal reports whether both are requests for the same collection.
func (r *request) equal(o *request) bool {
	return r.url == o.url && r.accept == o.accept && r.client == o.client && maps.EqualFunc(r.header, o.header, slices.Equal)
}

// isCollection reports whether path is that of a collection, in a namespace or not. A ListerWatcher
// may make other requests before it lists, such as those of discovery, and needs their answers.
func isCollection(path string) bool {
	names := strings.Split(path, "/")
	for i, name := range names {
		rest := names[i+1:]
		switch {
		case name == "api" && len(rest) > 1:
			rest = rest[1:] // after the version
		case name == "apis" && len(rest) > 2:
			rest = rest[2:] // after group and version
		default:
			continue
		}
		if len(rest) == 1 || len(rest) == 3 && rest[0] == "namespaces" {
			return true
		}
	}
	return false
}

// perRequest are the parameters of a query that say how to list or watch a collection, and not which
// one: lw sets them for each request. timeout is what client-go makes of the timeout of a client.
var perRequest = []string{
	"allowWatchBookmarks", "continue", "limit", "resourceVersion", "resourceVersionMatch", "sendInitialEvents",
	"timeout", "timeoutSeconds", "watch",
}

// collectionURL returns u without the parameters that lw sets.
func collectionURL(u *url.URL) string {
	collection := *u
	query := u.Query()
	for _, name := range perRequest {
		query.Del(name)
	}
	collection.RawQuery = query.Encode()
	return collection.String()
}
