package http_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

func TestHTTPRequest(t *testing.T) {
	yes, timeout := true, int64(30)
	opts := metav1.ListOptions{
		TypeMeta: metav1.TypeMeta{Kind: "ListOptions"}, LabelSelector: "a=b,c in (d)", FieldSelector: "metadata.name=x",
		AllowWatchBookmarks: true,
		ResourceVersion:     "5", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, TimeoutSeconds: &timeout,
		Limit: 3, Continue: "c/=",
		SendInitialEvents: &yes, ShardSelector: "s",
	}
	c, asked, _ := rig.Answer(200, rig.ContentType("application/json"), gadgetList(""))
	src := &lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets?limit=7&own=1&labelSelector=e&fieldSelector=f!%3Dg",
		Client: c, Header: http.Header{"x-Own": {"h"}, "X-Other": {"o"}}}
	query := func() url.Values {
		asked.URL.Host = "server"
		q, err := url.ParseQuery(asked.URL.RawQuery)
		rig.OK(t, err)
		return q
	}
	want := url.Values{
		"labelSelector": {"e,a=b,c in (d)"}, "fieldSelector": {"f!=g,metadata.name=x"}, "allowWatchBookmarks": {"true"},
		"resourceVersion":      {"5"},
		"resourceVersionMatch": {"NotOlderThan"}, "timeoutSeconds": {"30"}, "limit": {"3"}, "continue": {"c/="},
		"sendInitialEvents": {"true"},
		"shardSelector":     {"s"}, "own": {"1"},
	}
	_, _, err := rig.ListAll(t.Context(), src, opts)
	rig.OK(t, err)
	rig.Same(t, "list", want, query())
	rig.Same(t, "headers", "application/json o", asked.Header.Get("Accept")+" "+asked.Header.Get("X-Other"))
	asWatch := opts
	asWatch.Watch = true
	if _, _, err := rig.ListAll(t.Context(), src, asWatch); err != nil || query().Has("watch") {
		t.Errorf("a list asks to watch: %v, error %v", query(), err)
	}
	want.Set("watch", "true")
	_, _ = watchAll(t.Context(), src, opts)
	rig.Same(t, "watch", want, query())
	rig.Same(t, "the source's header", http.Header{"x-Own": {"h"}, "X-Other": {"o"}}, src.Header)
	// With empty options nothing is asked for but what the URL asks for.
	listed(t, src)
	rig.Same(t, "list", url.Values{"limit": {"7"}, "own": {"1"}, "labelSelector": {"e"}, "fieldSelector": {"f!=g"}},
		query())
}

func TestHTTPAccept(t *testing.T) {
	const asList, as = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	c, asked, _ := rig.Answer(200, rig.ContentType("application/json"), gadgetList(""))
	for name, tt := range map[string]struct{ got, want [2]string }{
		"a type without protobuf": {accepts(t, &lw.HTTP[*rig.Gadget]{URL: "http://server/", Client: c}, asked),
			[2]string{"application/json", "application/json;stream=watch,application/json"}},
		"a header of one's own": {accepts(t, &lw.HTTP[*rig.Gadget]{URL: "http://server/", Client: c, Accept: "application/x"},
			asked),
			[2]string{"application/x", "application/x"}},
		"metadata": {accepts(t, &lw.HTTP[*metav1.PartialObjectMetadata]{URL: "http://server/", Client: c}, asked), [2]string{
			"application/vnd.kubernetes.protobuf" + asList + ",application/json" + asList + ",application/json",
			"application/vnd.kubernetes.protobuf" + as + ";stream=watch,application/json" + as +
				";stream=watch,application/json",
		}},
	} {
		rig.Same(t, name, tt.want, tt.got)
	}
}

// accepts returns what a list and a watch of src ask for.
func accepts[T lw.Object](t *testing.T, src lw.Source[T], asked *http.Request) [2]string {
	t.Helper()
	_, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
	rig.OK(t, err)
	first := asked.Header.Get("Accept")
	_, _ = watchAll(t.Context(), src, metav1.ListOptions{})
	return [2]string{first, asked.Header.Get("Accept")}
}

