package delegate_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
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

// A refusal says who may not do what, and why if the API server does. The review has all that is
// known of the user.
func TestRefusals(t *testing.T) {
	client := fake.NewClientset()
	user := authenticationv1.UserInfo{Username: "ann", UID: "7", Groups: []string{"staff"},
		Extra: map[string]authenticationv1.ExtraValue{"shift": {"day", "night"}}}
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.User, review.Status.Authenticated = user, review.Spec.Token == "ann's"
		return true, review, nil
	})
	var last authorizationv1.SubjectAccessReviewSpec
	var answer authorizationv1.SubjectAccessReviewStatus
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		last, review.Status = review.Spec, answer
		return true, review, nil
	})
	for _, tt := range []struct {
		credentials, header string
		answer              authorizationv1.SubjectAccessReviewStatus
		want                string
		user                string // who is asked about; "": nobody
	}{
		{"Bearer ann's", "", authorizationv1.SubjectAccessReviewStatus{Allowed: true}, "", "ann"},
		{"bearer  ann's ", "", authorizationv1.SubjectAccessReviewStatus{Reason: "no role"},
			`pods.g "p" is forbidden: user "ann" may not get it: no role`, "ann"},
		{"Bearer ann's", "", authorizationv1.SubjectAccessReviewStatus{},
			`pods.g "p" is forbidden: user "ann" may not get it`, "ann"},
		{"Bearer ann's", "", authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true},
			`pods.g "p" is forbidden: user "ann" may not get it`, "ann"},
		{"Basic ann's", "", authorizationv1.SubjectAccessReviewStatus{},
			`pods.g "p" is forbidden: user "system:anonymous" may not get it`, "system:anonymous"},
		{"Bearer", "", authorizationv1.SubjectAccessReviewStatus{},
			`pods.g "p" is forbidden: user "system:anonymous" may not get it`, "system:anonymous"},
		{"Bearer another", "", authorizationv1.SubjectAccessReviewStatus{Allowed: true}, "the token is not valid", ""},
		{"Bearer ann's", "Impersonate-User", authorizationv1.SubjectAccessReviewStatus{Allowed: true},
			`pods.g "p" is forbidden: impersonation is not supported`, ""},
	} {
		last, answer = authorizationv1.SubjectAccessReviewSpec{}, tt.answer
		r := httptest.NewRequest(http.MethodGet, "/apis/g/v1/namespaces/n/pods/p", nil)
		r.Header.Set("Authorization", tt.credentials)
		if tt.header != "" {
			r.Header.Set(tt.header, "bob")
		}
		err := delegate.Authorizer(client, nil)(r, serve.Attributes{Verb: "get", Group: "g", Version: "v1",
			Resource: "pods", Namespace: "n", Name: "p"})
		got := ""
		if err != nil {
			got = err.Error()
		}
		rig.Same(t, tt.credentials, tt.want, got)
		rig.Same(t, tt.credentials+": the user", tt.user, last.User)
		if last.User == "ann" {
			rig.Same(t, "UID", "7", last.UID)
			rig.Same(t, "extra", map[string]authorizationv1.ExtraValue{"shift": {"day", "night"}}, last.Extra)
		}
	}
}

// A token must be for one of the audiences, and the API server is told of these.
func TestAudiences(t *testing.T) {
	for _, tt := range []struct {
		wanted, of    []string
		authenticated bool
		valid         bool
	}{
		{nil, nil, true, true}, {nil, []string{"a"}, true, true}, {nil, nil, false, false},
		{[]string{"a", "b"}, []string{"b", "c"}, true, true}, {[]string{"a", "b"}, []string{"b"}, false, false},
		{[]string{"a"}, []string{"c"}, true, false}, {[]string{"a"}, nil, true, false},
	} {
		client := fake.NewClientset()
		var told []string
		client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
			told = review.Spec.Audiences
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: tt.authenticated, Audiences: tt.of}
			return true, review, nil
		})
		client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authorizationv1.SubjectAccessReview{
				Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
		})
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		r.Header.Set("Authorization", "Bearer a")
		err := delegate.Authorizer(client, &delegate.Options{Audiences: tt.wanted})(r,
			serve.Attributes{Verb: "get", Path: "/version"})
		if err == nil != tt.valid || err != nil && !apierrors.IsUnauthorized(err) {
			t.Errorf("%+v: %v", tt, err)
		}
		rig.Same(t, "what the API server is told", tt.wanted, told)
	}
}

// slow returns a client of an API server that allows all, but so late, and a count of its requests.
func slow(t *testing.T, late time.Duration) (client kubernetes.Interface, requests *int) {
	requests = new(int)
	const answer = `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`
	transport := rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		*requests++
		select {
		case <-time.After(late):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return &http.Response{StatusCode: http.StatusCreated, Header: rig.ContentType("application/json"),
			Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
	})
	return rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfigAndClient(
		&rest.Config{Host: "http://server", QPS: -1}, &http.Client{Transport: transport})), requests
}

// A review takes no longer than Timeout.
func TestTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{-1: 10 * time.Second, 0: 10 * time.Second,
		time.Minute: time.Minute} {
		rig.Subtest(t, timeout.String(), func(t *testing.T) {
			client, _ := slow(t, time.Hour)
			authorize, begun := delegate.Authorizer(client, &delegate.Options{Timeout: timeout}), time.Now()
			err := authorize(httptest.NewRequest(http.MethodGet, "/version", nil),
				serve.Attributes{Verb: "get", Path: "/version"})
			if !apierrors.IsServiceUnavailable(err) ||
				!strings.HasPrefix(err.Error(), "the API server cannot be asked who may do this: ") {
				t.Error(err)
			}
			rig.Same(t, "how long that took", want, time.Since(begun))
		})
	}
}

// Who asks the same shares a review, which goes on when the request that began it has ended. Its
// answer counts as long as Remember says.
func TestShares(t *testing.T) {
	for remember, lasts := range map[time.Duration]time.Duration{-1: 10 * time.Second, 0: 10 * time.Second,
		time.Minute: time.Minute} {
		rig.Subtest(t, remember.String(), func(t *testing.T) {
			client, requests := slow(t, 5*time.Second)
			authorize := delegate.Authorizer(client, &delegate.Options{Remember: remember})
			ask := func(ctx context.Context) error {
				return authorize(httptest.NewRequestWithContext(ctx, http.MethodGet, "/version", nil),
					serve.Attributes{Verb: "get", Path: "/version"})
			}
			gone := errors.New("gone")
			short, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() {
				err := ask(short)
				if !apierrors.IsServiceUnavailable(err) || !errors.Is(err, gone) ||
					!strings.HasPrefix(err.Error(), "the request has ended\n") {
					t.Error(err)
				}
			})
			synctest.Wait()
			for range 2 {
				all.Go(func() {
					if err := ask(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			rig.Same(t, "reviews of three who ask at once", 1, *requests)
			time.Sleep(lasts - time.Second)
			rig.OK(t, ask(t.Context()))
			rig.Same(t, "reviews while the answer counts", 1, *requests)
			time.Sleep(2 * time.Second)
			rig.OK(t, ask(t.Context()))
			rig.Same(t, "reviews after that", 2, *requests)
		})
	}
}

// A nil client is refused where it is given.
func TestNil(t *testing.T) {
	rig.MustPanic(t, "delegate: Authorizer: nil client", func() { delegate.Authorizer(nil, nil) })
}
