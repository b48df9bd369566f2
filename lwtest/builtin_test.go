package lwtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw/lwtest"
)

// A step is a request and what a real server answers.
type step struct {
	method, path, contentType, body string
	code                            int
	says                            string // a part of the answer
}

func run(t *testing.T, s *lwtest.Server, steps []step) {
	t.Helper()
	for _, step := range steps {
		if code, body := sendWrite(s, step.method, step.path, step.contentType, step.body); code != step.code || !strings.Contains(body, step.says) {
			t.Errorf("%s %s %s:\n%d %s\nwant %d %s", step.method, step.path, step.body, code, body, step.code, step.says)
		}
	}
}

const asJSON = "application/json"

// Namespaces begin, and end, as those of a real server do.
func TestNamespacesEnd(t *testing.T) {
	s := lwtest.NewServer(t, jobs, lwtest.Resource{Plural: "namespaces", Kind: "Namespace", Cluster: true, Status: true, Ends: true})
	const (
		all = "/api/v1/namespaces"
		a   = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"`
		job = `{"apiVersion":"example.com/v1","kind":"Job","metadata":`
		in  = "/apis/example.com/v1/namespaces/a/jobs"
	)
	run(t, s, []step{
		{"POST", in, asJSON, job + `{"name":"x"}}`, 404, `"message":"namespaces \"a\" not found"`},
		{"PATCH", in + "/x?fieldManager=m", applyPatch, job + `{"name":"x"}}`, 404, `namespaces \"a\" not found`},
		{"POST", all, asJSON, a + `},"status":{"phase":"Odd"}}`, 201, `"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}`},
		{"POST", all, asJSON, `{"metadata":{"name":"default"}}`, 201, `"labels":{"kubernetes.io/metadata.name":"default"}`},
		{"PATCH", all + "/a", mergePatch, `{"spec":{"finalizers":null}}`, 200, `"finalizers":["kubernetes"]`},
		{"POST", in, asJSON, job + `{"name":"x"}}`, 201, ""},
		{"DELETE", all + "/default", "", "", 403, `namespaces \"default\" is forbidden: this namespace may not be deleted`},
		{"DELETE", all + "/a?dryRun=All", "", "", 200, `"phase":"Terminating"`},
		{"POST", in, asJSON, job + `{"name":"y"}}`, 201, ""},
		{"DELETE", all + "/a", "", "", 200, `"status":{"phase":"Terminating"}`},
		{"DELETE", all + "/a", "", "", 200, `"status":{"phase":"Terminating"}`},
		{"POST", in, asJSON, job + `{"name":"z"}}`, 403,
			`jobs.example.com \"z\" is forbidden: unable to create new content in namespace a because it is being terminated`},
		{"POST", in, asJSON, job + `{"generateName":"z-"}}`, 403,
			`"causes":[{"reason":"NamespaceTerminating","message":"namespace a is being terminated","field":"metadata.namespace"}]`},
		{"GET", in + "/x", "", "", 200, ""},
		{"PATCH", in + "/x", mergePatch, `{"spec":{"n":1}}`, 200, ""},
		{"DELETE", in + "/x", "", "", 200, ""},
		{"PATCH", all + "/a/finalize", mergePatch, `{"spec":{"finalizers":null}}`, 405, ""},
		{"PUT", all + "/a/finalize", asJSON, a + `},"spec":{},"status":{"phase":"Active"}}`, 200, `"phase":"Terminating"`},
		{"GET", all + "/a", "", "", 404, ""},
		{"POST", all, asJSON, a + `,"finalizers":["x.y/z"]}}`, 201, ""},
		{"DELETE", all + "/a", "", "", 200, ""},
		{"PUT", all + "/a/finalize", asJSON, a + `,"finalizers":["x.y/z"]},"spec":{}}`, 200, ""},
		{"GET", all + "/a", "", "", 200, `"phase":"Terminating"`},
		{"PATCH", all + "/a", mergePatch, `{"metadata":{"finalizers":null}}`, 200, ""},
		{"GET", all + "/a", "", "", 404, ""},
	})
}

