package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"

	"github.com/go-lw/lw/internal/golist"
)

// compileAll checks that bugs compile.
func compileAll(todo []bug, root string) error {
	c := newCompiler(root)
	var errs []error
	for _, b := range todo {
		if err := c.check(b); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.name, err))
		}
	}
	fmt.Printf("%d bugs, of which %d do not compile\n", len(todo), len(errs))
	return errors.Join(errs...)
}

// A compiler tells whether bugs compile, much faster than the go command: it checks the types of
// the changed packages alone.
type compiler struct {
	root     string
	packages map[string]*checkedPackage // by folder
}

func newCompiler(root string) *compiler {
	return &compiler{root: root, packages: map[string]*checkedPackage{}}
}

// A checkedPackage is what is needed to check a package with other texts of some files.
type checkedPackage struct {
	files   []string // their paths
	fset    *token.FileSet
	imports types.Importer
}

// check returns an error if the packages that b changes do not compile with it.
func (c *compiler) check(b bug) error {
	changed, err := b.changed(c.root)
	if err != nil {
		return err
	}
	folders := map[string]bool{}
	for file := range changed {
		folders[filepath.Dir(file)] = true
	}
	for folder := range folders {
		p, err := c.load(folder)
		if err == nil {
			err = p.check(changed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load returns the package in folder.
func (c *compiler) load(folder string) (*checkedPackage, error) {
	if p := c.packages[folder]; p != nil {
		return p, nil
	}
	packages, err := golist.List(folder, "-export", "-deps", ".") // folder may be in a module of its own
	if err != nil {
		return nil, err
	}
	p := &checkedPackage{fset: token.NewFileSet()}
	p.imports = golist.Importer(p.fset, packages)
	for _, name := range packages[len(packages)-1].GoFiles { // the dependencies come first
		p.files = append(p.files, filepath.Join(folder, name))
	}
	c.packages[folder] = p
	return p, nil
}

// check checks the types of the package with the texts of changed in the place of its own.
func (p *checkedPackage) check(changed map[string]string) error {
	var files []*ast.File
	for _, path := range p.files {
		var text any // nil: what is in the file
		if other, ok := changed[path]; ok {
			text = other
		}
		file, err := parser.ParseFile(p.fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	var errs []error
	config := types.Config{Importer: p.imports, Error: func(err error) { errs = append(errs, err) }}
	config.Check("changed", p.fset, files, nil)
	return errors.Join(errs...)
}
