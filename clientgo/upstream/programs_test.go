package upstream

import "testing"

// TestCoreDNS runs the tests of coredns' plugin kubernetes. Its informers are reflectors of client-go
// over queues and stores of its own.
func TestCoreDNS(t *testing.T) {
	if !*nightly {
		t.Skip("needs -nightly: coredns takes minutes to build")
	}
	w := workspaceFor(t, clientGo, module{"github.com/coredns/coredns", "v1.15.0"})
	runSuites(t, w, []suite{{pkg: "github.com/coredns/coredns/plugin/kubernetes"}})
}
