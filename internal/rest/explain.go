package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// wanted says what the response should hold.
func (r *Request) wanted() string {
	if r.watching {
		return "a stream of watch events of " + r.of.Objects + " objects"
	}
	return "a list of " + r.of.Objects + " objects"
}

// failed returns err with the URL u.
func failed(u *url.URL, err error) error {
	return fmt.Errorf("lw: HTTP: %s: %w", Redacted(u.String()), err)
}

// speaksTLS is the hint for a URL with http:// that needs https://.
const speaksTLS = "the port speaks TLS: want https://"

// tlsAlert is what net/http says when it reads a TLS alert: record type 21, version 3.
const tlsAlert = `malformed HTTP response "\x15\x03`

// unanswered returns the error of a request that got no response: err, from the client, or the
// context's error if the context is done.
func (r *Request) unanswered(err error) error {
	if done := r.http.Context().Err(); done != nil {
		return failed(r.url, done)
	}
	err = &unansweredError{r.url, err}
	if strings.Contains(err.Error(), tlsAlert) {
		err = fmt.Errorf("%w (%s)", err, speaksTLS)
	}
	return failed(r.url, err)
}

// unansweredError is the error of an http.Client. Its text leaves out the URL, which failed adds,
// unless a redirect had led to another one.
type unansweredError struct {
	asked *url.URL
	err   error
}

func (e *unansweredError) Error() string {
	failed, ok := e.err.(*url.Error)
	if !ok {
		return e.err.Error()
	}
	if at, err := url.Parse(failed.URL); err == nil && (at.Host != e.asked.Host || at.Path != e.asked.Path) {
		return fmt.Sprintf("redirected to %s: %v", Redacted(failed.URL), failed.Err)
	}
	return failed.Err.Error()
}

func (e *unansweredError) Unwrap() error { return e.err }

// refused returns err, which check has returned, with the URL, and with what a 404 means for the
// URL of a collection.
func (r *Request) refused(resp *http.Response, err error) error {
	if resp.StatusCode == http.StatusNotFound {
		err = fmt.Errorf("%w (want %s: %s)", err, r.wanted(), missing(resp.Request.URL.Path))
	}
	return failed(r.url, r.redirected(resp, err))
}

// redirected returns err with the URL that the response came from, unless it is the one that was
// asked.
func (r *Request) redirected(resp *http.Response, err error) error {
	if resp.Request.URL.Host == r.url.Host && resp.Request.URL.Path == r.url.Path {
		return err
	}
	return fmt.Errorf("redirected to %s: %w", Redacted(resp.Request.URL.String()), err)
}

// Redacted returns the URL raw for an error: without its password, and of its query only the
// selectors. Everything else in a query is long, differs each time, or is a credential. raw need
// not be a valid URL.
func Redacted(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		raw, _, _ = strings.Cut(raw, "?")
		if at := strings.LastIndexByte(raw, '@'); at >= 0 {
			scheme, _, _ := strings.Cut(raw[:at], "//")
			raw = scheme + "//xxxxx" + raw[at:]
		}
		return raw
	}
	query := u.Query()
	for name := range query {
		if name != "labelSelector" && name != "fieldSelector" {
			query.Del(name)
		}
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}

// collectionPath matches the path of a collection or of an object in one: group ("" for the core),
// version and resource. A proxy may have put something before it.
var collectionPath = regexp.MustCompile(`/(?:api|apis/([^/]+))/(v[^/]+)(?:/namespaces/[^/]+)?/([^/]+)`)

// missing asks what may be wrong with a path that the server does not know.
func missing(path string) string {
	m := collectionPath.FindStringSubmatch(path)
	switch {
	case m == nil:
		return "is it the URL of a collection?"
	case m[1] == "":
		return fmt.Sprintf("does it have %s in %s?", m[3], m[2])
	}
	return fmt.Sprintf("does it have %s in %s/%s, or is the CustomResourceDefinition not there yet?", m[3], m[1], m[2])
}

// instead says what a response is that begins with data, and a hint at why it may have come. Both
// are empty if it is what was asked for, or something whose decoding error says what it is.
func instead(c *codec, data []byte, watching bool) (what, hint string) {
	kind, event := c.begins(data)
	switch {
	case event && watching:
		return "", ""
	case event:
		return "events of a watch", ""
	case kind == "", kind == "Status", kind == "Table":
		return "", ""
	case serverKinds[kind]:
		return article(kind), "is it a URL of the server itself, and not of a collection?"
	case strings.HasSuffix(kind, "List") && watching:
		return article(kind), "does a proxy drop the query?"
	case strings.HasSuffix(kind, "List"):
		return "", ""
	}
	return article(kind), "is it the URL of one object?"
}

// rootPaths is the kind that begins gives to the list of paths at the root of a server, which has
// none.
const rootPaths = "list of paths"

// serverKinds are the kinds that a server describes itself by.
var serverKinds = map[string]bool{
	"APIVersions": true, "APIGroupList": true, "APIGroup": true, "APIResourceList": true, "APIGroupDiscoveryList": true, rootPaths: true,
}

// article returns kind with its indefinite article.
func article(kind string) string {
	if strings.ContainsAny(kind[:1], "AEIOU") {
		return "an " + kind
	}
	return "a " + kind
}
