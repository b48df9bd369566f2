package rest

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/decode"
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
	return &http.Response{StatusCode: code, Status: "said so", Header: http.Header{"Content-Type": {contentType}}, Body: body}
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
		reads:  func(*decode.Decoder) bool { return true },
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
		"application/x": true, "application/x-seq": true, "application/x-seq; charset=binary": true, "application/json": true, "": true,
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
		if err := resp.Explain(io.ErrUnexpectedEOF); resp.Encoding() == decode.JSON && !strings.Contains(err.Error(), "got a Pod (is it the URL of one object?)") {
			t.Errorf("%q is explained as %v", contentType, err)
		}
		if resp.Explain(nil) != nil {
			t.Error("a success is explained")
		}
	}
	if _, err := answer(false, 403, "application/x", `{"kind":"Status","reason":"Forbidden","code":403}`); !apierrors.IsForbidden(err) {
		t.Errorf("a refusal: %v", err)
	}
	if want := "application/x,application/vnd.kubernetes.protobuf,application/json"; asked != want {
		t.Errorf("asks for %q, want %q", asked, want)
	}
}
