package access_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/access"
	"github.com/go-lw/lw/lwtest"
)

// A granter may write roles and bindings, and has what each test gives besides.
func granter(c *cluster, rules ...rbacv1.PolicyRule) rbacclient.RbacV1Interface {
	c.clusterRole("granter", append(rules, rule("get,create,update,patch,delete", rbacv1.GroupName,
		"clusterroles,clusterrolebindings,roles,rolebindings"))...)
	c.bind("", "ClusterRole", "granter", userSubject("gina"))
	return c.user("gina", "grp").RbacV1()
}

func clusterRoleOf(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules}
}

// Nobody gives what they do not have, unless they may escalate or bind.
func TestEscalation(t *testing.T) {
	type act = func(ctx context.Context, c *cluster, r rbacclient.RbacV1Interface) error
	pods := rule("get,list", "", "pods,secrets")
	createRole := func(rules ...rbacv1.PolicyRule) act {
		return func(ctx context.Context, c *cluster, r rbacclient.RbacV1Interface) error {
			_, err := r.ClusterRoles().Create(ctx, clusterRoleOf("new", rules...), metav1.CreateOptions{})
			return err
		}
	}
	bindTo := func(namespace string, ref rbacv1.RoleRef) act {
		return func(ctx context.Context, c *cluster, r rbacclient.RbacV1Interface) (err error) {
			c.clusterRole("pods", pods)
			c.role("n", "pods", pods)
			to := []rbacv1.Subject{userSubject("x")}
			if namespace == "" {
				_, err = r.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "b"), RoleRef: ref,
					Subjects: to}, metav1.CreateOptions{})
			} else {
				_, err = r.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta(namespace, "b"),
					RoleRef: ref, Subjects: to}, metav1.CreateOptions{})
			}
			return err
		}
	}
	patch := func(body string) act {
		return func(ctx context.Context, c *cluster, r rbacclient.RbacV1Interface) error {
			c.clusterRole("pods", pods)
			_, err := r.ClusterRoles().Patch(ctx, "pods", types.MergePatchType, []byte(body), metav1.PatchOptions{})
			return err
		}
	}
	const attempt = `user "gina" (groups=["grp" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	const missing = `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}` + "\n" + `{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}`
	ofCluster, ofNamespace := rbacv1.RoleRef{Kind: "ClusterRole", Name: "pods"}, rbacv1.RoleRef{Kind: "Role", Name: "pods"}
	aggregating := func(ctx context.Context, _ *cluster, r rbacclient.RbacV1Interface) error {
		o := clusterRoleOf("sum")
		o.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}
		_, err := r.ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		return err
	}
	for _, row := range []struct {
		name string
		has  []rbacv1.PolicyRule
		do   act
		want string
	}{
		{"a role of more", nil, createRole(pods), `clusterroles.rbac.authorization.k8s.io "new" is forbidden: ` + attempt + missing},
		{"a role of some more", []rbacv1.PolicyRule{rule("get", "", "*")}, createRole(pods),
			`clusterroles.rbac.authorization.k8s.io "new" is forbidden: ` +
				attempt + `{APIGroups:[""], Resources:["pods"], Verbs:["list"]}` + "\n" + `{APIGroups:[""], Resources:["secrets"], Verbs:["list"]}`},
		{"a role of paths", nil, createRole(rbacv1.PolicyRule{Verbs: []string{"get", "put"},
			NonResourceURLs: []string{"/x"}}),
			`clusterroles.rbac.authorization.k8s.io "new" is forbidden: ` + attempt +
				`{NonResourceURLs:["/x"], Verbs:["get"]}` + "\n" + `{NonResourceURLs:["/x"], Verbs:["put"]}`},
		{"a role of as much", []rbacv1.PolicyRule{rule("get,list", "*", "pods,secrets")}, createRole(pods), ""},
		{"a role of more by escalate", []rbacv1.PolicyRule{rule("escalate", rbacv1.GroupName, "clusterroles")},
			createRole(pods), ""},
		{"a role of more by escalate of roles", []rbacv1.PolicyRule{rule("escalate", rbacv1.GroupName, "roles")},
			createRole(pods),
			`clusterroles.rbac.authorization.k8s.io "new" is forbidden: ` + attempt + missing},
		{"an aggregation", nil, aggregating, `clusterroles.rbac.authorization.k8s.io "sum" is forbidden: must have cluster-admin privileges to use the aggregationRule`},
		{"labels of a role of more", nil, patch(`{"metadata":{"labels":{"a":"b"}}}`),
			`clusterroles.rbac.authorization.k8s.io "pods" is forbidden: ` + attempt + missing},
		{"finalizers of a role of more", nil, patch(`{"metadata":{"finalizers":["a.b/c"]}}`), ""},
		{"less of a role", []rbacv1.PolicyRule{rule("get", "", "pods")},
			patch(`{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}`), ""},
		{"a role of a namespace", nil, func(ctx context.Context, _ *cluster, r rbacclient.RbacV1Interface) error {
			_, err := r.Roles("n").Create(ctx, &rbacv1.Role{ObjectMeta: meta("n", "new"), Rules: []rbacv1.PolicyRule{pods}},
				metav1.CreateOptions{})
			return err
		}, `roles.rbac.authorization.k8s.io "new" is forbidden: ` + attempt + missing},
		{"a role of a namespace in which they have it", nil, func(ctx context.Context, c *cluster,
			r rbacclient.RbacV1Interface) error {
			c.role("n", "pods", pods)
			c.bind("n", "Role", "pods", userSubject("gina"))
			_, err := r.Roles("n").Create(ctx, &rbacv1.Role{ObjectMeta: meta("n", "new"), Rules: []rbacv1.PolicyRule{pods}},
				metav1.CreateOptions{})
			return err
		}, ""},
		{"a binding to more", nil, bindTo("", ofCluster), `clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: ` + attempt + missing},
		{"a binding to as much", []rbacv1.PolicyRule{pods}, bindTo("", ofCluster), ""},
		{"a binding of bind", []rbacv1.PolicyRule{rule("bind", rbacv1.GroupName, "clusterroles", "pods")}, bindTo("",
			ofCluster), ""},
		{"a binding of bind of another", []rbacv1.PolicyRule{rule("bind", rbacv1.GroupName, "clusterroles", "cows")},
			bindTo("", ofCluster),
			`clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: ` + attempt + missing},
		{"a binding of a namespace", nil, bindTo("n", ofNamespace),
			`rolebindings.rbac.authorization.k8s.io "b" is forbidden: ` + attempt + missing},
		{"a binding of a namespace by bind", []rbacv1.PolicyRule{rule("bind", rbacv1.GroupName, "roles")}, bindTo("n",
			ofNamespace), ""},
		{"a binding to nothing", nil, bindTo("n", rbacv1.RoleRef{Kind: "Role", Name: "none"}),
			`roles.rbac.authorization.k8s.io "none" not found`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, access.Options{})
			err := row.do(t.Context(), c, granter(c, row.has...))
			if d := cmp.Diff(row.want, textOf(err)); d != "" || strings.Contains(row.want,
				"forbidden") != apierrors.IsForbidden(err) {
				t.Error(d)
			}
		})
	}
}

// What is wrong with a role or a binding.
func TestValidation(t *testing.T) {
	c := newCluster(t, access.Options{})
	r, ctx := c.token("root").RbacV1(), t.Context()
	role := func(rules ...rbacv1.PolicyRule) error {
		_, err := r.ClusterRoles().Create(ctx, clusterRoleOf("r", rules...), metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	ofRole := rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"no verbs": {role(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}}),
			"rules[0].verbs: Required value"},
		"no selectors to sum up": {wrongSum(ctx, r), "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required"},
	} {
		if !apierrors.IsInvalid(row.err) || !strings.Contains(textOf(row.err), row.want) {
			t.Errorf("%s: %v\nwant %s", name, row.err, row.want)
		}
	}
	b, err := r.RoleBindings("n").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta("n", "b"), RoleRef: ofRole,
		Subjects: []rbacv1.Subject{groupSubject("g"), {Kind: "ServiceAccount", Name: "a"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	filled := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "g"}, {Kind: "ServiceAccount", Name: "a"}}
	if d := cmp.Diff(filled, b.Subjects); d != "" || b.RoleRef.APIGroup != rbacv1.GroupName {
		t.Errorf("the defaults of a binding: %s%+v", d, b.RoleRef)
	}
	b.RoleRef.Name = "other"
	if _, err = r.RoleBindings("n").Update(ctx, b, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(textOf(err), "field is immutable") {
		t.Errorf("another role: %v", err)
	}
	_, err = r.Roles("n").Create(ctx, &rbacv1.Role{ObjectMeta: meta("n", "r"),
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/a"}}}}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(textOf(err), "namespaced rules cannot apply to non-resource URLs") {
		t.Errorf("a path in a namespace: %v", err)
	}
}

func wrongSum(ctx context.Context, r rbacclient.RbacV1Interface) error {
	o := clusterRoleOf("sum")
	o.AggregationRule = &rbacv1.AggregationRule{}
	_, err := r.ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
	return err
}

// A cluster begins with what kube-apiserver makes.
func TestBootstrap(t *testing.T) {
	c := newCluster(t, access.Options{})
	names := func() (all []string) {
		for o := range lwtest.Objects[*rbacv1.ClusterRole](c.server, "clusterroles").All() {
			if o.Labels["kubernetes.io/bootstrapping"] != "rbac-defaults" || o.Annotations[rbacv1.AutoUpdateAnnotationKey] != "true" {
				t.Errorf("the metadata of %s: %+v", o.Name, o.ObjectMeta)
			}
			all = append(all, o.Name)
		}
		return all
	}
	first := names()
	for _, name := range []string{"cluster-admin", "view", "system:discovery", "system:controller:job-controller"} {
		if !slices.Contains(first, name) {
			t.Errorf("no ClusterRole %s", name)
		}
	}
	for o := range lwtest.Objects[*rbacv1.ClusterRoleBinding](c.server, "clusterrolebindings").All() {
		if _, err := lwtest.Objects[*rbacv1.ClusterRole](c.server, "clusterroles").Get(keyOf(o.RoleRef.Name)); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
	// Discovery is for users, and cluster-admin for those who have it.
	if _, err := c.user("x").Discovery().ServerGroups(); err != nil {
		t.Errorf("discovery of a user: %v", err)
	}
	c.bind("", "ClusterRole", "cluster-admin", userSubject("boss"))
	if _, err := c.user("boss").CoreV1().Secrets("n").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("cluster-admin: %v", err)
	}
}
