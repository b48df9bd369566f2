package access

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policy "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// bootstrap creates the roles and bindings that a cluster begins with.
func bootstrap(s *lwtest.Server) error {
	to := collectionsOf(s)
	if err := createAll(to.clusterRoles, append(policy.ClusterRoles(), policy.ControllerRoles()...)); err != nil {
		return err
	}
	bindings := append(policy.ClusterRoleBindings(), policy.ControllerRoleBindings()...)
	if err := createAll(to.clusterBindings, bindings); err != nil {
		return err
	}
	for _, roles := range policy.NamespaceRoles() {
		if err := createAll(to.roles, roles); err != nil {
			return err
		}
	}
	for _, bindings := range policy.NamespaceRoleBindings() {
		if err := createAll(to.bindings, bindings); err != nil {
			return err
		}
	}
	return nil
}

// createAll creates what kube-apiserver would overwrite when it starts again.
func createAll[T any, P interface {
	*T
	lw.Object
	metav1.Object
}](c *lwtest.Collection[P], all []T) error {
	for i := range all {
		o := P(&all[i])
		o.SetAnnotations(map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"})
		if _, err := c.Create(o); err != nil {
			return fmt.Errorf("%s: %w", o.GetName(), err)
		}
	}
	return nil
}
