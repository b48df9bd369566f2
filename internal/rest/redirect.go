package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// maxRedirects is the limit that net/http has for a client without a CheckRedirect.
const maxRedirects = 10

// confined returns the collection's client, changed so that it sends the collection's headers only
// to the server of the URL, since they may hold a credential. Once a redirect has led to another
// server they are not sent any more, even if a further redirect leads back. By then the other
// server has chosen the request, and it must not choose one that carries our credential.
//
// The user's client is not changed: confined copies it.
func (c *Collection) confined() *http.Client {
	client := c.Client
	if client == nil {
		client = http.DefaultClient
	}
	if len(c.Header) == 0 {
		return client
	}
	own := *client
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		// via has the requests sent so far, the oldest first, and req is the next one. net/http has
		// already copied the headers of the first request into req.
		home := via[0].URL
		away := func(r *http.Request) bool { return !sameOrigin(home, r.URL) }
		if away(req) || slices.ContainsFunc(via, away) {
			for name := range c.Header {
				// Collection.Request has set Accept, whatever c.Header had, so it stays.
				if name != "Accept" {
					delete(req.Header, name)
				}
			}
		}
		if client.CheckRedirect != nil {
			return client.CheckRedirect(req, via)
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}
	return &own
}

// sameOrigin reports whether both URLs have the same scheme, host and port. A port that is not
// written is the default one of the scheme.
func sameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		if p := u.Port(); p != "" {
			return p
		}
		return map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() && port(a) == port(b)
}
