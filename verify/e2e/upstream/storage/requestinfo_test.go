package storage_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/go-lw/lw/serve"
)

// TestRequestInfo asks kube-apiserver's own parser what requests are about. Package serve
// authorizes each request as the same, or answers with 404 and forwards nothing.
func TestRequestInfo(t *testing.T) {
	var asked serve.Attributes
	forwarded := false
	h := serve.New(&serve.Options{
		Authorize: func(_ *http.Request, a serve.Attributes) error { asked = a; return nil },
		Forward:   http.HandlerFunc(func(http.ResponseWriter, *http.Request) { forwarded = true }),
	})
	infos := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api")}
	compare := func(method, url string) (ok bool) {
		r, err := http.NewRequest(method, "http://server"+url, nil)
		if err != nil {
			return false // no request of any client
		}
		info, infoErr := infos.NewRequestInfo(r)
		asked, forwarded = serve.Attributes{}, false
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if infoErr != nil || info.IsResourceRequest && info.Resource == "" {
			if forwarded || w.Code != http.StatusNotFound {
				t.Errorf("%s %s: %d, forwarded %v, where kube-apiserver knows no resource", method, url, w.Code, forwarded)
			}
			return false
		}
		want := serve.Attributes{
			Verb: info.Verb, Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource,
			Subresource: info.Subresource,
			Namespace:   info.Namespace, Name: info.Name, LabelSelector: info.LabelSelector, FieldSelector: info.FieldSelector,
			Path: info.Path, Query: r.URL.RawQuery,
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("%s %s: %d (-want +asked):\n%s", method, url, w.Code, diff)
		}
		return forwarded
	}

	for _, path := range []string{
		"/", "/api", "/api/", "/api/v1", "/apis/g", "/apis/g/v1", "/healthz", "/version/", "/apiz/v1/pods",
		"/api/v1beta1/pods",
		"/api/v1/pods", "/api/v1/pods/", "/api/v1/pods/p", "/api/v1/pods/p/log", "/api/v1/pods/p/log/x/y/z",
		"/api/v1/namespaces", "/api/v1/namespaces/n", "/api/v1/namespaces/n/", "/api/v1/namespaces/n/status",
		"/api/v1/namespaces/n/finalize",
		"/api/v1/namespaces/n/status/x", "/api/v1/namespaces/n/finalize/x/y", "/api/v1/namespaces/n/pods",
		"/api/v1/namespaces/n/pods/p",
		"/api/v1/namespaces/n/pods/p/proxy/a/b/c?d=e", "/api/v1/namespaces/n/namespaces/m/x", "/api/v1/namespaces/n/watch/x",
		"/api/v1/nodes/n/proxy/api/v1/secrets", "/api/v1/watch/pods", "/api/v1/watch/pods/p", "/api/v1/watch/namespaces",
		"/api/v1/watch/namespaces/n",
		"/api/v1/watch/namespaces/n/secrets", "/api/v1/watch/namespaces/n/secrets/s",
		"/api/v1/watch/namespaces/n/secrets/s/x", "/api/v1/watch/watch/x",
		"/api/v1/watch/namespaces/n/status", "/api/v1/proxy/nodes/n", "/api/v1/proxy/namespaces/n/pods/p/x/y",
		"/api/v1/proxy/watch/x",
		"/apis/g/v1/things", "/apis/g/v1/watch/things", "/apis/g/v1/namespaces/n/things/t/scale", "/apis/g/v1/namespaces/n",
		"/api/v1/namespaces/n%2Fpods/p", "/api/v1/pods%2Fp", "/api%2Fv1/pods", "/api/v1/pods/%20", "/api/v1/pods/a%2525",
		"//api/v1/pods", "/api/v1/pods//",
		"/api/v1/pods/p/log//x", "/api/v1/pods/..p", "/api/v1/namespaces/watch/pods", "/api/watch/pods",
		"/api/namespaces/n/pods", "/apis/watch/v1/pods",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "Get",
			"TRACE", "PROXY"} {
			if !compare(method, path) && strings.Count(path, "/") > 3 {
				t.Errorf("%s %s is not forwarded", method, path)
			}
		}
		for _, query := range queries {
			for _, method := range []string{"GET", "DELETE"} {
				compare(method, path+"?"+query)
			}
		}
	}

	parts := []string{"api", "apis", "v1", "g", "watch", "proxy", "namespaces", "n", "status", "finalize", "pods", "p", "",
		"", "..", ".", "a%2Fb", "%2e%2e", "log"}
	methods := []string{"GET", "GET", "DELETE", "POST", "x"}
	rng := rand.New(rand.NewPCG(1, 2))
	forwards := 0
	for range 200_000 {
		path := []string{"", "/api", "/api/v1", "/apis/g/v1"}[rng.IntN(4)]
		for range rng.IntN(7) {
			path += "/" + parts[rng.IntN(len(parts))]
		}
		if path == "" {
			path = "/"
		}
		if rng.IntN(3) == 0 {
			path += "?" + queries[rng.IntN(len(queries))]
		}
		if compare(methods[rng.IntN(len(methods))], path) {
			forwards++
			if strings.Contains(asked.Path+"/", "/../") {
				t.Errorf("%s is forwarded", path)
			}
		}
	}
	if forwards < 50_000 {
		t.Errorf("of 200,000 requests %d were forwarded", forwards)
	}
}

// queries are those of lists and watches, and what may be taken for one.
var queries = []string{
	"watch", "watch=", "watch=1", "watch=0", "watch=False", "watch=FALSE", "watch=x", "watch=false&watch=true", "Watch=1",
	"watch%3D1", "watch=1;x", "watch=%zz",
	"limit=x", "limit=", "limit=x&watch=1", "timeoutSeconds=x&watch=true", "timeoutSeconds=1.5",
	"allowWatchBookmarks=maybe&sendInitialEvents=x",
	"fieldSelector=metadata.name=p", "fieldSelector=metadata.name==p", "fieldSelector=metadata.name!=p",
	"fieldSelector=metadata.name=", "fieldSelector=metadata.name=a%2Fb",
	"fieldSelector=metadata.name=..", "fieldSelector=metadata.name=a,metadata.name=b",
	"fieldSelector=spec.x=y,metadata.name=p&watch=1", "fieldSelector=metadata.name",
	"fieldSelector=metadata.name=p&fieldSelector=x=y", "fieldSelector=x=y&fieldSelector=metadata.name=p",
	"fieldSelector=metadata.name=p&limit=x", "fieldSelector=metadata.name=a%255C,b",
	"fieldSelector=metadata.name=p&labelSelector=(", "fieldSelector=metadata.name=p&labelSelector=a",
	"labelSelector=a%3Db", "labelSelector=(&watch=1", "fieldSelector=a%3D%3D%3Db&watch=1",
	"fieldSelector=metadata.namespace=n", "resourceVersion=x&fieldSelector=metadata.name=p",
	"resourceVersionMatch=x&fieldSelector=metadata.name=p", "continue=x&fieldSelector=metadata.name=p&watch",
	"timeoutSeconds=9999999999999999999&fieldSelector=metadata.name=p", "fieldSelector=metadata.name=p&sendInitialEvents=",
	"fieldSelector=metadata.name=p&limit=01",
}
