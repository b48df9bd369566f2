package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	pinned = flag.Bool("pinned", false, "analyse others' programs, which it gets from the module proxy")
	update = flag.Bool("update", false, "with -pinned: write the reports of testdata/pinned")
	source = flag.String("source", "", "with -pinned: name=directory of a checkout, for a program that the proxy does not have")
)

// An other is a program that is analysed.
type other struct {
	name   string
	module string // path@version; "" for a module of this repository, which is in dir
	dir    string
	rare   bool // not every proxy has it
	args   []string
}

// others are programs of others, at versions that do not change, and lw's own examples. programs.md
// says what the reports show.
var others = []other{
	{name: "controller", dir: "../examples/cluster", args: []string{"./controller"}},
	{name: "manager", dir: "../examples/cluster", args: []string{"./manager"}},
	{name: "sample-controller", module: "k8s.io/sample-controller@v0.37.0", args: []string{"."}},
	{name: "coredns", module: "github.com/coredns/coredns@v1.15.0", args: []string{
		"-type", podType, "-type", "k8s.io/api/core/v1.Service", "-type", "k8s.io/api/core/v1.Namespace",
		"-type", "k8s.io/api/discovery/v1.EndpointSlice", "./plugin/kubernetes"}},
	// The last release that kept pods whole, and the first one with a transform function.
	{name: "keda-2.19", module: "github.com/kedacore/keda/v2@v2.19.0", args: []string{
		"-type", podType, "-type", "k8s.io/api/apps/v1.Deployment", "./cmd/operator", "./cmd/adapter"}},
	{name: "keda-2.20", module: "github.com/kedacore/keda/v2@v2.20.0", args: []string{
		"-ignore", `util\.(CacheObjectTransform|stripPodFields)$`,
		"-type", podType, "-type", "k8s.io/api/apps/v1.Deployment", "./cmd/operator", "./cmd/adapter"}},
	{name: "network-policy", module: "github.com/aws/amazon-network-policy-controller-k8s@v1.1.7", rare: true, args: []string{
		"-ignore", "StripDown", "-type", podType, "-type", "k8s.io/api/core/v1.Service", "-type", "k8s.io/api/core/v1.Namespace", "./cmd"}},
}

// TestPinned: what is found in real programs is what programs.md explains.
func TestPinned(t *testing.T) {
	if !*pinned {
		t.Skip("others' programs are for .ci/nightly: -pinned")
	}
	for _, o := range others {
		t.Run(o.name, func(t *testing.T) {
			dir := o.dir
			if name, checkout, _ := strings.Cut(*source, "="); name == o.name {
				dir = checkout
			} else if dir == "" {
				dir = download(t, o.module, o.rare)
			}
			status, out, errs := run(t, dir, o.args...)
			if status != exitDone {
				t.Fatalf("status %d\n%s", status, errs)
			}
			file := filepath.Join("testdata", "pinned", o.name+".txt")
			if *update {
				write(t, file, out)
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if out != string(want) {
				t.Errorf("it is now\n%s\nwant\n%s", out, want)
			}
		})
	}
}

// download returns the directory of a module in the module cache. It is analysed there as its main
// module, with the replacements and the versions that its authors build it with.
func download(t *testing.T, module string, rare bool) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // no module's
	out, err := cmd.Output()
	var got struct{ Dir, Error string }
	if e := json.Unmarshal(out, &got); e != nil {
		t.Fatalf("go mod download %s: %v: %v", module, err, e)
	}
	if got.Error != "" && rare {
		t.Skipf("%s cannot be had: %s", module, got.Error)
	}
	if got.Error != "" {
		t.Fatalf("%s: %s", module, got.Error)
	}
	return got.Dir
}
