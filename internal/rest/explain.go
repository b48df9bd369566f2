package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// wanted returns, for an error, what the response should hold.
func (r *Request) wanted() string {
	if r.watching {
		return "a stream of watch events of " + r.of.Objects + " objects"
	}
	return "a list of " + r.of.Objects + " objects"
}

// failed returns err behind the prefix and the URL u, as all errors of the package have them.
func failed(u *url.URL, err error) error {
	return fmt.Errorf("lw: HTTP: %s: %w", Redacted(u.String()), err)
}

// speaksTLS is the hint for a URL with http:// that needs https://.
const speaksTLS = "the port speaks TLS: want https://"

// tlsAlert is in the error of net/http for a port that speaks TLS. Such a port answers a request
// without TLS with an alert: a record of type 21 (0x15) and major version 3, which is no HTTP.
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

// unansweredError is the error of an http.Client, with another text. The client's own text begins
// with the method and the URL. This one has no URL, because failed adds it. Only if the request was
// redirected, it names the URL that did not answer.
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

// refused returns err, an error of check, with the URL. For a 404 it adds what may be wrong with
// the URL of the collection.
func (r *Request) refused(resp *http.Response, err error) error {
	if resp.StatusCode == http.StatusNotFound {
		err = fmt.Errorf("%w (want %s: %s)", err, r.wanted(), missing(resp.Request.URL.Path))
	}
	return failed(r.url, r.redirected(resp, err))
}

// redirected returns err with the URL that the response came from, if a redirect has led to another
// host or path than the request asked for. Otherwise it returns err as it is.
func (r *Request) redirected(resp *http.Response, err error) error {
	if resp.Request.URL.Host == r.url.Host && resp.Request.URL.Path == r.url.Path {
		return err
	}
	return fmt.Errorf("redirected to %s: %w", Redacted(resp.Request.URL.String()), err)
}

// Redacted returns the URL raw as errors show it: without its password, and with no more of its
// query than the selectors. Everything else in a query is long, differs each time, or is a
// credential. raw need not be a valid URL.
func Redacted(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		// Without the query, and with what may be a user and password, between // and the last @,
		// masked.
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

// collectionPath matches the path of a collection, or of an object in one. Its submatches are the
// group ("" for the core group), the version and the resource. A proxy may have put something
// before the path.
var collectionPath = regexp.MustCompile(`/(?:api|apis/([^/]+))/(v[^/]+)(?:/namespaces/[^/]+)?/([^/]+)`)

// missing returns the question that an error asks about a path that the server does not know.
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

// instead looks at data, the first bytes of a response, in case the response is not what was asked
// for. what names the thing that has come, such as "a PodList", and hint asks why. Both are empty
// if the response is what was asked for, or if the error of decoding it says what it is.
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

// rootPaths is what codec.begins returns as the kind of the document at the root of a server. That
// document is a list of paths, and has no kind.
const rootPaths = "list of paths"

// serverKinds are the kinds of the documents in which a server describes its API.
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
