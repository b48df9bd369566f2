package controllerruntime

import (
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
	"time"

	"github.com/go-lw/lw/internal/verify/rig"
)

var foreign = flag.String("foreign", "", "also run foreign suites on lwenvtest: all, or those of the modules whose path contains this")

// Suites of envtest pass on command lwenvtest, apart from the specs that foreignProjects names.
// Nothing of a suite is changed, and none is copied: go test finds it in the module cache. The
// dependencies are those of module e2e or newer, so that the suites share what is compiled, except
// where they are the project's own.
func TestForeign(t *testing.T) {
	if *foreign == "" {
		t.Skip("run by .ci/nightly, with -foreign=all")
	}
	assets := lwenvtest(t)
	for _, p := range foreignProjects {
		if *foreign != "all" && !strings.Contains(p.module, *foreign) {
			continue
		}
		t.Run(strings.TrimPrefix(p.module, "github.com/"), func(t *testing.T) {
			mod, dir := modfile(t, p)
			env := append(os.Environ(), "GOWORK=off", "KUBEBUILDER_ASSETS="+assets)
			for name, f := range p.folders {
				env = append(env, name+"="+filepath.Join(moduleDir(t, f.module), f.path))
			}
			for _, pkg := range slices.Sorted(maps.Keys(p.suites)) {
				t.Run(pkg, func(t *testing.T) {
					begin := time.Now()
					cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=30m", "-vet=off", "-mod=mod",
						"-modfile="+mod, path.Join(p.module, pkg))
					cmd.Dir, cmd.Env = dir, env
					p.suites[pkg].run(t, cmd)
					t.Logf("built and run in %v", time.Since(begin).Round(time.Second))
				})
			}
		})
	}
}

// lwenvtest builds the command, as small as docs/test.md says it is, and returns what it says for
// KUBEBUILDER_ASSETS.
func lwenvtest(t *testing.T) (assets string) {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", dir, ".")
	build.Dir = filepath.Join("..", "..", "..", "..", "cmd", "lwenvtest")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The linker keeps all methods of all types where anything finds methods by their names, as
	// text/template does. The flag -dumpdep of the linker prints who does so, with <ReflectMethod>.
	if file := rig.Must[os.FileInfo](t)(os.Stat(filepath.Join(dir, "lwenvtest"))); file.Size() > 80e6 {
		t.Errorf("the program has %d MB, want 80 at most", file.Size()/1e6)
	}
	say := exec.CommandContext(t.Context(), filepath.Join(dir, "lwenvtest"), "-assets")
	say.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(dir, "cache")) // the user's would keep a folder for each build
	return strings.TrimSpace(string(rig.Must[[]byte](t)(say.Output())))
}

// modfile returns a go.mod for tests of the project, and the directory to run them in. It requires
// the project and what module e2e does, unless it is the project's own.
func modfile(t *testing.T, p project) (file, dir string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "go.mod")
	if p.own {
		dir = moduleDir(t, p.module+"@"+p.version)
		for _, name := range []string{"go.mod", "go.sum"} {
			write(t, filepath.Join(filepath.Dir(file), name), read(t, filepath.Join(dir, name)))
		}
		return file, dir
	}
	e2e := filepath.Join("..", "..")
	mod := read(t, filepath.Join(e2e, "go.mod"))
	sums := [][]byte{read(t, filepath.Join(e2e, "go.sum"))}
	for _, module := range append([]string{p.module}, p.parts...) {
		if module == controllerRuntime { // which e2e requires
			continue
		}
		mod = fmt.Appendf(mod, "\nrequire %s %s\n", module, p.version)
		sums = append(sums, read(t, filepath.Join(moduleDir(t, module+"@"+p.version), "go.sum")))
	}
	write(t, file, mod)
	write(t, filepath.Join(filepath.Dir(file), "go.sum"), union(sums...))
	return file, ""
}
