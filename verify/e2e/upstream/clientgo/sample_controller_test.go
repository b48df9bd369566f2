package clientgo

import "testing"

// TestSampleController runs the tests of sample-controller, the program that others are copied
// from. Its informers are of two generated factories: client-go's and its own.
func TestSampleController(t *testing.T) {
	w := workspaceFor(t, clientGo, module{"k8s.io/sample-controller", "v0.37.0"})
	runSuites(t, w, []suite{{
		pkg:  "k8s.io/sample-controller",
		sees: map[string]string{forgetful: "TestUpdateDeployment"},
	}})
}
