package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-lw/lw/internal/golist"
)

// A pkg is a package to mutate, with its types.
type pkg struct {
	path    string // for import
	dir     string
	name    string
	root    string // of the module
	folder  string // of the module, from the root of the repository; "": it is the root's
	fset    *token.FileSet
	files   []*source
	types   *types.Package
	info    *types.Info
	imports types.Importer
	mutants []*mutant
}

// A source is one file of a package.
type source struct {
	pkg  *pkg
	name string // from the root of the repository
	path string
	text string
	tree *ast.File
	// sites are the places that mutants change.
	sites []*site
}

const rootModule = "github.com/go-lw/lw"

// load parses packages and finds the types of all that is in them.
func load(patterns []string) ([]*pkg, error) {
	wanted, err := golist.List("", patterns...)
	if err != nil {
		return nil, err
	}
	// os, strconv and sync/atomic are those of the scaffold.
	deps, err := golist.List("", append([]string{"-deps", "-export", "os", "strconv", "sync/atomic"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var out []*pkg
	for _, l := range wanted {
		p := &pkg{path: l.ImportPath, dir: l.Dir, name: l.Name, root: l.Module.Dir, fset: token.NewFileSet()}
		p.folder = strings.TrimPrefix(strings.TrimPrefix(l.Module.Path, rootModule), "/")
		p.imports = golist.Importer(p.fset, deps)
		for _, name := range l.GoFiles {
			if err := p.read(name); err != nil {
				return nil, err
			}
		}
		p.info = &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		}
		trees := make([]*ast.File, len(p.files))
		for i, f := range p.files {
			trees[i] = f.tree
		}
		conf := types.Config{Importer: p.imports}
		if p.types, err = conf.Check(p.path, p.fset, trees, p.info); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (p *pkg) read(name string) error {
	f := &source{pkg: p, path: filepath.Join(p.dir, name)}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	f.text = string(data)
	if f.name, err = filepath.Rel(p.root, f.path); err != nil {
		return err
	}
	f.name = filepath.Join(p.folder, f.name)
	f.tree, err = parser.ParseFile(p.fset, f.path, data, parser.ParseComments|parser.SkipObjectResolution)
	p.files = append(p.files, f)
	return err
}

// of returns the source of a node.
func (src *source) of(n ast.Node) string { return src.text[src.offset(n.Pos()):src.offset(n.End())] }

func (src *source) offset(pos token.Pos) int { return src.pkg.fset.PositionFor(pos, false).Offset }

// typeText returns how the number's type t is written in f, or "" where it cannot be.
func (src *source) typeText(t types.Type) string {
	if !nameable(t) {
		return ""
	}
	return src.anyTypeText(t)
}

// anyTypeText returns how t is written in f, or "" where it cannot be.
func (src *source) anyTypeText(t types.Type) string {
	if b, ok := t.(*types.Basic); ok && (b.Info()&types.IsUntyped != 0 || b.Kind() == types.Invalid) {
		return ""
	}
	ok := true
	text := types.TypeString(t, func(p *types.Package) string {
		if p == src.pkg.types {
			return ""
		}
		for _, im := range src.tree.Imports {
			if strings.Trim(im.Path.Value, `"`) != p.Path() {
				continue
			}
			if im.Name != nil {
				return im.Name.Name
			}
			return p.Name()
		}
		ok = false
		return ""
	})
	if !ok {
		return ""
	}
	return text
}

// nameable reports whether t is a number's type that a program can name.
func nameable(t types.Type) bool {
	switch t := t.(type) {
	case *types.Basic:
		return t.Info()&types.IsUntyped == 0 && t.Kind() != types.Invalid
	case *types.Alias:
		return nameable(t.Rhs())
	case *types.Named:
		_, ok := t.Underlying().(*types.Basic)
		return ok
	case *types.TypeParam:
		return true
	}
	return false
}
