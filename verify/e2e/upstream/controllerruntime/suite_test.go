package controllerruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

const (
	controllerRuntime = "sigs.k8s.io/controller-runtime"
	cachePackage      = controllerRuntime + "/pkg/cache"
	// specs is the number of specs that the suite of controller-runtime v0.25.2 has.
	specs = 276
)

// controller-runtime's own suite passes on an lw informer over its ListerWatchers, and on NewCache.
//
// Five of the specs, whose names end in "cancelled", are races: they ask for an informer with a
// context that is cancelled, and want an error, but there is none if the informer has synced before
// the cache looks. On a busy machine that happens. Such a spec may be run again, alone.
func TestSuite(t *testing.T) {
	for _, on := range []string{"NewInformer", "NewCache", "NewCache with TellWrites"} {
		t.Run(on, func(t *testing.T) { passes(t, on) })
	}
}

// The suite passes with a relay of package serve between its caches and kube-apiserver, too: with
// controller-runtime's own caches, and with those of lw.
func TestSuiteBehindARelay(t *testing.T) {
	if !*relays {
		t.Skip("run by .ci/nightly, with -relays")
	}
	servers(t)
	for _, on := range []string{"client-go behind a relay", "NewCache behind a relay"} {
		t.Run(on, func(t *testing.T) { passes(t, on) })
	}
}

// The suite passes on packed objects, beside a collector that runs all the time.
func TestSuiteWithPack(t *testing.T) {
	for _, on := range []string{"NewInformer with Pack", "NewCache with Pack"} {
		t.Run(on, func(t *testing.T) { passes(t, on) })
	}
}

// The suite passes with masks that name every field of every kind in it.
func TestSuiteWithOnly(t *testing.T) {
	if !*only {
		t.Skip("run by .ci/nightly, with -only")
	}
	passes(t, "NewCache with Only")
	if got := run(t, "NewCache with Only the identity", "should support filtering by labels"); len(got.failed) == 0 {
		t.Errorf("%d specs passed without the fields that they read: %v\n%s", got.passed, got.err, got.output)
	}
}

var (
	relays = flag.Bool("relays", false, "also run the suite behind a relay")
	only   = flag.Bool("only", false, "also run the suite with masks")
	others = flag.Bool("others", false, "also run the suites of other packages")
)

// copies are the specs that change an object by a single read without a copy: of a NewCache with
// packed objects it is one all the same, as controllerruntime.Options.Pack says.
const copies = "with GetOptions should be able to change object in informer cache"

// passes runs all specs.
func passes(t *testing.T, on string) {
	got := run(t, on, "")
	t.Logf("%d of %d specs pass, with %d caches of lw", got.passed, specs, got.caches)
	if got.passed+len(got.failed) != specs || (got.caches == 0 && !strings.HasPrefix(on, "client-go")) ||
		(got.err != nil) != (len(got.failed) > 0) {
		t.Fatalf("%d of %d specs were run on %d caches of lw: %v\n%s", got.passed+len(got.failed), specs, got.caches, got.err,
			got.output)
	}
	for _, spec := range got.failed {
		t.Logf("failed: %s", spec)
		if on == "NewCache with Pack" && strings.HasSuffix(spec.name, copies) {
			continue
		}
		if !strings.HasSuffix(spec.name, "cancelled") || !passesAlone(t, on, spec) {
			t.Errorf("failed: %s\n%s", spec.name, got.output)
		}
	}
}

// passesAlone runs a spec again, up to three times.
func passesAlone(t *testing.T, on string, spec failure) bool {
	t.Helper()
	for range 3 {
		if got := run(t, on, regexp.QuoteMeta(spec.name)+"$"); got.err == nil && got.passed > 0 {
			return true
		}
	}
	return false
}

// The suite fails if the informers have a fault: if no transform is called, the specs of transforms
// fail.
func TestSuiteCanFail(t *testing.T) {
	const focus = "Cache with transformers"
	if got := run(t, "NewInformer without transforms", focus); len(got.failed) < 5 || got.err == nil || got.caches == 0 {
		t.Errorf("%d passed and %d failed, %v\n%s", got.passed, len(got.failed), got.err, got.output)
	}
}

// A result is that of a run of the suite.
type result struct {
	passed int
	failed []failure
	caches int   // of lw, that the specs made
	err    error // of go test
	output []byte
}

// A failure is a spec that did not pass.
type failure struct{ name, state, message string }

func (f failure) String() string { return f.state + ": " + f.name + ": " + f.message }

