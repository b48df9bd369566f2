package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The patch fits the client-go of the next Kubernetes, and what is patched compiles. lwbuild refuses
// that client-go all the same until newestKept is raised: a constructor of informers that only the
// new one has would stay client-go's, and nobody would say so. .ci/next runs this test, and says
// where client-go is, and which modules it is built with.
func TestNext(t *testing.T) {
	from := origin{path: clientGoPath, name: "next", dir: os.Getenv("LWBUILD_CLIENT_GO")}
	dir := must[string](t)(from.patched(t.TempDir()))
	edit := append([]string{"mod", "edit"}, strings.Fields(os.Getenv("LWBUILD_REPLACES"))...)
	for _, args := range [][]string{edit, {"build", "-mod=mod", "./rest", "./tools/cache"}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	// What makes informers, watches and clients: whoever raises newestKept looks at each new one.
	known := map[string]bool{}
	for _, in := range patches[clientGoPath].insertions {
		known[in.name] = true
	}
	for _, name := range strings.Fields("NewSharedInformer NewSharedIndexInformer NewTypedSharedIndexInformer NewInformerName") {
		known[name] = true // they call one that is patched, are given one, or make none
	}
	for _, file := range must[[]string](t)(filepath.Glob(filepath.Join(dir, "tools/cache/*.go"))) {
		for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile(file)))) {
			name, _, ok := strings.Cut(strings.TrimPrefix(line, "func "), "(")
			name, _, _ = strings.Cut(name, "[")
			if ok && strings.HasPrefix(line, "func New") && strings.Contains(name, "Informer") && !known[name] {
				t.Errorf("%s is not patched", name)
			}
		}
	}
}
