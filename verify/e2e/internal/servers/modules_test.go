package servers

import (
	"flag"
	"maps"
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
		const servers = "../../../servers/"
		originals := map[string]string{"go.mod": "kube.mod", "go.sum": "kube.sum"} // of Kube, which needs no other file
		if k.Name == Generic.Name {
			originals = map[string]string{"go.mod": "go.mod", "go.sum": "go.sum"}
			for _, file := range rig.Must[[]string](t)(filepath.Glob(servers + "*.go")) {
				originals[filepath.Base(file)] = filepath.Base(file)
			}
		}
		var want []source
		for _, name := range slices.Sorted(maps.Keys(originals)) {
			content := rig.Must[[]byte](t)(os.ReadFile(servers + originals[name]))
			want = append(want, source{name, content})
			if *update {
				rig.OK(t, os.WriteFile(filepath.Join("modules", k.module, name+".txt"), content, 0o644))
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
