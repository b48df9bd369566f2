package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// compileAll checks that the bugs whose name matches compile.
func compileAll(match *regexp.Regexp) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "seeded")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, todo := newCompiler(root), matching(match)
	var errs []error
	for i, b := range todo {
		errs = append(errs, c.check(b, filepath.Join(dir, fmt.Sprint(i))))
	}
	fmt.Printf("%d bugs\n", len(todo))
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

// A checkedPackage is what is needed to check a package with other contents of some files.
type checkedPackage struct {
	files   []string
	fset    *token.FileSet
	imports types.Importer
}

// check returns an error if the packages that b changes do not compile with it. dir is for the
// changed files.
func (c *compiler) check(b bug, dir string) error {
	path, err := b.overlay(c.root, dir)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &overlay); err != nil {
		return err
	}
	folders := map[string]bool{}
	for file := range overlay.Replace {
		folders[filepath.Dir(file)] = true
	}
	for folder := range folders {
		p, err := c.load(folder)
		if err == nil {
			err = p.check(overlay.Replace)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// load asks the go command for the files of the package in folder, and for the compiled packages
// that it imports.
func (c *compiler) load(folder string) (*checkedPackage, error) {
	if p := c.packages[folder]; p != nil {
		return p, nil
	}
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles", ".")
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	p, exports := &checkedPackage{fset: token.NewFileSet()}, map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var listed struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
		}
		if err := d.Decode(&listed); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[listed.ImportPath] = listed.Export
		if listed.Dir == folder {
			for _, name := range listed.GoFiles {
				p.files = append(p.files, filepath.Join(folder, name))
			}
		}
	}
	if len(p.files) == 0 {
		return nil, fmt.Errorf("there is no package in %s", folder)
	}
	p.imports = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	c.packages[folder] = p
	return p, nil
}

// check checks the types of the package with other files in the place of its own.
func (p *checkedPackage) check(replace map[string]string) error {
	var files []*ast.File
	for _, path := range p.files {
		if other, ok := replace[path]; ok {
			path = other
		}
		file, err := parser.ParseFile(p.fset, path, nil, parser.SkipObjectResolution)
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
