package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// An exampleRun is an example that runs on a real server, as its reader would run it.
type exampleRun struct {
	testing.TB
	*servers.Reader
	out *lockedBuffer
	cmd *exec.Cmd
}

// startExample builds examples/cluster/<name> and runs it with a kubeconfig and args. It is stopped
// at the end of the test, and must then exit with 0.
func startExample(t testing.TB, s *servers.Server, name string, args ...string) *exampleRun {
	t.Helper()
	return startProgram(t, s, filepath.Join("..", "..", "examples", "cluster", name), fmt.Sprintf(`{"server":%q}`, proxy(t, s)), args...)
}

// startProgram is startExample of the program in a directory, with a cluster of the kubeconfig.
func startProgram(t testing.TB, s *servers.Server, source, cluster string, args ...string) *exampleRun {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],`+
		`"clusters":[{"name":"x","cluster":%s}]}`, cluster)
	rig.OK(t, os.WriteFile(kubeconfig, []byte(config), 0o600))
	return startBuilt(t, s, source, append([]string{"-kubeconfig", kubeconfig}, args...)...)
}

// startBuilt builds the program in a directory, and runs it.
func startBuilt(t testing.TB, s *servers.Server, source string, args ...string) *exampleRun {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(within(t, 5*time.Minute), "go", "build", "-o", program, ".")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", build.Dir, err, out)
	}
	r := &exampleRun{TB: t, Reader: reader(t, s, ""), out: &lockedBuffer{}}
	r.cmd = exec.Command(program, args...)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	rig.OK(t, r.cmd.Start())
	t.Cleanup(func() { r.cmd.Process.Kill() })
	return r
}

// stop stops the example by a signal, such as SIGTERM, which is a kubelet's.
func (r *exampleRun) stop(by os.Signal) {
	r.Helper()
	rig.OK(r, r.cmd.Process.Signal(by))
	if err := r.cmd.Wait(); err != nil {
		r.Errorf("the example ended with %v:\n%s", err, r.out)
	}
}

// has waits until the object at path has the members of want, in JSON, among others. A dot is
// between a member and one of it. A nil want waits until there is no object.
func (r *exampleRun) has(path string, want map[string]string) {
	r.Helper()
	rig.Until(r, patience, func() string {
		body, err := r.Get(within(r, patience), path)
		if want == nil && isNotFound(err) {
			return ""
		}
		if err != nil {
			return fmt.Sprintf("%s: %v, and the example says:\n%s", path, err, r.out)
		}
		var have object
		rig.OK(r, json.Unmarshal(body, &have))
		for field, value := range want {
			member, _, _ := unstructured.NestedFieldNoCopy(have, strings.Split(field, ".")...)
			if got, _ := json.Marshal(member); string(got) != value {
				return fmt.Sprintf("%s of %s is %s, want %s, and the example says:\n%s", field, path, got, value, r.out)
			}
		}
		if want == nil {
			return fmt.Sprintf("%s is still there, and the example says:\n%s", path, r.out)
		}
		return ""
	})
}

// says waits until the example has written a line.
func (r *exampleRun) says(line string) {
	r.Helper()
	rig.Until(r, patience, func() string {
		if !strings.Contains(strings.Join(strings.Fields(r.out.String()), " "), line) {
			return fmt.Sprintf("the example does not say %q but:\n%s", line, r.out)
		}
		return ""
	})
}

// defineWebsites creates the resource of examples/cluster/controller, and waits until it is served.
func defineWebsites(t testing.TB, r *servers.Reader) {
	t.Helper()
	define(t, r, filepath.Join("..", "..", "examples", "cluster", "controller", "crd.yaml"), "/apis/example.dev/v1/websites")
}

// define creates the custom resource of a file, and waits until it is served at path.
func define(t testing.TB, r *servers.Reader, file, path string) {
	t.Helper()
	data := rig.Must[[]byte](t)(yaml.ToJSON(rig.Must[[]byte](t)(os.ReadFile(file))))
	var crd object
	rig.OK(t, json.Unmarshal(data, &crd))
	create(t, r, crds, crd)
	mustBeServed(t, r, path)
}

func website(namespace, name string, pages object) object {
	return object{"apiVersion": "example.dev/v1", "kind": "Website",
		"metadata": object{"namespace": namespace, "name": name}, "spec": object{"pages": pages}}
}

func TestExampleController(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		s := startServer(t, kind)
		r := startExample(t, s, "controller", "-listen", "127.0.0.1:0")
		defineWebsites(t, r.Reader) // which the controller waits for
		const sites, maps = "/apis/example.dev/v1/namespaces/default/websites", "/api/v1/namespaces/default/configmaps"
		create(t, r.Reader, sites, website("default", "zoo", object{"home": "Lions", "map": "Here"}))
		r.has(maps+"/zoo-home", map[string]string{"data": `{"index.html":"Lions"}`})
		r.has(maps+"/zoo-map", map[string]string{"data": `{"index.html":"Here"}`})
		r.has(sites+"/zoo", map[string]string{"status": `{"observedGeneration":1,"pages":2}`})

		remove(t, r.Reader, maps+"/zoo-map")
		r.has(maps+"/zoo-map", map[string]string{"data": `{"index.html":"Here"}`})
		merge(t, r.Reader, sites+"/zoo", object{"spec": object{"pages": object{"home": "Tigers", "map": nil}}})
		r.has(maps+"/zoo-home", map[string]string{"data": `{"index.html":"Tigers"}`})
		r.has(maps+"/zoo-map", nil)
		r.has(sites+"/zoo", map[string]string{"status": `{"observedGeneration":2,"pages":1}`})

		remove(t, r.Reader, sites+"/zoo")
		r.has(sites+"/zoo", nil)
		r.has(maps+"/zoo-home", nil)
		r.stop(syscall.SIGTERM)
		body, err := r.Get(within(t, patience), "/apis/coordination.k8s.io/v1/namespaces/default/leases/website-controller")
		if err != nil || strings.Contains(string(body), `"holderIdentity":"`) && !strings.Contains(string(body), `"holderIdentity":""`) {
			t.Errorf("the lease after the stop: %s, %v", body, err)
		}
	}, servers.Kube)
}

