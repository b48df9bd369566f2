package main

import (
	"go/ast"
	"go/build"
	"path/filepath"
	"regexp"
	"strings"
)

// A suite is the tests of a folder that should catch a bug. The compiler takes most of the time of
// a trial, so the test files that they do not need are left out.
type suite struct {
	folder   string
	unneeded []string // paths
}

// newSuite returns the tests of folder that run names; nil if there are none.
func newSuite(folder, run string) (*suite, error) {
	first, _, _ := strings.Cut(run, "/") // a subtest needs what its test needs
	match, err := regexp.Compile(first)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	files, needed := map[string]*ast.File{}, map[string]bool{}
	declares := map[string][]string{} // the files that declare a name, or a method of a type of that name
	var todo []string
	need := func(path string) {
		if !needed[path] {
			needed[path] = true
			todo = append(todo, path)
		}
	}
	found := false
	for _, path := range paths {
		if ok, err := build.Default.MatchFile(folder, filepath.Base(path)); err != nil || !ok {
			continue
		}
		f, err := read(path, 0)
		if err != nil {
			return nil, err
		}
		tree := f.tree
		files[path] = tree
		for _, decl := range tree.Decls {
			f, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok:
			case f.Recv != nil:
				declares[receiver(f)] = append(declares[receiver(f)], path)
			case isTest(f.Name.Name) && match.MatchString(f.Name.Name):
				found = true
				need(path)
			case f.Name.Name == "TestMain" || !strings.HasSuffix(tree.Name.Name, "_test"): // tests outside use what these export
				need(path)
			}
		}
		for name := range tree.Scope.Objects {
			declares[name] = append(declares[name], path)
		}
	}
	if !found {
		return nil, nil
	}
	for len(todo) > 0 {
		tree := files[todo[0]]
		todo = todo[1:]
		for _, id := range tree.Unresolved {
			for _, path := range declares[id.Name] {
				need(path)
			}
		}
		for name := range tree.Scope.Objects { // methods of its types
			for _, path := range declares[name] {
				need(path)
			}
		}
	}
	s := &suite{folder: folder}
	for path := range files {
		if !needed[path] {
			s.unneeded = append(s.unneeded, path)
		}
	}
	return s, nil
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
}
