package clientgo

import (
	"errors"
	"io"
	"net/http"
	"net/url"
)

// Capture returns a client that does what client does, and lets the informers of a [Decoder] read
// the lists and watches that their ListerWatchers make through it. All other requests go to client
// unchanged. Give it to a constructor of client-go that takes a client, such as
// kubernetes.NewForConfigAndClient, dynamic.NewForConfigAndClient or
// metadata.NewForConfigAndClient. Capture does not change client; nil is http.DefaultClient.
//
// What lw reads is sent by client too, with its transport, its credentials, its cookies and its
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

// capturing is the transport of a client that [Capture] returned.
type capturing struct {
	next   http.RoundTripper
	client *http.Client // its transport is next
}

// RoundTrip sends r, or lets the probe of its context send it. It answers the question of a
// context.
func (c *capturing) RoundTrip(r *http.Request) (*http.Response, error) {
	if q, ok := r.Context().Value(questionKey{}).(*question); ok && q.note(r, c.client) {
		return nil, errNotSent
	}
	r = withTruePlural(r)
	if p, ok := r.Context().Value(probeKey{}).(*probe); ok && p.wants(r) {
		return p.send(c.client, r)
	}
	return c.next.RoundTrip(r)
}

// CloseIdleConnections makes the method of http.Client work, which looks for it.
func (c *capturing) CloseIdleConnections() { c.client.CloseIdleConnections() }

// WrappedRoundTripper lets apimachinery find the http.Transport below.
func (c *capturing) WrappedRoundTripper() http.RoundTripper { return c.next }

// errSent is what client-go sees of a request that has failed, and of a second one in the same
// call. It must not look like a failure of the network, after which client-go would try again.
var errSent = errors.New("clientgo: lw has sent this request itself")

// send sends r in the place of client-go, and keeps the response for lw. client-go gets the head of
// the response. So its metrics count the request and its handler of warnings sees the warnings, but
// it has nothing to decode, unless the answer is to be compared.
func (p *probe) send(client *http.Client, r *http.Request) (*http.Response, error) {
	own, err := p.request(client, r)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(own)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // lw's client wraps it with the URL once more
	}
	var forClientGo io.ReadCloser
	if err == nil {
		forClientGo, err = p.copies(resp)
	}
	if err != nil {
		resp = nil // which a refused redirect leaves, with its body closed
	}
	p.mu.Lock()
	p.response, p.err = resp, err
	p.mu.Unlock()
	if err != nil {
		return nil, errSent
	}
	head := *resp
	head.Header = resp.Header.Clone()
	// lw waits as long as the server asks for, and client-go must not do so too.
	head.Header.Del("Retry-After")
	head.Body, head.ContentLength, head.TransferEncoding = forClientGo, int64(len(p.data)), nil
	head.Request = r
	return &head, nil
}

// request returns the request to send in r's place, or an error if the call has sent one before.
func (p *probe) request(client *http.Client, r *http.Request) (*http.Request, error) {
	collection := collectionURL(r.URL)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.collection != "" {
		p.several = p.several || p.collection != collection
		return nil, errSent
	}
	p.collection = collection
	// The context is that of the call, since client-go ends that of r before lw has read anything.
	own := r.Clone(p.ctx)
	query, err := p.query()
	if err != nil {
		return nil, err
	}
	for name, values := range own.URL.Query() {
		if !perRequest[name] {
			query[name] = values
		}
	}
	own.URL.RawQuery = query.Encode()
	if accept, _ := acceptFor(r.Header.Get("Accept"), p.object); accept != "" {
		own.Header.Set("Accept", accept)
	}
	if client.Jar != nil {
		// The client has put them there, from its Jar, and will do so again.
		own.Header.Del("Cookie")
	}
	return own, nil
}

// perRequest are the parameters of a query that say how to list or watch a collection, and not
// which one: lw sets them for each request. timeout is what client-go makes of the timeout of a
// client.
var perRequest = map[string]bool{
	"allowWatchBookmarks": true, "continue": true, "limit": true, "resourceVersion": true, "resourceVersionMatch": true,
	"sendInitialEvents": true, "timeout": true, "timeoutSeconds": true, "watch": true,
}

// collectionURL returns u without the parameters that differ from one request to the next.
func collectionURL(u *url.URL) string {
	collection := *u
	query := u.Query()
	for name := range perRequest {
		query.Del(name)
	}
	collection.RawQuery = query.Encode()
	return collection.String()
}

// answersClient is the client of an lw.HTTP that decodes what probes have received. It follows no
// redirect: the probe's client has followed those that it wants to follow.
var answersClient = &http.Client{
	Transport:     answers{},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

type answers struct{}

// RoundTrip returns what the probe of the request's context has received.
func (answers) RoundTrip(r *http.Request) (*http.Response, error) {
	p := r.Context().Value(probeKey{}).(*probe)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.response, p.err
}