func TestExampleManager(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		s := startServer(t, kind)
		r := startExample(t, s, "manager")
		create(t, r.Reader, "/api/v1/namespaces", object{"apiVersion": "v1", "kind": "Namespace",
			"metadata": object{"name": "a", "labels": object{"example.dev/team": "red"}}})
		const info = "/api/v1/namespaces/a/configmaps/example-team"
		r.has(info, map[string]string{"data": `{"name":"red"}`})
		remove(t, r.Reader, info)
		r.has(info, map[string]string{"data": `{"name":"red"}`})
		merge(t, r.Reader, "/api/v1/namespaces/a", object{"metadata": object{"labels": object{"example.dev/team": nil}}})
		r.has(info, nil)
		r.stop(syscall.SIGTERM)
	}, servers.Kube)
}

func TestExampleDynamic(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		for _, flag := range []string{"-metadata", "-metadata=false"} {
			t.Run(flag, func(t *testing.T) {
				s := startServer(t, kind)
				r := startExample(t, s, "dynamic", "-custom", flag, "configmaps.v1.")
				create(t, r.Reader, "/api/v1/namespaces/default/configmaps", configMap("default", "one", "1"))
				r.says("added configmaps.v1. default/one")
				defineWebsites(t, r.Reader)
				const sites = "/apis/example.dev/v1/namespaces/default/websites"
				create(t, r.Reader, sites, website("default", "zoo", nil))
				r.says("added websites.v1.example.dev default/zoo")
				remove(t, r.Reader, sites+"/zoo")
				r.says("deleted websites.v1.example.dev default/zoo")
				remove(t, r.Reader, crds+"/websites.example.dev")
				r.has(crds+"/websites.example.dev", nil)
				defineWebsites(t, r.Reader)
				create(t, r.Reader, sites, website("default", "school", nil))
				r.says("added websites.v1.example.dev default/school")
				r.stop(syscall.SIGTERM)
			})
		}
	}, servers.Kube)
}
