package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// status reads the Status of an answer, without its message, which must be there.
func status(t *testing.T, what, body string) (code int32, reason metav1.StatusReason, rest metav1.StatusDetails) {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || s.Kind != "Status" || s.APIVersion != "v1" ||
		s.Status != metav1.StatusFailure || s.Message == "" {
		t.Errorf("%s: %v: %s", what, err, body)
	}
	if s.Details != nil {
		rest = *s.Details
	}
	for i := range rest.Causes {
		rest.Causes[i].Message = ""
	}
	return s.Code, s.Reason, rest
}

// Each refusal has the code, the reason and the details by which clients decide what to do.
func TestStatuses(t *testing.T) {
	const conflict = "/apis/example.io/v1/namespaces/n/widgets/b"
	type details = metav1.StatusDetails
	of := func(name string) details { return details{Group: "example.io", Kind: "widgets", Name: name} }
	cause := func(retry int32, typ metav1.CauseType) details {
		return details{RetryAfterSeconds: retry, Causes: []metav1.StatusCause{{Type: typ}}}
	}
	refused := func(name string) details {
		return details{Group: "example.io", Kind: "Widget", Name: name,
			Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid}}}
	}
	authorize := func(r *http.Request, _ serve.Attributes) error {
		switch r.URL.Query().Get("deny") {
		case "plain":
			return errors.New("no")
		case "status":
			return apierrors.NewTooManyRequests("later", 7)
		case "wrapped":
			return fmt.Errorf("denied: %w", apierrors.NewUnauthorized("who are you?"))
		}
		return nil
	}
	r := widgets
	r.Validate = func(_ context.Context, w, _ *Widget) error {
		switch {
		case w != nil && w.Size == -1:
			return errors.New("below zero")
		case w != nil && w.Size == -2:
			return fmt.Errorf("refused: %w", apierrors.NewForbidden(schema.GroupResource{Group: "example.io",
				Resource: "widgets"}, w.Name, errors.New("no")))
		}
		return nil
	}
	r.Encode = func(w *Widget) ([]byte, error) {
		if w.Name == "odd" {
			return nil, errors.New("no encoding")
		}
		return json.Marshal(w)
	}
	inBubble(t, serve.Options{Authorize: authorize}, func(b *bubble) {
		m := b.memory(lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 2), newWidget(name("c"), 3)), r)
		token := tokenOf(b.answers(http.StatusOK, "", "GET", path+"?limit=1", ""))
		put(t, m.Update, "a", 5)
		m.Compact()
		in := strings.TrimSuffix(oneWidget, "/a")
		for _, tt := range []struct {
			method, path, body, accept string
			code                       int32
			reason                     metav1.StatusReason
			details                    details
		}{
			{"GET", "/none", "", "", 404, "NotFound", details{}},
			{"GET", "/apis/example.io/v1/nothing/x", "", "", 404, "NotFound", details{Group: "example.io", Kind: "nothing",
				Name: "x"}},
			{"GET", in + "/x", "", "", 404, "NotFound", of("x")},
			{"DELETE", in + "/x", "", "", 404, "NotFound", of("x")},
			{"PUT", in + "/x", `{"metadata":{"name":"x"}}`, "", 404, "NotFound", of("x")},
			{"GET", path + "?deny=plain", "", "", 403, "Forbidden", of("")},
			{"GET", oneWidget + "?deny=plain", "", "", 403, "Forbidden", of("a")},
			{"GET", path + "?deny=status", "", "", 429, "TooManyRequests", details{RetryAfterSeconds: 7}},
			{"GET", path + "?deny=wrapped", "", "", 401, "Unauthorized", details{}},
			{"DELETE", path, "", "", 405, "MethodNotAllowed", of("")},
			{"PATCH", in, "{}", "", 405, "MethodNotAllowed", of("")},
			{"PATCH", oneWidget, "{}", "", 415, "UnsupportedMediaType", details{}},
			{"GET", path, "", "text/plain", 406, "NotAcceptable", details{}},
			{"GET", oneWidget, "", "text/plain", 406, "NotAcceptable", details{}},
			{"GET", path + "?watch=1", "", "text/plain", 406, "NotAcceptable", details{}},
			{"GET", path + "?resourceVersion=x", "", "", 400, "BadRequest", details{}},
			{"GET", oneWidget + "?resourceVersion=x", "", "", 400, "BadRequest", details{}},
			{"GET", path + "?continue=x", "", "", 400, "BadRequest", details{}},
			{"GET", path + "?labelSelector=%3D", "", "", 400, "BadRequest", details{}},
			{"GET", path + "?fieldSelector=a=b", "", "", 400, "BadRequest", details{}},
			{"GET", path + "?watch=1&fieldSelector=a=b", "", "", 400, "BadRequest", details{}},
			{"GET", path + "?watch=1&timeoutSeconds=x", "", "", 400, "BadRequest", details{}},
			{"GET", path + "?watch=1&resourceVersion=x", "", "", 500, "", details{}},
			{"GET", path + "?resourceVersion=2&resourceVersionMatch=Exact", "", "", 410, "Expired", details{}},
			{"GET", path + "?limit=1&continue=" + token, "", "", 410, "Expired", details{}},
			{"GET", path + "?resourceVersion=99", "", "", 504, "Timeout", cause(1, metav1.CauseTypeResourceVersionTooLarge)},
			{"GET", path + "?resourceVersion=99&resourceVersionMatch=Exact", "", "", 504, "Timeout",
				cause(1, metav1.CauseTypeResourceVersionTooLarge)},
			{"GET", oneWidget + "?resourceVersion=99", "", "", 504, "Timeout",
				cause(1, metav1.CauseTypeResourceVersionTooLarge)},
			{"GET", path + "?watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=1&resourceVersion=99", "", "", 504,
				"Timeout", cause(1, metav1.CauseTypeResourceVersionTooLarge)},
			{"POST", in, `{"metadata":{"name":"a"}}`, "", 409, "AlreadyExists", of("a")},
			{"PUT", conflict, `{"metadata":{"name":"b","resourceVersion":"2"}}`, "", 409, "Conflict", of("b")},
			{"PUT", conflict, `{"metadata":{"name":"b","uid":"u"}}`, "", 409, "Conflict", of("b")},
			{"DELETE", conflict, `{"preconditions":{"uid":"u"}}`, "", 409, "Conflict",
				details{Group: "example.io", Kind: "Widget", Name: "b"}},
			{"POST", in, `{"metadata":{"name":"d"},"size":-1}`, "", 422, "Invalid", refused("d")},
			{"POST", in, `{"metadata":{"name":"d"},"size":-2}`, "", 403, "Forbidden", of("d")},
			{"PUT", conflict, `{"metadata":{"name":"b"},"size":-1}`, "", 422, "Invalid", refused("b")},
			{"POST", in, `{"metadata":{"name":"d"},"size":"x"}`, "", 400, "BadRequest", details{}},
		} {
			code, body := b.do(tt.method, tt.path, tt.body, "Accept", tt.accept)
			gotCode, reason, got := status(t, tt.method+" "+tt.path, body)
			got.UID = ""
			if int(gotCode) != code || gotCode != tt.code || reason != tt.reason {
				t.Errorf("%s %s: %d, want %d %s: %s", tt.method, tt.path, code, tt.code, tt.reason, body)
			}
			rig.Same(t, tt.method+" "+tt.path, tt.details, got)
		}
		if obj, _ := m.Get(t.Context(), name("b")); obj.Size != 2 || m.ResourceVersion() != "5" {
			t.Errorf("something was written: %+v at %s", obj, m.ResourceVersion())
		}
		// What is in the stream of a watch.
		ev := read[struct {
			Type   string
			Object json.RawMessage
		}](b, path+"?watch=1&resourceVersion=2")
		if code, reason, _ := status(t, "a watch", string(ev.Object)); ev.Type != "ERROR" || code != 410 ||
			reason != metav1.StatusReasonExpired {
			t.Errorf("a watch: %s %s", ev.Type, ev.Object)
		}
		// An object that has no encoding is the program's fault, and is reported, once.
		put(t, m.Create, "odd", 1)
		for p, partial := range map[string]string{path: asPartialList, in + "/odd": asPartial, path + "?watch=1": asPartial} {
			for _, accept := range []string{"application/json", "application/json" + partial, asTable} {
				_, body := b.do("GET", p, "", "Accept", accept)
				if !strings.Contains(body, `"code":500`) || !strings.Contains(body, "serve: widgets: encode n/odd: no encoding") ||
					strings.Contains(body, "odd: serve") {
					t.Errorf("%s as %s: %s", p, accept, body)
				}
			}
		}
	})
}

