package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A golden is a program of testdata/programs with what was found in it.
type golden struct {
	name   string
	report *Report
}

const podType = "k8s.io/api/core/v1.Pod"

// programs analyses each package of a module as a program of its own. The packages are read once.
func programs(t testing.TB, dir string, patterns ...string) []golden {
	t.Helper()
	p, err := load(dir, patterns, nil)
	noErr(t, err)
	var roots []*pkg
	for _, one := range p.pkgs {
		if one.root {
			roots = append(roots, one)
		}
	}
	for round := 1; ; round++ {
		noErr(t, p.build())
		var all []golden
		want := map[*pkg]bool{}
		for _, root := range roots {
			for _, one := range roots {
				one.root = one == root
			}
			names := wantedTypes(t, root)
			if len(names) == 0 {
				continue
			}
			var named []*types.Named
			for _, name := range names {
				named = append(named, must[*types.Named](t)(p.lookup(name)))
			}
			a := newAnalysis(p, named, regexp.MustCompile(`/ignored\.`))
			a.run()
			for one := range a.want {
				want[one] = true
			}
			all = append(all, golden{filepath.Base(root.path), a.report(nil)})
		}
		if len(want) == 0 || round == maxRounds {
			return all
		}
		for one := range want {
			one.source = true
		}
	}
}

// wantedTypes are those of a comment "// types: a b"; a Pod if there is none, and nothing for a
// package without wants.
func wantedTypes(t testing.TB, root *pkg) []string {
	has := false
	for _, file := range root.files {
		text := read(t, file)
		has = has || strings.Contains(text, "// want ") || strings.Contains(text, "func Run(")
		if _, rest, ok := strings.Cut(text, "// types: "); ok {
			line, _, _ := strings.Cut(rest, "\n")
			return strings.Fields(line)
		}
	}
	if !has {
		return nil
	}
	return []string{podType}
}

// wants reads the comments of a package: "file:line: path".
func wants(t *testing.T, dir string) []string {
	var all []string
	for _, file := range must[[]string](t)(filepath.Glob(filepath.Join(dir, "*.go"))) {
		fset := token.NewFileSet()
		f := must[*ast.File](t)(parser.ParseFile(fset, file, nil, parser.ParseComments))
		for _, group := range f.Comments {
			for _, c := range group.List {
				_, text, ok := strings.Cut(c.Text, "// want ")
				if !ok {
					continue
				}
				for text = strings.TrimSpace(text); strings.HasPrefix(text, `"`); text = strings.TrimSpace(text) {
					quoted, err := strconv.QuotedPrefix(text)
					if err != nil {
						t.Fatalf("%s: %v", fset.Position(c.Pos()), err)
					}
					path, _ := strconv.Unquote(quoted)
					text = text[len(quoted):]
					all = append(all, fmt.Sprintf("%s:%d: %s", filepath.Base(file), fset.Position(c.Pos()).Line, path))
				}
			}
		}
	}
	return sorted(all)
}

func sorted(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

// TestGolden: each golden program reads what its comments say, and nothing else.
func TestGolden(t *testing.T) {
	dir := filepath.Join("testdata", "programs")
	for _, g := range programs(t, dir, "./...") {
		t.Run(g.name, func(t *testing.T) {
			var got []string
			for _, typ := range g.report.Types {
				prefix := ""
				if typ.Name != podType {
					prefix = typ.Name[strings.LastIndexByte(typ.Name, '.')+1:] + " "
				}
				for _, f := range typ.lines() {
					got = append(got, fmt.Sprintf("%s:%d: %s%s", filepath.Base(f.File), f.Line, prefix, f.path()))
				}
			}
			got = sorted(got)
			want := wants(t, filepath.Join(dir, g.name))
			for _, w := range want {
				if !slices.Contains(got, w) {
					t.Errorf("missed: %s", w)
				}
			}
			for _, g := range got {
				if !slices.Contains(want, g) {
					t.Errorf("not wanted: %s", g)
				}
			}
		})
	}
}

func (l Line) path() string {
	if l.Path == "" {
		return "ALL"
	}
	return l.Path
}

var rounds = flag.Int("rounds", 40, "so many random objects for each program that is run")

// TestSoundness: a golden program prints the same of whole objects and of objects that are cut to
// the mask that was found. A read that was missed shows as a difference.
func TestSoundness(t *testing.T) {
	dir := filepath.Join("testdata", "programs")
	masks := map[string][]string{}
	work := module(t)
	for _, g := range programs(t, dir, "./...") {
		for _, file := range must[[]string](t)(filepath.Glob(filepath.Join(dir, g.name, "*.go"))) {
			text := read(t, file)
			if !strings.Contains(text, "func Run(w io.Writer, pods []*corev1.Pod)") {
				continue
			}
			masks[g.name] = g.mask()
			write(t, filepath.Join(work, g.name, filepath.Base(file)), text)
		}
	}
	if len(masks) < 15 {
		t.Fatalf("%d programs can be run, want more", len(masks))
	}
	runTwice(t, work, masks)
}

// mask is what was found of a Pod: "ALL", or paths.
func (g golden) mask() []string {
	for _, typ := range g.report.Types {
		if typ.Name == podType {
			if len(typ.All) > 0 {
				return []string{"ALL"}
			}
			return typ.Mask
		}
	}
	return nil
}

// module makes a copy of the module of testdata/programs, with its driver and nothing else.
func module(t *testing.T) string {
	work := t.TempDir()
	root := must[string](t)(filepath.Abs(filepath.Join("..")))
	for _, name := range []string{"go.mod", "go.sum", "driver/driver.go"} {
		text := read(t, filepath.Join("testdata", "programs", filepath.FromSlash(name)))
		write(t, filepath.Join(work, filepath.FromSlash(name)), strings.ReplaceAll(text, "=> ../../..", "=> "+filepath.ToSlash(root)))
	}
	return work
}

// noErr ends the test at an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must is noErr for a call that returns a value as well, which it returns: must[V](t)(call()).
func must[V any](t testing.TB) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		noErr(t, err)
		return v
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	return string(must[[]byte](t)(os.ReadFile(file)))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	noErr(t, os.MkdirAll(filepath.Dir(file), 0o755))
	noErr(t, os.WriteFile(file, []byte(text), 0o644))
}

// runTwice builds the programs that have a mask into one, and runs it.
func runTwice(t *testing.T, work string, masks map[string][]string) {
	t.Helper()
	var main strings.Builder
	main.WriteString("package main\n\nimport (\n\t\"example.com/programs/driver\"\n")
	for name := range masks {
		fmt.Fprintf(&main, "\t%q\n", "example.com/programs/"+name)
	}
	main.WriteString(")\n\nfunc main() {\n\tdriver.Main(map[string]driver.Program{\n")
	for name := range masks {
		fmt.Fprintf(&main, "\t\t%q: %s.Run,\n", name, name)
	}
	fmt.Fprintf(&main, "\t}, %d)\n}\n", *rounds)
	write(t, filepath.Join(work, "main", "main.go"), main.String())
	build := exec.Command("go", "build", "-o", "twice", "./main")
	build.Dir = work
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	input := must[[]byte](t)(json.Marshal(masks))
	run := exec.Command(filepath.Join(work, "twice"))
	run.Stdin = bytes.NewReader(input)
	out, err := run.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// No file uses one of a room above its own. This module does not depend on lw, whose test looks.
func TestRooms(t *testing.T) {
	cmd := exec.Command("go", "test", "-count=1", "-run=^TestModule$", "./internal/layers", "-module=lwfields")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
