package admission_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/admission"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/builtin"
	"github.com/go-lw/lw/lwtest"
	builtins "github.com/go-lw/lw/simulate/cluster"
)

// A hook answers the reviews that are posted to its path.
type hook func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse

func allow(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
	return &reviewv1.AdmissionResponse{Allowed: true}
}

// patch answers with a JSON patch.
func patch(operations string) hook {
	return func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		kind := reviewv1.PatchTypeJSONPatch
		return &reviewv1.AdmissionResponse{Allowed: true, Patch: []byte(operations), PatchType: &kind}
	}
}

func deny(status *metav1.Status) hook {
	return func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return &reviewv1.AdmissionResponse{Result: status}
	}
}

// A cluster is a server whose writes are admitted, and the webhooks that it calls.
type cluster struct {
	*lwtest.Server
	chain admission.Chain
	hooks *httptest.Server

	mu      sync.Mutex
	reviews []*reviewv1.AdmissionReview // that webhooks were sent
	paths   []string                    // at which
}

var widgets = lwtest.Resource{Group: "example.com", Plural: "widgets", Kind: "Widget", Versions: []string{"v2"},
	Status: true, Scale: true}

func newCluster(t *testing.T, hooks map[string]hook) *cluster {
	c := &cluster{}
	c.hooks = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &reviewv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		c.reviews, c.paths = append(c.reviews, review), append(c.paths, r.URL.Path)
		c.mu.Unlock()
		answer, ok := hooks[r.URL.Path]
		if !ok { // it never answers
			<-r.Context().Done()
			return
		}
		out := &reviewv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answer(review.Request)}
		out.Response.UID = review.Request.UID
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(c.hooks.Close)
	resources := append(configurations(), widgets,
		lwtest.Resource{Plural: "namespaces", Kind: "Namespace", Cluster: true, Type: &corev1.Namespace{}, Status: true},
		lwtest.Resource{Plural: "services", Kind: "Service", Type: &corev1.Service{}, Status: true},
		lwtest.Resource{Plural: "pods", Kind: "Pod", Type: &corev1.Pod{}, Status: true},
		lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap", Type: &corev1.ConfigMap{}},
		lwtest.Resource{Group: "apps", Plural: "deployments", Kind: "Deployment", Type: &appsv1.Deployment{},
			Status: true, Scale: true},
	)
	for i := range resources {
		resources[i] = c.chain.Admit(resources[i])
	}
	c.Server = lwtest.NewServer(t, resources...)
	namespaces := lwtest.Objects[*corev1.Namespace](c.Server, "namespaces")
	for name, labels := range map[string]map[string]string{"default": {"team": "a"}, "other": nil} {
		if _, err := namespaces.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: labels}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("called: %v", c.paths)
		}
	})
	return c
}

// configurations returns the kinds that configure webhooks and policies.
func configurations() (all []lwtest.Resource) {
	for _, r := range builtins.Resources() {
		if r.Group == admissionv1.GroupName {
			all = append(all, builtin.Rules(r, nil))
		}
	}
	return all
}

// start lets the chain read what was configured.
func (c *cluster) start(t *testing.T) {
	config := &rest.Config{Host: c.URL(), Transport: c.Client().Transport}
	if err := c.chain.Start(t.Context(), config, nil); err != nil {
		t.Fatal(err)
	}
}

var alice = lwtest.User{Username: "alice", UID: "1", Groups: []string{"dev"},
	Extra: map[string][]string{"scopes": {"a"}}}

// send sends a request of alice.
func (c *cluster) send(method, path, contentType, body string) (code int, answer string, warnings []string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r.WithContext(lwtest.WithUser(r.Context(), alice)))
	return w.Code, w.Body.String(), w.Header().Values("Warning")
}

func (c *cluster) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.hooks.Certificate().Raw})
}

func ptr[T any](v T) *T { return &v }
