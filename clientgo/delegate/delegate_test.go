package delegate_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/go-lw/lw/clientgo/delegate"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A review is about what kube-apiserver's own would be about: with the name, the subresource and
// the selectors of the request. What a review cannot say of a selector is left out, which asks for
// more.
func TestReviewHasTheRequest(t *testing.T) {
	client := fake.NewClientset()
	var last *authorizationv1.SubjectAccessReviewSpec
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		last = &review.Spec
		review.Status.Allowed = true
		return true, review, nil
	})
	h := serve.New(&serve.Options{Authorize: delegate.Authorizer(client, nil)})
	field := func(key string, op metav1.FieldSelectorOperator, value string) metav1.FieldSelectorRequirement {
		return metav1.FieldSelectorRequirement{Key: key, Operator: op, Values: []string{value}}
	}
	label := func(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	for _, tt := range []struct {
		method, url string
		want        authorizationv1.ResourceAttributes // of pods of v1, of any group
		fields      []metav1.FieldSelectorRequirement
		labels      []metav1.LabelSelectorRequirement
	}{
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn,status.phase!%3DFailed",
			authorizationv1.ResourceAttributes{Verb: "list"},
			[]metav1.FieldSelectorRequirement{field("spec.nodeName", metav1.FieldSelectorOpIn, "n"),
				field("status.phase", metav1.FieldSelectorOpNotIn, "Failed")}, nil},
		{"GET", "/api/v1/namespaces/x/pods?watch=1&labelSelector=" +
			url.QueryEscape("a=b,c!=d,e in (z,f),g notin (h),i,!j,k>1"),
			authorizationv1.ResourceAttributes{Verb: "watch", Namespace: "x"}, nil, []metav1.LabelSelectorRequirement{
				label("a", metav1.LabelSelectorOpIn, "b"), label("c", metav1.LabelSelectorOpNotIn, "d"),
				label("e", metav1.LabelSelectorOpIn, "f", "z"),
				label("g", metav1.LabelSelectorOpNotIn, "h"), label("i", metav1.LabelSelectorOpExists),
				label("j", metav1.LabelSelectorOpDoesNotExist),
			}},
		{"GET", "/api/v1/namespaces/x/pods?fieldSelector=metadata.name%3Dp", authorizationv1.ResourceAttributes{Verb: "list",
			Namespace: "x", Name: "p"},
			[]metav1.FieldSelectorRequirement{field("metadata.name", metav1.FieldSelectorOpIn, "p")}, nil},
		{"DELETE", "/api/v1/namespaces/x/pods?labelSelector=a", authorizationv1.ResourceAttributes{Verb: "deletecollection",
			Namespace: "x"}, nil,
			[]metav1.LabelSelectorRequirement{label("a", metav1.LabelSelectorOpExists)}},
		{"GET", "/api/v1/pods?fieldSelector=x&labelSelector=k>1", authorizationv1.ResourceAttributes{Verb: "list"}, nil, nil},
		{"GET", "/api/v1/pods?labelSelector=(", authorizationv1.ResourceAttributes{Verb: "list"}, nil, nil},
		{"GET", "/apis/g/v1/pods", authorizationv1.ResourceAttributes{Verb: "list", Group: "g"}, nil, nil},
		{"GET", "/api/v1/watch/pods?labelSelector=a", authorizationv1.ResourceAttributes{Verb: "watch"}, nil, nil},
		{"GET", "/api/v1/namespaces/x/pods/p/log?labelSelector=a", authorizationv1.ResourceAttributes{Verb: "get",
			Namespace: "x", Name: "p", Subresource: "log"}, nil, nil},
	} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(tt.method, tt.url, nil))
		tt.want.Version, tt.want.Resource = "v1", "pods"
		if tt.fields != nil {
			tt.want.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: tt.fields}
		}
		if tt.labels != nil {
			tt.want.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: tt.labels}
		}
		rig.Same(t, tt.method+" "+tt.url, &tt.want, last.ResourceAttributes, cmpopts.EquateEmpty())
	}
	// With the program's credentials an impersonation could be more than was asked about.
	last = nil
	r, w := httptest.NewRequest("GET", "/api/v1/pods", nil), httptest.NewRecorder()
	r.Header.Set("impersonate-uid", "1")
	if h.ServeHTTP(w, r); w.Code != http.StatusForbidden || last != nil {
		t.Errorf("an impersonation: %d, and the server was asked about %v", w.Code, last)
	}
}

// Who may do something at the API server may do it here, and nobody else. Answers are remembered
// for ten seconds, and errors are not.
func TestAuthorizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var tokens, reviews int
		var last *authorizationv1.SubjectAccessReviewSpec
		var down error
		client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			tokens++
			review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
			if groups := map[string][]string{"ann's": {"staff"}, "one group": {"a b"},
				"two groups": {"a", "b"}}[review.Spec.Token]; groups != nil {
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true,
					User: authenticationv1.UserInfo{Username: "ann", Groups: groups}}
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
			return authorize(r, serve.Attributes{Verb: verb, Version: "v1", Resource: "pods", Namespace: namespace,
				Path: r.URL.Path})
		}
		for range 3 {
			rig.OK(t, ask("ann's", "list", "shop"))
		}
		want := &authorizationv1.SubjectAccessReviewSpec{
			User: "ann", Groups: []string{"staff"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "shop", Verb: "list", Version: "v1",
				Resource: "pods"},
		}
		rig.Same(t, "", want, last)
		if tokens != 1 || reviews != 1 {
			t.Errorf("%d token reviews and %d access reviews", tokens, reviews)
		}
		for _, tt := range []struct {
			token, verb, namespace string
			is                     func(error) bool
		}{
			{"ann's", "watch", "shop", apierrors.IsForbidden}, {"ann's", "list", "", apierrors.IsForbidden},
			{"another", "list", "shop", apierrors.IsUnauthorized}, {"", "list", "shop", apierrors.IsForbidden},
		} {
			if err := ask(tt.token, tt.verb, tt.namespace); !tt.is(err) {
				t.Errorf("%+v: %v", tt, err)
			}
		}
		rig.Same(t, "user", "system:anonymous", last.User)
		rig.Same(t, "groups", []string{"system:unauthenticated"}, last.Groups)
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		if err := authorize(r, serve.Attributes{Verb: "get", Path: "/version"}); !apierrors.IsForbidden(err) ||
			last.NonResourceAttributes == nil {
			t.Error(err, last)
		}

		before := reviews
		rig.OK(t, ask("one group", "list", "shop"))
		rig.OK(t, ask("two groups", "list", "shop"))
		if reviews != before+2 {
			t.Error("who has one group and who has two share an answer")
		}

		time.Sleep(11 * time.Second)
		down = errors.New("the server is down")
		if err := ask("ann's", "list", "shop"); !apierrors.IsServiceUnavailable(err) {
			t.Error(err)
		}
		down = nil
		rig.OK(t, ask("ann's", "list", "shop")) // no error is remembered
	})
}

// A nil client is refused where it is given.
func TestNil(t *testing.T) {
	rig.MustPanic(t, "delegate: Authorizer: nil client", func() { delegate.Authorizer(nil, nil) })
}
