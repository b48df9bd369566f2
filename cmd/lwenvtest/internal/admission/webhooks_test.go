package admission_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/lwtest"
)

func rule(resources ...string) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: resources},
	}
}

// A configured is a webhook of a configuration of the same name.
type configured struct {
	name, path string
	validating bool
	edit       func(w *admissionv1.MutatingWebhook) // also of a validating one
}

func mutating(name, path string, edit ...func(w *admissionv1.MutatingWebhook)) configured {
	return configured{name, path, false, edited(edit)}
}

func validating(name, path string, edit ...func(w *admissionv1.MutatingWebhook)) configured {
	return configured{name, path, true, edited(edit)}
}

func edited(all []func(w *admissionv1.MutatingWebhook)) func(w *admissionv1.MutatingWebhook) {
	return func(w *admissionv1.MutatingWebhook) {
		for _, edit := range all {
			edit(w)
		}
	}
}

// configure creates the configurations of webhooks.
func (c *cluster) configure(t *testing.T, all []configured) {
	for _, h := range all {
		w := admissionv1.MutatingWebhook{
			Name: h.name, ClientConfig: admissionv1.WebhookClientConfig{URL: ptr(c.hooks.URL + h.path), CABundle: c.ca()},
			Rules: []admissionv1.RuleWithOperations{rule("widgets")}, SideEffects: ptr(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}
		h.edit(&w)
		var err error
		if h.validating {
			_, err = lwtest.Objects[*admissionv1.ValidatingWebhookConfiguration](c.Server,
				"validatingwebhookconfigurations").Create(
				&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: h.name},
					Webhooks: []admissionv1.ValidatingWebhook{{
						Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, SideEffects: w.SideEffects,
						FailurePolicy: w.FailurePolicy,
						MatchPolicy:   w.MatchPolicy, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
						TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions,
						MatchConditions: w.MatchConditions,
					}}})
		} else {
			_, err = lwtest.Objects[*admissionv1.MutatingWebhookConfiguration](c.Server, "mutatingwebhookconfigurations").Create(
				&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: h.name},
					Webhooks: []admissionv1.MutatingWebhook{w}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

const (
	v1          = "/apis/example.com/v1/namespaces/"
	ofDefault   = v1 + "default/widgets"
	jsonBody    = "application/json"
	mergePatch  = "application/merge-patch+json"
	applyPatch  = "application/apply-patch+yaml"
	widgetHead  = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":`
	pods        = "/api/v1/namespaces/default/pods"
	widgetA     = widgetHead + `{"name":"a","labels":{"x":"y"}},"spec":{"n":1}}`
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	deployA     = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":1,` +
		`"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
)

type request struct{ method, path, contentType, body string }

// Each row is what kube-apiserver does with one webhook, or two: which requests it sends, and what
// it answers to the last one.
func TestWebhooks(t *testing.T) {
	type edit = func(w *admissionv1.MutatingWebhook)
	on := func(rules ...admissionv1.RuleWithOperations) edit {
		return func(w *admissionv1.MutatingWebhook) { w.Rules = rules }
	}
	ops := func(all ...admissionv1.OperationType) edit {
		return func(w *admissionv1.MutatingWebhook) { w.Rules[0].Operations = all }
	}
	objects := func(label string) edit {
		return func(w *admissionv1.MutatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": label}}
		}
	}
	namespaces := func(team string) edit {
		return func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
		}
	}
	when := func(expression string) edit {
		return func(w *admissionv1.MutatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: expression}}
		}
	}
	ignore := func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = ptr(admissionv1.Ignore) }
	second := func(w *admissionv1.MutatingWebhook) { w.TimeoutSeconds = ptr(int32(1)) }
	again := func(w *admissionv1.MutatingWebhook) {
		w.ReinvocationPolicy = ptr(admissionv1.IfNeededReinvocationPolicy)
	}
	scoped := func(s admissionv1.ScopeType) edit {
		return func(w *admissionv1.MutatingWebhook) { w.Rules[0].Scope = &s }
	}
	exact := func(w *admissionv1.MutatingWebhook) { w.MatchPolicy = ptr(admissionv1.Exact) }
	version := func(v string) edit {
		return func(w *admissionv1.MutatingWebhook) { w.Rules[0].APIVersions = []string{v} }
	}
	add := func(value string) hook {
		return func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
			return patch(`[{"op":"add","path":"/spec/n","value":` + value + `}]`)(r)
		}
	}
	create := request{"POST", ofDefault, jsonBody, widgetA}
	get := func(path, body string) request { return request{"PATCH", ofDefault + path, mergePatch, body} }
	denied := deny(&metav1.Status{Message: "no", Code: http.StatusTeapot, Reason: "Teapot"})

	for _, row := range []struct {
		name     string
		hooks    []configured
		answers  map[string]hook
		requests []request
		code     int
		says     string // in the last answer
		warnings []string
		calls    string // the paths of all requests to webhooks
	}{
		{name: "a patch", hooks: []configured{mutating("m.x.y", "/m")}, answers: map[string]hook{"/m": add("2")},
			requests: []request{create}, code: 201, says: `"spec":{"n":2}`, calls: "/m"},
		{name: "two configurations in the order of their names", hooks: []configured{mutating("b.x.y", "/b"),
			mutating("a.x.y", "/a")},
			answers: map[string]hook{"/a": add("2"), "/b": add("3")}, requests: []request{create}, code: 201, says: `"n":3`,
			calls: "/a /b"},
		{name: "mutating before validating", hooks: []configured{validating("a.x.y", "/v"), mutating("b.x.y", "/m")},
			answers: map[string]hook{"/m": add("2"), "/v": allow}, requests: []request{create}, code: 201, says: `"n":2`,
			calls: "/m /v"},
		{name: "denied with a status", hooks: []configured{validating("v.x.y", "/v")}, answers: map[string]hook{"/v": denied},
			requests: []request{create}, code: 418,
			says: `"message":"admission webhook \"v.x.y\" denied the request: no","reason":"Teapot","code":418`, calls: "/v"},
		{name: "denied with a reason", hooks: []configured{mutating("m.x.y", "/m")},
			answers: map[string]hook{"/m": deny(&metav1.Status{Reason: "Because"})}, requests: []request{create}, code: 400,
			says: `admission webhook \"m.x.y\" denied the request: Because`, calls: "/m"},
		{name: "denied without a word", hooks: []configured{validating("v.x.y", "/v")},
			answers:  map[string]hook{"/v": deny(nil)},
			requests: []request{create}, code: 400, says: `admission webhook \"v.x.y\" denied the request without explanation`, calls: "/v"},
		{name: "warnings", hooks: []configured{validating("v.x.y", "/v")},
			answers: map[string]hook{"/v": func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
				return &reviewv1.AdmissionResponse{Allowed: true, Warnings: []string{"be careful"}}
			}}, requests: []request{create}, code: 201, warnings: []string{`299 - "be careful"`}, calls: "/v"},
		{name: "no answer", hooks: []configured{validating("v.x.y", "/none", second)}, requests: []request{create}, code: 500,
			says: `Internal error occurred: failed calling webhook \"v.x.y\": failed to call webhook: Post \"`, calls: "/none"},
		{name: "no answer, ignored", hooks: []configured{validating("v.x.y", "/none", second, ignore)},
			requests: []request{create}, code: 201, calls: "/none"},
		{name: "a service that is not there", hooks: []configured{mutating("m.x.y", "", func(w *admissionv1.MutatingWebhook) {
			w.ClientConfig.URL, w.ClientConfig.Service = nil, &admissionv1.ServiceReference{Namespace: "default",
				Name: "hooks", Path: ptr("/m")}
		})}, requests: []request{create}, code: 500,
			says: `failed calling webhook \"m.x.y\": failed to call webhook: Post \"https://hooks.default.svc:443/m?timeout=10s\": service \"hooks\" not found`},
		{name: "an unknown authority", hooks: []configured{mutating("m.x.y", "/m",
			func(w *admissionv1.MutatingWebhook) { w.ClientConfig.CABundle = nil })},
			requests: []request{create}, code: 500, says: "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{name: "v1beta1", hooks: []configured{validating("v.x.y", "/v", func(w *admissionv1.MutatingWebhook) {
			w.AdmissionReviewVersions = []string{"v2", "v1beta1"}
		})}, answers: map[string]hook{"/v": allow}, requests: []request{create}, code: 201, calls: "/v"},
		{name: "another resource", hooks: []configured{validating("v.x.y", "/v", on(rule("gadgets")))},
			requests: []request{create}, code: 201},
		{name: "another group", hooks: []configured{validating("v.x.y", "/v", func(w *admissionv1.MutatingWebhook) {
			w.Rules[0].APIGroups = []string{""}
		})}, requests: []request{create}, code: 201},
		{name: "another operation", hooks: []configured{validating("v.x.y", "/v", ops(admissionv1.Update,
			admissionv1.Delete))},
			requests: []request{create}, code: 201},
		{name: "any resource", hooks: []configured{validating("v.x.y", "/v", on(rule("*")))},
			answers:  map[string]hook{"/v": denied},
			requests: []request{create}, code: 418, calls: "/v"},
		{name: "the status is another resource", hooks: []configured{validating("v.x.y", "/v", on(rule("*")),
			ops(admissionv1.Update))},
			requests: []request{create, get("/a/status", `{"status":{"n":1}}`)}, code: 200, says: `"status":{"n":1}`},
		{name: "the status", hooks: []configured{validating("v.x.y", "/v", on(rule("widgets/status")))},
			answers:  map[string]hook{"/v": denied},
			requests: []request{create, get("/a/status", `{"status":{"n":1}}`)}, code: 418, calls: "/v"},
		{name: "any status", hooks: []configured{validating("v.x.y", "/v", on(rule("*/status")))},
			answers:  map[string]hook{"/v": denied},
			requests: []request{create, get("/a/status", `{"status":{"n":1}}`)}, code: 418, calls: "/v"},
		{name: "any and its subresources", hooks: []configured{validating("v.x.y", "/v", on(rule("*/*")))},
			answers:  map[string]hook{"/v": denied},
			requests: []request{create}, code: 418, calls: "/v"},
		{name: "namespaced alone", hooks: []configured{validating("v.x.y", "/v", scoped(admissionv1.NamespacedScope))},
			answers: map[string]hook{"/v": denied}, requests: []request{create}, code: 418, calls: "/v"},
		{name: "of the cluster alone", hooks: []configured{validating("v.x.y", "/v", scoped(admissionv1.ClusterScope))},
			requests: []request{create}, code: 201},

		{name: "another version, exact", hooks: []configured{validating("v.x.y", "/v", version("v2"), exact)},
			requests: []request{create}, code: 201},
		{name: "another version, equivalent", hooks: []configured{mutating("m.x.y", "/m", version("v2"))},
			answers: map[string]hook{"/m": func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
				says := fmt.Sprint(r.Kind.Version, r.Resource.Version, r.RequestKind.Version, r.RequestResource.Version,
					strings.Contains(string(r.Object.Raw), `"apiVersion":"example.com/v2"`))
				return patch(`[{"op":"add","path":"/spec/n","value":"` + says + `"}]`)(r)
			}}, requests: []request{create}, code: 201, says: `{"n":"v2v2v1v1true"}`, calls: "/m"},

		{name: "labels of the object", hooks: []configured{validating("v.x.y", "/v", objects("y"))},
			answers:  map[string]hook{"/v": denied},
			requests: []request{create}, code: 418, calls: "/v"},
		{name: "other labels of the object", hooks: []configured{validating("v.x.y", "/v", objects("z"))},
			requests: []request{create}, code: 201},
		{name: "labels that it had", hooks: []configured{validating("v.x.y", "/v", objects("y"),
			ops(admissionv1.Update))}, answers: map[string]hook{"/v": denied},
			requests: []request{create, get("/a", `{"metadata":{"labels":null}}`)}, code: 418, calls: "/v"},
		{name: "labels of the namespace", hooks: []configured{validating("v.x.y", "/v", namespaces("a"))},
			answers:  map[string]hook{"/v": denied},
			requests: []request{create}, code: 418, calls: "/v"},
		{name: "a namespace without labels", hooks: []configured{validating("v.x.y", "/v", namespaces("a"))},
			requests: []request{{"POST", v1 + "other/widgets", jsonBody, widgetA}}, code: 201},
		{name: "a condition", hooks: []configured{validating("v.x.y", "/v",
			when(`object.spec.n == 1 && request.userInfo.username == "alice"`))},
			answers: map[string]hook{"/v": denied}, requests: []request{create}, code: 418, calls: "/v"},
		{name: "another condition", hooks: []configured{validating("v.x.y", "/v", when(`object.spec.n > 1`))},
			requests: []request{create}, code: 201},
		{name: "a condition that fails", hooks: []configured{validating("v.x.y", "/v", when(`object.spec.none == 1`))},
			requests: []request{create},
			code:     403, says: "no such key: none"},

		{name: "once for each", hooks: []configured{mutating("a.x.y", "/a"), mutating("b.x.y", "/b")},
			answers: map[string]hook{"/a": allow, "/b": add("2")}, requests: []request{create}, code: 201, calls: "/a /b"},
		{name: "again if a later one changes the object", hooks: []configured{mutating("a.x.y", "/a", again),
			mutating("b.x.y", "/b")},
			answers: map[string]hook{"/a": allow, "/b": add("2")}, requests: []request{create}, code: 201, calls: "/a /b /a"},
		{name: "not again if nothing changes", hooks: []configured{mutating("a.x.y", "/a", again), mutating("b.x.y", "/b")},
			answers: map[string]hook{"/a": add("2"), "/b": allow}, requests: []request{create}, code: 201, calls: "/a /b"},

		{name: "a dry run", hooks: []configured{validating("v.x.y", "/v")}, answers: map[string]hook{"/v": denied},
			requests: []request{{"POST", ofDefault + "?dryRun=All", jsonBody, widgetA}}, code: 418, calls: "/v"},
		{name: "a patch of a deletion", hooks: []configured{mutating("m.x.y", "/m", ops(admissionv1.Delete))},
			answers:  map[string]hook{"/m": add("2")},
			requests: []request{create, {"DELETE", ofDefault + "/a", "", ""}}, code: 500,
			says:  `admission webhook \"m.x.y\" attempted to modify the object, which is not supported for this operation`,
			calls: "/m"},
		{name: "each object of a deletion of many", hooks: []configured{validating("v.x.y", "/v",
			ops(admissionv1.Delete))}, answers: map[string]hook{"/v": allow},
			requests: []request{create, {"POST", ofDefault, jsonBody, strings.Replace(widgetA, `"a"`, `"b"`, 1)}, {"DELETE",
				ofDefault, "", ""}},
			code: 200, calls: "/v /v"},
		{name: "an apply that creates", hooks: []configured{validating("v.x.y", "/v", ops(admissionv1.Create))},
			answers:  map[string]hook{"/v": denied},
			requests: []request{{"PATCH", ofDefault + "/a?fieldManager=m", applyPatch, widgetA}}, code: 418, calls: "/v"},
		{name: "a typed object", hooks: []configured{mutating("m.x.y", "/m", on(rule("deployments")))},
			answers:  map[string]hook{"/m": patch(`[{"op":"add","path":"/spec/template/spec/containers/0/image","value":"j"}]`)},
			requests: []request{{"POST", deployments, jsonBody, deployA}}, code: 201, says: `"image":"j"`, calls: "/m"},
		{name: "a scale", hooks: []configured{mutating("m.x.y", "/m", on(rule("deployments/scale")))},
			answers: map[string]hook{"/m": func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
				if r.Kind.Kind != "Scale" {
					return denied(r)
				}
				return patch(`[{"op":"replace","path":"/spec/replicas","value":7}]`)(r)
			}}, requests: []request{{"POST", deployments, jsonBody, deployA}, {"PATCH", deployments + "/a/scale", mergePatch,
				`{"spec":{"replicas":3}}`}},
			code: 200, says: `"replicas":7`, calls: "/m"},
		{name: "a binding", hooks: []configured{validating("v.x.y", "/v", on(rule("pods/binding")), ops(admissionv1.Create))},
			answers: map[string]hook{"/v": func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
				return deny(&metav1.Status{Message: r.Kind.Kind + " " + string(r.Object.Raw)})(r)
			}}, requests: []request{{"POST", pods, jsonBody, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}`},
				{"POST", pods + "/a/binding", jsonBody, `{"metadata":{"name":"a"},"target":{"name":"n"}}`}},
			code: 400, says: `denied the request: Binding {\"apiVersion\":\"v1\",\"kind\":\"Binding\"`, calls: "/v"},
		{name: "an eviction", hooks: []configured{validating("v.x.y", "/v", on(rule("pods/eviction")), ops(admissionv1.Create))},
			answers: map[string]hook{"/v": func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
				return deny(&metav1.Status{Message: string(r.Options.Raw) + " " + string(r.Object.Raw)})(r)
			}}, requests: []request{{"POST", pods, jsonBody, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}`},
				{"POST", pods + "/a/eviction", jsonBody, `{"metadata":{"name":"a"}}`}},
			code: 400, says: `denied the request: {\"kind\":\"CreateOptions\",\"apiVersion\":\"meta.k8s.io/v1\"} {\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\"`,
			calls: "/v"},
		{name: "an eviction that is admitted", hooks: []configured{
			mutating("m.x.y", "/m", on(rule("pods/eviction"))),
			validating("v.x.y", "/v", on(rule("pods/eviction")), ops(admissionv1.Create)),
			validating("w.x.y", "/w", on(rule("pods")), ops(admissionv1.Update, admissionv1.Delete))},
			answers: map[string]hook{"/m": patch(`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`), "/v": allow},
			requests: []request{{"POST", pods, jsonBody, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}`},
				{"POST", pods + "/a/eviction", jsonBody, `{"metadata":{"name":"a"}}`}},
			code: 201, says: `"status":"Success"`, calls: "/m /v"},
		{name: "no configuration of webhooks", hooks: []configured{validating("v.x.y", "/v", on(rule("*")))},
			requests: []request{{"POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", jsonBody,
				`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w"}}`}}, code: 201},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, row.answers)
			c.configure(t, row.hooks)
			c.start(t)
			var code int
			var answer string
			var warnings []string
			for i, r := range row.requests {
				if code, answer, warnings = c.send(r.method, r.path, r.contentType,
					r.body); code >= 300 && i < len(row.requests)-1 {
					t.Fatalf("%s %s: %d %s", r.method, r.path, code, answer)
				}
			}
			if code != row.code || !strings.Contains(answer, row.says) {
				t.Errorf("%d %s\nwant %d %s", code, answer, row.code, row.says)
			}
			if d := cmp.Diff(row.warnings, warnings); d != "" {
				t.Error("warnings: " + d)
			}
			if calls := strings.Join(c.paths, " "); calls != row.calls {
				t.Errorf("called: %s, want %s", calls, row.calls)
			}
		})
	}
}

// The reviews of a create with a generated name, an update and a deletion.
func TestReviews(t *testing.T) {
	c := newCluster(t, map[string]hook{"/m": allow, "/v": allow})
	c.configure(t, []configured{mutating("m.x.y", "/m"), validating("v.x.y", "/v")})
	c.start(t)
	code, answer, _ := c.send("POST", ofDefault+"?fieldManager=me", jsonBody, widgetHead+`{"generateName":"g-"}}`)
	name := ""
	if _, after, ok := strings.Cut(answer, `"name":"`); ok {
		name, _, _ = strings.Cut(after, `"`)
	}
	for _, r := range []request{{"PATCH", ofDefault + "/" + name, mergePatch, `{"spec":{"n":1}}`}, {"DELETE",
		ofDefault + "/" + name, "", ""}} {
		if code < 300 {
			code, answer, _ = c.send(r.method, r.path, r.contentType, r.body)
		}
	}
	if code != http.StatusOK {
		t.Fatal(code, answer)
	}
	type seen struct {
		Path, Name, Namespace, User, Group, Extra string
		Operation                                 reviewv1.Operation
		Object, Old, ObjectName, Born             bool
		Options                                   string
		DryRun                                    bool
	}
	var all []seen
	for i, review := range c.reviews {
		r := review.Request
		all = append(all, seen{
			c.paths[i], r.Name, r.Namespace, r.UserInfo.Username + r.UserInfo.UID, strings.Join(r.UserInfo.Groups, ","),
			r.UserInfo.Extra["scopes"].String(),
			r.Operation, some(r.Object), some(r.OldObject), strings.Contains(string(r.Object.Raw), `"name":"`+name+`"`),
			strings.Contains(string(r.Object.Raw), `"creationTimestamp":"`), string(r.Options.Raw), *r.DryRun,
		})
		if r.UID == "" || slices.ContainsFunc(c.reviews[:i], func(o *reviewv1.AdmissionReview) bool { return o.Request.UID == r.UID }) {
			t.Errorf("the review %d has the UID %q", i, r.UID)
		}
	}
	who := seen{Namespace: "default", User: "alice1", Group: "dev", Extra: "[a]"}
	row := func(path, name string, op reviewv1.Operation, object, old, named, born bool, options string) seen {
		s := who
		s.Path, s.Name, s.Operation, s.Object, s.Old, s.ObjectName, s.Born, s.Options = path, name, op, object, old,
			named, born, options
		return s
	}
	const (
		creates = `{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"me"}`
		updates = `{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1"}`
		deletes = `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`
	)
	want := []seen{
		row("/m", "", reviewv1.Create, true, false, false, false, creates), row("/v", name, reviewv1.Create, true, false,
			true, true, creates),
		row("/m", name, reviewv1.Update, true, true, true, true, updates), row("/v", name, reviewv1.Update, true, true,
			true, true, updates),
		row("/m", name, reviewv1.Delete, false, true, false, false, deletes), row("/v", name, reviewv1.Delete, false,
			true, false, false, deletes),
	}
	if d := cmp.Diff(want, all); d != "" {
		t.Error(d)
	}
}

// some reports whether a review has an object.
func some(o runtime.RawExtension) bool { return len(o.Raw) > 0 && string(o.Raw) != "null" }
