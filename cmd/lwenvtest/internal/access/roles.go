package access

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/builtin"
	"github.com/go-lw/lw/lwtest"
)

// rbac returns the Resources of roles and bindings. Nobody writes one that grants more than they
// may themselves.
func (a *Access) rbac() []lwtest.Resource {
	all := []lwtest.Resource{
		{Plural: "clusterroles", Kind: "ClusterRole", Type: &rbacv1.ClusterRole{}, Cluster: true},
		{Plural: "clusterrolebindings", Kind: "ClusterRoleBinding", Type: &rbacv1.ClusterRoleBinding{}, Cluster: true},
		{Plural: "roles", Kind: "Role", Type: &rbacv1.Role{}},
		{Plural: "rolebindings", Kind: "RoleBinding", Type: &rbacv1.RoleBinding{}},
	}
	for i := range all {
		r := &all[i]
		r.Group, r.Version, r.Managed = rbacv1.GroupName, "v1", true
		r.ValidateName = func(name string, _ bool) []string { return content.IsPathSegmentName(name) }
		*r = builtin.Rules(*r, nil)
		valid := r.Validate
		r.Validate = func(ctx context.Context, w lwtest.Admission) error {
			if w.Verb == lwtest.Delete {
				return nil
			}
			if err := a.checkEscalation(ctx, w); err != nil {
				return err
			}
			return valid(ctx, w)
		}
	}
	return all
}
