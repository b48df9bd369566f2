// Package layers knows which files of a Go package use each other.
package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"

	"github.com/go-lw/lw/internal/verify/golist"
)

// An Arrow is a use, in the file From, of something that the file To declares.
type Arrow struct {
	From, To string
	Line     int    // in From; 0: From and To are folders, of which one imports the other
	Name     string // what is used
}

func (a Arrow) String() string {
	if a.Line == 0 {
		return fmt.Sprintf("%s imports %s", a.From, a.To)
	}
	return fmt.Sprintf("%s:%d uses %s of %s", a.From, a.Line, a.Name, a.To)
}

// A Loaded is the product files of a package, and the arrows between them.
type Loaded struct {
	Arrows []Arrow
	Files  []string
}

// Load returns the packages in folders of dir, in their order. The text of a file that changed has
// is taken from there.
func Load(dir string, folders []string, changed map[string]string) (all []Loaded, err error) {
	args := []string{"-export", "-deps"}
	for _, folder := range folders {
		args = append(args, "./"+folder)
	}
	packages, err := golist.List(dir, args...)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	importer := golist.Importer(fset, packages)
	for _, folder := range folders {
		path, err := filepath.Abs(filepath.Join(dir, folder))
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(packages, func(p golist.Package) bool { return p.Dir == path })
		if at < 0 {
			return nil, fmt.Errorf("layers: no package in %s", path)
		}
		one, err := load(fset, importer, &packages[at], changed)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func load(fset *token.FileSet, importer types.Importer, own *golist.Package,
	changed map[string]string) (Loaded, error) {
	out := Loaded{Files: own.GoFiles}
	var trees []*ast.File
	for _, name := range own.GoFiles {
		var text any // nil: what is in the file
		if other, ok := changed[name]; ok {
			text = other
		}
		tree, err := parser.ParseFile(fset, filepath.Join(own.Dir, name), text, parser.SkipObjectResolution)
		if err != nil {
			return out, err
		}
		trees = append(trees, tree)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer}
	pkg, err := config.Check(own.ImportPath, fset, trees, info)
	if err != nil {
		return out, err
	}
	for ident, object := range info.Uses {
		from, to := fset.Position(ident.Pos()), fset.Position(object.Pos())
		if object.Pkg() == pkg && from.Filename != to.Filename {
			out.Arrows = append(out.Arrows, Arrow{filepath.Base(from.Filename), filepath.Base(to.Filename), from.Line,
				object.Name()})
		}
	}
	return out, nil
}
