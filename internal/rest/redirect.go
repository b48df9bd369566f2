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
// to the server of the URL: they may hold a credential. After a redirect to another server they are
// not sent again, not even if a further redirect leads back. That other server has then chosen what
// is asked for, and must not have it asked with our credential.
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
		home := via[0].URL
		away := func(r *http.Request) bool { return !sameOrigin(home, r.URL) }
		if away(req) || slices.ContainsFunc(via, away) {
			for name := range c.Header {
				// The Accept of a request is not the one of c.Header, see Collection.Request.
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

// sameOrigin reports whether both URLs have the same scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		if p := u.Port(); p != "" {
			return p
		}
		return map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() && port(a) == port(b)
}
