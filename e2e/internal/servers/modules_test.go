package servers

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "copy the modules that build the servers")

// TestModules holds the copies of the modules that build the servers to the modules themselves:
// go test -run TestModules ./internal/servers -update copies them.
func TestModules(t *testing.T) {
	for _, k := range Kinds {
		files, err := filepath.Glob(filepath.Join("..", "..", k.module, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"go.mod", "go.sum"} {
			files = append(files, filepath.Join("..", "..", k.module, name))
		}
		slices.Sort(files)
		var want []source
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, source{filepath.Base(file), content})
			if *update {
				if err := os.WriteFile(filepath.Join("modules", k.module, filepath.Base(file)+".txt"), content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if *update {
			continue
		}
		got, err := k.sources()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(source{})); diff != "" {
			t.Errorf("the copy of %s, which -update renews (-want +got):\n%s", k.module, diff)
		}
	}
}
