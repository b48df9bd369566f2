package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"go/types"
	"os"
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
	if err != nil {
		t.Fatal(err)
	}
	var roots []*pkg
	for _, one := range p.pkgs {
		if one.root {
			roots = append(roots, one)
		}
	}
	for round := 1; ; round++ {
		if err := p.build(); err != nil {
			t.Fatal(err)
		}
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
				one, err := p.lookup(name)
				if err != nil {
					t.Fatal(err)
				}
				named = append(named, one)
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
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		has = has || strings.Contains(string(text), "// want ") || strings.Contains(string(text), "func Run(")
		if _, rest, ok := strings.Cut(string(text), "// types: "); ok {
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
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, file := range files {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
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
