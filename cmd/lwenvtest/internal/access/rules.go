package access

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// rules are the objects of RBAC at a resource version. They are not changed.
type rules struct {
	of        *lwtest.Server
	version   string
	aggregate bool

	clusterRoles    map[string]*rbacv1.ClusterRole
	roles           map[lw.Key]*rbacv1.Role
	clusterBindings []*rbacv1.ClusterRoleBinding
	bindings        map[string][]*rbacv1.RoleBinding // by namespace
}

// collections are those of which rules are made.
type collections struct {
	clusterRoles    *lwtest.Collection[*rbacv1.ClusterRole]
	roles           *lwtest.Collection[*rbacv1.Role]
	clusterBindings *lwtest.Collection[*rbacv1.ClusterRoleBinding]
	bindings        *lwtest.Collection[*rbacv1.RoleBinding]
}

func collectionsOf(s *lwtest.Server) collections {
	in := func(plural string) string { return plural + "." + rbacv1.GroupName }
	return collections{
		lwtest.Objects[*rbacv1.ClusterRole](s, in("clusterroles")), lwtest.Objects[*rbacv1.Role](s, in("roles")),
		lwtest.Objects[*rbacv1.ClusterRoleBinding](s, in("clusterrolebindings")), lwtest.Objects[*rbacv1.RoleBinding](s, in("rolebindings")),
	}
}

func (c *collections) changedSince(version string) bool {
	return c.clusterRoles.ChangedSince(version) || c.roles.ChangedSince(version) ||
		c.clusterBindings.ChangedSince(version) || c.bindings.ChangedSince(version)
}

// now returns the rules of the objects that there are.
func (a *Access) now() *rules {
	s := a.server.Load()
	if s == nil {
		return &rules{}
	}
	all := collectionsOf(s)
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.rules; r != nil && r.of == s && !all.changedSince(r.version) {
		return r
	}
	r := &rules{
		of: s, version: s.ResourceVersion(), aggregate: a.options.Aggregate,
		clusterRoles: map[string]*rbacv1.ClusterRole{}, roles: map[lw.Key]*rbacv1.Role{}, bindings: map[string][]*rbacv1.RoleBinding{},
	}
	for o := range all.clusterRoles.All() {
		r.clusterRoles[o.Name] = o
	}
	for o := range all.roles.All() {
		r.roles[lw.KeyOf(o)] = o
	}
	r.clusterBindings = slices.Collect(all.clusterBindings.All())
	for o := range all.bindings.All() {
		r.bindings[o.Namespace] = append(r.bindings[o.Namespace], o)
	}
	a.rules = r
	return r
}

// The methods of rules that follow are what kube-apiserver's evaluation reads.

// notFound is the error of a lister, which names a kind of role and not its resource.
func notFound(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: kind}, name)
}

// GetRole implements [validation.RoleGetter].
func (r *rules) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	if o, ok := r.roles[lw.Key{Namespace: namespace, Name: name}]; ok {
		return o, nil
	}
	return nil, notFound("role", name)
}

// ListRoleBindings implements [validation.RoleBindingLister].
func (r *rules) ListRoleBindings(_ context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	return r.bindings[namespace], nil
}

// GetClusterRole implements [validation.ClusterRoleGetter].
func (r *rules) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	o, ok := r.clusterRoles[name]
	if !ok {
		return nil, notFound("clusterrole", name)
	}
	if o.AggregationRule != nil && r.aggregate {
		sum := *o
		sum.Rules = r.aggregated(o, map[string]bool{})
		o = &sum
	}
	return o, nil
}

// ListClusterRoleBindings implements [validation.ClusterRoleBindingLister].
func (r *rules) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return r.clusterBindings, nil
}

// resolver returns what resolves bindings to rules.
func (r *rules) resolver() validation.AuthorizationRuleResolver {
	return validation.NewDefaultRuleResolver(r, r, r, r)
}

// authorizer returns what decides by the rules.
func (r *rules) authorizer() *rbac.RBACAuthorizer { return rbac.New(r, r, r, r) }

// aggregated returns the rules of a ClusterRole, with those of the roles that it selects and that
// are not among seen.
func (r *rules) aggregated(o *rbacv1.ClusterRole, seen map[string]bool) []rbacv1.PolicyRule {
	if o.AggregationRule == nil {
		return o.Rules
	}
	seen[o.Name] = true
	out := slices.Clone(o.Rules)
	for i := range o.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&o.AggregationRule.ClusterRoleSelectors[i])
		if err != nil { // it was not accepted
			continue
		}
		for name, other := range r.clusterRoles {
			if !seen[name] && selector.Matches(labels.Set(other.Labels)) {
				out = append(out, r.aggregated(other, seen)...)
			}
		}
	}
	return out
}

// authorize is an [authorizer.AuthorizerFunc].
func (a *Access) authorize(ctx context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	if u := asked.GetUser(); u == nil {
		return authorizer.DecisionNoOpinion, "", nil
	} else if slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	return a.now().authorizer().Authorize(ctx, asked)
}
