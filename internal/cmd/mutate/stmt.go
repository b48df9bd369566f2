package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// statements makes the mutants of a list of statements.
func (f *finder) statements(block ast.Node, list []ast.Stmt) {
	f.exchanges(block, list)
	for i, s := range list {
		was := f.file.of(s)
		remove := func() { f.add(s, s, stmt, "", statement, was, "", "") }
		switch s := s.(type) {
		case *ast.ExprStmt:
			if !isPanic(s.X) {
				remove()
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !isBlank(s.Lhs) {
				remove()
			}
		case *ast.IncDecStmt:
			remove()
			other := map[token.Token]string{token.INC: "--", token.DEC: "++"}[s.Tok]
			f.add(s, s, stmt, "", arithmetic, was, f.file.of(s.X)+other, f.file.of(s.X)+other)
		case *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt, *ast.RangeStmt:
			remove()
		case *ast.ForStmt:
			if s.Cond != nil {
				remove()
			}
		case *ast.IfStmt:
			// Without a first statement this is the condition that is false.
			if s.Init != nil && s.Else == nil {
				remove()
			}
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			if i < len(list)-1 || !f.mustEnd(block) {
				remove()
			}
		case *ast.BranchStmt:
			f.branch(s, was)
		case *ast.ReturnStmt:
			f.returned(s, was, i == len(list)-1)
			// The only statement of an if runs on when the condition is false, as well.
			if len(s.Results) > 0 && len(list) > 1 && !f.mustEnd(block) {
				remove()
			}
		}
	}
}

func isPanic(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, ok := call.Fun.(*ast.Ident)
	return ok && name.Name == "panic"
}

func isFunc(n ast.Node) bool {
	switch n.(type) {
	case *ast.FuncDecl, *ast.FuncLit:
		return true
	}
	return false
}

func isBlank(list []ast.Expr) bool {
	for _, e := range list {
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

// caseBody leaves out all that a case does, where it is more than one statement that is left out by
// itself.
func (f *finder) caseBody(block ast.Node, list []ast.Stmt) {
	if len(list) < 2 || f.mustEnd(block) {
		return
	}
	last := list[len(list)-1]
	if b, ok := last.(*ast.BranchStmt); ok && b.Tok == token.FALLTHROUGH {
		return
	}
	was := f.file.text[f.file.offset(list[0].Pos()):f.file.offset(last.End())]
	f.add(list[0], last, stmt, "", body, was, "", "")
}

// branch turns a break into a continue, and the other way round.
func (f *finder) branch(s *ast.BranchStmt, was string) {
	if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
		return
	}
	f.add(s, s, stmt, "", loop, was, "", "")
	if !f.inLoop() {
		return
	}
	is := strings.Replace(was, "break", "continue", 1)
	if s.Tok == token.CONTINUE {
		is = strings.Replace(was, "continue", "break", 1)
	}
	f.add(s, s, stmt, "", loop, was, is, is)
}

// returned leaves out a return, or makes one of its results the zero value.
func (f *finder) returned(s *ast.ReturnStmt, was string, last bool) {
	if len(s.Results) == 0 {
		if !last || !isFunc(f.parent(0)) {
			f.add(s, s, stmt, "", statement, was, "", "")
		}
		return
	}
	list := f.results()
	zero := func(i int) string { return "*new(" + f.file.of(list[i]) + ")" }
	if len(s.Results) != len(list) { // the results of a call
		all := make([]string, len(list))
		for i := range list {
			all[i] = zero(i)
		}
		text := "return " + strings.Join(all, ", ")
		f.add(s, s, stmt, "", result, was, text, text)
		return
	}
	for i, e := range s.Results {
		tv := f.info.Types[e]
		if tv.Value != nil && f.fails(s) {
			f.leave[e] = true // beside an error nobody looks at it
			continue
		}
		if name, ok := list[i].(*ast.Ident); ok && name.Name == "bool" {
			if tv.Value != nil {
				f.replaceResult(s, was, i, "!"+f.file.of(e))
			} else {
				f.condition(e, true, true)
			}
			continue
		}
		if tv.IsNil() || isEmpty(e) || tv.Value != nil && isNumber(tv.Type) {
			continue // it is zero, or has mutants of its own
		}
		if name, ok := e.(*ast.Ident); ok && name.Name == "zero" {
			continue
		}
		f.replaceResult(s, was, i, zero(i))
	}
}

// fails reports whether s returns an error for certain.
func (f *finder) fails(s *ast.ReturnStmt) bool {
	switch e := ast.Unparen(s.Results[len(s.Results)-1]).(type) {
	case *ast.CallExpr:
		name := f.file.of(e.Fun)
		return name == "errors.New" || strings.HasSuffix(name, "rrorf")
	case *ast.Ident: // a sentinel; a variable may be nil
		v, ok := f.info.Uses[e].(*types.Var)
		return ok && !local(v) && types.TypeString(v.Type(), nil) == "error"
	}
	return false
}

func (f *finder) replaceResult(s *ast.ReturnStmt, was string, at int, with string) {
	list := make([]string, len(s.Results))
	for i, e := range s.Results {
		list[i] = f.file.of(e)
	}
	list[at] = with
	text := "return " + strings.Join(list, ", ")
	f.add(s, s, stmt, "", result, was, text, text)
}

// isEmpty reports whether e is T{} or "".
func isEmpty(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return len(e.Elts) == 0
	case *ast.BasicLit:
		return e.Value == `""`
	}
	return false
}
