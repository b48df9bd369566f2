package e2e_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// sampleController is the version of the program that others are copied from.
const sampleController = "k8s.io/sample-controller@v0.37.0"

// TestSampleController runs sample-controller, as it is in the module cache, on a relay of
// kube-apiserver: it reads foos and deployments there, and its writes are forwarded. The relay is
// killed meanwhile.
func TestSampleController(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const foos, deployments = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos",
			"/apis/apps/v1/namespaces/default/deployments"
		out := rig.Must[[]byte](t)(exec.CommandContext(within(t, patience), "go", "mod", "download", "-json",
			sampleController).Output())
		var module struct{ Dir string }
		rig.OK(t, json.Unmarshal(out, &module))
		s, reader := started(t, kind)
		define(t, reader, filepath.Join(module.Dir, "artifacts", "examples", "crd-status-subresource.yaml"), foos)
		relay := rig.Must[*servers.Relay](t)(s.NewRelay(s.URL))
		start := func() {
			t.Helper()
			rig.OK(t, relay.Start(within(t, patience)))
		}
		start()
		t.Cleanup(relay.Kill)
		r := startProgram(t, s, module.Dir,
			fmt.Sprintf(`{"server":%q,"certificate-authority":%q}`, relay.URL, filepath.Join(s.Dir, "ca.crt")))

		foo := func(replicas int) object {
			return object{
				"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": object{"name": "foo",
					"namespace": "default"},
				"spec": object{"deploymentName": "of-foo", "replicas": replicas},
			}
		}
		create(t, r.Reader, foos, foo(1))
		r.has(deployments+"/of-foo", map[string]string{"spec.replicas": "1"})
		scale(t, r, foos+"/foo", 2)
		r.has(deployments+"/of-foo", map[string]string{"spec.replicas": "2"})
		scale(t, r, deployments+"/of-foo", 7) // what nobody but the controller may do
		r.has(deployments+"/of-foo", map[string]string{"spec.replicas": "2"})

		relay.Kill()
		scale(t, r, foos+"/foo", 3)
		start()
		r.has(deployments+"/of-foo", map[string]string{"spec.replicas": "3"})
		remove(t, r.Reader, deployments+"/of-foo")
		r.has(deployments+"/of-foo", map[string]string{"spec.replicas": "3"})
		r.stop(syscall.SIGTERM)
	}, servers.Kube)
}

// scale sets the replicas of an object.
func scale(t testing.TB, r *exampleRun, path string, replicas int) {
	t.Helper()
	merge(t, r.Reader, path, object{"spec": object{"replicas": replicas}})
}
