package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const registration = "/apis/admissionregistration.k8s.io/v1/"

func policyOf(kind, spec string) request {
	plural := map[string]string{
		"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
		"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
		"MutatingAdmissionPolicy":          "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
	}[kind]
	return request{"POST", registration + plural, jsonBody,
		`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"p"},"spec":` + spec + `}`}
}

// Each row is a policy, its binding, and what becomes of a widget with n: 1 of alice.
func TestPolicies(t *testing.T) {
	const matched = `"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],"apiVersions":["*"],"operations":["*"],"resources":["widgets"]}]}`
	settings := request{"POST", "/api/v1/namespaces/default/configmaps", jsonBody,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"least":"2"}}`}
	for _, row := range []struct {
		name, policy, binding string
		before                []request
		code                  int
		says                  string
		warnings              []string
	}{
		{name: "an expression", policy: `"validations":[{"expression":"object.spec.n > 1"}]`,
			binding: `"validationActions":["Deny"]`, code: 422,
			says: `"message":"widgets.example.com \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: object.spec.n \u003e 1"`},
		{name: "a message and a reason", policy: `"validations":[{"expression":"object.spec.n > 1","messageExpression":"'n is ' + string(object.spec.n)","reason":"Forbidden"}]`,
			binding: `"validationActions":["Deny"]`, code: 403, says: "denied request: n is 1"},
		{name: "a warning", policy: `"validations":[{"expression":"object.spec.n > 1","message":"too few"}]`,
			binding: `"validationActions":["Warn"]`, code: 201,
			warnings: []string{`299 - "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': too few"`}},
		{name: "variables", policy: `"variables":[{"name":"n","expression":"object.spec.n"}],"validations":[{"expression":"variables.n == 1"}]`,
			binding: `"validationActions":["Deny"]`, code: 201},
		{name: "a condition", policy: `"matchConditions":[{"name":"c","expression":"request.userInfo.username != 'alice'"}],"validations":[{"expression":"false"}]`,
			binding: `"validationActions":["Deny"]`, code: 201},
		{name: "the namespace", policy: `"validations":[{"expression":"namespaceObject.metadata.labels.team == 'b'","message":"team"}]`,
			binding: `"validationActions":["Deny"]`, code: 422, says: "team"},
		{name: "a binding of other namespaces", policy: `"validations":[{"expression":"false"}]`,
			binding: `"validationActions":["Deny"],"matchResources":{"namespaceSelector":{"matchLabels":{"team":"b"}}}`,
			code:    201},
		{name: "parameters", policy: `"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"object.spec.n >= int(params.data.least)"}]`,
			binding: `"validationActions":["Deny"],"paramRef":{"name":"settings","namespace":"default","parameterNotFoundAction":"Deny"}`,
			before:  []request{settings}, code: 422, says: "failed expression: object.spec.n \\u003e= int(params.data.least)"},
		{name: "no parameters", policy: `"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"true"}]`,
			binding: `"validationActions":["Deny"],"paramRef":{"name":"settings","namespace":"default","parameterNotFoundAction":"Deny"}`,
			code:    422, says: "no params found for policy binding with `Deny` parameterNotFoundAction"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, nil)
			for _, r := range append(row.before, policyOf("ValidatingAdmissionPolicy", `{`+matched+`,`+row.policy+`}`),
				policyOf("ValidatingAdmissionPolicyBinding", `{"policyName":"p",`+row.binding+`}`)) {
				if code, answer, _ := c.send(r.method, r.path, r.contentType, r.body); code != 201 {
					t.Fatal(code, answer)
				}
			}
			c.start(t)
			code, answer, warnings := c.send("POST", ofDefault, jsonBody, widgetA)
			if code != row.code || !strings.Contains(answer, row.says) {
				t.Errorf("%d %s\nwant %d %s", code, answer, row.code, row.says)
			}
			if d := cmp.Diff(row.warnings, warnings); d != "" {
				t.Error("warnings: " + d)
			}
		})
	}
}

// A MutatingAdmissionPolicy changes an object of any JSON.
func TestMutatingPolicy(t *testing.T) {
	c := newCluster(t, nil)
	for _, r := range []request{
		policyOf("MutatingAdmissionPolicy", `{"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],"apiVersions":["*"],"operations":["CREATE"],`+
			`"resources":["widgets"]}]},"reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":`+
			`"[JSONPatch{op: 'add', path: '/spec/n', value: object.spec.n + 1}]"}}]}`),
		policyOf("MutatingAdmissionPolicyBinding", `{"policyName":"p"}`),
	} {
		if code, answer, _ := c.send(r.method, r.path, r.contentType, r.body); code != 201 {
			t.Fatal(code, answer)
		}
	}
	c.start(t)
	if code, answer, _ := c.send("POST", ofDefault, jsonBody, widgetA); code != 201 || !strings.Contains(answer,
		`"spec":{"n":2}`) {
		t.Errorf("%d %s", code, answer)
	}
}
