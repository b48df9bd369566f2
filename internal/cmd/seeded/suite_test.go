package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// suiteFiles are tests inside and outside a package.
var suiteFiles = map[string]string{
	"export_test.go": `package p

func Hook(s *Store) int { return len(s.items) }

func Unused() { helper() }

func helper() {}

// Peek is a method of the product's type.
func (s *Store) Peek() int { return limit }

const limit = 3

func TestInside(t *testing.T) { helper() }
`,
	"a_test.go": `package p_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"example.org/p"
)

func TestRand(t *testing.T) { rand.Int() }

func TestMain(m *testing.M) { m.Run() }

// TestHook uses a hook of the package.
func TestHook(t *testing.T) { fmt.Println(p.Hook(nil)) }

func TestPeek(t *testing.T) {
	helper := strings.ToUpper("shadows the function of the other file")
	fmt.Println(p.New().Peek(), helper)
}

func BenchmarkPeek(b *testing.B) { helper(nil) }
`,
	"b_test.go": `package p_test

import "testing"

type fake struct{ limits }

type limits struct{ most int }

func (l limits) Most() int { return double(l.most) }

func double(n int) int { return 2 * n }

func helper(t *testing.T) { _ = fake{} }

func TestFake(t *testing.T) { t.Run("sub", func(t *testing.T) { helper(t) }) }

func TestFakes(t *testing.T) {}
`,
	"c_test.go": "//go:build never\n\npackage p_test\n\nfunc TestNever(t *testing.T) {}\n",
}

func loadFiles(t *testing.T, files map[string]string) *suite {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := loadSuite(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A test takes with it all that it uses, and nothing else.
func TestNeeded(t *testing.T) {
	s := loadFiles(t, suiteFiles)
	for run, want := range map[string]string{
		"TestHook":              "Hook TestHook TestMain",
		"TestPeek":              "Peek TestMain TestPeek limit",
		"TestInside":            "TestInside TestMain helper",
		"TestFake$":             "Most TestFake TestMain double fake helper limits",
		"TestFakes":             "TestFakes TestMain",
		"^TestFake$/sub|^Other": "Most TestFake TestMain double fake helper limits",
		"^Test(Hook|Fakes)/sub": "Hook TestFakes TestHook TestMain",
		"TestNever":             "",
		"BenchmarkPeek":         "",
	} {
		needed, err := s.needed(run)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for d := range needed {
			for _, object := range d.declares {
				names = append(names, object.Name())
			}
			for object, methods := range s.methods {
				if slices.Contains(methods, d) && object.Name() == "limits" {
					names = append(names, "Most")
				}
			}
			if d.method != "" {
				names = append(names, d.method)
			}
		}
		slices.Sort(names)
		if diff := cmp.Diff(want, strings.Join(names, " ")); diff != "" {
			t.Errorf("%s: %s", run, diff)
		}
	}
	if _, err := s.needed("("); err == nil {
		t.Error("a wrong expression is no error")
	}
}

// What is not needed is left out of a file with what only it imports, and each line stays where it is.
func TestOnly(t *testing.T) {
	s := loadFiles(t, suiteFiles)
	needed, err := s.needed("TestHook")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range s.files {
		text := f.only(needed)
		if n := strings.Count(text, "\n"); text != "" && n != strings.Count(f.text, "\n") {
			t.Errorf("%s has %d lines:\n%s", f.path, n, text)
		}
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		got[filepath.Base(f.path)] = strings.Join(lines, "\n")
	}
	want := map[string]string{
		"export_test.go": "package p\nfunc Hook(s *Store) int { return len(s.items) }",
		"a_test.go": "package p_test\nimport (\n\"fmt\"\n\"testing\"\n\"example.org/p\"\n)\n" +
			"func TestMain(m *testing.M) { m.Run() }\n" +
			"// TestHook uses a hook of the package.\nfunc TestHook(t *testing.T) { fmt.Println(p.Hook(nil)) }",
		"b_test.go": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The tests of a bug are found in the root or in a folder of ./test, or in both.
func TestTrials(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"a_test.go":            "package p\n\nfunc TestA(t *testing.T) {}\n\nfunc TestBoth(t *testing.T) {}\n",
		"test/store/b_test.go": "package p_test\n\nfunc TestB(t *testing.T) {}\n\nfunc TestBothAndMore(t *testing.T) {}\n",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := newSuites(root)
	for run, want := range map[string][]string{
		"TestA": {"."}, "TestB$": {"./test/store"}, "TestBoth": {".", "./test/store"}, "TestBoth$": {"."},
	} {
		trials, err := s.trials(bug{run: run})
		var got []string
		for _, trial := range trials {
			got = append(got, trial.folder)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", run, err, diff)
		}
	}
	for _, b := range []bug{{name: "lost", run: "TestC"}, {name: "lost", run: "TestB$", in: "."}} {
		if _, err := s.trials(b); err == nil || !strings.HasPrefix(err.Error(), "lost: there is no test "+b.run+" in .") {
			t.Errorf("the error is %v", err)
		}
	}
}
