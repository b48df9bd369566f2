// Package golist asks the go command what is in packages.
package golist

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A Package is what go list says of a package.
type Package struct {
	ImportPath, Dir, Name, Export, ForTest string
	GoFiles, TestGoFiles, XTestGoFiles     []string
	Imports, Deps                          []string
	Module                                 *struct{ Dir, Path string }
}

// List runs go list with args in the directory dir; "": the current one.
func List(dir string, args ...string) (packages []Package, err error) {
	cmd := exec.Command("go", append([]string{"list",
		"-json=ImportPath,Dir,Name,Export,ForTest,GoFiles,TestGoFiles,XTestGoFiles,Imports,Deps,Module"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(data))); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// Importer returns an importer of packages, which were listed with -export.
func Importer(fset *token.FileSet, packages []Package) types.Importer {
	exports := make(map[string]string, len(packages))
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}
