package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/wire"
)

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
