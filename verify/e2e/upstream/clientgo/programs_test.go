package clientgo

import "testing"

// These are the tests of programs, nightly: each takes minutes to build. What they have of
// client-go is shared informers, factories, or reflectors over queues and stores of their own.

// TestCoreDNS runs the tests of coredns' plugin kubernetes. Its informers are reflectors of
// client-go over queues and stores of its own.
func TestCoreDNS(t *testing.T) {
	program(t, clientGo, module{"github.com/coredns/coredns", "v1.15.0"},
		[]suite{{pkg: "github.com/coredns/coredns/plugin/kubernetes", sees: blind}})
}

// TestKubeStateMetrics runs the tests of kube-state-metrics that have informers. Its reflectors
// fill stores that make the text of metrics.
func TestKubeStateMetrics(t *testing.T) {
	const all = "k8s.io/kube-state-metrics/v2/"
	program(t, clientGo, module{"k8s.io/kube-state-metrics/v2", "v2.20.0"}, []suite{
		{pkg: all + "pkg/app", sees: blind},
		{pkg: all + "internal/store"}, // its tests look at the requests, and not into the stores
	})
}

// TestCertManager runs the tests of cert-manager's controllers of certificates.
func TestCertManager(t *testing.T) {
	const all = "github.com/cert-manager/cert-manager/pkg/controller/"
	program(t, module{"k8s.io/client-go", "v0.36.2"}, module{"github.com/cert-manager/cert-manager", "v1.21.2"}, []suite{
		{pkg: all + "certificates/issuing", sees: blind},
		{pkg: all + "certificates/keymanager", sees: blind},
		{pkg: all + "certificates/readiness", sees: blind},
		{pkg: all + "certificates/requestmanager", sees: blind},
		{pkg: all + "certificates/revisionmanager", sees: blind},
		{pkg: all + "certificates/trigger", sees: blind},
	})
}

// TestScheduler, TestKubeProxy and TestKubelet run the tests of what follows the API server in
// other programs of Kubernetes.
func TestScheduler(t *testing.T) {
	program(t, kubernetesClientGo, kubernetes, []suite{{pkg: "k8s.io/kubernetes/pkg/scheduler", sees: blind}})
}

func TestKubeProxy(t *testing.T) {
	program(t, kubernetesClientGo, kubernetes, []suite{{pkg: "k8s.io/kubernetes/pkg/proxy/config", sees: deaf}})
}

func TestKubelet(t *testing.T) {
	program(t, kubernetesClientGo, kubernetes, []suite{
		{pkg: "k8s.io/kubernetes/pkg/kubelet/config", sees: blind},
		{pkg: "k8s.io/kubernetes/pkg/kubelet/util/manager", sees: blind},
	})
}

// What some test of a package must notice.
var (
	blind = map[string]string{forgetful: ""}
	deaf  = map[string]string{mute: ""}
)

func program(t *testing.T, clientGo, target module, suites []suite) {
	t.Helper()
	if !*nightly {
		t.Skipf("needs -nightly: %s takes minutes to build", target.Path)
	}
	runSuites(t, workspaceFor(t, clientGo, target), suites)
}