// run runs the specs whose names match focus, on the caches that testdata/lw_test.go.txt names on.
func run(t *testing.T, on, focus string) result {
	t.Helper()
	assets := servers(t)
	report := filepath.Join(t.TempDir(), "report.json")
	args := []string{"test", "-count=1", "-timeout=40m", "-modfile=" + module(t)}
	if raceDetector {
		args = append(args, "-race")
	}
	args = append(args, cachePackage, "-v", "-ginkgo.no-color", "-ginkgo.json-report="+report)
	if focus != "" {
		args = append(args, "-run=TestSource", "-ginkgo.focus="+focus)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "LW_CACHE="+on, "GOWORK=off")
	if strings.HasSuffix(on, "behind a relay") {
		// kube-apiserver waits for a minute for the relay's watches, which are open until after the
		// suite.
		cmd.Env = append(cmd.Env, "LW_RELAY="+relayProgram(t), "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=3m")
	}
	r := ended(t, cmd, report, focus)
	if i := bytes.LastIndex(r.output, []byte("caches of lw: ")); i >= 0 {
		fmt.Sscanf(string(r.output[i:]), "caches of lw: %d", &r.caches)
	}
	return r
}

// ended runs the command and returns what its report says.
func ended(t *testing.T, cmd *exec.Cmd, report, focus string) (r result) {
	t.Helper()
	r.output, r.err = cmd.CombinedOutput()
	content, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("no report: %v\n%s", err, r.output)
	}
	// https://pkg.go.dev/github.com/onsi/ginkgo/v2/types#Report
	var suites []struct {
		SpecReports []struct {
			LeafNodeType            string
			LeafNodeText            string
			ContainerHierarchyTexts []string
			State                   string
			Failure                 struct{ Message string }
		}
	}
	rig.OK(t, json.Unmarshal(content, &suites))
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			switch {
			case spec.State == "passed" && spec.LeafNodeType == "It":
				r.passed++
			case spec.State == "skipped" && focus != "", spec.State == "passed":
			default:
				name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
				r.failed = append(r.failed, failure{name, spec.State, spec.Failure.Message})
			}
		}
	}
	return r
}

// servers returns the directory of kube-apiserver and etcd. Where they are not built the test is
// skipped, or fails if it is required.
func servers(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd", "build", "-built", "kube")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err == nil {
		return strings.TrimSpace(string(out))
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(string(exit.Stderr))
	}
	if os.Getenv("LW_E2E_REQUIRED") != "" {
		t.Fatal(err)
	}
	t.Skipf("kube-apiserver is not there, so controller-runtime's suite does NOT run: %v", err)
	return ""
}

// relayProgram builds the command of module e2e, whose subcommand relay is a relay.
func relayProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "relay")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", file, "./cmd")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// module copies controller-runtime to a temporary directory, and returns a go.mod that replaces the
// module by the copy. In the copy the suite's tests make their caches with newCacheOfTest and their
// clients with newClientOfTest, and have the file that declares them. An overlay of the go command
// would do, if it were not refused for files in the module cache.
func module(t *testing.T) (modfile string) {
	t.Helper()
	out := rig.Must[[]byte](t)(exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		controllerRuntime).Output())
	dir := t.TempDir()
	copied := filepath.Join(dir, "controller-runtime")
	rig.OK(t, os.CopyFS(copied, os.DirFS(strings.TrimSpace(string(out)))))
	hookOthers(t, copied)
	tests := filepath.Join(copied, "pkg", "cache")
	files := rig.Must[[]string](t)(filepath.Glob(filepath.Join(tests, "*_test.go")))
	all := 0
	for _, file := range files {
		if content, n := edited(t, file); n > 0 {
			all += n
			write(t, file, content)
		}
	}
	if all < 30 {
		t.Fatalf("the tests of %s call cache.New and client.New %d times only: is this the suite?", cachePackage, all)
	}
	write(t, filepath.Join(tests, "lw_test.go"), read(t, filepath.Join("testdata", "lw_test.go.txt")))
	modfile = filepath.Join(dir, "go.mod")
	write(t, modfile, fmt.Appendf(read(t, filepath.Join("..", "..", "go.mod")), "\nreplace %s => %s\n",
		controllerRuntime, copied))
	write(t, filepath.Join(dir, "go.sum"), read(t, filepath.Join("..", "..", "go.sum")))
	return modfile
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content := rig.Must[[]byte](t)(os.ReadFile(file))
	return content
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	rig.OK(t, os.WriteFile(file, content, 0o600))
}

// edited returns the content of a test file, with newCacheOfTest in the place of each cache.New and
// newClientOfTest in that of each client.New, and how many there were.
func edited(t *testing.T, file string) ([]byte, int) {
	t.Helper()
	content := read(t, file)
	files := token.NewFileSet()
	parsed := rig.Must[*ast.File](t)(parser.ParseFile(files, file, content, parser.SkipObjectResolution))
	if parsed.Name.Name != "cache_test" {
		return nil, 0
	}
	var found []*ast.SelectorExpr
	ast.Inspect(parsed, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "New" {
			if x, ok := sel.X.(*ast.Ident); ok && ofTest[x.Name] != "" {
				found = append(found, sel)
			}
		}
		return true
	})
	for _, sel := range slices.Backward(found) {
		from, to := files.Position(sel.Pos()).Offset, files.Position(sel.End()).Offset
		content = slices.Replace(content, from, to, []byte(ofTest[sel.X.(*ast.Ident).Name])...)
	}
	return content, len(found)
}

// ofTest has what stands for the functions New of these packages.
var ofTest = map[string]string{"cache": "newCacheOfTest", "client": "newClientOfTest"}