// Pages are of what is asked for, in its order, and say how much of that remains; with a selector
// that is not known.
func TestPages(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory[*Widget]()
		for i, key := range []string{"a/x", "n/a", "n/b", "n/c", "n-1/a", "n0/a", "o/b"} {
			namespace, n, _ := strings.Cut(key, "/")
			store(t, m.Create, newWidget(lw.Key{Namespace: namespace, Name: n}, i))
		}
		b.memory(m, widgets)
		in := strings.TrimSuffix(oneWidget, "/a")
		for query, want := range map[string][]string{
			path + "?limit=3": {"a/x n-1/a n/a 4", "n/b n/c n0/a 1", "o/b ?"},
			path + "?limit=7": {"a/x n-1/a n/a n/b n/c n0/a o/b ?"},
			in + "?limit=1":   {"n/a 2", "n/b 1", "n/c ?"},
			in + "?limit=2":   {"n/a n/b 1", "n/c ?"},
			path + "?limit=1&labelSelector=even%3Dyes":             {"a/x ?", "n-1/a ?", "n/b ?", "o/b ?"},
			in + "?limit=1&labelSelector=even%3Dno":                {"n/a ?", "n/c ?"},
			path + "?limit=1&fieldSelector=metadata.name%3Db":      {"n/b ?", "o/b ?"},
			in + "?limit=1&fieldSelector=metadata.name%3Db":        {"n/b ?"},
			path + "?limit=2&fieldSelector=metadata.namespace%3Dn": {"n/a n/b ?", "n/c ?"},
			in + "?limit=1&fieldSelector=metadata.name!%3Db":       {"n/a ?", "n/c ?"},
			path + "?limit=1&fieldSelector=size%3D4":               {"n-1/a ?"},
		} {
			var got []string
			more := ""
			for range 9 {
				_, list := b.get(forms[0], forms[0].accept, query+"&continue="+url.QueryEscape(more))
				page := ""
				for _, item := range list.Items {
					page += item.Metadata.Namespace + "/" + item.Metadata.Name + " "
				}
				left := "?"
				if n := list.Metadata.RemainingItemCount; n != nil {
					left = fmt.Sprint(*n)
				}
				got = append(got, page+left)
				if more = list.Metadata.Continue; more == "" {
					break
				}
			}
			rig.Same(t, query, want, got)
		}
		// A page begins behind the one before, also where the name that is asked for is before that.
		_, first := b.get(forms[0], forms[0].accept, in+"?limit=2")
		for n, want := range map[string]int{"a": 0, "b": 0, "c": 1} {
			_, list := b.get(forms[0], forms[0].accept, in+"?limit=2&fieldSelector=metadata.name%3D"+n+"&continue="+
				url.QueryEscape(first.Metadata.Continue))
			rig.Same(t, "items behind b of "+n, want, len(list.Items))
		}
	})
}

