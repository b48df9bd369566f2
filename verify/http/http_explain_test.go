package http_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// Whatever an answer is, the error names the URL, what was wanted of it, and what came.
func TestHTTPErrorsSayWhatIsWrong(t *testing.T) {
	json, text := rig.ContentType("application/json"), rig.ContentType("text/plain")
	notFound := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}`
	const list, events = "a list of Sprocket objects", "a stream of watch events of Sprocket objects"
	const tls = `the server rejected our request for an unknown reason: "Client sent an HTTP request to an HTTPS server." (the port speaks TLS: want https://)`
	for name, tt := range map[string]struct {
		url         string
		code        int
		header      http.Header
		body        string
		list, watch string // in the error, behind the URL; "": no error that would have to explain anything
	}{
		"no such resource": {"http://h/apis/example.com/v1/namespaces/shop/sprockets", 404, json, notFound,
			"the server could not find the requested resource (want " + list +
				": does it have sprockets in example.com/v1, or is the CustomResourceDefinition not there yet?)",
			"the server could not find the requested resource (want " + events +
				": does it have sprockets in example.com/v1, or is the CustomResourceDefinition not there yet?)"},
		"no such group": {"https://h/proxy/api/x/apis/example.com/v1/sprockets", 404, text, "404 page not found",
			`the server could not find the requested resource: "404 page not found" (want ` + list +
				": does it have sprockets in example.com/v1, or",
			`the server could not find the requested resource: "404 page not found" (want ` + events +
				": does it have sprockets in example.com/v1, or"},
		"no such core resource": {"http://h/api/v1/sprokets", 404, text, "", "requested resource (want " + list +
			": does it have sprokets in v1?)",
			"requested resource (want " + events + ": does it have sprokets in v1?)"},
		"no such path": {"http://h/x", 404, text, "", "requested resource (want " + list +
			": is it the URL of a collection?)",
			"requested resource (want " + events + ": is it the URL of a collection?)"},
		"TLS": {"http://h/x", 400, text,
			"Client sent an HTTP request to an HTTPS server.\n", tls, tls},
		"a refusal that speaks of HTTPS over it": {"https://h/x", 400, text, "no HTTPS for you",
			`unknown reason: "no HTTPS for you"`, `unknown reason: "no HTTPS for you"`},
		"a status without a message": {"http://h/x", 410, json,
			`{"kind":"Status","status":"Failure","reason":"Expired"}`, "the server answered 410 Gone Expired",
			"the server answered 410 Gone Expired"},
		"one object": {"http://h/x", 200, json, `{"kind":"Sprocket","apiVersion":"v1","metadata":{"name":"a"}}`,
			"want " + list + ", got a Sprocket (is it the URL of one object?): no list", "want " + events +
				", got a Sprocket (is it the URL of one object?): "},
		"one custom object": {"http://h/x", 200, json,
			`{"apiVersion":"v1","data":{"kind":["List"]},"kind":"Engine","metadata":{"name":"a"}}`,
			"want " + list + ", got an Engine (is it", "want " + events + ", got an Engine (is it"},
		"groups": {"http://h/apis", 200, json, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
			"want a list of Sprocket (the kind of *rig.Sprocket; set HTTP.Kind if it is called otherwise), got APIGroupList (is it a URL of the server itself, and not of a collection?)",
			"want " + events + ", got an APIGroupList (is it a URL of the server itself"},
		"versions": {"http://h/api", 200, json, `{"kind":"APIVersions","versions":["v1"]}`,
			"got an APIVersions (is it a URL of", "got an APIVersions (is it a URL of"},
		"resources": {"http://h/api/v1", 200, json, `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`,
			"got APIResourceList (is it a URL of", "got an APIResourceList (is it a URL of"},
		"a group": {"http://h/apis/x", 200, json, `{"kind":"APIGroup","versions":[]}`, "got an APIGroup (is it a URL of",
			"got an APIGroup (is it a URL of"},
		"the root": {"http://h", 200, json, `{"paths":["/api"]}`, "got a list of paths (is it a URL of",
			"got a list of paths (is it a URL of"},
		"a page for people": {"http://h/x", 200, rig.ContentType("text/html"), "<html>\nLog in",
			`200 OK with content type "text/html", want ` + list + ` as "application/json": <html> Log in`,
			`200 OK with content type "text/html", want ` + events +
				` as "application/json;stream=watch,application/json": <html> Log in`},
		"a list": {"http://h/x", 200, json, `{"kind":"SprocketList","apiVersion":"v1","items":[]}`, "",
			"want " + events + ", got a SprocketList (does a proxy drop the query?): "},
		"a watch": {"http://h/x", 200, json, `{"type":"ADDED","object":{}}`, "want " + list +
			", got events of a watch: no list", ""},
		"a watch the other way": {"http://h/x", 200, json, `{"object":{"metadata":{"name":"a"}},"type":"ADDED"}`,
			"want " + list + ", got events of a watch: no list", ""},
		"something else": {"http://h/x", 200, json, `[1,2]`, "invalid JSON at byte 0", "invalid JSON at byte 0"},
		"a kind too late": {"http://h/x", 200, json, `{"data":"` + strings.Repeat("x", 600) + `","kind":"Engine"}`,
			"no list: it is a Engine", ""},
		"a kind of no kind": {"http://h/x", 200, json, `{"kind":7}`, "cannot unmarshal number", "at byte"},
		"no kind":           {"http://h/x", 200, json, `{"a":1,"kind":""}`, "no list: it has no kind", "no event"},
		"a Table": {"http://h/x", 200, json, `{"kind":"Table","rows":[]}`,
			"a Table, which is made for people", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, closed := rig.Answer(tt.code, tt.header, tt.body)
			list, watch := fails(t, &lw.HTTP[*rig.Sprocket]{URL: tt.url, Client: c})
			if !*closed {
				t.Error("the body is open")
			}
			for _, tc := range []struct {
				err  error
				want string
			}{{list, tt.list}, {watch, tt.watch}} {
				err, want := tc.err, tc.want
				if want == "" {
					continue
				}
				if !rig.Matches(err, want) || !strings.HasPrefix(err.Error(), "lw: HTTP: "+tt.url+": ") || len(err.Error()) > 600 {
					t.Errorf("got  %v\nwant %s: … %s", err, tt.url, want)
				}
				var api apierrors.APIStatus
				if tt.code != 200 && (!errors.As(err, &api) || int(api.Status().Code) != tt.code) {
					t.Errorf("%v is not the API's %d", err, tt.code)
				}
			}
			if tt.code == 404 && (!apierrors.IsNotFound(list) || !apierrors.IsNotFound(watch)) {
				t.Errorf("no IsNotFound: %v, %v", list, watch)
			}
		})
	}
}

