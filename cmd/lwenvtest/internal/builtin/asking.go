package builtin

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
)

// asking returns the strategies that ask the server: what a namespace or a policy says, and whether
// the author of a policy may read its parameters.
func asking(p *Plugins) map[schema.GroupResource]map[string]strategy {
	ask := asker{plugins: p}
	claims := resourceclaim.NewStrategy(ask, ask)
	policies := validatingadmissionpolicy.NewStrategy(ask, ask)
	return map[schema.GroupResource]map[string]strategy{
		{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}: object(
			mutatingadmissionpolicy.NewStrategy(ask, ask)),
		{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}: object(
			mutatingadmissionpolicybinding.NewStrategy(ask, ask, ask)),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}: withStatus(policies,
			validatingadmissionpolicy.NewStatusStrategy(policies)),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: object(
			validatingadmissionpolicybinding.NewStrategy(ask, ask, ask)),
		{Group: "resource.k8s.io", Resource: "resourceclaims"}: withStatus(claims, resourceclaim.NewStatusStrategy(claims)),
		{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}: object(
			resourceclaimtemplate.NewStrategy(ask)),
	}
}

// An asker asks the server that the plugins read. Until Start everybody may do everything, and
// nothing can be read.
type asker struct {
	typedcorev1.NamespaceInterface // nil: strategies call nothing but Get
	plugins                        *Plugins
}

var errNotStarted = errors.New("lwenvtest: builtin: the server has not started")

// Authorize implements [authorizer.UnconditionalAuthorizer].
func (a asker) Authorize(ctx context.Context, of authorizer.Attributes) (authorizer.Decision, string, error) {
	if running := a.plugins.chain(); running != nil {
		return running.may.Authorize(ctx, of)
	}
	return authorizer.DecisionAllow, "", nil
}

// Resolve returns the resource of a kind.
func (a asker) Resolve(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	if running := a.plugins.chain(); running != nil {
		return running.kinds.Resolve(kind)
	}
	return schema.GroupVersionResource{}, errNotStarted
}

// Get returns a Namespace.
func (a asker) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Namespace, error) {
	if running := a.plugins.chain(); running != nil {
		return running.client.CoreV1().Namespaces().Get(ctx, name, opts)
	}
	return nil, errNotStarted
}

// GetValidatingAdmissionPolicy returns a policy as strategies see it.
func (a asker) GetValidatingAdmissionPolicy(ctx context.Context, name string) (
	*admissionregistration.ValidatingAdmissionPolicy, error) {
	return read[*admissionregistration.ValidatingAdmissionPolicy](a, func(c kubernetes.Interface) (runtime.Object, error) {
		return c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
	})
}

// GetMutatingAdmissionPolicy returns a policy as strategies see it.
func (a asker) GetMutatingAdmissionPolicy(ctx context.Context, name string) (
	*admissionregistration.MutatingAdmissionPolicy, error) {
	return read[*admissionregistration.MutatingAdmissionPolicy](a, func(c kubernetes.Interface) (runtime.Object, error) {
		return c.AdmissionregistrationV1().MutatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
	})
}

// read returns the internal object of the one that get returns.
func read[T runtime.Object](a asker, get func(c kubernetes.Interface) (runtime.Object, error)) (out T, err error) {
	running := a.plugins.chain()
	if running == nil {
		return out, errNotStarted
	}
	got, err := get(running.client)
	if err != nil {
		return out, err
	}
	made, err := legacyscheme.Scheme.ConvertToVersion(got, runtime.InternalGroupVersioner)
	if err != nil {
		return out, err
	}
	return made.(T), nil
}
