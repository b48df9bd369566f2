package access_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/access"
	"github.com/go-lw/lw/lwtest"
)

// who answers who a client is.
func who(t *testing.T, c *kubernetes.Clientset) (authenticationv1.UserInfo, error) {
	t.Helper()
	r, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return r.Status.UserInfo, nil
}

// Who a client is, by each way to say it.
func TestUsers(t *testing.T) {
	c := newCluster(t, access.Options{Tokens: map[string]lwtest.User{
		"t": {Username: "tim", UID: "7", Groups: []string{"ops"}, Extra: map[string][]string{"scopes": {"a"}}},
	}})
	const authenticated = "system:authenticated"
	for _, row := range []struct {
		name   string
		client *kubernetes.Clientset
		want   authenticationv1.UserInfo
		err    string
	}{
		{"a certificate", c.certified(c.ca, "alice", "dev", "ops"),
			authenticationv1.UserInfo{Username: "alice", Groups: []string{"dev", "ops", authenticated}}, ""},
		{"a certificate of another authority", c.certified(newAuthority(t), "alice"), authenticationv1.UserInfo{},
			"Unauthorized"},
		{"a static token", c.token("t"), authenticationv1.UserInfo{Username: "tim", UID: "7", Groups: []string{"ops",
			authenticated},
			Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a"}}}, ""},
		{"a bad token", c.token("bad"), authenticationv1.UserInfo{}, "Unauthorized"},
		{"an impersonated user", c.as(rest.ImpersonationConfig{UserName: "bob", UID: "9", Groups: []string{"g"},
			Extra: map[string][]string{"k": {"v"}}}),
			authenticationv1.UserInfo{Username: "bob", UID: "9", Groups: []string{"g", authenticated},
				Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}, ""},
		{"an impersonated account", c.user("system:serviceaccount:n:sa"),
			authenticationv1.UserInfo{Username: "system:serviceaccount:n:sa",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:n", authenticated}}, ""},
		{"nobody", c.client(c.config()), authenticationv1.UserInfo{},
			`selfsubjectreviews.authentication.k8s.io is forbidden: User ` +
				`"system:anonymous" cannot create resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope`},
	} {
		got, err := who(t, row.client)
		if text := textOf(err); text != row.err {
			t.Errorf("%s: %q, want %q", row.name, text, row.err)
		}
		delete(got.Extra, "authentication.kubernetes.io/credential-id") // the hash of the certificate
		if d := cmp.Diff(row.want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", row.name, d)
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What nobody may do is 403, and a bad token 401; both are Statuses. Health is for everybody.
func TestAnonymous(t *testing.T) {
	c := newCluster(t, access.Options{})
	for _, row := range []struct {
		path, token string
		code        int
		says        string
	}{
		{"/healthz", "", 200, "ok"},
		{"/readyz", "", 200, "ok"},
		{"/version", "", 200, `"major":"1"`},
		{"/version", " root", 200, "the provided Authorization header contains extra space before the bearer token, and is ignored"}, // a warning
		{"/version", "bad", 401, `"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401`},
		{"/apis", "", 403, `"message":"forbidden: User \"system:anonymous\" cannot get path \"/apis\"","reason":"Forbidden","details":{},"code":403`},
		{"/api/v1/namespaces/n/pods?watch=1", "", 403, `"message":"pods is forbidden: User \"system:anonymous\" cannot watch resource \"pods\" ` +
			`in API group \"\" in the namespace \"n\"","reason":"Forbidden","details":{"kind":"pods"},"code":403`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.front.URL+row.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if row.token != "" {
			r.Header.Set("Authorization", "Bearer "+row.token)
		}
		response, err := c.front.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		_ = response.Write(&body)
		_ = response.Body.Close()
		if response.StatusCode != row.code || !strings.Contains(strings.ReplaceAll(body.String(), `": `, `":`), row.says) {
			t.Errorf("%s: %s\nwant %d %s", row.path, body.String(), row.code, row.says)
		}
	}
}

// A token of a ServiceAccount says whose it is, until it, the account or the Pod is gone.
func TestTokens(t *testing.T) {
	c := newCluster(t, access.Options{Issuer: "https://me"})
	root := c.token("root")
	ctx, core := t.Context(), root.CoreV1()
	meta := metav1.ObjectMeta{Name: "a", Namespace: "n"}
	account, err := core.ServiceAccounts("n").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod, err := core.Pods("n").Create(ctx, &corev1.Pod{ObjectMeta: meta,
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	issue := func(s authenticationv1.TokenRequestSpec) string {
		t.Helper()
		r, err := core.ServiceAccounts("n").CreateToken(ctx, "a", &authenticationv1.TokenRequest{Spec: s},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Token
	}
	review := func(token string, audiences ...string) authenticationv1.TokenReviewStatus {
		t.Helper()
		r, err := root.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		delete(r.Status.User.Extra, "authentication.kubernetes.io/credential-id")
		return r.Status
	}
	const name = "system:serviceaccount:n:a"
	info := authenticationv1.UserInfo{Username: name, UID: string(account.UID),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"}}
	plain := issue(authenticationv1.TokenRequestSpec{})
	bound := issue(authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "a"}})
	other := issue(authenticationv1.TokenRequestSpec{Audiences: []string{"other"}})
	ofPod := info
	ofPod.Extra = map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"a"},
		"authentication.kubernetes.io/pod-uid": {string(pod.UID)}}
	known := func(u authenticationv1.UserInfo, audience string) authenticationv1.TokenReviewStatus {
		return authenticationv1.TokenReviewStatus{Authenticated: true, User: u, Audiences: []string{audience}}
	}
	bad := func(text string) authenticationv1.TokenReviewStatus {
		return authenticationv1.TokenReviewStatus{Error: text}
	}
	check := func(what string, want, got authenticationv1.TokenReviewStatus) {
		t.Helper()
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	check("a token", known(info, "https://me"), review(plain))
	check("a token of a Pod", known(ofPod, "https://me"), review(bound))
	check("a static token", known(authenticationv1.UserInfo{Username: "root", Groups: []string{"system:masters",
		"system:authenticated"}}, "https://me"), review("root"))
	check("another audience", bad(`token audiences ["other"] is invalid for the target audiences ["https://me"]`),
		review(other))
	check("its own audience", known(info, "other"), review(other, "x", "other"))
	check("no token", bad("invalid bearer token"), review("bad"))
	if u, err := who(t, c.token(plain)); err != nil || u.Username != name {
		t.Errorf("a client with the token: %v %v", u, err)
	}
	if _, err := who(t, c.token(other)); !apierrors.IsUnauthorized(err) {
		t.Errorf("a client with a token for others: %v", err)
	}
	if _, err := core.ServiceAccounts("n").CreateToken(ctx, "a",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", Name: "a", UID: "no"}}},
		metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a token for a Pod that was: %v", err)
	}
	if _, err := root.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{},
		metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("a review of no token: %v", err)
	}

	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := core.Pods("n").Delete(ctx, "a", now); err != nil {
		t.Fatal(err)
	}
	check("a token of a Pod that is gone", bad(`service account token has been invalidated: pods "a" not found`),
		review(bound))
	check("a token", known(info, "https://me"), review(plain))
	if err := core.ServiceAccounts("n").Delete(ctx, "a", now); err != nil {
		t.Fatal(err)
	}
	check("a token of an account that is gone", bad(`serviceaccounts "a" not found`), review(plain))
	if _, err := core.ServiceAccounts("n").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := review(plain); got.Authenticated || !strings.Contains(got.Error, "does not match claim") {
		t.Errorf("a token of another account of the name: %+v", got)
	}
	if _, err := who(t, c.token(plain)); !apierrors.IsUnauthorized(err) {
		t.Errorf("a client with it: %v", err)
	}
}

// A token ends.
func TestTokensEnd(t *testing.T) {
	c := newCluster(t, access.Options{})
	account, err := lwtest.Objects[*corev1.ServiceAccount](c.server,
		"serviceaccounts").Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	request := lwtest.TokenRequest{UID: account.UID, Expires: time.Now().Add(-time.Second)}
	request.Account.Namespace, request.Account.Name = "n", "a"
	token, err := c.access.ServiceAccounts(lwtest.Resource{}).Token(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.token("root").AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil || r.Status.Authenticated || r.Status.Error != "service account token has expired" {
		t.Errorf("%v %+v", err, r)
	}
}
