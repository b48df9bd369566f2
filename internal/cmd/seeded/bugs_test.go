package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Each bug still fits the code, what it makes of it is Go, and its tests are there. That they catch
// it is for the command to show.
func TestBugsApply(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	suites := newSuites(root)
	names := map[string]bool{}
	for _, b := range bugs {
		if names[b.name] {
			t.Errorf("two bugs are called %q", b.name)
		}
		names[b.name] = true
		dir := t.TempDir()
		if _, err := b.overlay(root, dir, trial{}); err != nil {
			t.Error(err)
			continue
		}
		if _, err := suites.trials(b); err != nil {
			t.Error(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no file is changed: %v", b.name, err)
		}
		for _, file := range files {
			if _, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: %v", b.name, err)
			}
		}
	}
	if len(bugs) < 40 {
		t.Errorf("%d bugs, want 40", len(bugs))
	}
}

func TestApply(t *testing.T) {
	e := edit{"f.go", "a", "b"}
	for source, want := range map[string]string{"xax": "xbx", "x": "", "xaxa": ""} {
		got, err := e.apply(source)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("apply(%q) = %q, %v, want %q", source, got, err, want)
		}
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
