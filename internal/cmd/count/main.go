// Command count prints what a stranger has to carry: lines, words, modules and names. It fails if
// one of them is above its limit. A change that needs more raises the limit, and says why.
//
// Tests are the files named *_test.go, what only they import (test/, internal/rig), and the
// programs in testdata that only they read. The rest is product, and some of it tools.
//
//	go run ./internal/cmd/count
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// apparatus are the folders whose product code is tools.
var apparatus = []string{"bench/", "internal/cmd/", "internal/proof/", "internal/oracle/", "internal/judge/", "e2e/", "lwfields/"}

// testsOnly are the folders that only tests use.
var testsOnly = []string{"test/", "internal/rig/", "lwfields/testdata/", "e2e/upstream/clientgo/testdata/"}

// A row is something that is counted.
type row struct {
	what  string
	count int
	limit int
}

func main() {
	rows, err := count()
	if err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(2)
	}
	above := false
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		note := ""
		if r.count > r.limit {
			note, above = "above its limit", true
		}
		fmt.Fprintf(w, "%s\t%d\tof %d\t%s\n", r.what, r.count, r.limit, note)
	}
	w.Flush()
	if above {
		os.Exit(1)
	}
}

// count counts the files that git knows.
func count() ([]row, error) {
	list, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var lines, longest, wide, product, tools, words, pages, performance, modules int
	root := map[string]bool{}
	for _, file := range strings.Fields(string(list)) {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // removed, and not committed
		}
		if err != nil {
			return nil, err
		}
		entry, _, _ := strings.Cut(file, "/")
		root[entry] = true
		switch base := filepath.Base(file); {
		case base == "go.mod":
			modules++
		case filepath.Ext(file) == ".go":
			n := bytes.Count(text, []byte("\n"))
			lines, longest, wide = lines+n, max(longest, n), wide+wideComments(text)
			if ofTests(file) {
				break
			}
			product += n
			for _, dir := range apparatus {
				if strings.HasPrefix(file, dir) {
					tools += n
				}
			}
		case file == "README.md" || file == "CHANGELOG.md" || file == "CONTRIBUTING.md" || filepath.Dir(file) == "docs" && filepath.Ext(file) == ".md":
			n := len(bytes.Fields(text))
			words += n
			if file != "README.md" && file != "CHANGELOG.md" {
				pages++
			}
			if base == "performance.md" {
				performance = n
			}
		}
	}
	names, branchy, err := names(".")
	return []row{
		{"lines of Go", lines, limits.lines},
		{"of them no tests", product, limits.product},
		{"of these tools", tools, limits.tools},
		{"words of pages", words, limits.words},
		{"pages, with CONTRIBUTING.md", pages, limits.pages},
		{"words of docs/performance.md", performance, limits.performance},
		{"modules", modules, limits.modules},
		{"entries of the root folder", len(root), limits.root},
		{"lines of the longest Go file", longest, limits.longest},
		{"comments wider than 100 columns", wide, limits.wide},
		{"exported names of package lw, with fields and methods", names, limits.names},
		{"functions of package lw above a cyclomatic complexity of 15", branchy, limits.branchy},
	}, err
}

// wideComments counts the lines of a Go file that are a comment of more than 100 characters.
func wideComments(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimLeft(line, "\t"), []byte("//")) && utf8.RuneCount(bytes.TrimRight(line, "\n")) > 100 {
			n++
		}
	}
	return n
}

// ofTests reports whether a Go file belongs to the tests.
func ofTests(file string) bool {
	return strings.HasSuffix(file, "_test.go") ||
		slices.ContainsFunc(testsOnly, func(dir string) bool { return strings.HasPrefix(file, dir) })
}

// names counts the exported names of the package in dir: constants, variables, functions, types,
// and the fields and methods of these types. And it counts the functions, exported or not, that are
// above a cyclomatic complexity of 15.
func names(dir string) (n, branchy int, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return 0, 0, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return 0, 0, err
		}
		files = append(files, file)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && complexity(f) > 15 {
				branchy++
			}
		}
	}
	pkg, err := doc.NewFromFiles(fset, files, "lw")
	if err != nil {
		return 0, 0, err
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			n += len(v.Names)
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	n += len(pkg.Funcs)
	for _, t := range pkg.Types {
		values(t.Consts)
		values(t.Vars)
		n += 1 + len(t.Funcs) + len(t.Methods)
		for _, spec := range t.Decl.Specs {
			n += members(spec.(*ast.TypeSpec).Type)
		}
	}
	return n, branchy, nil
}

// complexity returns 1 and the number of places at which a function branches.
func complexity(f *ast.FuncDecl) (n int) {
	n = 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// members counts the exported fields of a struct, or methods of an interface.
func members(t ast.Expr) (n int) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return 0
	}
	for _, f := range list.List {
		for _, name := range f.Names {
			if name.IsExported() {
				n++
			}
		}
	}
	return n
}
