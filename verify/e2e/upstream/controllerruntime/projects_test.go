package controllerruntime

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

const controllerRuntimeVersion = "v0.25.2"

var projects = flag.Bool("projects", false, "also run the suites of projects, which take minutes to build")

// A project is a module whose suites use envtest.
type project struct {
	module, version string
	parts           []string          // modules of the same version that the project's own go.mod replaces by folders
	own             bool              // it does not compile with what is newer than in its own go.mod
	folders         map[string]folder // that the suites are told of by environment variables
	suites          map[string]suite
}

// A folder is one of another module.
type folder struct{ module, path string }

// A suite is one of a package.
type suite struct {
	tests     bool // of package testing alone: its tests and subtests are counted
	specs     int
	otherwise map[string]string // the specs that do not pass, and why
	races     map[string]string // specs that pass or not, and why
}

var envtestProjects = map[string]project{
	"jobset": {module: "sigs.k8s.io/jobset", version: "v0.12.0", suites: map[string]suite{
		"test/integration/controller": {specs: 65, otherwise: map[string]string{
			"JobSet controller when a JobSet is created with an invalid Job template should emit a warning event": validates,
		},
			races: map[string]string{
				"JobSet controller when the ElasticJobSet feature gate is disabled Elastic scaling behavior is blocked rejects updates to parallelism and completions": "the webhook that refuses the update is not in the suite: a conflict must",
			}},
	}},
	"controller-runtime": {module: controllerRuntime, version: controllerRuntimeVersion, suites: map[string]suite{
		"pkg/builder": {specs: 72}, "pkg/controller": {specs: 32}, "pkg/manager": {specs: 107}, "pkg/cluster": {specs: 15},
		"pkg/handler": {specs: 96},
		"pkg/source":  {specs: 19}, "pkg/controller/controllerutil": {specs: 60},
	}},
	"flux": {module: "github.com/fluxcd/pkg/ssa", version: "v0.77.0", suites: map[string]suite{
		".": {tests: true, specs: 182, otherwise: fluxOtherwise}, "jsondiff": {tests: true, specs: 115},
	}},
}

// What flux's tests want beside an apply.
const (
	refuses = "Secrets and StorageClasses that may not change, and Roles beyond one's rights, are not refused"
	noCRDs  = "CustomResourceDefinitions are no kind of the server"
)

var fluxOtherwise = map[string]string{
	"TestApply_DriftIgnoreRules_RequiredMutableField":                                                       validates,
	"TestApply_DriftIgnoreRules_RequiredMutableField/required_field_cannot_be_orphaned_by_other_controller": validates,
	"TestApplyAllStaged_PartialFailure":                                                                     refuses,
	"TestApplyAllStaged_PartialFailure/returns_change_set_on_failed_apply":                                  refuses,
	"TestApply_Force": refuses,
	"TestApply_Force/fails_to_apply_immutable_secret": refuses, "TestApply_Force/force_applies_immutable_secret": refuses,
	"TestApply_Force/force_apply_waits_for_finalizer":                                                                           refuses,
	"TestApply_Force/recreates_immutable_RBAC":                                                                                  refuses,
	"TestApply_Force/recreates_immutable_StorageClass_based_on_metadata":                                                        refuses,
	"TestApply_Force/force_apply_returns_validation_error":                                                                      validates,
	"TestApplyAllStaged_AppliesRoleAndRoleBinding":                                                                              refuses,
	"TestApplyAllStaged_AppliesRoleAndRoleBinding/does_not_apply_Role_and_RoleBinding_together_without_custom_stage":            refuses,
	"TestApplyAllStaged_AppliesRoleAndRoleBinding/applies_Role_and_RoleBinding_together_with_Role_in_custom_stage":              refuses,
	"TestResourceManager_ApplyAllStaged_CRDWebhookCABundle":                                                                     noCRDs,
	"TestResourceManager_ApplyAllStaged_CRDWebhookCABundle/removes_invalid_CA_bundle_and_applies_successfully":                  noCRDs,
	"TestResourceManager_ApplyAllStaged_CRDWebhookCABundle/removes_valid_CA_bundle_non_base64_encoded_and_applies_successfully": noCRDs,
	"TestResourceManager_ApplyAllStaged_CRDWebhookCABundle/preserves_valid_CA_bundle_and_applies_successfully":                  noCRDs,
	"TestApply_MigrateAPIVersion": noCRDs, "TestApplyAll_MigrateAPIVersion": noCRDs,
	"TestApply_MigrateAPIVersion_RealWorldExternalSecrets":                                         noCRDs,
	"TestResourceManager_Diff_CRDWebhookCABundle":                                                  noCRDs,
	"TestResourceManager_Diff_CRDWebhookCABundle/diff_removes_invalid_CA_bundle_from_CRD":          noCRDs,
	"TestResourceManager_Diff_CRDWebhookCABundle/diff_preserves_valid_CA_bundle_in_CRD":            noCRDs,
	"TestResourceManager_Diff_CRDWebhookCABundle/diff_with_label_change_preserves_valid_CA_bundle": noCRDs,
	"TestWaitForSet": noCRDs, "TestWaitForSet/waits_for_CRD_and_CR": noCRDs,
}

