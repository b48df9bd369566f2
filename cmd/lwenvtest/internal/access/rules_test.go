package access_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/access"
	"github.com/go-lw/lw/lwtest"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// rule is one of verbs and resources, each with commas.
func rule(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group},
		Resources: strings.Split(resources, ","), ResourceNames: names}
}

func userSubject(name string) rbacv1.Subject  { return rbacv1.Subject{Kind: "User", Name: name} }
func groupSubject(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }

func (c *cluster) clusterRole(name string, rules ...rbacv1.PolicyRule) {
	c.t.Helper()
	c.must(lwtest.Objects[*rbacv1.ClusterRole](c.server, "clusterroles").Create(&rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules}))
}

func (c *cluster) role(namespace, name string, rules ...rbacv1.PolicyRule) {
	c.t.Helper()
	c.must(lwtest.Objects[*rbacv1.Role](c.server, "roles").Create(&rbacv1.Role{ObjectMeta: meta(namespace, name),
		Rules: rules}))
}

// bind gives a role of a kind to a subject, in a namespace or in the cluster.
func (c *cluster) bind(namespace, kind, name string, to rbacv1.Subject) {
	c.t.Helper()
	ref := rbacv1.RoleRef{Kind: kind, Name: name}
	if namespace == "" {
		c.must(lwtest.Objects[*rbacv1.ClusterRoleBinding](c.server, "clusterrolebindings").Create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta("", name+"-"+to.Name), RoleRef: ref, Subjects: []rbacv1.Subject{to}}))
		return
	}
	c.must(lwtest.Objects[*rbacv1.RoleBinding](c.server, "rolebindings").Create(&rbacv1.RoleBinding{
		ObjectMeta: meta(namespace, name+"-"+to.Name), RoleRef: ref, Subjects: []rbacv1.Subject{to}}))
}

func (c *cluster) must(_ any, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// asks returns the answer to a SubjectAccessReview.
func (c *cluster) asks(s authorizationv1.SubjectAccessReviewSpec) string {
	c.t.Helper()
	r, err := c.token("root").AuthorizationV1().SubjectAccessReviews().Create(c.t.Context(),
		&authorizationv1.SubjectAccessReview{Spec: s}, metav1.CreateOptions{})
	if err != nil {
		return err.Error()
	}
	if r.Status.Allowed {
		return "yes: " + r.Status.Reason
	}
	return "no: " + r.Status.Reason
}

// What rules allow, as reviews say it.
func TestRules(t *testing.T) {
	c := newCluster(t, access.Options{})
	c.clusterRole("reader", rule("get,list", "", "pods,pods/log"), rbacv1.PolicyRule{Verbs: []string{"get"},
		NonResourceURLs: []string{"/metrics", "/logs/*"}})
	c.clusterRole("scaler", rule("*", "*", "*/scale"), rule("update", "apps", "deployments", "a"))
	c.role("n", "all", rule("*", "", "*"))
	c.bind("", "ClusterRole", "reader", userSubject("carl"))
	c.bind("", "ClusterRole", "scaler", groupSubject("ops"))
	c.bind("n", "ClusterRole", "reader", userSubject("nora"))
	c.bind("n", "Role", "all", rbacv1.Subject{Kind: "ServiceAccount", Name: "sa"})
	c.bind("n", "Role", "none", userSubject("lost"))
	const byReader = `yes: RBAC: allowed by ClusterRoleBinding "reader-carl" of ClusterRole "reader" to User "carl"`
	const byScaler = `yes: RBAC: allowed by ClusterRoleBinding "scaler-ops" of ClusterRole "scaler" to Group "ops"`
	for _, row := range []struct{ user, group, asked, want string }{ // asked: verb group resource/subresource namespace name, or verb /path
		{"carl", "", "get - pods n a", byReader},
		{"carl", "", "list - pods - -", byReader},
		{"carl", "", "get - pods/log n a", byReader},
		{"carl", "", "get - pods/exec n a", "no: "},
		{"carl", "", "delete - pods n a", "no: "},
		{"carl", "", "get apps pods n a", "no: "},
		{"carl", "", "get /metrics", byReader},
		{"carl", "", "get /logs/a/b", byReader},
		{"carl", "", "get /metrics/a", "no: "},
		{"carl", "", "post /metrics", "no: "},
		{"x", "ops", "patch apps deployments/scale n a", byScaler},
		{"x", "ops", "update apps deployments n a", byScaler},
		{"x", "ops", "update apps deployments n b", "no: "},
		{"x", "ops", "update apps deployments n -", "no: "},
		{"nora", "", "get - pods n a", `yes: RBAC: allowed by RoleBinding "reader-nora/n" of ClusterRole "reader" to User "nora"`},
		{"nora", "", "get - pods default a", "no: "},
		{"nora", "", "list - pods - -", "no: "},
		{"nora", "", "get /metrics", "no: "},
		{"system:serviceaccount:n:sa", "", "create - secrets n -", `yes: RBAC: allowed by RoleBinding "all-sa/n" of Role "all" to ServiceAccount "sa/n"`},
		{"system:serviceaccount:default:sa", "", "create - secrets n -", "no: "},
		{"lost", "", "get - pods n a", `no: RBAC: role.rbac.authorization.k8s.io "none" not found`},
		{"x", "system:masters", "delete - pods n a", "yes: "},
		{"", "", "get - pods n a", `SubjectAccessReview.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be specified`},
		{"x", "", "", `SubjectAccessReview.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: ` +
			`exactly one of nonResourceAttributes or resourceAttributes must be specified`},
	} {
		s := authorizationv1.SubjectAccessReviewSpec{User: row.user}
		if row.group != "" {
			s.Groups = []string{row.group}
		}
		switch f := strings.Fields(strings.ReplaceAll(row.asked, "-", "~")); len(f) {
		case 2:
			s.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: f[0], Path: f[1]}
		case 5:
			for i := range f {
				f[i] = strings.TrimPrefix(f[i], "~")
			}
			resource, sub, _ := strings.Cut(f[2], "/")
			s.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: f[0], Group: f[1], Resource: resource,
				Subresource: sub, Namespace: f[3], Name: f[4]}
		}
		if got := c.asks(s); got != row.want {
			t.Errorf("%s %s %s: %s\nwant %s", row.user, row.group, row.asked, got, row.want)
		}
	}
}

