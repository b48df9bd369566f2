package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/internal/wire"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code int32
		want metav1.StatusReason
	}{
		{errors.New("x"), 500, metav1.StatusReasonInternalError},
		{fmt.Errorf("wrapped: %w", apierrors.NewBadRequest("x")), 400, metav1.StatusReasonBadRequest},
		{&apierrors.StatusError{}, 500, ""},
	} {
		got := wire.Status(tt.err)
		if got.Code != tt.code || got.Reason != tt.want || got.Kind != "Status" || got.APIVersion != "v1" || got.Status != metav1.StatusFailure {
			t.Errorf("Status(%v) = %+v, want %d %s", tt.err, got, tt.code, tt.want)
		}
	}
}

// TestStatusOfSuccess checks that a Status stays what it says.
func TestStatusOfSuccess(t *testing.T) {
	got := wire.Status(&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusSuccess, Code: 200}})
	if got.Status != metav1.StatusSuccess || got.Code != 200 {
		t.Errorf("%+v", got)
	}
}

// TestWriteStatus reads an answer with apimachinery's decoders.
func TestWriteStatus(t *testing.T) {
	want := wire.Status(listopts.TooLarge(9, 5))
	for name, e := range encodings {
		w := httptest.NewRecorder()
		f := wire.Format{Encoding: e.Encoding, Shape: wire.Partial}
		wire.WriteStatus(w, f, want)
		header := http.Header{"Content-Type": {f.ContentType(false)}, "Content-Length": {strconv.Itoa(w.Body.Len())}, "Cache-Control": {"no-cache, private"}, "Retry-After": {"1"}}
		if diff := cmp.Diff(header, w.Header()); diff != "" || w.Code != 504 {
			t.Errorf("%s: code %d, header (-want +got):\n%s", name, w.Code, diff)
		}
		// What marks the bytes as CBOR, of RFC 8949: a client may look for it.
		if marked := bytes.HasPrefix(w.Body.Bytes(), []byte("\xd9\xd9\xf7")); marked != (e.Encoding == wire.CBOR) {
			t.Errorf("%s: marked as CBOR: %t", name, marked)
		}
		got, kind, err := e.object.Decode(w.Body.Bytes(), nil, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got.GetObjectKind().SetGroupVersionKind(*kind)
		rig.Same[any](t, name, want, got)
	}
}

func TestParsePath(t *testing.T) {
	for path, want := range map[string]wire.Target{
		"/api/v1/pods":                       {Version: "v1", Resource: "pods"},
		"/api/v1/pods/":                      {Version: "v1", Resource: "pods"},
		"/apis/g/v2/things/a":                {Group: "g", Version: "v2", Resource: "things", Name: "a"},
		"/api/v1/namespaces/n/pods/a/status": {Version: "v1", Resource: "pods", Namespaced: true, Namespace: "n", Name: "a", Subresource: "status"},
		"/api/v1/namespaces/n/pods/a/proxy/x/y": {
			Version: "v1", Resource: "pods", Namespaced: true, Namespace: "n", Name: "a", Subresource: "proxy", Longer: true,
		},
		"/api/v1/namespaces/n":            {Version: "v1", Resource: "namespaces", Name: "n"},
		"/api/v1/namespaces/n/status":     {Version: "v1", Resource: "namespaces", Name: "n", Subresource: "status"},
		"/api/v1/namespaces/n/finalize":   {Version: "v1", Resource: "namespaces", Name: "n", Subresource: "finalize"},
		"/api/v1/watch/namespaces/n/pods": {Version: "v1", Resource: "pods", Verb: "watch", Namespaced: true, Namespace: "n"},
		"/api/v1/proxy/pods/a/b":          {Version: "v1", Resource: "pods", Verb: "proxy", Name: "a"},
		"/api/v1/watch":                   {Version: "v1", Wrong: true},
		"/api//pods":                      {Resource: "pods", Wrong: true},
		"/apis//v1/pods":                  {Version: "v1", Resource: "pods", Wrong: true},
		"/api/v1/namespaces//pods":        {Version: "v1", Resource: "pods", Namespaced: true, Wrong: true},
	} {
		got, ok := wire.ParsePath(path)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("%s: %t (-want +got):\n%s", path, ok, diff)
		}
	}
	for _, path := range []string{"", "/", "/api", "/api/v1", "/apis/g/v1", "/healthz/a/b", "/openapi/v3/apis/g"} {
		if got, ok := wire.ParsePath(path); ok {
			t.Errorf("%q is about %+v", path, got)
		}
	}
}

// The authorizer is asked about a namespace in itself, and about a namespaced resource in its own.
func TestAuthorizedNamespace(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/n": "n", "/api/v1/namespaces/n/pods": "n", "/api/v1/nodes/n": "", "/api/v1/namespaces/n/namespaces/m": "n",
	} {
		target, _ := wire.ParsePath(path)
		if got := target.AuthorizedNamespace(); got != want {
			t.Errorf("%s is asked about in %q, want %q", path, got, want)
		}
	}
}

func TestDotted(t *testing.T) {
	for path, want := range map[string]bool{"/a/../b": true, "/a/./b": true, "/..": true, "/a/.b/c..": false, "/a/...": false, "": false} {
		if got := wire.Dotted(path); got != want {
			t.Errorf("Dotted(%q) is %t", path, got)
		}
	}
}

func TestNameSuffix(t *testing.T) {
	a, b := wire.NameSuffix(), wire.NameSuffix()
	if len(a) != 5 || strings.ContainsAny(a+b, "aeiou013") || a == b && b == wire.NameSuffix() {
		t.Errorf("the suffixes are %q and %q", a, b)
	}
}
