package lw

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/internal/decode"
)

// speaksTLS is for those who forgot the s.
const speaksTLS = "the port speaks TLS: want https://"

// wanted says what the URL should be of.
func (r *request) wanted(watching bool) string {
	if watching {
		return "a stream of watch events of " + r.of + " objects"
	}
	return "a list of " + r.of + " objects"
}

// failed is err with the URL.
func (r *request) failed(u *url.URL, err error) error {
	return fmt.Errorf("lw: HTTP: %s: %w", shown(u.String()), err)
}

// unanswered says why there is no response.
func (r *request) unanswered(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return r.failed(u, ctx.Err())
	}
	err = &unansweredError{u, err}
	if strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`) { // how a TLS alert begins
		err = fmt.Errorf("%w (%s)", err, speaksTLS)
	}
	return r.failed(u, err)
}

// unansweredError is the error of an http.Client, of which the text is not the URL again.
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
		return fmt.Sprintf("redirected to %s: %v", shown(failed.URL), failed.Err)
	}
	return failed.Err.Error()
}

func (e *unansweredError) Unwrap() error { return e.err }

// refused is err, which check has returned, with the URL and with what a 404 means for a collection.
func (r *request) refused(u *url.URL, resp *http.Response, watching bool, err error) error {
	if resp.StatusCode == http.StatusNotFound {
		err = fmt.Errorf("%w (want %s: %s)", err, r.wanted(watching), missing(resp.Request.URL.Path))
	}
	return r.failed(u, redirected(u, resp, err))
}

// unread is the error of a response that could not be read as what was asked for, with the URL, and with what it is instead as
// far as its beginning tells that.
func (r *request) unread(u *url.URL, resp *http.Response, b *body, watching bool, err error) error {
	got := instead(b.begins, b.encoding, watching)
	if _, ok := err.(*decode.KindError); ok {
		// It says what was wanted and what has come.
		if _, hint, ok := strings.Cut(got, " ("); ok {
			err = fmt.Errorf("%w (%s", err, hint)
		}
	} else if got != "" {
		err = fmt.Errorf("want %s, got %s: %w", r.wanted(watching), got, err)
	}
	return r.failed(u, redirected(u, resp, err))
}

// redirected says where the response came from if that is not where it was asked for.
func redirected(u *url.URL, resp *http.Response, err error) error {
	if resp.Request.URL.Host == u.Host && resp.Request.URL.Path == u.Path {
		return err
	}
	return fmt.Errorf("redirected to %s: %w", shown(resp.Request.URL.String()), err)
}

// shown is a URL for an error: without a password, and with no more of the query than the selectors. What else is in a query is
// long, is another one each time, or is a key.
func shown(raw string) string {
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

// collectionPath is the end of the path of a collection, or of what is in one. What stands before it is a proxy's.
var collectionPath = regexp.MustCompile(`/(?:api|apis/([^/]+))/(v[^/]+)(?:/namespaces/[^/]+)?/([^/]+)`)

// missing asks what is wrong with a path that the server does not know.
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

// instead says what a response is that begins with data; "": what it should be, or something that says itself what it is.
func instead(data []byte, enc decode.Encoding, watching bool) string {
	kind, event := "", false
	if enc == decode.Protobuf {
		kind, event = protobufKind(data)
	} else {
		kind, event = jsonKind(data)
	}
	const object = " (is it the URL of one object?)"
	switch {
	case event && watching:
		return ""
	case event:
		return "events of a watch"
	case kind == "", kind == "Status", kind == "Table":
		return ""
	case serverKinds[kind]:
		return article(kind) + " (is it a URL of the server itself, and not of a collection?)"
	case strings.HasSuffix(kind, "List") && watching:
		return article(kind) + " (does a proxy drop the query?)"
	case strings.HasSuffix(kind, "List"):
		return ""
	}
	return article(kind) + object
}

// serverKinds are what a server answers about itself.
var serverKinds = map[string]bool{
	"APIVersions": true, "APIGroupList": true, "APIGroup": true, "APIResourceList": true, "APIGroupDiscoveryList": true, rootPaths: true,
}

// rootPaths stands for the paths at the root of a server, which have no kind.
const rootPaths = "list of paths"

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "AEIOU") {
		return "an " + kind
	}
	return "a " + kind
}

// jsonKind returns the kind of the object that data begins with, as far as it comes early, or that it is an event.
func jsonKind(data []byte) (kind string, event bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", false
	}
	for d.More() {
		name, err := d.Token()
		switch {
		case err != nil:
			return "", false
		case name == "type" || name == "object":
			return "", true
		case name == "paths":
			return rootPaths, false
		case name == "kind":
			err = d.Decode(&kind)
			if err == nil && kind != "" {
				return kind, false
			}
		case name == "items":
			return "", false // a list, of which the kind comes behind
		}
		var value json.RawMessage
		if name != "kind" && d.Decode(&value) != nil {
			return "", false
		}
	}
	return "", false
}

// protobufKind is jsonKind for protobuf, of which an event has its length in front.
func protobufKind(data []byte) (kind string, event bool) {
	const magic = "k8s\x00"
	data, object := bytes.CutPrefix(data, []byte(magic))
	if !object {
		return "", len(data) > 0
	}
	// The first field of an envelope is its TypeMeta, which is short.
	if len(data) < 2 || data[0] != 1<<3|2 || data[1] > 127 || len(data) < 2+int(data[1]) {
		return "", false
	}
	var t runtime.TypeMeta
	if t.Unmarshal(data[2:2+data[1]]) != nil {
		return "", false
	}
	return t.Kind, false
}
