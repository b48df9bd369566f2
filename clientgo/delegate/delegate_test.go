package delegate_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/go-lw/lw/clientgo/delegate"
	"github.com/go-lw/lw/serve"
)

// Who may do something at the API server may do it here, and nobody else. Answers are remembered for
// ten seconds, and errors are not.
func TestAuthorizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var tokens, reviews int
		var last *authorizationv1.SubjectAccessReviewSpec
		var down error
		client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			tokens++
			review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
			if review.Spec.Token == "ann's" {
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "ann", Groups: []string{"staff"}}}
			}
			return true, review, down
		})
		client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			reviews++
			review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
			last = &review.Spec
			of := review.Spec.ResourceAttributes
			review.Status.Allowed = review.Spec.User == "ann" && of != nil && of.Verb == "list" && of.Namespace == "shop"
			review.Status.Reason = "no role"
			return true, review, down
		})
		authorize := delegate.Authorizer(client, nil)
		ask := func(token, verb, namespace string) error {
			r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			return authorize(r, serve.Attributes{Verb: verb, Version: "v1", Resource: "pods", Namespace: namespace, Path: r.URL.Path})
		}
		for range 3 {
			if err := ask("ann's", "list", "shop"); err != nil {
				t.Error(err)
			}
		}
		want := &authorizationv1.SubjectAccessReviewSpec{
			User: "ann", Groups: []string{"staff"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "shop", Verb: "list", Version: "v1", Resource: "pods"},
		}
		if diff := cmp.Diff(want, last); diff != "" {
			t.Error(diff)
		}
		if tokens != 1 || reviews != 1 {
			t.Errorf("%d token reviews and %d access reviews", tokens, reviews)
		}
		if err := ask("ann's", "watch", "shop"); !apierrors.IsForbidden(err) {
			t.Error(err)
		}
		if err := ask("ann's", "list", ""); !apierrors.IsForbidden(err) {
			t.Error(err)
		}
		if err := ask("another", "list", "shop"); !apierrors.IsUnauthorized(err) {
			t.Error(err)
		}
		if err := ask("", "list", "shop"); !apierrors.IsForbidden(err) || last.User != "system:anonymous" {
			t.Error(err, last)
		}
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		if err := authorize(r, serve.Attributes{Verb: "get", Path: "/version"}); !apierrors.IsForbidden(err) || last.NonResourceAttributes == nil {
			t.Error(err, last)
		}

		time.Sleep(11 * time.Second)
		down = errors.New("the server is down")
		if err := ask("ann's", "list", "shop"); !apierrors.IsServiceUnavailable(err) {
			t.Error(err)
		}
		down = nil
		if err := ask("ann's", "list", "shop"); err != nil {
			t.Errorf("an error is remembered: %v", err)
		}
	})
}
