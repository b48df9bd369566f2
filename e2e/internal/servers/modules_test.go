package servers

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/verify/rig"
)

var update = flag.Bool("update", false, "copy the modules that build the servers")

// TestModules holds the copies of the modules that build the servers to the modules themselves:
// go test -run TestModules ./internal/servers -update copies them.
func TestModules(t *testing.T) {
	for _, k := range Kinds {
		files := rig.Must[[]string](t)(filepath.Glob(filepath.Join("..", "..", k.module, "*.go")))
		for _, name := range []string{"go.mod", "go.sum"} {
			files = append(files, filepath.Join("..", "..", k.module, name))
		}
		slices.Sort(files)
		var want []source
		for _, file := range files {
			content := rig.Must[[]byte](t)(os.ReadFile(file))
			want = append(want, source{filepath.Base(file), content})
			if *update {
				rig.OK(t, os.WriteFile(filepath.Join("modules", k.module, filepath.Base(file)+".txt"), content, 0o644))
			}
		}
		if *update {
			continue
		}
		got := rig.Must[[]source](t)(k.sources())
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(source{})); diff != "" {
			t.Errorf("the copy of %s, which -update renews (-want +got):\n%s", k.module, diff)
		}
	}
}