// A request is allowed from the binding on, and refused after it. A watch is another verb.
func TestRequests(t *testing.T) {
	c := newCluster(t, access.Options{})
	pods := c.certified(c.ca, "alice", "dev").CoreV1().Pods("n")
	list := func() string {
		_, err := pods.List(t.Context(), metav1.ListOptions{})
		return textOf(err)
	}
	const no = `pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "n"`
	c.role("n", "reader", rule("list", "", "pods"))
	for i := range 3 {
		if got := list(); got != no {
			t.Fatalf("%d: %q", i, got)
		}
		c.bind("n", "Role", "reader", groupSubject("dev"))
		if got := list(); got != "" {
			t.Fatalf("%d, bound: %q", i, got)
		}
		bindings := lwtest.Objects[*rbacv1.RoleBinding](c.server, "rolebindings")
		for b := range bindings.All() {
			if b.Namespace == "n" {
				c.must(nil, c.token("root").RbacV1().RoleBindings("n").Delete(t.Context(), b.Name, metav1.DeleteOptions{}))
			}
		}
	}
	c.bind("n", "Role", "reader", groupSubject("dev"))
	if _, err := pods.Watch(t.Context(), metav1.ListOptions{}); textOf(err) != strings.Replace(no, "list", "watch",
		1) && textOf(err) != "unknown" {
		t.Errorf("a watch: %v", err)
	}
	_, err := pods.Patch(t.Context(), "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{}, "status")
	if want := `pods "a" is forbidden: User "alice" cannot patch resource "pods/status" in API group "" in the namespace "n"`; textOf(err) != want {
		t.Errorf("a patch: %v", err)
	}
	err = c.user("x").CoreV1().Nodes().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if want := `nodes is forbidden: User "x" cannot deletecollection resource "nodes" in API group "" at the cluster scope`; textOf(err) != want || !apierrors.IsForbidden(err) {
		t.Errorf("a deletion: %v", err)
	}
}

// Who impersonates needs the right to each part.
func TestImpersonation(t *testing.T) {
	c := newCluster(t, access.Options{Tokens: map[string]lwtest.User{"t": {Username: "tim"}}})
	c.clusterRole("bob", rule("impersonate", "", "users", "bob"))
	c.bind("", "ClusterRole", "bob", userSubject("tim"))
	c.role("n", "sa", rule("impersonate", "", "serviceaccounts"))
	c.bind("n", "Role", "sa", userSubject("tim"))
	for _, row := range []struct {
		as   rest.ImpersonationConfig
		want string
	}{
		{rest.ImpersonationConfig{UserName: "bob"}, ""},
		{rest.ImpersonationConfig{UserName: "eve"}, `users "eve" is forbidden: User "tim" cannot impersonate resource "users" in API group "" at the cluster scope`},
		{rest.ImpersonationConfig{UserName: "bob", Groups: []string{"g"}},
			`groups "g" is forbidden: User "tim" cannot impersonate resource "groups" in API group "" at the cluster scope`},
		{rest.ImpersonationConfig{UserName: "bob", UID: "1"}, `uids.authentication.k8s.io "1" is forbidden: User "tim" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope`},
		{rest.ImpersonationConfig{UserName: "system:serviceaccount:n:a"}, ""},
		{rest.ImpersonationConfig{UserName: "system:serviceaccount:default:a"},
			`serviceaccounts "a" is forbidden: User "tim" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "default"`},
	} {
		config := c.config()
		config.BearerToken, config.Impersonate = "t", row.as
		got, err := who(t, c.client(config))
		if textOf(err) != row.want || err == nil && got.Username != row.as.UserName {
			t.Errorf("%+v: %v %v\nwant %s", row.as, got, err, row.want)
		}
	}
}

// The other reviews.
func TestReviews(t *testing.T) {
	c := newCluster(t, access.Options{})
	c.role("n", "reader", rule("get", "", "pods", "a"))
	c.bind("n", "Role", "reader", userSubject("alice"))
	ctx, alice, root := t.Context(), c.user("alice").AuthorizationV1(), c.token("root").AuthorizationV1()
	get := func(namespace string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Name: "a", Namespace: namespace}
	}
	for namespace, want := range map[string]bool{"n": true, "default": false} {
		self, err := alice.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: get(namespace)}}, metav1.CreateOptions{})
		if err != nil || self.Status.Allowed != want || self.Spec.ResourceAttributes == nil {
			t.Errorf("alice herself in %s: %v %+v", namespace, err, self)
		}
		local, err := root.LocalSubjectAccessReviews(namespace).Create(ctx,
			&authorizationv1.LocalSubjectAccessReview{ObjectMeta: meta(namespace, ""),
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "alice", ResourceAttributes: get(namespace)}},
			metav1.CreateOptions{})
		if err != nil || local.Status.Allowed != want {
			t.Errorf("alice in %s: %v %+v", namespace, err, local)
		}
	}
	_, err := root.LocalSubjectAccessReviews("n").Create(ctx, &authorizationv1.LocalSubjectAccessReview{ObjectMeta: meta("n", ""),
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "alice", ResourceAttributes: get("default")}},
		metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(textOf(err), "must match metadata.namespace") {
		t.Errorf("a local review of another namespace: %v", err)
	}
	rules, err := alice.SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "n"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []authorizationv1.ResourceRule{
		{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"},
			Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}},
		{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}},
	}
	if d := cmp.Diff(want, rules.Status.ResourceRules, cmpopts.EquateEmpty()); d != "" || len(rules.Status.NonResourceRules) != 2 || rules.Status.Incomplete {
		t.Errorf("the rules of alice: %s %+v", d, rules.Status.NonResourceRules)
	}
	_, err = alice.SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{}, metav1.CreateOptions{})
	if !apierrors.IsBadRequest(err) || textOf(err) != "no namespace on request" {
		t.Errorf("the rules of no namespace: %v", err)
	}
	_, err = alice.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("alice asks about others: %v", err)
	}
}

