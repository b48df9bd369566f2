package main

import (
	"go/ast"
	gc "go/constant"
	"go/token"
	"go/types"
)

// condition makes mutants of what decides: e is taken for true, and for false, where that is
// wanted.
func (f *finder) condition(e ast.Expr, isTrue, isFalse bool) {
	e = ast.Unparen(e)
	tv := f.info.Types[e]
	if tv.Value != nil || f.decided[e] {
		return
	}
	f.decided[e] = true
	was := f.file.of(e)
	if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
		// a && b is false when either is: what makes one of them false is left to the whole.
		and := b.Op == token.LAND
		f.condition(b.X, and, !and)
		f.condition(b.Y, and, !and)
	}
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.NOT {
		if b, ok := ast.Unparen(u.X).(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
			f.condition(u.X, false, false)
		} else {
			f.decided[ast.Unparen(u.X)] = true
		}
	}
	if isTrue {
		f.add(e, e, boolean, "", condition, was, "true", "true")
	}
	if isFalse {
		f.add(e, e, boolean, "", condition, was, "false", "false")
	}
}

var (
	shifted = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	swapped = map[token.Token]string{
		token.ADD: "-", token.SUB: "+", token.MUL: "+", token.QUO: "*", token.REM: "*",
		token.AND: "|", token.OR: "&", token.XOR: "|", token.AND_NOT: "&", token.SHL: ">>", token.SHR: "<<",
	}
)

// expression makes the mutants of e, and reports whether those within it are wanted too.
func (f *finder) expression(e ast.Expr) bool {
	tv := f.info.Types[e]
	if tv.Value != nil {
		f.constant(e, tv)
		return false
	}
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT && !f.decided[e] {
			f.decided[ast.Unparen(e.X)] = true
			f.add(e, e, boolean, "", negation, f.file.of(e), f.file.of(e.X), "("+f.file.of(e.X)+")")
		}
	case *ast.BinaryExpr:
		f.binary(e, tv.Type)
	case *ast.Ident:
		f.variable(e)
	case *ast.SelectorExpr:
		f.variable(e)
		f.leave[e.Sel] = true
	}
	return true
}

func (f *finder) binary(e *ast.BinaryExpr, typ types.Type) {
	x, y, was := f.file.of(e.X), f.file.of(e.Y), f.file.of(e)
	with := func(op string) (is, alternative string) {
		return x + " " + op + " " + y, "(" + x + ") " + op + " (" + y + ")"
	}
	switch op, basic := swapped[e.Op], isNumber(typ); {
	case shifted[e.Op] != "":
		is, alternative := with(shifted[e.Op])
		f.add(e, e, boolean, "", boundary, was, is, alternative)
		if !f.decided[e] {
			f.add(e, e, boolean, "", negation, was, "!("+was+")", "!("+was+")")
		}
	case e.Op == token.EQL || e.Op == token.NEQ:
		if !f.decided[e] {
			f.add(e, e, boolean, "", negation, was, "!("+was+")", "!("+was+")")
		}
	case e.Op == token.LAND:
		f.condition(e.X, true, false)
		f.condition(e.Y, true, false)
		is, alternative := with("||")
		f.add(e, e, boolean, "", logic, was, is, alternative)
	case e.Op == token.LOR:
		f.condition(e.X, false, true)
		f.condition(e.Y, false, true)
		is, alternative := with("&&")
		f.add(e, e, boolean, "", logic, was, is, alternative)
	case op != "" && basic:
		is, alternative := with(op)
		if f.pure(e) {
			// A constant that is shifted has the type that its surroundings ask for, and has none
			// within a call.
			typed := ""
			if e.Op == token.SHL || e.Op == token.SHR {
				typed = f.file.typeText(typ)
			}
			f.add(e, e, eager, typed, arithmetic, was, is, alternative)
		} else if text := f.file.typeText(typ); text != "" {
			f.add(e, e, lazy, text, arithmetic, was, is, alternative)
		}
	}
}

func isNumber(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0 && b.Info()&types.IsUntyped == 0
}

// small is up to which number a constant is counted up and down; a larger one is doubled and
// halved, as one more is nothing.
const small = 64

// constant changes a number.
func (f *finder) constant(e ast.Expr, tv types.TypeAndValue) {
	text := f.file.typeText(tv.Type)
	if text == "" || !isNumber(tv.Type) {
		return
	}
	was, n := f.file.of(e), tv.Value
	change := func(is string) { f.add(e, e, eager, text, constant, was, is, is) }
	compared, ordered := false, false
	if b, ok := f.parent(0).(*ast.BinaryExpr); ok {
		compared, ordered = b.Op == token.EQL || b.Op == token.NEQ, shifted[b.Op] != ""
	}
	value, exact := gc.Int64Val(gc.ToInt(n))
	switch {
	case exact && value > -small && value < small && ordered: // the boundary's mutants are these
	case exact && value > -small && value < small:
		change("(" + was + ") + 1")
		if value != 0 && !compared {
			change("(" + was + ") - 1")
		}
	default:
		change("(" + was + ") * 2")
		change("(" + was + ") / 2")
	}
}

// pure reports whether e can be computed twice.
func (f *finder) pure(e ast.Expr) bool {
	pure := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			pure = false
		case *ast.UnaryExpr:
			pure = pure && n.Op != token.ARROW
		case *ast.CallExpr:
			tv := f.info.Types[n.Fun]
			pure = pure && (tv.IsType() || tv.IsBuiltin())
		}
		return pure
	})
	return pure
}