func TestHTTPRefusals(t *testing.T) {
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"slow down","reason":"TooManyRequests","code":429}`
	for name, tt := range map[string]struct {
		code   int
		header http.Header
		body   string
		text   string
		is     func(error) bool
		delay  int
	}{
		"a status": {403, rig.ContentType("application/json"), strings.ReplaceAll(strings.ReplaceAll(status,
			"TooManyRequests", "Forbidden"), "429", "403"), "slow down", apierrors.IsForbidden, 0},
		"a status, to wait": {429, http.Header{"Content-Type": {"application/json"}, "Retry-After": {"7"}}, status,
			"slow down", apierrors.IsTooManyRequests, 7},
		"its own wait": {429, http.Header{"Content-Type": {"application/json"}, "Retry-After": {"7"}},
			strings.Replace(status, `"code"`, `"details":{"retryAfterSeconds":3},"code"`, 1), "slow down",
			apierrors.IsTooManyRequests, 3},
		"text": {401, rig.ContentType("text/plain"), "Unauthorized", "credentials",
			apierrors.IsUnauthorized, 0},
		"text, to wait": {503, http.Header{"Content-Type": {"text/plain"}, "Retry-After": {"5"}}, "starting",
			"currently unable", apierrors.IsServiceUnavailable, 5},
		"a wait that is none": {503, http.Header{"Retry-After": {"soon"}}, "", "currently unable",
			apierrors.IsServiceUnavailable, 0},
		"gone": {410, rig.ContentType("application/json"),
			`{"kind":"Status","status":"Failure","reason":"Expired","code":410}`, "", apierrors.IsResourceExpired, 0},
		"not found": {404, rig.ContentType("text/html"), "<html>", "could not find", apierrors.IsNotFound, 0},
		"a status that is none": {500, rig.ContentType("application/json"), `{"kind":"Status"`, "an error on the server",
			apierrors.IsInternalError, 0},
		"a success that is none": {403, rig.ContentType("application/json"),
			`{"kind":"Status","status":"Success","code":200}`, "Success", apierrors.IsForbidden, 0},
		"text that says it all": {403, rig.ContentType("text/plain"), "no way", "lw: HTTP: http://server/gadgets: no way",
			apierrors.IsForbidden, 0},
		"text of an unknown kind": {418, rig.ContentType("text/plain"), "short\nand stout", `: "short and stout"`,
			apierrors.IsUnexpectedServerError, 0},
		"a list": {300, rig.ContentType("application/json"), gadgetList(""), "300",
			apierrors.IsUnexpectedServerError, 0},
		"to wait before now": {503, http.Header{"Retry-After": {"-5"}}, "", "currently unable",
			apierrors.IsServiceUnavailable, 0},
		"to wait for ever": {503, http.Header{"Retry-After": {"99999999999"}}, "", "currently unable",
			apierrors.IsServiceUnavailable, 0},
		"to wait until last year": {503, http.Header{"Retry-After": {"Fri, 31 Dec 1999 23:59:59 GMT"}}, "",
			"currently unable", apierrors.IsServiceUnavailable, 0},
		"a redirect to nowhere": {304, nil, "", "304", func(error) bool { return true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, closed := rig.Answer(tt.code, tt.header, tt.body)
			list, watch := fails(t, &lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: c})
			for _, err := range []error{list, watch} {
				var api apierrors.APIStatus
				if !errors.As(err, &api) || int(api.Status().Code) != tt.code || !tt.is(err) ||
					!strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %#v, want a %d with %q", err, tt.code, tt.text)
				}
				delay, _ := apierrors.SuggestsClientDelay(err)
				rig.Same(t, "seconds to wait", tt.delay, delay)
			}
			if !*closed {
				t.Error("the body is open")
			}
		})
	}
}

func TestHTTPRetryAfterDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _,
			_ := rig.Answer(503, http.Header{"Retry-After": {time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat)}}, "")
		for range 2 { // after 0.4 s too: the header has whole seconds, so what is left is rounded
			_, _, err := rig.ListAll(t.Context(), &lw.HTTP[*rig.Gadget]{URL: "http://server/", Client: c}, metav1.ListOptions{})
			delay, _ := apierrors.SuggestsClientDelay(err)
			rig.Same(t, "seconds to wait", 9, delay)
			time.Sleep(400 * time.Millisecond)
		}
	})
}

// A refusal that has no end is read as far as an error is long.
func TestHTTPEndlessRefusal(t *testing.T) {
	for _, code := range []int{200, 500} {
		read := 0
		endless := readerFunc(func(p []byte) (int, error) {
			if read += len(p); read > 10<<20 {
				return 0, errors.New("read on")
			}
			return copy(p, strings.Repeat("no ", len(p)/3+1)), nil
		})
		c := &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			res := response(r, code, rig.ContentType("text/html"), "")
			res.Body = io.NopCloser(endless)
			return res, nil
		})}
		_, _, err := rig.ListAll(t.Context(), &lw.HTTP[*rig.Gadget]{URL: "http://server/", Client: c}, metav1.ListOptions{})
		if !rig.Matches(err, "no no no") || len(err.Error()) > 600 || read > 1<<20 {
			t.Errorf("%d: read %d bytes for an error of %d", code, read, len(fmt.Sprint(err)))
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestHTTPContentType(t *testing.T) {
	for typ, body := range map[string]string{
		"text/html; charset=utf-8":            "<html>\n<body>Log in\xff " + strings.Repeat("x", 300),
		"application/vnd.kubernetes.protobuf": "k8s\x00", // a gadget has none
		"///":                                 "Log in",
	} {
		c, _, _ := rig.Answer(200, rig.ContentType(typ), body)
		quoted := strings.Fields(body)[0]
		list, watch := fails(t, &lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: c})
		for want, err := range map[string]error{"a list of Gadget objects": list,
			"a stream of watch events of Gadget objects": watch} {
			want = fmt.Sprintf("lw: HTTP: http://server/gadgets: 200 OK with content type %q, want %s as", typ, want)
			if !rig.Matches(err, want) || len(err.Error()) > 500 || !strings.Contains(err.Error(), quoted) ||
				!utf8.ValidString(err.Error()) {
				t.Errorf("%s: got %v", typ, err)
			}
		}
	}
}

// No retry can send a header that net/http refuses, so Run ends at once, with an error that names
// the header but does not show its value.
func TestHTTPInvalidHeader(t *testing.T) {
	for name, tt := range map[string]struct {
		header http.Header
		accept string
		want   string
	}{
		"a space in a name": {http.Header{"X-Ok": {"1"}, "X Y": {"1"}}, "",
			`HTTP: http://server/x: header "X Y": invalid name`},
		"no name": {http.Header{"": {"1"}}, "", `HTTP: http://server/x: header "": invalid name`},
		"a name beyond ASCII": {http.Header{"Schlüssel": {"1"}}, "",
			`HTTP: http://server/x: header "Schlüssel": invalid name`},
		"a colon in a name": {http.Header{"Authorization:": {"1"}}, "",
			`HTTP: http://server/x: header "Authorization:": invalid name`},
		"a line break in a value": {http.Header{"Authorization": {"ok", "Bearer =secret\n"}}, "",
			`HTTP: http://server/x: header "Authorization": invalid value: it has a control character, such as a line break`},
		"a line break in an Accept": {nil, "application/json\r\n",
			`HTTP: http://server/x: header "Accept": invalid value: it has`},
		"a DEL in a value": {http.Header{"X-Y": {"\x7f"}}, "",
			`HTTP: http://server/x: header "X-Y": invalid value: it has`},
	} {
		t.Run(name, func(t *testing.T) {
			rig.EndsAtOnce(t, &lw.HTTP[*rig.Gadget]{URL: "http://server/x", Header: tt.header, Accept: tt.accept},
				"stream", tt.want)
		})
	}
}