// A plain is an object without labels, an encoding in protobuf, and a name of its type.
type plain = *struct {
	lw.Meta `json:"metadata"`
}

// What objects do not have cannot select them: that is an error, and not an empty list.
func TestSelectorsWithoutLabels(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		p := plain(new(struct {
			lw.Meta `json:"metadata"`
		}))
		p.Namespace, p.Name = "n", "a"
		stored(b, lw.NewMemory(p), serve.Resource[plain]{Name: "plains", Kind: "Plain"})
		for query, want := range map[string]int{
			"": 200, "?labelSelector=": 200, "?labelSelector=a": 400, "?watch=1&labelSelector=a": 400, "?labelSelector=!a": 400,
			"?fieldSelector=metadata.name=a": 200, "?fieldSelector=size=1": 400,
		} {
			if code, body := b.do("GET", "/api/v1/plains"+query, ""); code != want || want == 200 &&
				!strings.Contains(body, `"name":"a"`) {
				t.Errorf("%s: %d, want %d: %s", query, code, want, body)
			}
		}
	})
}

// What Encode leaves out no client sees, whatever it accepts.
func TestEncodeIsNotPassedBy(t *testing.T) {
	r := notes
	r.Encode = func(n *Note) ([]byte, error) {
		bare := *n
		bare.Annotations = nil
		return json.Marshal(&bare)
	}
	inBubble(t, serve.Options{}, func(b *bubble) {
		stored(b, lw.NewMemory(newNote("a", "secret")), r)
		seen := map[string]bool{}
		for _, f := range forms {
			for _, accept := range []string{f.accept, f.list, f.accept + ", application/json"} {
				for _, p := range []string{notesPath, notesPath + "?watch=1&timeoutSeconds=1", notesPath + "?includeObject=Object",
					"/apis/example.io/v1/namespaces/n/notes/a"} {
					code, body := b.do("GET", p, "", "Accept", accept)
					if strings.Contains(body, "secret") {
						t.Errorf("%s as %s: %q", p, accept, body)
					}
					seen[f.name] = seen[f.name] || code == http.StatusOK && strings.Contains(body, "short")
				}
			}
		}
		delete(seen, "protobuf") // nobody knows how to encode that
		if names := slices.Collect(maps.Values(seen)); slices.Contains(names, false) {
			t.Errorf("not all forms show the object: %v", seen)
		}
	})
}

