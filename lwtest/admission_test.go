package lwtest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/lwtest"
)

// An admission knows who asks, by which name and with which options, and warns in the answer.
func TestAdmissionOfARequest(t *testing.T) {
	alice := lwtest.User{Username: "alice", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"scopes": {"a"}}}
	type request struct {
		Name, Kind string
		User       lwtest.User
	}
	var seen []request
	r := jobs
	r.Validate = func(_ context.Context, a lwtest.Admission) error {
		seen = append(seen, request{a.Name, a.Options.GetObjectKind().GroupVersionKind().Kind, a.User})
		a.Warn("old")
		return nil
	}
	s := lwtest.NewServer(t, r)
	send := func(method, name, contentType, body string) {
		t.Helper()
		req := httptest.NewRequest(method, "/apis/example.com/v1/namespaces/default/jobs"+name, strings.NewReader(body))
		req.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req.WithContext(lwtest.WithUser(req.Context(), alice)))
		if w.Code >= http.StatusBadRequest || w.Header().Get("Warning") != `299 - "old"` {
			t.Errorf("%s %s: %d %s, warning %q", method, name, w.Code, w.Body, w.Header().Get("Warning"))
		}
	}
	const job = `{"apiVersion":"example.com/v1","kind":"Job","metadata":`
	send("POST", "", "application/json", job+`{"generateName":"x-"}}`)
	send("POST", "", "application/json", job+`{"name":"a"}}`)
	send("PUT", "/a", "application/json", job+`{"name":"a","labels":{"a":"b"}}}`)
	send("PATCH", "/b?fieldManager=m", applyPatch, job+`{"name":"b"}}`)
	send("PATCH", "/a", mergePatch, `{"metadata":{"labels":null}}`)
	send("DELETE", "/a", "", "")
	want := []request{{"", "CreateOptions", alice}, {"a", "CreateOptions", alice}, {"a", "UpdateOptions", alice},
		{"b", "CreateOptions", alice}, {"a", "UpdateOptions", alice}, {"a", "DeleteOptions", alice}}
	if d := cmp.Diff(want, seen); d != "" {
		t.Error(d)
	}
}