// A role that aggregates others grants what they do where that is asked for, and nothing in envtest.
func TestAggregation(t *testing.T) {
	for aggregate, want := range map[bool]string{
		true:  `yes: RBAC: allowed by RoleBinding "admin-ada/n" of ClusterRole "admin" to User "ada"`,
		false: "no: ",
	} {
		c := newCluster(t, access.Options{Aggregate: aggregate})
		c.bind("n", "ClusterRole", "admin", userSubject("ada"))
		asked := func(group, resource string) string {
			return c.asks(authorizationv1.SubjectAccessReviewSpec{User: "ada",
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: "get", Group: group, Resource: resource, Namespace: "n"}})
		}
		if got := asked("", "configmaps"); got != want { // of view, which edit has, which admin has
			t.Errorf("aggregate %v: %s, want %s", aggregate, got, want)
		}
		if got := asked("example.com", "widgets"); got != "no: " {
			t.Errorf("aggregate %v, a resource of nobody: %s", aggregate, got)
		}
		c.must(lwtest.Objects[*rbacv1.ClusterRole](c.server, "clusterroles").Create(&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets-view", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
			Rules:      []rbacv1.PolicyRule{rule("get", "example.com", "widgets")}}))
		if got := asked("example.com", "widgets"); got != want {
			t.Errorf("aggregate %v, a new role: %s, want %s", aggregate, got, want)
		}
	}
}

func keyOf(name string) lw.Key { return lw.Key{Name: name} }