// An object that another resource shows too is one object, with one list of managers.
func TestAlso(t *testing.T) {
	s := lwtest.NewServer(t, lwtest.Resource{
		Plural: "notes", Kind: "Note", Fields: []string{"text"}, Managed: true,
		Convert: func(obj *unstructured.Unstructured, version string) error {
			from, to := "text", "note"
			if version == "v1" {
				from, to = to, from
			}
			obj.Object[to] = obj.Object[from]
			delete(obj.Object, from)
			return nil
		},
		Also: []lwtest.Resource{{Group: "notes.k8s.io", Plural: "notes", Kind: "Note", Fields: []string{"note"}, Managed: true}},
	})
	const core, other = "/api/v1/namespaces/a/notes", "/apis/notes.k8s.io/v1/namespaces/a/notes"
	run(t, s, []step{
		{"POST", core, asJSON, `{"metadata":{"name":"x"},"text":"1"}`, 201, `"text":"1"`},
		{"POST", other, asJSON, `{"metadata":{"name":"y"},"note":"2"}`, 201, `"apiVersion":"notes.k8s.io/v1"`},
		{"GET", other + "/x", "", "", 200, `"note":"1"`},
		{"GET", core + "/y", "", "", 200, `"text":"2"`},
		{"GET", other + "?fieldSelector=note=1", "", "", 200, `"name":"x"`},
		{"GET", other + "?fieldSelector=text=1", "", "", 400, "field label not supported: text"},
		{"GET", core + "?fieldSelector=note=1", "", "", 400, "field label not supported: note"},
		{"DELETE", other + "?fieldSelector=note=1", "", "", 200, `"name":"x"`},
		{"GET", core + "/x", "", "", 404, ""},
		{"PATCH", core + "/y?fieldManager=m", applyPatch, `{"apiVersion":"v1","kind":"Note","metadata":{"name":"y"},"text":"3"}`, 409,
			`using notes.k8s.io/v1: .note`},
		{"PATCH", core + "/y?fieldManager=m&force=true", applyPatch, `{"apiVersion":"v1","kind":"Note","metadata":{"name":"y"},"text":"3"}`, 200, ""},
		{"GET", other + "/y", "", "", 200, `"note":"3"`},
	})
}