// Protobuf begins with its magic where an event has the length of its frame.
func TestHTTPProtobufErrorsSayWhatIsWrong(t *testing.T) {
	envelope := func(kind string) string {
		meta := "\n\x02v1\x12" + string(rune(len(kind))) + kind
		return "k8s\x00\n" + string(rune(len(meta))) + meta + "\x12\x00\x1a\x00\x22\x00"
	}
	for name, tt := range map[string]struct{ body, list, watch string }{
		"one object": {envelope("Pod"), "got a Pod (is it the URL of one object?): ",
			"got a Pod (is it the URL of one object?): "},
		"the server itself": {envelope("APIVersions"), "got an APIVersions (is it a URL of",
			"got an APIVersions (is it a URL of"},
		"a list":                  {envelope("PodList"), "", "got a PodList (does a proxy drop the query?): "},
		"an event":                {"\x00\x00\x00\x04k8s\x00", "got events of a watch: ", ""},
		"an envelope of nothing":  {"k8s\x00", "", ""},
		"an envelope that is cut": {envelope("Pod")[:9], "", ""},
		"no TypeMeta":             {"k8s\x00\x12\x02xx", "", ""},
		"a TypeMeta that is none": {"k8s\x00\n\x02\n\x09", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := rig.Answer(200, rig.ContentType("application/vnd.kubernetes.protobuf"), tt.body)
			list, watch := fails(t, &lw.HTTP[*metav1.PartialObjectMetadata]{URL: "http://h/x", Client: c})
			for _, tc := range []struct {
				err  error
				want string
			}{{list, tt.list}, {watch, tt.watch}} {
				err, text := tc.err, fmt.Sprint(tc.err)
				if explained := strings.Contains(text, ", got "); explained != (tc.want != "") || !strings.Contains(text, tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				if err != nil && !strings.HasPrefix(err.Error(), "lw: HTTP: http://h/x: ") {
					t.Errorf("%v does not name the URL", err)
				}
			}
		})
	}
}

