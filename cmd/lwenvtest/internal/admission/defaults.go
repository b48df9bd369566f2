package admission

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/lwtest"
)

// Resources are those of which the plugins take their configurations, with kube-apiserver's
// defaults.
func Resources() []lwtest.Resource {
	all := []lwtest.Resource{
		{Plural: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration", Type: &admissionv1.MutatingWebhookConfiguration{}},
		{Plural: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration", Type: &admissionv1.ValidatingWebhookConfiguration{}},
		{Plural: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy", Type: &admissionv1.ValidatingAdmissionPolicy{}, Status: true},
		{Plural: "validatingadmissionpolicybindings", Kind: "ValidatingAdmissionPolicyBinding", Type: &admissionv1.ValidatingAdmissionPolicyBinding{}},
		{Plural: "mutatingadmissionpolicies", Kind: "MutatingAdmissionPolicy", Type: &admissionv1.MutatingAdmissionPolicy{}},
		{Plural: "mutatingadmissionpolicybindings", Kind: "MutatingAdmissionPolicyBinding", Type: &admissionv1.MutatingAdmissionPolicyBinding{}},
	}
	for i := range all {
		all[i].Group, all[i].Version, all[i].Cluster, all[i].Managed = admissionv1.GroupName, "v1", true, true
		all[i].Default = func(_ context.Context, a lwtest.Admission) error {
			fill(a.Object)
			return nil
		}
	}
	return all
}

// is sets what nobody has set.
func is[T any](at **T, value T) {
	if *at == nil {
		*at = &value
	}
}

// fill gives a configuration what its author has left out.
func fill(o runtime.Object) {
	switch o := o.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			is(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
			fillWebhook(&w.FailurePolicy, &w.TimeoutSeconds, &w.ClientConfig)
			fillMatch(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
			fillRules(w.Rules)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			fillWebhook(&w.FailurePolicy, &w.TimeoutSeconds, &w.ClientConfig)
			fillMatch(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
			fillRules(w.Rules)
		}
	case *admissionv1.ValidatingAdmissionPolicy:
		is(&o.Spec.FailurePolicy, admissionv1.Fail)
		fillResources(o.Spec.MatchConstraints)
	case *admissionv1.MutatingAdmissionPolicy:
		is(&o.Spec.FailurePolicy, admissionv1.Fail)
		fillResources(o.Spec.MatchConstraints)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		fillResources(o.Spec.MatchResources)
	case *admissionv1.MutatingAdmissionPolicyBinding:
		fillResources(o.Spec.MatchResources)
	}
}

func fillWebhook(failure **admissionv1.FailurePolicyType, timeout **int32, client *admissionv1.WebhookClientConfig) {
	is(failure, admissionv1.Fail)
	is(timeout, 10)
	if client.Service != nil {
		is(&client.Service.Port, 443)
	}
}

func fillMatch(policy **admissionv1.MatchPolicyType, namespaces, objects **metav1.LabelSelector) {
	is(policy, admissionv1.Equivalent)
	is(namespaces, metav1.LabelSelector{})
	is(objects, metav1.LabelSelector{})
}

func fillRules(rules []admissionv1.RuleWithOperations) {
	for i := range rules {
		is(&rules[i].Scope, admissionv1.AllScopes)
	}
}

func fillResources(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	fillMatch(&m.MatchPolicy, &m.NamespaceSelector, &m.ObjectSelector)
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			is(&rules[i].Scope, admissionv1.AllScopes)
		}
	}
}
