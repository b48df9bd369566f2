package e2e_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-lw/lw/e2e/internal/servers"
	"github.com/go-lw/lw/internal/rig"
)

// sampleController is the version of the program that others are copied from.
const sampleController = "k8s.io/sample-controller@v0.37.0"

// TestSampleController runs sample-controller, as it is in the module cache, on a relay of
// kube-apiserver: it reads foos and deployments there, and its writes are forwarded. The relay is
// killed meanwhile.
func TestSampleController(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const foos, deployments = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos", "/apis/apps/v1/namespaces/default/deployments"
		out, err := exec.CommandContext(within(t, patience), "go", "mod", "download", "-json", sampleController).Output()
		if err != nil {
			t.Fatal(err)
		}
		var module struct{ Dir string }
		if err := json.Unmarshal(out, &module); err != nil {
			t.Fatal(err)
		}
		s := startServer(t, kind)
		reader := s.Reader("")
		defer reader.Close()
		define(t, reader, filepath.Join(module.Dir, "artifacts", "examples", "crd-status-subresource.yaml"), foos)
		relay, err := s.NewRelay(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		start := func() {
			t.Helper()
			if err := relay.Start(within(t, patience)); err != nil {
				t.Fatal(err)
			}
		}
		start()
		t.Cleanup(relay.Kill)
		r := startProgram(t, s, module.Dir,
			fmt.Sprintf(`{"server":%q,"certificate-authority":%q}`, relay.URL, filepath.Join(s.Dir, "ca.crt")))

		foo := func(replicas int) object {
			return object{
				"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": object{"name": "foo", "namespace": "default"},
				"spec": object{"deploymentName": "of-foo", "replicas": replicas},
			}
		}
		create(t, r.Reader, foos, foo(1))
		r.hasReplicas(deployments+"/of-foo", 1)
		scale(t, r, foos+"/foo", 2)
		r.hasReplicas(deployments+"/of-foo", 2)
		scale(t, r, deployments+"/of-foo", 7) // what nobody but the controller may do
		r.hasReplicas(deployments+"/of-foo", 2)

		relay.Kill()
		scale(t, r, foos+"/foo", 3)
		start()
		r.hasReplicas(deployments+"/of-foo", 3)
		remove(t, r.Reader, deployments+"/of-foo")
		r.hasReplicas(deployments+"/of-foo", 3)
		r.stop()
	}, servers.Kube)
}

// scale sets the replicas of an object.
func scale(t testing.TB, r *exampleRun, path string, replicas int) {
	t.Helper()
	if _, err := r.Do(within(t, patience), "PATCH", path, "application/merge-patch+json",
		object{"spec": object{"replicas": replicas}}); err != nil {
		t.Fatal(err)
	}
}

// hasReplicas waits until the object at path has so many replicas.
func (r *exampleRun) hasReplicas(path string, want int) {
	r.Helper()
	rig.Until(r, patience, func() string {
		body, err := r.Get(within(r, patience), path)
		if err != nil {
			return fmt.Sprintf("%s: %v; the program says:\n%s", path, err, r.out)
		}
		var have struct{ Spec struct{ Replicas int } }
		if err := json.Unmarshal(body, &have); err != nil {
			r.Fatal(err)
		}
		if have.Spec.Replicas != want {
			return fmt.Sprintf("%s has %d replicas, want %d; the program says:\n%s", path, have.Spec.Replicas, want, r.out)
		}
		return ""
	})
}
