package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// A finder walks a file and makes mutants of what it comes by.
type finder struct {
	file     *source
	info     *types.Info
	index    map[[2]int]*site
	function string
	found    []*mutant
	parents  []ast.Node
	leave    map[ast.Node]bool // not to be entered
	decided  map[ast.Expr]bool // conditions that have their mutants
	known    map[*types.Func]*effects
	captured map[*types.Var]bool // variables of the declaration that closures share
}

// find makes all mutants of a package.
func (p *pkg) find() {
	known := p.summaries()
	for _, file := range p.files {
		f := &finder{
			file: file, info: p.info, index: map[[2]int]*site{}, leave: map[ast.Node]bool{}, decided: map[ast.Expr]bool{}, known: known,
		}
		for _, d := range file.tree.Decls {
			f.function, f.captured = declared(d), f.capturedIn(d)
			ast.Inspect(d, f.visit)
		}
		p.mutants = append(p.mutants, f.found...)
	}
}

// declared names what d declares.
func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		t, pointer := d.Recv.List[0].Type, ""
		if star, ok := t.(*ast.StarExpr); ok {
			t, pointer = star.X, "*"
		}
		switch x := t.(type) {
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		}
		return "(" + pointer + t.(*ast.Ident).Name + ")." + d.Name.Name
	case *ast.GenDecl:
		if v, ok := d.Specs[0].(*ast.ValueSpec); ok {
			return v.Names[0].Name
		}
	}
	return ""
}

// visit is called by ast.Inspect before and, with nil, after a node.
func (f *finder) visit(n ast.Node) bool {
	if n == nil {
		f.parents = f.parents[:len(f.parents)-1]
		return true
	}
	if f.leave[n] || !f.enter(n) {
		return false
	}
	f.parents = append(f.parents, n)
	return true
}

// enter makes the mutants of n, and reports whether those within it are wanted too.
func (f *finder) enter(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.FuncType, *ast.ArrayType, *ast.StructType, *ast.InterfaceType, *ast.MapType:
		return false
	case *ast.KeyValueExpr:
		if f.info.Types[n.Key].Value != nil {
			f.leave[n.Key] = true // an index must stay a constant
		}
	case *ast.BlockStmt:
		f.statements(n, n.List)
	case *ast.CaseClause:
		f.statements(n, n.Body)
		f.caseBody(n, n.Body)
		// A clause stands in a block, and that in the statement.
		if s, ok := f.parent(1).(*ast.SwitchStmt); ok && s.Tag == nil {
			for _, e := range n.List {
				f.condition(e, true, true)
			}
		}
	case *ast.CommClause:
		f.statements(n, n.Body)
		f.caseBody(n, n.Body)
	case *ast.IfStmt:
		f.condition(n.Cond, true, true)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition(n.Cond, false, true) // for ever is for nobody
		}
	case *ast.CompositeLit:
		f.literal(n)
	case *ast.CallExpr:
		if f.isLogging(n) {
			return false // texts
		}
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok && f.info.Types[sel].IsBuiltin() {
			return false // unsafe.Sizeof and such: nobody computes their arguments
		}
		f.copies(n)
		f.arguments(n)
		switch f.builtin(n) {
		case "panic":
			return false // a text
		case "make":
			f.leaveCapacity(n)
		}
	}
	if e, ok := n.(ast.Expr); ok {
		return f.expression(e)
	}
	return true
}

// leaveCapacity leaves alone what a make only reserves.
func (f *finder) leaveCapacity(n *ast.CallExpr) {
	_, isMap := f.info.TypeOf(n.Args[0]).Underlying().(*types.Map)
	for i, arg := range n.Args[1:] {
		if isMap || i > 0 {
			f.leave[arg] = true
		}
	}
}

// parent is the nth node above the one that is entered.
func (f *finder) parent(n int) ast.Node {
	if i := len(f.parents) - 1 - n; i >= 0 {
		return f.parents[i]
	}
	return nil
}

// inLoop reports whether the block that is entered stands in a loop.
func (f *finder) inLoop() bool {
	for i := len(f.parents) - 1; i >= 0; i-- {
		switch f.parents[i].(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		case *ast.FuncLit, *ast.FuncDecl:
			return false
		}
	}
	return false
}

// results returns the types that the innermost function returns.
func (f *finder) results() (out []ast.Expr) {
	for i := len(f.parents) - 1; i >= 0; i-- {
		var t *ast.FuncType
		switch n := f.parents[i].(type) {
		case *ast.FuncLit:
			t = n.Type
		case *ast.FuncDecl:
			t = n.Type
		default:
			continue
		}
		if t.Results == nil {
			return nil
		}
		for _, field := range t.Results.List {
			for range max(1, len(field.Names)) {
				out = append(out, field.Type)
			}
		}
		return out
	}
	return nil
}
