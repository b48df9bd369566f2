package main

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each bug finds its one place, what it makes of it is Go, and its tests are there. That it
// compiles and that they catch it is for the command to show.
func TestBugs(t *testing.T) {
	root := filepath.Join("..", "..")
	names := map[string]bool{}
	tests := map[[2]string]bool{}
	for _, b := range bugs {
		if names[b.name] {
			t.Errorf("two bugs are called %q", b.name)
		}
		names[b.name] = true
		texts, err := b.texts(root)
		if err != nil {
			t.Error(err)
		}
		for file, text := range texts {
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: %v", b.name, err)
			}
		}
		if !slices.ContainsFunc(b.folders(), func(folder string) bool {
			at := [2]string{folder, b.tests()}
			if there, known := tests[at]; known {
				return there
			}
			s, err := newSuite(filepath.Join(root, folder), b.tests())
			tests[at] = s != nil && err == nil
			return tests[at]
		}) {
			t.Errorf("%s: there is no test %s", b.name, b.tests())
		}
	}
	if len(bugs) < 150 {
		t.Errorf("%d bugs, want about 200", len(bugs))
	}
}

func writeFiles(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEdit(t *testing.T) {
	const text = `package p

const most = 3

type set[K comparable] struct{ mu lock }

func (s *set[K]) add(k K) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.len() > most && k != nil {
		s.fail(k, "full")
		return errFull
	}
	s.keys[k] = true
	s.fail(k, "none")
	for range 3 {
		s.keys[k] = true
	}
	return nil
}
`
	root := writeFiles(t, map[string]string{"p.go": text,
		"p_test.go": "package p\n\nfunc (s *set) add() { s.mu.Lock() }\n"})
	for _, tc := range []struct{ where, old, new, from, to string }{
		{". set.add", "s.mu.Lock()", "", "\ts.mu.Lock()\n", "\t\n"},
		{". set.add", "__1 > most", "__1 >= most", "s.len() > most", "s.len() >= most"},
		{". set.add", "s.len() > __ && __1", "__1", "s.len() > most && k != nil", "k != nil"},
		{". set.add", "if __ { __ }", "", text[strings.Index(text, "if") : strings.Index(text, "\ts.keys")-1], ""},
		{". set.add", `s.fail(__, "none")`, "go func() { __0 }()", `s.fail(k, "none")`, `go func() { s.fail(k, "none") }()`},
		{". set.add", "s.fail(__); return __1", "return __1", "s.fail(k, \"full\")\n\t\treturn errFull", "return errFull"},
		{". set.add", "for range 3 { s.keys[k] = true }", "for range 3 { }", "for range 3 {\n\t\ts.keys[k] = true\n\t}",
			"for range 3 { }"},
		{". most", "3", "4", "most = 3", "most = 4"},
	} {
		p, err := edit{tc.where, tc.old, tc.new}.find(root, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(strings.Replace(text, tc.from, tc.to, 1), p.put(tc.new)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.old, diff)
		}
	}
	for _, e := range []edit{
		{". set.add", "s.keys[__] = true", ""}, {". set.add", "s.mu.RLock()", ""}, {". set.remove", "s.mu.Lock()", ""},
		{". add", "s.mu.Lock()", ""}, {". set.add", "if {", ""},
	} {
		if _, err := e.find(root, nil); err == nil {
			t.Errorf("%v has a place", e)
		}
	}
	twice := bug{edits: []edit{{". set.add", "s.mu.Lock()", ""}, {". set.add", "defer s.mu.Unlock()", ""}}}
	if texts, err := twice.texts(root); err != nil || strings.Contains(texts[filepath.Join(root, "p.go")], "mu.") {
		t.Errorf("two edits of a file: %v, %v", texts, err)
	}
}

// A test takes with it the files that it uses, and those of which that cannot be told.
func TestSuite(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"in_test.go":   "package p\n\nfunc Hook() {}\n",
		"a_test.go":    "package p_test\n\nfunc TestA(t *testing.T) { helper() }\n",
		"b_test.go":    "package p_test\n\nfunc TestB(t *testing.T) { var help int; _ = help }\n\nfunc helper() { _ = fake{} }\n",
		"c_test.go":    "package p_test\n\nfunc TestC(t *testing.T) {}\n",
		"fake_test.go": "package p_test\n\ntype fake struct{}\n",
		"more_test.go": "package p_test\n\nfunc (f fake) more() { most() }\n",
		"most_test.go": "package p_test\n\nfunc most() {}\n",
		"main_test.go": "package p_test\n\nfunc TestMain(m *testing.M) {}\n",
		"tag_test.go":  "//go:build never\n\npackage p_test\n\nfunc TestTag(t *testing.T) {}\n",
	})
	for run, want := range map[string][]string{
		"^TestA$/sub": {"c_test.go"},
		"TestB$":      {"a_test.go", "c_test.go"},
		"TestC":       {"a_test.go", "b_test.go", "fake_test.go", "more_test.go", "most_test.go"},
	} {
		s, err := newSuite(dir, run)
		if s == nil || err != nil {
			t.Fatalf("%s: %v, %v", run, s, err)
		}
		got := map[string]bool{}
		for _, path := range s.unneeded {
			got[filepath.Base(path)] = true
		}
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("%s leaves out (-want +got):\n%s", run, diff)
		}
	}
	if s, err := newSuite(dir, "TestTag"); s != nil || err != nil {
		t.Errorf("a test that is not built: %v, %v", s, err)
	}
}

// One commit draws one sample, and another one another.
func TestSample(t *testing.T) {
	draw := func(seed string) (names []string) {
		todo, err := choose("", 6, seed)
		if err != nil || len(todo) != 6 {
			t.Fatalf("%d bugs, %v", len(todo), err)
		}
		for _, b := range todo {
			names = append(names, b.name)
		}
		return names
	}
	if a, b, other := draw("c0ffee"), draw("c0ffee"), draw("decaf"); !slices.Equal(a, b) || slices.Equal(a, other) {
		t.Errorf("samples %q, %q and of another commit %q", a, b, other)
	}
	if _, err := choose("no such bug", 0, ""); err == nil {
		t.Error("no bug is no error")
	}
}

func TestCatcher(t *testing.T) {
	for text, want := range map[string]string{
		"--- FAIL: TestProof (0.1s)\n    x.go:1: [rapid] failed after 3 tests: S1: a list shows": "S1, TestProof",
		"--- FAIL: TestGet (0.1s)\n":                                  "TestGet",
		"panic: deadlock: all goroutines in bubble are blocked\n\ngo": "panic: deadlock: all goroutines in bubble are blocked",
		"FAIL": "a failure without a name",
	} {
		if got := catcher(text); got != want {
			t.Errorf("catcher(%q) = %q, want %q", strings.TrimSpace(text), got, want)
		}
	}
}
