package controllerruntime

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

// clientSpecs is the number of specs that the suite of controller-runtime's client v0.25.2 has.
const clientSpecs = 311

// otherwise are the specs of the client that lwtest.Server does not pass, and why.
var otherwise = map[string]string{
	"DryRunClient should refuse a create request for an invalid object":                                      validates,
	"DryRunClient should refuse an update request for an invalid change":                                     validates,
	"Client Create with structured objects should fail if the object does not pass server-side validation":   validates,
	"Client Create with unstructured objects should fail if the object does not pass server-side validation": validates,
	"Client Apply Structured Client should propagate a typed error":                                          validates,
}

const validates = "the fields of built-in types are not validated"

// controller-runtime's own suite of its client passes on a lwtest.Server, in the place of envtest's
// kube-apiserver, apart from those that are named here.
func TestClientSuite(t *testing.T) {
	mod := module(t)
	copied := filepath.Join(filepath.Dir(mod), "controller-runtime", "pkg", "client")
	file := filepath.Join(copied, "client_suite_test.go")
	content := read(t, file)
	for from, to := range map[string]string{"testenv.Start()": "startOfTest(testenv)",
		"testenv.Stop()": "stopOfTest(testenv)"} {
		if !bytes.Contains(content, []byte(from)) {
			t.Fatalf("%s does not call %s", file, from)
		}
		content = bytes.ReplaceAll(content, []byte(from), []byte(to))
	}
	write(t, file, content)
	rig.OK(t, os.Remove(filepath.Join(copied, "lw_others_test.go")))
	write(t, filepath.Join(copied, "lw_client_test.go"), read(t, filepath.Join("testdata", "lw_client_test.go.txt")))
	report := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=20m", "-modfile="+mod,
		controllerRuntime+"/pkg/client", "-run=TestClient$", "-v", "-ginkgo.no-color", "-ginkgo.json-report="+report)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	differ(t, ended(t, cmd, report, ""), clientSpecs, otherwise)
}

// differ wants the specs to pass but for those of otherwise, which must not.
func differ(t *testing.T, r result, specs int, otherwise map[string]string) {
	t.Helper()
	t.Logf("%d of %d specs pass", r.passed, specs)
	if r.passed != specs-len(otherwise) {
		t.Errorf("%d specs pass, want all of %d but %d: %v", r.passed, specs, len(otherwise), r.err)
	}
	fallen := map[string]bool{}
	for _, spec := range r.failed {
		fallen[spec.name] = true
		switch why, known := otherwise[spec.name]; {
		case spec.state == "pending": // of the project
		case known:
			t.Logf("%s: %s", spec.name, why)
		default:
			t.Errorf("%s", spec)
		}
	}
	for spec := range otherwise {
		if !fallen[spec] {
			t.Errorf("it passes, or is not there: %s", spec)
		}
	}
}