// The subresources of Pods and CertificateSigningRequests change what they do on a real server, and
// nothing else.
func TestSubresources(t *testing.T) {
	s := lwtest.NewServer(t,
		lwtest.Resource{Plural: "pods", Kind: "Pod", Status: true, Managed: true},
		lwtest.Resource{Plural: "nodes", Kind: "Node", Cluster: true},
		lwtest.Resource{Plural: "services", Kind: "Service", Status: true},
		lwtest.Resource{Group: "policy", Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Status: true},
		lwtest.Resource{Group: "certificates.k8s.io", Plural: "certificatesigningrequests", Kind: "CertificateSigningRequest", Cluster: true, Status: true})
	const (
		pods = "/api/v1/namespaces/default/pods"
		csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
		pdbs = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	)
	t.Run("binding", func(t *testing.T) {
		binding := func(name, more string) string {
			return `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"` + name + `"` + more + `},"target":{"kind":"Node","name":"n"}}`
		}
		run(t, s, []step{
			{"POST", pods, asJSON, `{"metadata":{"name":"b"},"spec":{"containers":[]}}`, 201, ""},
			{"POST", pods + "/b/binding", asJSON, binding("c", ""), 400, "name in URL does not match name in Binding object"},
			{"POST", pods + "/c/binding", asJSON, binding("c", ""), 404, `pods \"c\" not found`},
			{"POST", pods + "/b/binding", asJSON, `{"metadata":{"name":"b"},"target":{"kind":"Node"}}`, 500, "target.name: Required value"},
			{"POST", pods + "/b/binding", asJSON, binding("b", `,"uid":"other"`), 409, "Precondition failed: UID in precondition: other"},
			{"POST", pods + "/b/binding?dryRun=All", asJSON, binding("b", ""), 201, ""},
			{"POST", pods + "/b/binding", asJSON, binding("b", `,"annotations":{"a":"1"}`), 201, `"status":"Success"`},
			{"GET", pods + "/b", "", "", 200, `"nodeName":"n"`},
			{"GET", pods + "/b", "", "", 200, `"annotations":{"a":"1"}`},
			{"GET", pods + "/b", "", "", 200, `"status":"True","type":"PodScheduled"`},
			{"POST", pods + "/b/binding", asJSON, binding("b", ""), 409, `pod b is already assigned to node \"n\"`},
			{"GET", pods + "/b/binding", "", "", 405, ""},
			{"POST", pods, asJSON, `{"metadata":{"name":"g"},"spec":{"schedulingGates":[{"name":"x"}]}}`, 201, ""},
			{"POST", pods + "/g/binding", asJSON, binding("g", ""), 409, "pod g has non-empty .spec.schedulingGates"},
			{"POST", pods, asJSON, `{"metadata":{"name":"o","labels":{"a":"1"},"annotations":{"b":"2"}}}`, 201, ""},
			{"POST", "/api/v1/namespaces/default/bindings", asJSON, binding("o", `,"uid":"other"`), 201, ""},
			{"GET", pods + "/o", "", "", 200, `"nodeName":"n"`},
			{"GET", pods + "/o", "", "", 200, `"labels":{"a":"1"},"annotations":{"b":"2"},"managedFields":[{`},
			{"GET", pods + "/o", "", "", 200, `"f:b":{}},"f:labels":{".":{},"f:a":{}}}}}]},`},
			{"POST", "/api/v1/nodes", asJSON,
				`{"metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z","other":"x"}}}`, 201, ""},
			{"POST", pods, asJSON, `{"metadata":{"name":"z","labels":{"topology.kubernetes.io/zone":"y"}}}`, 201, ""},
			{"POST", pods + "/z/binding", asJSON, binding("z", ""), 201, ""},
			{"GET", pods + "/z", "", "", 200, `"labels":{"topology.kubernetes.io/zone":"z"}`},
		})
	})
	t.Run("status", func(t *testing.T) {
		const services = "/api/v1/namespaces/default/services"
		const owned = `{"metadata":{"name":"s","ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"s","uid":"u"}]}}`
		run(t, s, []step{
			{"POST", services, asJSON, `{"metadata":{"name":"s","finalizers":["x.y/z"],"labels":{"a":"1"}}}`, 201, ""},
			{"DELETE", services + "/s", "", "", 200, ""},
			{"PATCH", services + "/s/status", mergePatch, `{"metadata":{"labels":{"a":"2"}},"spec":{"type":"X"}}`,
				200, `"labels":{"a":"2"}`},
			{"PATCH", services + "/s/status", mergePatch, `{"metadata":{"finalizers":null}}`, 200, ""},
			{"GET", services + "/s", "", "", 404, ""},
			{"POST", pods, asJSON, owned, 201, ""},
			{"PATCH", pods + "/s/status", mergePatch, `{"metadata":{"ownerReferences":null,"labels":{"a":"2"}}}`,
				200, `"labels":{"a":"2"},"ownerReferences":[{`},
		})
	})
	t.Run("containers", func(t *testing.T) {
		run(t, s, []step{
			{"POST", pods, asJSON, `{"metadata":{"name":"e"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 201, ""},
			{"PATCH", pods + "/e/ephemeralcontainers", mergePatch, `{"metadata":{"labels":{"a":"b"}},"spec":{"nodeName":"n","ephemeralContainers":[{"name":"d","image":"j"}]}}`,
				200, `"spec":{"containers":[{"image":"i","name":"c"}],"ephemeralContainers":[{"image":"j","name":"d"}]}}`},
			{"PATCH", pods + "/e/ephemeralcontainers", mergePatch, `{"spec":{"ephemeralContainers":null}}`, 422, "existing ephemeral containers"},
			{"GET", pods + "/e/ephemeralcontainers", "", "", 200, `"kind":"Pod"`},
			{"PATCH", pods + "/e/resize", mergePatch, `{"spec":{"containers":[{"name":"c","image":"k","resources":{"limits":{"cpu":"1"}}}]}}`,
				200, `{"containers":[{"image":"i","name":"c","resources":{"limits":{"cpu":"1"}}}]`},
		})
	})
	t.Run("eviction", func(t *testing.T) {
		evict := func(code int, says string) step {
			return step{"POST", pods + "/v/eviction", asJSON, `{"metadata":{"name":"v"}}`, code, says}
		}
		status := func(name, status string) step {
			return step{"PATCH", name + "/status", mergePatch, `{"status":` + status + `}`, 200, ""}
		}
		run(t, s, []step{
			{"POST", pods, asJSON, `{"metadata":{"name":"v","labels":{"app":"v"}},"spec":{}}`, 201, ""},
			status(pods+"/v", `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`),
			{"POST", pdbs, asJSON, `{"metadata":{"name":"p"},"spec":{"selector":{"matchLabels":{"app":"v"}}}}`, 201, ""},
			evict(429, "The disruption budget p is still being processed by the server."),
			status(pdbs+"/p", `{"observedGeneration":1,"desiredHealthy":2,"currentHealthy":2}`),
			evict(429, "The disruption budget p needs 2 healthy pods and has 2 currently"),
			{"POST", pdbs, asJSON, `{"metadata":{"name":"q"},"spec":{"selector":{}}}`, 201, ""},
			evict(500, "more than one PodDisruptionBudget"),
			{"DELETE", pdbs + "/q", "", "", 200, ""},
			status(pods+"/v", `{"conditions":[]}`),
			{"POST", pods + "/v/eviction?dryRun=All", asJSON, `{"metadata":{"name":"v"}}`, 201, ""}, // it is not healthy
			status(pods+"/v", `{"conditions":[{"type":"Ready","status":"True"}]}`),
			status(pdbs+"/p", `{"disruptionsAllowed":1}`),
			evict(201, ""),
			{"GET", pods + "/v", "", "", 404, ""},
			{"GET", pdbs + "/p", "", "", 200, `"disruptionsAllowed":0`},
			{"POST", pods, asJSON, `{"metadata":{"name":"v","finalizers":["x.y/z"]},"spec":{}}`, 201, ""},
			status(pods+"/v", `{"conditions":[{"type":"DisruptionTarget","status":"False"},{"type":"Ready","status":"True"}]}`),
			{"POST", pods + "/v/eviction", asJSON, `{"metadata":{"name":"v"},"deleteOptions":{"preconditions":{"resourceVersion":"1"}}}`,
				409, "the ResourceVersion in the precondition (1) does not match"},
			{"POST", pods + "/v/eviction?dryRun=All", asJSON, `{"metadata":{"name":"v"}}`, 201, ""},
			{"GET", pods + "/v", "", "", 200, `[{"status":"False","type":"DisruptionTarget"},`},
			evict(201, ""),
			{"GET", pods + "/v", "", "", 200, `"deletionTimestamp":`},
			{"GET", pods + "/v", "", "", 200, `"conditions":[{"lastProbeTime":null,"lastTransitionTime":"`},
			{"GET", pods + "/v", "", "", 200, `"message":"Eviction API: evicting","reason":"EvictionByEvictionAPI",` +
				`"status":"True","type":"DisruptionTarget"},{"status":"True","type":"Ready"}]`},
		})
	})
	t.Run("approval", func(t *testing.T) {
		conditions := func(all ...string) string {
			for i, kind := range all {
				all[i] = `{"type":"` + kind + `","status":"True","reason":"r"}`
			}
			return `{"spec":{"request":"other"},"status":{"certificate":"c","conditions":[` + strings.Join(all, ",") + `]}}`
		}
		run(t, s, []step{
			{"POST", csrs, asJSON, `{"metadata":{"name":"a"},"spec":{"request":"r"},"status":{"certificate":"c"}}`, 201, `"spec":{"request":"r"}}`},
			{"PATCH", csrs + "/a/status", mergePatch, conditions("Approved"), 422, `updates may not add a condition of type \"Approved\"`},
			{"PATCH", csrs + "/a/approval", mergePatch, conditions("Approved", "Denied"), 422, "Approved and Denied conditions are mutually exclusive"},
			{"PATCH", csrs + "/a/approval", mergePatch, conditions("Approved"), 200, `"spec":{"request":"r"},"status":{"conditions":[{"lastTransitionTime":"`},
			{"PATCH", csrs + "/a/approval", mergePatch, conditions("Denied"), 422, `updates may not remove a condition of type \"Approved\"`},
			{"PATCH", csrs + "/a/status", mergePatch, `{"status":{"certificate":"c"}}`, 200, `"status":{"certificate":"c","conditions":[{`},
			{"PATCH", csrs + "/a/status", mergePatch, `{"status":{"conditions":null}}`, 422, `updates may not remove a condition of type \"Approved\"`},
			{"GET", csrs + "/a/approval", "", "", 200, `"kind":"CertificateSigningRequest"`},
		})
	})
}

// A ServiceAccount's tokens are what a function of its Resource makes.
func TestTokens(t *testing.T) {
	s := lwtest.NewServer(t, lwtest.Resource{
		Plural: "serviceaccounts", Kind: "ServiceAccount",
		Token: func(_ context.Context, r lwtest.TokenRequest) (string, error) {
			if r.BoundKind != "" {
				return "", errors.New("nothing is bound")
			}
			return fmt.Sprintf("%s for %v", r.Account, r.Audiences), nil
		},
	})
	const accounts = "/api/v1/namespaces/default/serviceaccounts"
	run(t, s, []step{
		{"POST", accounts, asJSON, `{"metadata":{"name":"a"}}`, 201, ""},
		{"POST", accounts + "/a/token", asJSON, `{"spec":{"audiences":["x"]}}`, 201, `"token":"default/a for [x]"`},
		{"POST", accounts + "/a/token", asJSON, `{"spec":{}}`, 201, `"expirationSeconds":3600`},
		{"POST", accounts + "/a/token", asJSON, `{}`, 201, `"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","metadata":{"name":"a","namespace":"default","uid":"`},
		{"POST", accounts + "/b/token", asJSON, `{}`, 404, `serviceaccounts \"b\" not found`},
		{"POST", accounts + "/a/token", asJSON, `{"spec":{"expirationSeconds":1}}`, 422, "may not specify a duration less than 10 minutes"},
		{"POST", accounts + "/a/token", asJSON, `{"metadata":{"name":"b"}}`, 422, "must match the service account name if specified"},
		{"POST", accounts + "/a/token", asJSON, `{"spec":{"boundObjectRef":{"kind":"Pod","name":"p"}}}`, 500, "nothing is bound"},
		{"GET", accounts + "/a/token", "", "", 405, ""},
	})
}
