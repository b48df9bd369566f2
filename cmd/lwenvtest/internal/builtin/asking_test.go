package builtin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
)

// asked returns the client of the user jane, who may not read what the server then notes, and that of
// the server itself.
func asked(t *testing.T) (jane, own kubernetes.Interface, notes *[]string) {
	p, all := &Plugins{}, cluster.Resources()
	for i := range all {
		all[i] = Rules(all[i], p)
	}
	s := lwtest.NewServer(t, all...)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(lwtest.WithUser(r.Context(), lwtest.User{Username: "jane"})))
	}))
	t.Cleanup(front.Close)
	notes = new([]string)
	deny := func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		*notes = append(*notes, strings.Join([]string{a.GetUser().GetName(), a.GetVerb(), a.GetAPIGroup(),
			a.GetAPIVersion(), a.GetResource(), a.GetNamespace(), a.GetName()}, " "))
		return authorizer.DecisionDeny, "", nil
	}
	config := &rest.Config{Host: s.URL(), Transport: s.Client().Transport, QPS: -1}
	if err := p.Start(t.Context(), config, authorizer.AuthorizerFunc(deny)); err != nil {
		t.Fatal(err)
	}
	var clients [2]kubernetes.Interface
	for i, config := range []*rest.Config{{Host: front.URL, QPS: -1}, config} {
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		clients[i] = c
	}
	return clients[0], clients[1], notes
}

// Who makes a policy must be allowed to read its parameters, and a policy must be one.
func TestPolicies(t *testing.T) {
	jane, own, notes := asked(t)
	ctx, create := t.Context(), metav1.CreateOptions{}
	match := &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		},
	}}}
	validating := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	validating.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: match, Validations: []admissionv1.Validation{{Expression: "object.metadata.name =="}},
	}
	policies := own.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	_, err := policies.Create(ctx, validating, create)
	invalid(t, "an expression", err, "spec.validations[0].expression: Invalid value")
	validating.Spec.Validations[0].Expression = "object.metadata.name == params.metadata.name"
	validating.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	_, err = jane.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, validating, create)
	invalid(t, "parameters", err, "spec.paramKind: Forbidden: user")
	made, err := policies.Create(ctx, validating, create) // the server itself may do everything
	if err != nil {
		t.Fatal(err)
	}
	if made.Generation != 1 || *made.Spec.FailurePolicy != admissionv1.Fail ||
		*made.Spec.MatchConstraints.MatchPolicy != admissionv1.Equivalent {
		t.Errorf("a policy with its defaults: %+v", made)
	}
	bound := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	bound.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "a", ParamRef: &admissionv1.ParamRef{Namespace: "n", Name: "c",
			ParameterNotFoundAction: new(admissionv1.DenyAction)},
	}
	_, err = jane.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, bound, create)
	invalid(t, "a binding", err, "spec.validationActions: Required value")
	bound.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	_, err = jane.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, bound, create)
	invalid(t, "a binding", err, "spec.paramRef: Forbidden: user")

	mutating := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	mutating.Spec = admissionv1.MutatingAdmissionPolicySpec{MatchConstraints: match, ParamKind: validating.Spec.ParamKind}
	_, err = own.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(ctx, mutating, create)
	invalid(t, "no mutation", err, "spec.mutations: Required value")
	mutating.Spec.ReinvocationPolicy = admissionv1.NeverReinvocationPolicy
	mutating.Spec.Mutations = []admissionv1.Mutation{{
		PatchType: admissionv1.PatchTypeApplyConfiguration,
		ApplyConfiguration: &admissionv1.ApplyConfiguration{
			Expression: `Object{metadata: Object.metadata{labels: {"a": "b"}}}`,
		},
	}}
	_, err = jane.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(ctx, mutating, create)
	invalid(t, "parameters", err, "spec.paramKind: Forbidden: user")
	if _, err = own.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(ctx, mutating, create); err != nil {
		t.Fatal(err)
	}
	also := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	also.Spec = admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "a", ParamRef: bound.Spec.ParamRef}
	_, err = jane.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(ctx, also, create)
	invalid(t, "a binding", err, "spec.paramRef: Forbidden: user")

	want := []string{"jane get  v1 configmaps * *", "jane get  v1 configmaps n c", "jane get  v1 configmaps * *",
		"jane get  v1 configmaps n c"}
	if diff := cmp.Diff(want, *notes); diff != "" {
		t.Errorf("what the server asked (-want +got):\n%s", diff)
	}
}

// A claim has rules, and only some namespaces may have access to devices that are in use.
func TestClaims(t *testing.T) {
	_, own, _ := asked(t)
	ctx, create := t.Context(), metav1.CreateOptions{}
	for name, labels := range map[string]map[string]string{
		"n": nil, "admin": {resourcev1.DRAAdminNamespaceLabelKey: "true"},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if _, err := own.CoreV1().Namespaces().Create(ctx, ns, create); err != nil {
			t.Fatal(err)
		}
	}
	devices := func(class string, admin bool) resourcev1.ResourceClaimSpec {
		return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AdminAccess: &admin},
		}}}}
	}
	claims := own.ResourceV1().ResourceClaims
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: devices("", false)}
	_, err := claims("n").Create(ctx, claim, create)
	invalid(t, "no class", err, "spec.devices.requests[0].exactly.deviceClassName: Required value")
	claim.Spec = devices("gpus", true)
	_, err = claims("n").Create(ctx, claim, create)
	invalid(t, "admin access", err, "spec.devices.requests[0].adminAccess: Forbidden")
	made, err := claims("admin").Create(ctx, claim, create)
	if err != nil {
		t.Fatal(err)
	}
	exactly := made.Spec.Devices.Requests[0].Exactly
	if exactly.AllocationMode != resourcev1.DeviceAllocationModeExactCount || exactly.Count != 1 {
		t.Errorf("a claim with its defaults: %+v", exactly)
	}
	made.Spec = devices("others", true)
	_, err = claims("admin").Update(ctx, made, metav1.UpdateOptions{})
	invalid(t, "another class", err, "spec: Invalid value")
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	template.Spec.Spec = devices("gpus", true)
	_, err = own.ResourceV1().ResourceClaimTemplates("n").Create(ctx, template, create)
	invalid(t, "the admin access of a template", err, "spec.devices.requests[0].adminAccess: Forbidden")
}
