package upstream

import "testing"

// TestKubernetes runs the tests of controllers of kube-controller-manager.
func TestKubernetes(t *testing.T) {
	w := workspaceFor(t, module{"k8s.io/client-go", "v0.36.3"}, module{"k8s.io/kubernetes", "v1.36.3"})
	var suites []suite
	for _, s := range controllers {
		s.pkg = "k8s.io/kubernetes/pkg/controller/" + s.pkg
		suites = append(suites, s)
	}
	runSuites(t, w, suites)
}

var controllers = []suite{
	{pkg: "replicaset"},
	{pkg: "deployment"},
	{pkg: "endpointslice"},
}