// FuzzRequest sends requests that no client sends to a Memory. Each is authorized once and
// answered, an error with a Status that a client can read and whose fault is the client's; what is
// read changes nothing, and a list of a namespace has nothing of another.
func FuzzRequest(f *testing.F) {
	const all, one = "/apis/example.io/v1/widgets", "/apis/example.io/v1/namespaces/n/widgets"
	for _, seed := range [][5]string{
		{"GET", all, "limit=1", "", ""},
		{"GET", one, "", "", ""},
		{"GET", one, "labelSelector=even+in+(yes,no),!x&fieldSelector=size!=1,metadata.name%3Da",
			"application/json;as=Table;v=v1;g=meta.k8s.io", ""},
		{"GET", one + "/a", "resourceVersion=2", "application/cbor, */*;q=0.1", ""},
		{"GET", all, "watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=1",
			"application/json;stream=watch", ""},
		{"GET", all, "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "", ""},
		{"GET", all, "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Miwic3RhcnQiOiJuL2FcdTAwMDAifQ&limit=0001", "", ""},
		{"GET", all, "resourceVersion=123456789012345678901234567890&resourceVersionMatch=Exact", "", ""},
		{"GET", all, "shardSelector=shardRange(object.metadata.uid,'0x0','0x8')", "", ""},
		{"HEAD", "/apis/example.io/v1/watch/namespaces/n/widgets/a", "", "", ""},
		{"GET", "/openapi/v3/apis/example.io/v1", "hash=x", "application/json", ""},
		{"GET", "/apis", "", "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList", ""},
		{"POST", one, "fieldValidation=Strict", "application/json",
			`{"apiVersion":"example.io/v1","kind":"Widget","metadata":{"generateName":"x-","labels":{"a":"b"}},"size":1}`},
		{"PUT", one + "/a", "dryRun=All", "application/json",
			`{"metadata":{"name":"a","namespace":"n","resourceVersion":"1","uid":"u"},"color":"red"}`},
		{"PUT", one + "/a", "", "",
			"{\"metadata\":{\"name\":\"a\",\"creationTimestamp\":null},\"metadata\":[],\"size\":1e9}"},
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
		rig.Same(t, "how often it was authorized", 1, asked)
		if method == http.MethodGet && m.ResourceVersion() != before {
			t.Error("a read has changed something")
		}
		isJSON := strings.HasPrefix(w.Header().Get("Content-Type"), "application/json")
		watch := req.URL.Query().Has("watch")
		switch code := w.Code; {
		case code >= 500 && code != http.StatusGatewayTimeout && !watch && !req.URL.Query().Has("shardSelector") &&
			ctx.Err() == nil:
			// As with kube-apiserver, these two have an error without a reason.
			t.Errorf("%d: %s", code, w.Body)
		case code >= 400 && isJSON:
			var status metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Kind != "Status" ||
				int(status.Code) != code || status.Message == "" {
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
				rig.Same(t, "the namespace of "+item.Name, "n", item.Namespace)
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
