package rest

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/decode"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering returns a collection whose requests are answered by f.
func answering(t *testing.T, f roundTrip) *Collection {
	t.Helper()
	d, err := decode.New(reflect.TypeFor[*metav1.PartialObjectMetadata](), decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &Collection{URL: "http://server/x", Objects: "X", Decoder: d, Client: &http.Client{Transport: f}}
}

// response is an answer with a content type and a body.
func response(code int, contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Status: "said so", Header: http.Header{"Content-Type": {contentType}},
		Body: body}
}

// send sends one request of a collection.
func send(t *testing.T, ctx context.Context, c *Collection, watching bool) (*Response, error) {
	t.Helper()
	req, err := c.Request(ctx, metav1.ListOptions{Watch: watching})
	if err != nil {
		t.Fatal(err)
	}
	return req.Send()
}

// One row of codecs is all that an encoding needs here: it is asked for, its responses are
// accepted, also where a stream has a name of its own, its refusals are read, and what comes
// instead is explained.
func TestAnotherEncoding(t *testing.T) {
	known := codecs
	defer func() { codecs = known }()
	// As application/cbor is, with JSON for its bytes.
	codecs = append([]codec{{
		mediaType: "application/x", stream: "application/x-seq", encoding: decode.JSON,
		reads:  func(Protobufs) bool { return true },
		begins: func(data []byte) (string, bool) { return beginsJSON(data) },
	}}, known...)

	var asked string
	answer := func(watching bool, code int, contentType, body string) (*Response, error) {
		return send(t, t.Context(), answering(t, func(r *http.Request) (*http.Response, error) {
			asked = r.Header.Get("Accept")
			return response(code, contentType, io.NopCloser(strings.NewReader(body))), nil
		}), watching)
	}
	for contentType, known := range map[string]bool{
		"application/x": true, "application/x-seq": true, "application/x-seq; charset=binary": true,
		"application/json": true, "": true,
		"application/vnd.kubernetes.protobuf": true, "application/y": false,
	} {
		resp, err := answer(true, 200, contentType, `{"kind":"Pod"}`)
		if (err == nil) != known {
			t.Errorf("%q: %v", contentType, err)
		}
		if want := "application/x;stream=watch,application/vnd.kubernetes.protobuf;stream=watch,application/json;stream=watch,application/json"; asked != want {
			t.Errorf("asks for %q, want %q", asked, want)
		}
		if resp == nil {
			continue
		}
		if want := decode.Protobuf; (resp.Encoding() == want) != strings.Contains(contentType, "protobuf") {
			t.Errorf("%q has encoding %v", contentType, resp.Encoding())
		}
		_, _ = io.ReadAll(resp)
		resp.Finish()
		if err := resp.Explain(io.ErrUnexpectedEOF); resp.Encoding() == decode.JSON && !strings.Contains(err.Error(),
			"got a Pod (is it the URL of one object?)") {
			t.Errorf("%q is explained as %v", contentType, err)
		}
		if resp.Explain(nil) != nil {
			t.Error("a success is explained")
		}
	}
	if _, err := answer(false, 403, "application/x",
		`{"kind":"Status","reason":"Forbidden","code":403}`); !apierrors.IsForbidden(err) {
		t.Errorf("a refusal: %v", err)
	}
	if want := "application/x,application/vnd.kubernetes.protobuf,application/json"; asked != want {
		t.Errorf("asks for %q, want %q", asked, want)
	}
}

// CBOR is asked for only where Accept names it. For metadata, the parameters of the request are
// added, which no header of a user's has for both a list and a watch.
func TestAcceptCBOR(t *testing.T) {
	const (
		list  = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		watch = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	)
	c := answering(t, nil)
	for _, tt := range []struct{ accept, list, watch string }{
		{"application/cbor,application/json", "application/cbor" + list + ",application/json" + list + ",application/json",
			"application/cbor" + watch + ",application/json" + watch + ",application/json"},
		{"application/cbor", "application/cbor" + list, "application/cbor" + watch},
		{"application/cbor;q=0.5, application/cbor", "application/cbor;q=0.5,application/cbor" + list,
			"application/cbor;q=0.5,application/cbor" + watch},
		{"application/cbor;q=0.5,application/json", "application/cbor;q=0.5,application/json",
			"application/cbor;q=0.5,application/json"},
		{"application/json", "application/json", "application/json"},
		{"application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf,application/json",
			"application/vnd.kubernetes.protobuf,application/json"},
	} {
		c.Accept, c.Metadata = tt.accept, true
		if got := c.accept(false); got != tt.list {
			t.Errorf("a list asks for %q, want %q", got, tt.list)
		}
		if got := c.accept(true); got != tt.watch {
			t.Errorf("a watch asks for %q, want %q", got, tt.watch)
		}
		c.Metadata = false
		if got := c.accept(true); got != tt.accept {
			t.Errorf("a watch of whole objects asks for %q, want %q", got, tt.accept)
		}
	}
}

// The first bytes of a body tell what it is, whatever the order of its members.
func TestBeginsCBOR(t *testing.T) {
	for data, want := range map[string]struct {
		kind  string
		event bool
	}{
		"\xd9\xd9\xf7\xa2\x44kind\x43Pod\x48metadata\xa0": {"Pod", false},
		"\xd9\xd9\xf7\xa2\x48metadata\xa0\x44kind\x43Pod": {"Pod", false},
		"\xa2\x44kind\x43Pod\x48metadata\xa2":             {"Pod", false},
		"\xa2\x45items\x81\xa1\x44kind\x43Pod":            {"", false},
		"\xa2\x46object\xa0\x44type\x45ADDED":             {"", true},
		"\xa2\x44type\x45ADDED":                           {"", true},
		"\xa1\x44ki":                                      {"", false},
		"\x01":                                            {"", false},
		"<html>":                                          {"", false},
		"":                                                {"", false},
	} {
		if kind, event := beginsCBOR([]byte(data)); kind != want.kind || event != want.event {
			t.Errorf("%q: %q, %v", data, kind, event)
		}
	}
}
