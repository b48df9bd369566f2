package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// FuzzRequest sends requests that no client sends to a Memory. Each is authorized once and
// answered, an error with a Status that a client can read and whose fault is the client's; what is
// read changes nothing, and a list of a namespace has nothing of another.
func FuzzRequest(f *testing.F) {
	const all, one = "/apis/example.io/v1/widgets", "/apis/example.io/v1/namespaces/n/widgets"
	for _, seed := range [][5]string{
		{"GET", all, "limit=1", "", ""},
		{"GET", one, "", "", ""},
		{"GET", one, "labelSelector=even+in+(yes,no),!x&fieldSelector=size!=1,metadata.name%3Da", "application/json;as=Table;v=v1;g=meta.k8s.io", ""},
		{"GET", one + "/a", "resourceVersion=2", "application/cbor, */*;q=0.1", ""},
		{"GET", all, "watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=1", "application/json;stream=watch", ""},
		{"GET", all, "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "", ""},
		{"GET", all, "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Miwic3RhcnQiOiJuL2FcdTAwMDAifQ&limit=0001", "", ""},
		{"GET", all, "resourceVersion=123456789012345678901234567890&resourceVersionMatch=Exact", "", ""},
		{"GET", all, "shardSelector=shardRange(object.metadata.uid,'0x0','0x8')", "", ""},
		{"HEAD", "/apis/example.io/v1/watch/namespaces/n/widgets/a", "", "", ""},
		{"GET", "/openapi/v3/apis/example.io/v1", "hash=x", "application/json", ""},
		{"GET", "/apis", "", "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList", ""},
		{"POST", one, "fieldValidation=Strict", "application/json", `{"apiVersion":"example.io/v1","kind":"Widget","metadata":{"generateName":"x-","labels":{"a":"b"}},"size":1}`},
		{"PUT", one + "/a", "dryRun=All", "application/json", `{"metadata":{"name":"a","namespace":"n","resourceVersion":"1","uid":"u"},"color":"red"}`},
		{"PUT", one + "/a", "", "", "{\"metadata\":{\"name\":\"a\",\"creationTimestamp\":null},\"metadata\":[],\"size\":1e9}"},
		{"DELETE", one + "/a", "", "", `{"preconditions":{"uid":"","resourceVersion":"x"},"dryRun":["All"]}`},
		{"PATCH", one + "/a/status", "", "application/apply-patch+yaml", "a: b"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	asked := 0
	opts := serve.Options{Authorize: func(*http.Request, serve.Attributes) error {
		asked++
		return nil
	}}
	m := lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 2), newWidget(lw.Key{Namespace: "o", Name: "a"}, 3))
	h := handleMemory(f, opts, m, widgets).h
	f.Fuzz(func(t *testing.T, method, path, query, accept, body string) {
		// A server gives a Handler what it has parsed.
		u, err := url.ParseRequestURI("http://server" + path)
		if err != nil || !strings.HasPrefix(path, "/") {
			t.Skip("no path of a request")
		}
		u.RawQuery = query
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(body))
		if err != nil {
			t.Skip("no request")
		}
		req.Header.Set("Accept", accept)
		if method != http.MethodGet {
			req.Header.Set("Content-Type", accept)
		}
		asked = 0
		before := m.ResourceVersion()
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if v := recover(); v != nil && v != http.ErrAbortHandler {
					panic(v)
				}
			}()
			h.ServeHTTP(w, req)
		}()
		if asked != 1 {
			t.Errorf("authorized %d times", asked)
		}
		if method == http.MethodGet && m.ResourceVersion() != before {
			t.Error("a read has changed something")
		}
		isJSON := strings.HasPrefix(w.Header().Get("Content-Type"), "application/json")
		watch := req.URL.Query().Has("watch")
		switch code := w.Code; {
		case code >= 500 && code != http.StatusGatewayTimeout && !watch && !req.URL.Query().Has("shardSelector") && ctx.Err() == nil:
			// As with kube-apiserver, these two have an error without a reason.
			t.Errorf("%d: %s", code, w.Body)
		case code >= 400 && isJSON:
			var status metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Kind != "Status" || int(status.Code) != code || status.Message == "" {
				t.Errorf("%d with the body %q: %v", code, w.Body, err)
			}
		case code == http.StatusOK && isJSON && method == http.MethodGet && path == one && !watch:
			var list struct {
				Items []metav1.PartialObjectMetadata
			}
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
				t.Errorf("%q: %v", w.Body, err)
			}
			for _, item := range list.Items {
				if item.Namespace != "n" {
					t.Errorf("%s of namespace %s is in the list of another", item.Name, item.Namespace)
				}
			}
		case code == http.StatusOK && isJSON && watch:
			for events := json.NewDecoder(w.Body); ; {
				var ev metav1.WatchEvent
				if err := events.Decode(&ev); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("a watch: %v", err)
				}
			}
		}
	})
}
