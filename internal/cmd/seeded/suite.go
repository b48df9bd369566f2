package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A suite is the test files of a folder, taken apart into their declarations. A bug is tried with
// the tests that it names and with what these use: the compiler takes most of the time of a trial,
// and a folder has a hundred times as many tests.
type suite struct {
	files   []*testFile
	decls   map[types.Object]*testDecl   // by each name at the top level
	methods map[types.Object][]*testDecl // of the types that the files declare
}

type testFile struct {
	path, text string
	tree       *ast.File
	fset       *token.FileSet
	outside    bool // of the package with the suffix _test
	decls      []*testDecl
}

// A testDecl is a declaration at the top level of a test file.
type testDecl struct {
	file     *testFile
	node     ast.Decl
	declares []types.Object
	uses     []types.Object  // of the test files' top level
	selected map[string]bool // the names behind a dot
	method   string          // its name, if it is one of a type that no test file declares
}

// loadSuite reads the test files in folder.
func loadSuite(folder string) (*suite, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	s := &suite{decls: map[types.Object]*testDecl{}, methods: map[types.Object][]*testDecl{}}
	fset := token.NewFileSet()
	for _, name := range paths {
		if ok, err := build.Default.MatchFile(folder, filepath.Base(name)); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, &testFile{path: name, text: string(text), tree: tree, fset: fset,
			outside: strings.HasSuffix(tree.Name.Name, "_test")})
	}
	for _, outside := range []bool{false, true} {
		s.resolve(fset, outside)
	}
	return s, nil
}

// resolve finds what the declarations of one of the folder's two test packages use of it. Packages
// that it imports and product files are left out, so that most types stay unknown: the scopes of
// names do not depend on these.
func (s *suite) resolve(fset *token.FileSet, outside bool) {
	var trees []*ast.File
	for _, f := range s.files {
		if f.outside == outside {
			trees = append(trees, f.tree)
		}
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyPackages{}, Error: func(error) {}}
	_, _ = config.Check("tests", fset, trees, info)
	for _, f := range s.files {
		if f.outside != outside {
			continue
		}
		for _, node := range f.tree.Decls {
			if g, ok := node.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
				continue
			}
			d := &testDecl{file: f, node: node, selected: map[string]bool{}}
			d.resolve(info)
			f.decls = append(f.decls, d)
			s.file(d, info)
		}
	}
}

// emptyPackages are what a type checker takes for imported packages.
type emptyPackages struct{}

func (emptyPackages) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, importName(path))
	p.MarkComplete()
	return p, nil
}

var major = regexp.MustCompile(`^v[0-9]+$`)

// importName guesses the name of a package. Where that is wrong the import stays, and if nothing
// uses it, all tests of the folder are compiled.
func importName(of string) string {
	if major.MatchString(path.Base(of)) {
		return path.Base(path.Dir(of))
	}
	return path.Base(of)
}

// resolve finds what d uses.
func (d *testDecl) resolve(info *types.Info) {
	ast.Inspect(d.node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			d.selected[n.Sel.Name] = true
		case *ast.Ident:
			if object := info.Uses[n]; object != nil && object.Pkg() != nil && object.Parent() == object.Pkg().Scope() {
				d.uses = append(d.uses, object)
			}
		}
		return true
	})
}

// file puts d under what it declares.
func (s *suite) file(d *testDecl, info *types.Info) {
	switch node := d.node.(type) {
	case *ast.FuncDecl:
		if node.Recv == nil {
			d.declares = append(d.declares, info.Defs[node.Name])
			break
		}
		d.method = node.Name.Name
		ast.Inspect(node.Recv.List[0].Type, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if object := info.Uses[name]; ok && object != nil && object.Parent() == object.Pkg().Scope() {
				d.method = ""
				s.methods[object] = append(s.methods[object], d)
			}
			return true
		})
	case *ast.GenDecl:
		for _, spec := range node.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				d.declares = append(d.declares, info.Defs[spec.Name])
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					d.declares = append(d.declares, info.Defs[name])
				}
			}
		}
	}
	for _, object := range d.declares {
		s.decls[object] = d
	}
}

