package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
			if want := read(t, file); out != want {
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

// An ownTest says how a program's own tests are run on objects that are cut to what is read.
type ownTest struct {
	name     string // in others
	packages []string
	into     string // the folder of the package that gets the objects
	file     string // the name of the file with the function cut
	edits    []ownEdit
	types    []string // of which objects have to be cut
	needed   string   // without this path the tests fail
}

// An ownEdit puts cut where the files that match get objects, at least so often.
type ownEdit struct {
	files    string
	old, new string
	times    int
}

var ownTests = []ownTest{
	{name: "sample-controller", packages: []string{"."}, into: ".", file: "cut_test.go", edits: []ownEdit{
		{"controller_test.go", `Informer\(\)\.GetIndexer\(\)\.Add\((d)\)`, `Informer().GetIndexer().Add(cut($1.DeepCopy()))`, 1},
		{"controller_test.go", `(\tc\.foosSynced = )`, `	_ = k8sI.Apps().V1().Deployments().Informer().SetTransform(func(obj any) (any, error) { return cut(obj), nil })` + "\n$1", 1},
	}, types: []string{"k8s.io/api/apps/v1.Deployment"}, needed: "spec.replicas"},
}

// cutFile is added to a program. What it cuts it writes down.
const cutFile = `package PACKAGE

import (
	"encoding/json"
	"os"
	"reflect"

	"MODULE/lwdriver"
)

var masks = func() (m map[string][]string) {
	if err := json.Unmarshal([]byte(os.Getenv("LWFIELDS_MASKS")), &m); err != nil {
		panic(err)
	}
	return m
}()

func cut[T any](obj T) T {
	t := reflect.TypeOf(obj)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(obj).IsNil() {
		return obj
	}
	name := t.Elem().PkgPath() + "." + t.Elem().Name()
	mask, ok := masks[name]
	if !ok {
		return obj
	}
	driver.Prune(obj, mask)
	f, err := os.OpenFile(os.Getenv("LWFIELDS_CUT"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(name + "\n"); err != nil {
		panic(err)
	}
	return obj
}
`

// TestOthersOwnTests: the tests of real programs pass on objects that are cut to the masks that are
// found, and not on objects that lack a path of them.
func TestOthersOwnTests(t *testing.T) {
	if !*pinned {
		t.Skip("others' programs are for .ci/nightly: -pinned")
	}
	for _, own := range ownTests {
		t.Run(own.name, func(t *testing.T) {
			o := others[slices.IndexFunc(others, func(o other) bool { return o.name == own.name })]
			dir := download(t, o.module, false)
			status, out, errs := run(t, dir, append([]string{"-json"}, o.args...)...)
			if status != exitDone {
				t.Fatalf("status %d\n%s", status, errs)
			}
			var report Report
			noErr(t, json.Unmarshal([]byte(out), &report))
			masks := map[string][]string{}
			for _, typ := range report.Types {
				if slices.Contains(own.types, typ.Name) && len(typ.All) == 0 {
					masks[typ.Name] = typ.Mask
				}
			}
			if len(masks) != len(own.types) {
				t.Fatalf("masks %v, want those of %v", masks, own.types)
			}
			work := own.prepare(t, dir)

			text, cut, err := own.test(t, work, masks)
			if err != nil {
				t.Fatalf("with the masks %v: %v\n%s", masks, err, text)
			}
			for _, typ := range own.types {
				n := strings.Count(cut, typ+"\n")
				t.Logf("%d objects %s were cut to %q", n, typ, masks[typ])
				if n == 0 {
					t.Errorf("no %s was cut", typ)
				}
			}
			for typ, mask := range masks {
				masks[typ] = slices.DeleteFunc(slices.Clone(mask), func(path string) bool { return path == own.needed })
			}
			if text, _, err := own.test(t, work, masks); err == nil || !strings.Contains(text, "--- FAIL") {
				t.Errorf("without %s: %v\n%s", own.needed, err, text)
			}
		})
	}
}

// prepare makes a copy of a program in which objects are cut.
func (own *ownTest) prepare(t *testing.T, dir string) string {
	t.Helper()
	work := filepath.Join(t.TempDir(), "program")
	noErr(t, os.CopyFS(work, os.DirFS(dir)))
	into := filepath.Join(work, filepath.FromSlash(own.into))
	name := ""
	for _, e := range own.edits {
		times, re := 0, regexp.MustCompile(e.old)
		for _, file := range must[[]string](t)(filepath.Glob(filepath.Join(into, e.files))) {
			text := read(t, file)
			n := len(re.FindAllString(text, -1))
			if n == 0 {
				continue
			}
			if times += n; name == "" {
				name = regexp.MustCompile(`(?m)^package (\w+)`).FindStringSubmatch(text)[1]
			}
			write(t, file, re.ReplaceAllString(text, e.new))
		}
		if times < e.times {
			t.Fatalf("%s has %q %d times, want %d", e.files, e.old, times, e.times)
		}
	}
	path := regexp.MustCompile(`(?m)^module (\S+)`).FindStringSubmatch(read(t, filepath.Join(work, "go.mod")))[1]
	write(t, filepath.Join(into, own.file), strings.NewReplacer("PACKAGE", name, "MODULE", path).Replace(cutFile))
	write(t, filepath.Join(work, "lwdriver", "driver.go"), read(t, filepath.Join("testdata", "programs", "driver", "driver.go")))
	return work
}

// test runs the tests of a copy, and returns what they print and the types of what was cut.
func (own *ownTest) test(t *testing.T, work string, masks map[string][]string) (text, cut string, err error) {
	t.Helper()
	input := must[[]byte](t)(json.Marshal(masks))
	file := filepath.Join(t.TempDir(), "cut")
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1"}, own.packages...)...)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "LWFIELDS_MASKS="+string(input), "LWFIELDS_CUT="+file, "GOWORK=off")
	out, err := cmd.CombinedOutput()
	names, readErr := os.ReadFile(file)
	if readErr != nil && err == nil {
		t.Fatalf("nothing was cut: %v\n%s", readErr, out)
	}
	return string(out), string(names), err
}
