package lwtest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwtest"
)

func ExamplePrune() {
	obj := &carp.Carp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pond", Name: "koi", Labels: map[string]string{"a": "b"}, Generation: 3},
		Spec:       carp.CarpSpec{NodeName: "north", Hostname: "h"},
	}
	lwtest.Prune(obj, lw.Fields{"spec.nodeName"})
	fmt.Printf("%s %v %d %s %q\n", obj.Name, obj.Labels, obj.Generation, obj.Spec.NodeName, obj.Spec.Hostname)
	// Output: koi map[] 0 north ""
}

// A told is a test that keeps what it is told.
type told struct {
	testing.TB
	got []string
}

func (e *told) Error(args ...any) { e.got = append(e.got, fmt.Sprint(args...)) }

type send func(*http.Request) (*http.Response, error)

func (f send) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestMasked(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		refused      bool
	}{
		{"PUT", "/api/v1/namespaces/n/pods/a", true},
		{"PUT", "/api/v1/namespaces/n/pods/a/status", true},
		{"PUT", "/proxy/of/it/api/v1/namespaces/n/pods/a", true},
		{"PUT", "/apis/apps/v1/namespaces/n/deployments/a", true},
		{"PUT", "/api/v1/nodes/a", true},
		{"PUT", "/api/v1/namespaces/a", true},
		{"PUT", "/api/v1/namespaces/a/status", true},
		{"PUT", "/apis/apps/v1/namespaces/n/deployments/a/scale", false},
		{"PUT", "/apis/apps/v1/namespaces/n/daemonsets/a", false},
		{"PUT", "/apis/metrics.k8s.io/v1/namespaces/n/pods/a", false},
		{"PUT", "/api/v1", false},
		{"PUT", "/apis", false},
		{"PUT", "/elsewhere", false},
		{"PATCH", "/api/v1/namespaces/n/pods/a", false},
		{"POST", "/api/v1/namespaces/n/pods", false},
		{"GET", "/api/v1/namespaces/n/pods/a", false},
	} {
		e, sent := &told{TB: t}, false
		rt := lwtest.Masked(e, send(func(*http.Request) (*http.Response, error) {
			sent = true
			return &http.Response{Body: http.NoBody}, nil
		}), map[string]lw.Fields{"pods": {"spec.nodeName"}, "nodes": {}, "namespaces": {}, "deployments.apps": {"spec.replicas"}})
		req := rig.Must[*http.Request](t)(http.NewRequest(tt.method, "http://server"+tt.path, strings.NewReader("{}")))
		resp, err := rt.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if refused := err != nil; refused != tt.refused || sent == tt.refused || len(e.got) > 0 != tt.refused {
			t.Errorf("%s %s: error %v, sent %v, told %q", tt.method, tt.path, err, sent, e.got)
		}
	}
}
