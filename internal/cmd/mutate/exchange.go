package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// A define is a statement that defines variables. An exchanged one stands behind an if, so its
// variables are declared before that.
type define struct {
	vars  []*types.Var
	types []string
	left  string // all that is assigned to
	value int    // where in the file's text the right side begins
}

// declare declares the variables. The comment tells check whose they are.
func (d *define) declare(m *mutant) string {
	var out strings.Builder
	for i, v := range d.vars {
		fmt.Fprintf(&out, "/* %s(%d) */ var %s %s; ", isOn, m.id, v.Name(), d.types[i])
	}
	return out.String()
}

// exchanges makes mutants in which two neighbouring statements run in the other order, where that
// makes a difference.
func (f *finder) exchanges(block ast.Node, list []ast.Stmt) {
	for i := range len(list) - 1 {
		a, b := list[i], list[i+1]
		if !movable(a) || !movable(b) || f.file.of(a) == f.file.of(b) || i+2 == len(list) && terminates(b) && f.mustEnd(block) {
			continue
		}
		x, y := f.effectsOf(a), f.effectsOf(b)
		if !x.conflicts(y) || !y.needsNot(x) || !x.needsNot(y) {
			continue
		}
		first, second := f.movedSite(a), f.movedSite(b)
		if first == nil || second == nil {
			continue
		}
		text := f.file.of(b)
		if d := second.define; d != nil {
			text = d.left + " = " + f.file.text[d.value:second.to]
		}
		m := f.mutant(a, exchange, f.file.of(a), f.file.of(b))
		first.before, first.next = append(first.before, edit{m, text}), second
		second.edits = append(second.edits, edit{m, ""})
	}
}

// movable reports whether s is of a kind that can stand elsewhere.
func movable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		return !isPanic(s.X)
	case *ast.ForStmt:
		return s.Cond != nil && !hasLabel(s)
	case *ast.AssignStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt:
		return true
	case *ast.IfStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt:
		return !hasLabel(s)
	}
	return false
}

// hasLabel reports whether s has labels, which may not be there twice.
func hasLabel(s ast.Stmt) (found bool) {
	ast.Inspect(s, func(n ast.Node) bool {
		_, isLabel := n.(*ast.LabeledStmt)
		found = found || isLabel
		return !found
	})
	return found
}

// movedSite is the place of a statement that may be exchanged with a neighbour; nil: it cannot be.
func (f *finder) movedSite(s ast.Stmt) *site {
	var d *define
	if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
		if d = f.defines(a); d == nil {
			return nil
		}
	}
	at := f.site(s, s, stmt, "")
	if at != nil && d != nil && at.define == nil {
		at.define = d
	}
	return at
}

// defines says what a defines; nil if that cannot be declared before it.
func (f *finder) defines(a *ast.AssignStmt) *define {
	d := &define{value: f.file.offset(a.Rhs[0].Pos())}
	from, to := f.file.offset(a.Pos()), f.file.offset(a.TokPos)
	d.left = strings.TrimSpace(f.file.text[from:to])
	for _, e := range a.Lhs {
		name, ok := e.(*ast.Ident)
		if !ok {
			return nil
		}
		v, ok := f.info.Defs[name].(*types.Var)
		if !ok { // the blank one, or one that is there already
			continue
		}
		text := f.file.anyTypeText(v.Type())
		if text == "" || uses(a.Rhs, name.Name) {
			return nil
		}
		d.vars, d.types = append(d.vars, v), append(d.types, text)
	}
	return d
}

// uses reports whether a name occurs in one of list.
func uses(list []ast.Expr, name string) (found bool) {
	for _, e := range list {
		ast.Inspect(e, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == name
			return !found
		})
	}
	return found
}

// mustEnd reports whether the last statement of a block must not run on to what comes behind it: a
// function with results ends there.
func (f *finder) mustEnd(block ast.Node) bool {
	last := func(list []ast.Stmt) bool { return len(list) > 0 && list[len(list)-1] == block }
	for i := len(f.parents) - 1; i >= 0; i-- {
		ends := false
		switch p := f.parents[i].(type) {
		case *ast.FuncDecl:
			return p.Type.Results != nil
		case *ast.FuncLit:
			return p.Type.Results != nil
		case *ast.BlockStmt:
			// The block of a switch has clauses, and each of them must end.
			_, isCase := block.(*ast.CaseClause)
			_, isComm := block.(*ast.CommClause)
			ends = isCase || isComm || last(p.List)
		case *ast.CaseClause:
			ends = last(p.Body)
		case *ast.CommClause:
			ends = last(p.Body)
		case ast.Stmt:
			ends = terminates(p)
			if loop, ok := p.(*ast.ForStmt); ok {
				ends = loop.Body != block
			}
		}
		if !ends {
			return false
		}
		block = f.parents[i]
	}
	return false
}

// terminates reports whether s may be a terminating statement, and what is in it decides.
func terminates(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt, *ast.BranchStmt, *ast.BlockStmt, *ast.LabeledStmt, *ast.SelectStmt:
		return true
	case *ast.ExprStmt:
		return isPanic(s.X)
	case *ast.ForStmt:
		return s.Cond == nil
	case *ast.IfStmt:
		return s.Else != nil
	case *ast.SwitchStmt:
		return hasDefault(s.Body)
	case *ast.TypeSwitchStmt:
		return hasDefault(s.Body)
	}
	return false
}

func hasDefault(body *ast.BlockStmt) bool {
	for _, s := range body.List {
		if c, ok := s.(*ast.CaseClause); ok && c.List == nil {
			return true
		}
	}
	return false
}