// needed returns the declarations that the tests which run names use; nil if it names none.
func (s *suite) needed(run string) (map[*testDecl]bool, error) {
	match, err := topLevel(run)
	if err != nil {
		return nil, err
	}
	needed := map[*testDecl]bool{}
	var todo []*testDecl
	need := func(d *testDecl) {
		if d != nil && !needed[d] {
			needed[d] = true
			todo = append(todo, d)
		}
	}
	s.each(func(d *testDecl) {
		if name := d.function(); isTest(name) && match.MatchString(name) {
			need(d)
		}
	})
	if len(todo) == 0 {
		return nil, nil
	}
	s.each(func(d *testDecl) {
		if name := d.function(); name == "TestMain" || name == "init" {
			need(d)
		}
	})
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, object := range d.uses {
			need(s.decls[object])
		}
		for _, object := range d.declares {
			for _, m := range s.methods[object] {
				need(m)
			}
		}
		s.each(func(other *testDecl) {
			if d.mayUse(other) {
				need(other)
			}
		})
	}
	return needed, nil
}

// mayUse reports whether d uses, by a name behind a dot, a method that other adds to a type of the
// product, or what other declares inside the package for tests outside it.
func (d *testDecl) mayUse(other *testDecl) bool {
	if other.method != "" {
		return d.selected[other.method]
	}
	return d.file.outside && !other.file.outside &&
		slices.ContainsFunc(other.declares, func(o types.Object) bool { return d.selected[o.Name()] })
}

func (s *suite) each(f func(*testDecl)) {
	for _, file := range s.files {
		for _, d := range file.decls {
			f(d)
		}
	}
}

// function returns the name of the function that d declares; "": it declares none.
func (d *testDecl) function() string {
	if f, ok := d.node.(*ast.FuncDecl); ok && f.Recv == nil {
		return f.Name.Name
	}
	return ""
}

// isTest reports whether -test.run can choose a function of this name.
func isTest(name string) bool {
	return name != "TestMain" &&
		(strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example"))
}

// topLevel returns from the value of -test.run what tests must match, without their subtests.
func topLevel(run string) (*regexp.Regexp, error) {
	var out strings.Builder
	depth, below := 0, false
	for _, c := range run {
		switch {
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case c == '/' && depth == 0:
			below = true
		case c == '|' && depth == 0:
			below = false
		}
		if !below {
			out.WriteRune(c)
		}
	}
	return regexp.Compile(out.String())
}

// overlay adds to replace the test files with what is needed of them, which it writes into dir.
// Each declaration stays in its line.
func (s *suite) overlay(needed map[*testDecl]bool, dir string, replace map[string]string) error {
	for i, f := range s.files {
		text := f.only(needed)
		if text == "" {
			replace[f.path] = "" // not there
			continue
		}
		to := filepath.Join(dir, fmt.Sprintf("needed%d_test.go", i))
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
		replace[f.path] = to
	}
	return nil
}

// only returns the text of f with blanks in the place of what is not needed; "": nothing is.
func (f *testFile) only(needed map[*testDecl]bool) string {
	text := []byte(f.text)
	before, after := map[string]bool{}, map[string]bool{} // names with a dot behind them: in all of f, in what is needed
	some := false
	for _, d := range f.decls {
		names(d.node, before)
		if needed[d] {
			some = true
			names(d.node, after)
			continue
		}
		from := d.node.Pos()
		switch node := d.node.(type) {
		case *ast.FuncDecl:
			if node.Doc != nil {
				from = node.Doc.Pos()
			}
		case *ast.GenDecl:
			if node.Doc != nil {
				from = node.Doc.Pos()
			}
		}
		f.blank(text, from, d.node.End())
	}
	if !some {
		return ""
	}
	for _, node := range f.tree.Decls {
		g, ok := node.(*ast.GenDecl)
		if !ok || g.Tok != token.IMPORT {
			continue
		}
		for _, spec := range g.Specs {
			spec := spec.(*ast.ImportSpec)
			name := importName(strings.Trim(spec.Path.Value, `"`))
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if before[name] && !after[name] {
				if g.Lparen.IsValid() {
					f.blank(text, spec.Pos(), spec.End())
				} else {
					f.blank(text, g.Pos(), g.End())
				}
			}
		}
	}
	return string(text)
}

// names adds to out the names in n with a dot behind them.
func names(n ast.Node, out map[string]bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				out[x.Name] = true
			}
		}
		return true
	})
}

// blank overwrites a part of text, and keeps its lines.
func (f *testFile) blank(text []byte, from, to token.Pos) {
	start, end := f.fset.PositionFor(from, false).Offset, f.fset.PositionFor(to, false).Offset
	for i := start; i < end; i++ {
		if text[i] != '\n' {
			text[i] = ' '
		}
	}
}
