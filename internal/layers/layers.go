// Package layers knows which files of a Go package use each other.
package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"

	"github.com/go-lw/lw/internal/golist"
)

// An Arrow is a use, in the file From, of something that the file To declares.
type Arrow struct {
	From, To string
	Line     int    // in From
	Name     string // what is used
}

func (a Arrow) String() string {
	return fmt.Sprintf("%s:%d uses %s of %s", a.From, a.Line, a.Name, a.To)
}

// Load returns the arrows between the product files of the package in the folder dir, and the names
// of these files. The text of a file that changed has is taken from there.
func Load(dir string, changed map[string]string) (arrows []Arrow, files []string, err error) {
	packages, err := golist.List(dir, "-export", "-deps", ".")
	if err != nil {
		return nil, nil, err
	}
	own := packages[len(packages)-1] // the dependencies come first
	fset := token.NewFileSet()
	var trees []*ast.File
	for _, name := range own.GoFiles {
		var text any // nil: what is in the file
		if other, ok := changed[name]; ok {
			text = other
		}
		tree, err := parser.ParseFile(fset, filepath.Join(own.Dir, name), text, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		trees = append(trees, tree)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: golist.Importer(fset, packages)}
	pkg, err := config.Check(own.ImportPath, fset, trees, info)
	if err != nil {
		return nil, nil, err
	}
	for ident, object := range info.Uses {
		from, to := fset.Position(ident.Pos()), fset.Position(object.Pos())
		if object.Pkg() == pkg && from.Filename != to.Filename {
			arrows = append(arrows, Arrow{filepath.Base(from.Filename), filepath.Base(to.Filename), from.Line, object.Name()})
		}
	}
	return arrows, own.GoFiles, nil
}
