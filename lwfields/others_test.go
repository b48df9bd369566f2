package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
			if err := json.Unmarshal([]byte(out), &report); err != nil {
				t.Fatal(err)
			}
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
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(work, filepath.FromSlash(own.into))
	name := ""
	for _, e := range own.edits {
		files, err := filepath.Glob(filepath.Join(into, e.files))
		if err != nil {
			t.Fatal(err)
		}
		times, re := 0, regexp.MustCompile(e.old)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			n := len(re.FindAll(text, -1))
			if n == 0 {
				continue
			}
			if times += n; name == "" {
				name = string(regexp.MustCompile(`(?m)^package (\w+)`).FindSubmatch(text)[1])
			}
			write(t, file, string(re.ReplaceAll(text, []byte(e.new))))
		}
		if times < e.times {
			t.Fatalf("%s has %q %d times, want %d", e.files, e.old, times, e.times)
		}
	}
	module, err := os.ReadFile(filepath.Join(work, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile(`(?m)^module (\S+)`).FindSubmatch(module)[1]
	write(t, filepath.Join(into, own.file), strings.NewReplacer("PACKAGE", name, "MODULE", string(path)).Replace(cutFile))
	driver, err := os.ReadFile(filepath.Join("testdata", "programs", "driver", "driver.go"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(work, "lwdriver", "driver.go"), string(driver))
	return work
}

// test runs the tests of a copy, and returns what they print and the types of what was cut.
func (own *ownTest) test(t *testing.T, work string, masks map[string][]string) (text, cut string, err error) {
	t.Helper()
	input, err := json.Marshal(masks)
	if err != nil {
		t.Fatal(err)
	}
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
