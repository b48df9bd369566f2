package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// status reads the Status of an answer, without its message, which must be there.
func status(t *testing.T, what, body string) (code int32, reason metav1.StatusReason, rest metav1.StatusDetails) {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || s.Kind != "Status" || s.APIVersion != "v1" || s.Status != metav1.StatusFailure || s.Message == "" {
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
		return details{Group: "example.io", Kind: "Widget", Name: name, Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid}}}
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
			return fmt.Errorf("refused: %w", apierrors.NewForbidden(schema.GroupResource{Group: "example.io", Resource: "widgets"}, w.Name, errors.New("no")))
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
		m := lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 2), newWidget(name("c"), 3))
		b.memory(m, r)
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
			{"GET", "/apis/example.io/v1/nothing/x", "", "", 404, "NotFound", details{Group: "example.io", Kind: "nothing", Name: "x"}},
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
			{"GET", path + "?resourceVersion=99&resourceVersionMatch=Exact", "", "", 504, "Timeout", cause(1, metav1.CauseTypeResourceVersionTooLarge)},
			{"GET", oneWidget + "?resourceVersion=99", "", "", 504, "Timeout", cause(1, metav1.CauseTypeResourceVersionTooLarge)},
			{"GET", path + "?watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=1&resourceVersion=99", "", "", 504, "Timeout", cause(1, metav1.CauseTypeResourceVersionTooLarge)},
			{"POST", in, `{"metadata":{"name":"a"}}`, "", 409, "AlreadyExists", of("a")},
			{"PUT", conflict, `{"metadata":{"name":"b","resourceVersion":"2"}}`, "", 409, "Conflict", of("b")},
			{"PUT", conflict, `{"metadata":{"name":"b","uid":"u"}}`, "", 409, "Conflict", of("b")},
			{"DELETE", conflict, `{"preconditions":{"uid":"u"}}`, "", 409, "Conflict", of("b")},
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
			if diff := cmp.Diff(tt.details, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", tt.method, tt.path, diff)
			}
		}
		if obj, _ := m.Get(t.Context(), name("b")); obj.Size != 2 || m.ResourceVersion() != "5" {
			t.Errorf("something was written: %+v at %s", obj, m.ResourceVersion())
		}
		// What is in the stream of a watch.
		ev := read[struct {
			Type   string
			Object json.RawMessage
		}](b, path+"?watch=1&resourceVersion=2")
		if code, reason, _ := status(t, "a watch", string(ev.Object)); ev.Type != "ERROR" || code != 410 || reason != metav1.StatusReasonExpired {
			t.Errorf("a watch: %s %s", ev.Type, ev.Object)
		}
		// An object that has no encoding is the program's fault, and is reported, once.
		put(t, m.Create, "odd", 1)
		for p, partial := range map[string]string{path: asPartialList, in + "/odd": asPartial, path + "?watch=1": asPartial} {
			for _, accept := range []string{"application/json", "application/json" + partial, asTable} {
				_, body := b.do("GET", p, "", "Accept", accept)
				if !strings.Contains(body, `"code":500`) || !strings.Contains(body, "serve: widgets: encode n/odd: no encoding") || strings.Contains(body, "odd: serve") {
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
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", query, diff)
			}
		}
		// A page begins behind the one before, also where the name that is asked for is before that.
		_, first := b.get(forms[0], forms[0].accept, in+"?limit=2")
		for n, want := range map[string]int{"a": 0, "b": 0, "c": 1} {
			_, list := b.get(forms[0], forms[0].accept, in+"?limit=2&fieldSelector=metadata.name%3D"+n+"&continue="+url.QueryEscape(first.Metadata.Continue))
			if len(list.Items) != want {
				t.Errorf("%s: %d items behind b, want %d", n, len(list.Items), want)
			}
		}
	})
}

// A plain is an object with neither labels nor an encoding of its own in protobuf, nor a name of
// its type.
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
			if code, body := b.do("GET", "/api/v1/plains"+query, ""); code != want || want == 200 && !strings.Contains(body, `"name":"a"`) {
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
		m := lw.NewMemory(newNote("a", "secret"))
		stored(b, m, r)
		seen := map[string]bool{}
		for _, f := range forms {
			for _, accept := range []string{f.accept, f.list, f.accept + ", application/json"} {
				for _, p := range []string{notesPath, notesPath + "?watch=1&timeoutSeconds=1", notesPath + "?includeObject=Object", "/apis/example.io/v1/namespaces/n/notes/a"} {
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
