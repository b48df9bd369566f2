package access

import (
	"context"
	"errors"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/rbac"
	registry "k8s.io/kubernetes/pkg/registry/rbac"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/builtin"
	"github.com/go-lw/lw/lwtest"
)

// everything is the rules of cluster-admin.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// checkEscalation refuses the write of a role or a binding by which somebody would give more than
// they have: without the verb escalate on the role, or bind on the role that is bound. In
// kube-apiserver the storage of these kinds does so.
func (a *Access) checkEscalation(ctx context.Context, w lwtest.Admission) error {
	o, ok := w.Object.(metav1.Object)
	if !ok {
		return nil
	}
	ctx = request.WithNamespace(request.WithUser(ctx, builtin.Asker(lwtest.UserOf(ctx))), o.GetNamespace())
	if registry.EscalationAllowed(ctx) || isOfCollector(w) {
		return nil
	}
	switch o := w.Object.(type) {
	case *rbacv1.ClusterRole:
		old, _ := w.Old.(*rbacv1.ClusterRole)
		aggregates := o.AggregationRule != nil || old != nil && old.AggregationRule != nil
		return a.checkRole(ctx, "clusterroles", o.Name, o.Rules, aggregates)
	case *rbacv1.Role:
		return a.checkRole(ctx, "roles", o.Name, o.Rules, false)
	case *rbacv1.ClusterRoleBinding:
		return a.checkBinding(ctx, "clusterrolebindings", o, o.RoleRef)
	case *rbacv1.RoleBinding:
		return a.checkBinding(ctx, "rolebindings", o, o.RoleRef)
	}
	return nil
}

// isOfCollector reports whether a write changes no more than the collector of garbage does.
func isOfCollector(w lwtest.Admission) bool {
	return w.Old != nil && registry.IsOnlyMutatingGCFields(w.Object, w.Old, equality.Semantic)
}

func (a *Access) checkRole(ctx context.Context, plural, name string, rules []rbacv1.PolicyRule, aggregates bool) error {
	if registry.RoleEscalationAuthorized(ctx, a.Authorizer()) {
		return nil
	}
	resource, resolver := schema.GroupResource{Group: rbacv1.GroupName, Resource: plural}, a.now().resolver()
	if err := validation.ConfirmNoEscalation(ctx, resolver, rules); err != nil {
		return apierrors.NewForbidden(resource, name, err)
	}
	if aggregates && validation.ConfirmNoEscalation(ctx, resolver, everything) != nil {
		return apierrors.NewForbidden(resource, name, errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

func (a *Access) checkBinding(ctx context.Context, plural string, o metav1.Object, ref rbacv1.RoleRef) error {
	if registry.BindingAuthorized(ctx, rbac.RoleRef(ref), o.GetNamespace(), a.Authorizer()) {
		return nil
	}
	resolver := a.now().resolver()
	rules, err := resolver.GetRoleReferenceRules(ctx, ref, o.GetNamespace())
	if apierrors.IsNotFound(err) { // by the storage
		return notFound(strings.ToLower(ref.Kind)+"s", ref.Name)
	} else if err != nil {
		return err
	}
	if err := validation.ConfirmNoEscalation(ctx, resolver, rules); err != nil {
		return apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: plural}, o.GetName(), err)
	}
	return nil
}
