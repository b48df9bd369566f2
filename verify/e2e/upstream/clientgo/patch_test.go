package clientgo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// A patch collects changes of one Go file. Line numbers do not change, since tests compare them
// with those in logs.
type patch struct {
	src     string
	fset    *token.FileSet
	file    *ast.File
	changes []change
}

// A change replaces the bytes [from, to).
type change struct {
	from, to int
	text     string
}

func newPatch(name, src string) (*patch, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &patch{src: src, fset: fset, file: file}, nil
}

func (p *patch) offset(pos token.Pos) int { return p.fset.Position(pos).Offset }

func (p *patch) text(n ast.Node) string { return p.src[p.offset(n.Pos()):p.offset(n.End())] }

// replace puts text, which has no newline, in the place of [from, to). The newlines there are kept.
func (p *patch) replace(from, to token.Pos, text string) {
	old := p.src[p.offset(from):p.offset(to)]
	p.changes = append(p.changes, change{p.offset(from), p.offset(to),
		text + strings.Repeat("\n", strings.Count(old, "\n"))})
}

func (p *patch) replaceNode(n ast.Node, text string) { p.replace(n.Pos(), n.End(), text) }

func (p *patch) insert(at token.Pos, text string) { p.replace(at, at, text) }

// apply returns the changed file. It returns an error if there is no change, or if two overlap.
func (p *patch) apply() (string, error) {
	name := p.fset.Position(p.file.Package).Filename
	if len(p.changes) == 0 {
		return "", fmt.Errorf("upstream: %s: nothing to change", name)
	}
	slices.SortStableFunc(p.changes, func(a, b change) int { return a.from - b.from })
	var out strings.Builder
	end := 0
	for _, c := range p.changes {
		if c.from < end {
			return "", fmt.Errorf("upstream: %s: changes overlap at byte %d", name, c.from)
		}
		out.WriteString(p.src[end:c.from] + c.text)
		end = c.to
	}
	return out.String() + p.src[end:], nil
}

// function returns the declaration of the function name.
func (p *patch) function(name string) (*ast.FuncDecl, error) {
	for _, decl := range p.file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("upstream: %s has no function %s", p.fset.Position(p.file.Package).Filename, name)
}

// tests returns the names of the file's test functions, in order.
func (p *patch) tests() []string {
	var names []string
	for _, decl := range p.file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") &&
			f.Name.Name != "TestMain" {
			names = append(names, f.Name.Name)
		}
	}
	return names
}
