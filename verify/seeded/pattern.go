package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// An edit is a place and what stands there instead. The place is a declaration of a package, and in
// it what alone matches a pattern. So it moves with the code: no other edit of the function breaks
// it, nor does a move to another file.
type edit struct {
	where string // the folder, and the function, T.method, constant or variable: "serve history.trim"
	// old is an expression, or statements. In it __ stands for one expression, or for any number of
	// arguments or statements, and __1, __2 … for one expression that new repeats.
	old string
	new string // "": the statements are dropped; __0 is all that old stands for
}

// A place is where an edit belongs.
type place struct {
	file       string
	text       string
	start, end int // in text
	match      matcher
}

// find returns the place of e in the module at root, where texts are those of files that another
// edit has changed.
func (e edit) find(root string, texts map[string]string) (*place, error) {
	folder, symbol, _ := strings.Cut(e.where, " ")
	pattern, err := parsePattern(e.old)
	if err != nil {
		return nil, fmt.Errorf("%s: %q: %w", e.where, e.old, err)
	}
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var found []*place
	declared := false
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := read(path, parser.SkipObjectResolution)
		if text, changed := texts[path]; changed && err == nil {
			f, err = parse(path, text, parser.SkipObjectResolution)
		}
		if err != nil {
			return nil, err
		}
		for _, decl := range declarations(f.tree, symbol) {
			declared = true
			for _, m := range pattern.in(decl) {
				found = append(found, &place{path, f.text, f.fset.Position(m.start).Offset, f.fset.Position(m.end).Offset, m})
			}
		}
	}
	switch {
	case !declared:
		return nil, fmt.Errorf("there is no %s", e.where)
	case len(found) != 1:
		return nil, fmt.Errorf("%s has %d times %s, want once", e.where, len(found), e.old)
	}
	return found[0], nil
}

// A source is a file of Go.
type source struct {
	text string
	fset *token.FileSet
	tree *ast.File
}

// sources has those that were read, by their paths.
var sources sync.Map

func read(path string, mode parser.Mode) (*source, error) {
	if f, ok := sources.Load(path); ok {
		return f.(*source), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := parse(path, string(text), mode)
	if err == nil {
		sources.Store(path, f)
	}
	return f, err
}

func parse(path, text string, mode parser.Mode) (*source, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, path, text, mode)
	return &source{text, fset, tree}, err
}

// declarations returns what declares symbol in tree.
func declarations(tree *ast.File, symbol string) (out []ast.Node) {
	for _, decl := range tree.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if strings.TrimPrefix(receiver(decl)+"."+decl.Name.Name, ".") == symbol {
				out = append(out, decl)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && v.Names[0].Name == symbol {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// receiver returns the name of the type that f is a method of.
func receiver(f *ast.FuncDecl) (name string) {
	if f.Recv == nil {
		return ""
	}
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// A pattern is an expression, or a sequence of statements.
type pattern struct {
	expr  ast.Expr
	stmts []ast.Stmt
}

func parsePattern(text string) (p pattern, err error) {
	if p.expr, err = parser.ParseExpr(text); err == nil {
		if _, call := p.expr.(*ast.CallExpr); !call {
			return p, nil
		}
	}
	tree, err := parser.ParseFile(token.NewFileSet(), "", "package p; func _() {\n"+text+"\n}",
		parser.SkipObjectResolution)
	if err != nil {
		return pattern{}, err
	}
	p.stmts = tree.Decls[0].(*ast.FuncDecl).Body.List
	return p, nil
}

// in returns the matches of p in root. A call is looked for among the statements first.
func (p pattern) in(root ast.Node) (out []matcher) {
	ast.Inspect(root, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for i := 0; len(p.stmts) > 0 && i+len(p.stmts) <= len(list); i++ {
			m, whole := matcher{}, list[i:i+len(p.stmts)]
			if m.value(reflect.ValueOf(p.stmts), reflect.ValueOf(whole)) {
				m.start, m.end = whole[0].Pos(), whole[len(whole)-1].End()
				out = append(out, m)
			}
		}
		return true
	})
	if len(out) > 0 || p.expr == nil {
		return out
	}
	ast.Inspect(root, func(n ast.Node) bool {
		m := matcher{}
		if x, ok := n.(ast.Expr); ok && m.value(reflect.ValueOf(&p.expr).Elem(), reflect.ValueOf(&x).Elem()) {
			m.start, m.end = x.Pos(), x.End()
			out = append(out, m)
		}
		return true
	})
	return out
}

// A matcher compares trees, and has what the wildcards stand for.
type matcher struct {
	start, end token.Pos
	bound      map[string]ast.Expr
}

var wildcard = regexp.MustCompile(`^__[0-9]*$`)

// isWild returns the name of the wildcard that v is, as an expression or as a statement.
func isWild(v reflect.Value) string {
	if !v.CanInterface() {
		return ""
	}
	switch n := v.Interface().(type) {
	case *ast.ExprStmt:
		return isWild(reflect.ValueOf(n.X))
	case *ast.Ident:
		if n != nil && wildcard.MatchString(n.Name) {
			return n.Name
		}
	}
	return ""
}

func (m *matcher) value(p, n reflect.Value) bool {
	if p.Kind() == reflect.Interface {
		p, n = p.Elem(), n.Elem()
	}
	if !p.IsValid() || !n.IsValid() {
		return p.IsValid() == n.IsValid()
	}
	if name := isWild(p); name != "" {
		x, isExpr := n.Interface().(ast.Expr)
		if isExpr && name != "__" {
			if m.bound == nil {
				m.bound = map[string]ast.Expr{}
			}
			m.bound[name] = x
		}
		return isExpr || name == "__"
	}
	if p.Type() != n.Type() {
		return false
	}
	switch p.Kind() {
	case reflect.Pointer:
		if p.IsNil() || n.IsNil() {
			return p.IsNil() == n.IsNil()
		}
		return m.value(p.Elem(), n.Elem())
	case reflect.Struct:
		for i := range p.NumField() {
			switch p.Field(i).Interface().(type) {
			case token.Pos, *ast.CommentGroup:
				continue
			}
			if !m.value(p.Field(i), n.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if p.Len() == 1 && isWild(p.Index(0).Elem()) == "__" && p.Type().Elem().Kind() == reflect.Interface {
			return true
		}
		if p.Len() != n.Len() {
			return false
		}
		for i := range p.Len() {
			if !m.value(p.Index(i), n.Index(i)) {
				return false
			}
		}
		return true
	}
	return p.Interface() == n.Interface()
}

var numbered = regexp.MustCompile(`__[0-9]+`)

// put returns the text of the file with new in the place.
func (p *place) put(new string) string {
	base := p.match.start
	new = numbered.ReplaceAllStringFunc(new, func(name string) string {
		if name == "__0" {
			return p.text[p.start:p.end]
		}
		x, ok := p.match.bound[name]
		if !ok {
			return name
		}
		return p.text[p.start+int(x.Pos()-base) : p.start+int(x.End()-base)]
	})
	return p.text[:p.start] + new + p.text[p.end:]
}
