package lwtest_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// A review is answered with what Default makes of it, and nothing else can be done with it.
func TestReview(t *testing.T) {
	user := func(a lwtest.Admission) string {
		name, _, _ := unstructured.NestedString(a.Object.(*unstructured.Unstructured).Object, "spec", "user")
		return name
	}
	s := lwtest.NewServer(t,
		lwtest.Resource{Plural: "namespaces", Kind: "Namespace", Cluster: true, Ends: true},
		lwtest.Resource{Group: "authorization.k8s.io", Plural: "localsubjectaccessreviews", Kind: "LocalSubjectAccessReview", Review: true,
			Default: func(_ context.Context, a lwtest.Admission) error {
				return unstructured.SetNestedField(a.Object.(*unstructured.Unstructured).Object, user(a) == "alice", "status", "allowed")
			},
			Validate: func(_ context.Context, a lwtest.Admission) error {
				if user(a) == "" {
					return errors.New("whose?")
				}
				return nil
			}})
	const v1 = "/apis/authorization.k8s.io/v1"
	const path = v1 + "/namespaces/none/localsubjectaccessreviews"
	const head = `{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","spec":{"user":`
	for _, row := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", path, head + `"alice"}}`, 201, `"status":{"allowed":true}`},
		{"POST", path, head + `"alice"},"status":{"allowed":false}}`, 201, `"status":{"allowed":true}`},
		{"POST", path, head + `"bob"}}`, 201, `"metadata":{"namespace":"none"},"spec":{"user":"bob"},"status":{"allowed":false}`},
		{"POST", path, head + `""}}`, 422, "whose?"},
		{"GET", path, "", 405, "the server does not allow this method on the requested resource"},
		{"DELETE", path, "", 405, "the server does not allow this method on the requested resource"},
		{"GET", path + "/a", "", 404, "the server could not find the requested resource"},
		{"GET", v1, "", 200, `"kind":"LocalSubjectAccessReview","verbs":["create"]}]}`},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(row.method, row.path, strings.NewReader(row.body)))
		if w.Code != row.code || !strings.Contains(w.Body.String(), row.says) {
			t.Errorf("%s %s %s: %d %s\nwant %d %s", row.method, row.path, row.body, w.Code, w.Body, row.code, row.says)
		}
	}
	for range lwtest.Objects[*metav1.PartialObjectMetadata](s, "localsubjectaccessreviews").All() {
		t.Error("a review is stored")
	}
}

// ChangedSince is true after each write of the collection, and of no other.
func TestChangedSince(t *testing.T) {
	s := lwtest.NewServer(t, jobs, lwtest.Resource{Plural: "secrets", Kind: "Secret"})
	c := lwtest.Objects[*metav1.PartialObjectMetadata](s, "jobs")
	a := func(labels map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: labels}}
	}
	var got []bool
	for _, write := range []func() error{
		func() error { return nil },
		func() error { _, err := c.Create(a(nil)); return err },
		func() error {
			_, err := lwtest.Objects[*metav1.PartialObjectMetadata](s, "secrets").Create(a(nil))
			return err
		},
		func() error { _, err := c.Update(a(map[string]string{"a": "b"})); return err },
		func() error { return c.Delete(lw.KeyOf(a(nil))) },
	} {
		before := s.ResourceVersion()
		if err := write(); err != nil {
			t.Fatal(err)
		}
		got = append(got, c.ChangedSince(before))
	}
	if d := cmp.Diff([]bool{false, true, false, true, true}, got); d != "" {
		t.Error(d)
	}
	if !c.ChangedSince("") || !c.ChangedSince("999999") {
		t.Error("nothing has changed since a version that there was not")
	}
}