// An error shows of the URL what tells the collection, and nothing that is secret.
func TestHTTPErrorsShowNoSecrets(t *testing.T) {
	const base = "http://me:secret@h/x?access_token=secret&labelSelector=a%3Db&limit=9"
	const want = "lw: HTTP: http://me:xxxxx@h/x?fieldSelector=metadata.name%3Dn&labelSelector=a%3Db: "
	fail := errors.New("no route")
	for name, transport := range map[string]rig.RoundTrip{
		"a status": func(r *http.Request) (*http.Response, error) { return response(r, 403, nil, ""), nil },
		"another type": func(r *http.Request) (*http.Response, error) {
			return response(r, 200, rig.ContentType("text/html"), ""), nil
		},
		"no list":   func(r *http.Request) (*http.Response, error) { return response(r, 200, nil, "x"), nil },
		"a cut":     func(r *http.Request) (*http.Response, error) { return response(r, 200, nil, `{"kind":`), nil },
		"no answer": func(*http.Request) (*http.Response, error) { return nil, fail },
	} {
		src := &lw.HTTP[*rig.Gadget]{URL: base, Client: &http.Client{Transport: transport}}
		_, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{FieldSelector: "metadata.name=n", Continue: "secret"})
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %s…", name, err, want)
		}
		if name == "no answer" {
			var asked *url.Error
			if !errors.Is(err, fail) || !errors.As(err, &asked) || err.Error() != want+"no route" {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if name == "a cut" && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, _, err := rig.ListAll(rig.Canceled(t), &lw.HTTP[*rig.Gadget]{URL: "http://h/x",
		Client: &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			return nil, r.Context().Err()
		})}}, metav1.ListOptions{})
	if !errors.Is(err, context.Canceled) || err.Error() != "lw: HTTP: http://h/x: context canceled" {
		t.Errorf("cancelled: got %v", err)
	}
}

func response(r *http.Request, code int, header http.Header, body string) *http.Response {
	return &http.Response{StatusCode: code, Status: fmt.Sprint(code, " ", http.StatusText(code)), Header: header,
		Request: r, Body: io.NopCloser(strings.NewReader(body))}
}

// An http:// that should be an https:// is said to be one, by real servers of both kinds.
func TestHTTPToAPortOfTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	src := &lw.HTTP[*rig.Gadget]{URL: "http://" + server.Listener.Addr().String() + "/x",
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	_, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
	if !rig.Matches(err, `"Client sent an HTTP request to an HTTPS server." (the port speaks TLS: want https://)`) ||
		!apierrors.IsBadRequest(err) {
		t.Errorf("got %v", err)
	}
	alert := serveRaw("\x15\x03\x01\x00\x02\x02\x16")
	_, _, err = rig.ListAll(t.Context(), &lw.HTTP[*rig.Gadget]{URL: "http://server/x", Client: alert},
		metav1.ListOptions{})
	if !rig.Matches(err, "lw: HTTP: http://server/x: ") || !rig.Matches(err, "(the port speaks TLS: want https://)") {
		t.Errorf("got %v", err)
	}
}

// serveRaw returns a client of a server that answers each request with these bytes.
func serveRaw(bytes string) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string,
		string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			_, _ = http.ReadRequest(bufio.NewReader(there))
			_, _ = io.WriteString(there, bytes)
		}()
		return here, nil
	}}
	return &http.Client{Transport: transport}
}