// The suites that projects have for envtest pass on a lwtest.Server, apart from the specs that are
// named here. Nothing of a suite is changed: the package envtest that it imports starts the server.
func TestProjects(t *testing.T) {
	if !*projects {
		t.Skip("run by .ci/nightly, with -projects")
	}
	for name, p := range envtestProjects {
		t.Run(name, func(t *testing.T) {
			dir := workspace(t, p)
			for _, pkg := range slices.Sorted(maps.Keys(p.suites)) {
				t.Run(pkg, func(t *testing.T) {
					cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=30m", "-mod=mod", "-trimpath",
						"-vet=off", path.Join(p.module, pkg))
					cmd.Dir = dir
					cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+dir)
					p.suites[pkg].run(t, cmd)
				})
			}
		})
	}
}

// run runs go test of the suite, and wants the list's verdict of each spec.
func (s suite) run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var r result
	if s.tests {
		cmd.Args = append(cmd.Args, "-json")
		r = tested(cmd)
	} else {
		report := filepath.Join(t.TempDir(), "report.json")
		cmd.Args = append(cmd.Args, "-v", "-ginkgo.no-color", "-ginkgo.json-report="+report)
		r = ended(t, cmd, report, "")
	}
	if r.err != nil && !slices.ContainsFunc(r.failed, func(f failure) bool { return f.state != "pending" }) {
		t.Errorf("no spec has failed, and yet: %v\n%s", r.err, r.output)
	}
	r.failed = slices.DeleteFunc(r.failed, func(f failure) bool {
		why, race := s.races[f.name]
		if race {
			t.Logf("%s: %s", f.name, why)
			r.passed++
		}
		return race
	})
	differ(t, r, s.specs, s.otherwise)
}

// tested runs go test -json and returns what became of the tests and subtests.
func tested(cmd *exec.Cmd) (r result) {
	r.output, r.err = cmd.Output()
	for line := range bytes.Lines(r.output) {
		var e struct{ Action, Test string }
		if json.Unmarshal(line, &e) != nil || e.Test == "" {
			continue
		}
		switch e.Action {
		case "pass":
			r.passed++
		case "fail":
			r.failed = append(r.failed, failure{name: e.Test, state: e.Action})
		}
	}
	return r
}

// workspace returns the directory of a module that requires the project, lw, and a copy of
// controller-runtime whose envtest starts a lwtest.Server.
func workspace(t *testing.T, p project) string {
	t.Helper()
	dir := t.TempDir()
	copied := filepath.Join(dir, "controller-runtime")
	rig.OK(t, os.CopyFS(copied, os.DirFS(moduleDir(t, controllerRuntime+"@"+controllerRuntimeVersion))))
	server := filepath.Join(copied, "pkg", "envtest", "server.go")
	content := read(t, server)
	for _, method := range []string{"Start", "Stop"} {
		from := []byte("func (te *Environment) " + method + "()")
		if !bytes.Contains(content, from) {
			t.Fatalf("%s has no method %s", server, method)
		}
		content = bytes.Replace(content, from, []byte("func (te *Environment) envtest"+method+"()"), 1)
	}
	write(t, server, content)
	write(t, filepath.Join(copied, "pkg", "envtest", "lw.go"), read(t, filepath.Join("testdata", "lw_envtest.go.txt")))

	checkout := rig.Must[string](t)(filepath.Abs(filepath.Join("..", "..", "..", "..")))
	mod := "module projects\n\ngo 1.26.0\n"
	sums := [][]byte{read(t, filepath.Join("..", "..", "go.sum")), read(t, filepath.Join(checkout, "simulate", "go.sum"))}
	for _, sub := range []string{"", "/clientgo", "/controllerruntime", "/prom", "/simulate"} {
		mod += fmt.Sprintf("require github.com/go-lw/lw%s v0.1.0\nreplace github.com/go-lw/lw%[1]s => %s\n", sub,
			checkout+filepath.FromSlash(sub))
	}
	mod += fmt.Sprintf("replace %s => %s\n", controllerRuntime, copied)
	mod += fmt.Sprintf("require %s %s\n", p.module, p.version)
	sums = append(sums, read(t, filepath.Join(moduleDir(t, p.module+"@"+p.version), "go.sum")))
	write(t, filepath.Join(dir, "go.mod"), []byte(mod))
	write(t, filepath.Join(dir, "go.sum"), union(sums...))
	return dir
}

// union returns the lines of files, each once.
func union(files ...[]byte) []byte {
	lines := strings.SplitAfter(string(bytes.Join(files, nil)), "\n")
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), ""))
}

// moduleDir returns the directory of a version of a module in the module cache.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module).Output()
	var found struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil {
		t.Fatalf("%s: %v", module, err)
	}
	return found.Dir
}
