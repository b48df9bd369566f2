package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// copies makes the mutant in which a copy is not made: n is what it would be of.
func (f *finder) copies(n *ast.CallExpr) {
	of, text, typ := f.copyOf(n)
	if of == nil || !f.pure(of) {
		return
	}
	f.add(n, n, eager, typ, copied, f.file.of(n), text, text)
}

// copyOf returns of what n is a copy, the text of that, and the type where it must be said; nil: n
// is none.
func (f *finder) copyOf(n *ast.CallExpr) (of ast.Expr, text, typ string) {
	tv := f.info.Types[n]
	same := func(e ast.Expr) (ast.Expr, string, string) {
		if !types.Identical(f.info.TypeOf(e), tv.Type) {
			return nil, "", ""
		}
		return e, f.file.of(e), ""
	}
	fun := f.info.Types[n.Fun]
	switch {
	case fun.IsType() && len(n.Args) == 1:
		if isString(tv.Type) && isBytes(f.info.TypeOf(n.Args[0])) && !f.compared() {
			_, isNamed := tv.Type.(*types.Basic)
			if !isNamed {
				return nil, "", ""
			}
			return n.Args[0], "lwString(" + f.file.of(n.Args[0]) + ")", "" // without a copy
		}
		return nil, "", ""
	case fun.IsBuiltin():
		if f.builtin(n) == "append" && len(n.Args) == 2 && n.Ellipsis.IsValid() && isFresh(n.Args[0]) {
			return same(n.Args[1])
		}
		return nil, "", ""
	}
	var fn *types.Func
	var receiver ast.Expr
	switch x := ast.Unparen(n.Fun).(type) {
	case *ast.Ident:
		fn, _ = f.info.Uses[x].(*types.Func)
	case *ast.SelectorExpr:
		fn, _ = f.info.Uses[x.Sel].(*types.Func)
		if s := f.info.Selections[x]; s != nil && s.Kind() == types.MethodVal {
			receiver = x.X
		}
	}
	if fn == nil || !isCopy(fn.Name()) {
		return nil, "", ""
	}
	switch {
	case receiver == nil && len(n.Args) == 1:
		return same(n.Args[0])
	case receiver == nil || len(n.Args) > 0:
		return nil, "", ""
	}
	r := f.info.Types[receiver]
	switch {
	case types.Identical(r.Type, tv.Type):
		return same(receiver)
	case types.Identical(types.NewPointer(r.Type), tv.Type) && r.Addressable():
		return receiver, "&" + f.file.of(receiver), ""
	case types.AssignableTo(r.Type, tv.Type):
		return receiver, f.file.of(receiver), f.file.anyTypeText(tv.Type)
	}
	return nil, "", ""
}

// builtin names the builtin function that n calls; "": none, or one of unsafe.
func (f *finder) builtin(n *ast.CallExpr) string {
	name, ok := ast.Unparen(n.Fun).(*ast.Ident)
	if !ok || !f.info.Types[n.Fun].IsBuiltin() {
		return ""
	}
	return name.Name
}

// isCopy reports whether a function of this name makes copies.
func isCopy(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "clone") || strings.HasPrefix(name, "copy") || strings.HasPrefix(name, "deepcopy")
}

// isFresh reports whether e is a slice without room that is nobody's: nil or empty.
func isFresh(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr: // []T(nil), or make([]T, 0, n)
		if name, ok := e.Fun.(*ast.Ident); ok && name.Name == "make" {
			length, ok := e.Args[1].(*ast.BasicLit)
			return ok && length.Value == "0"
		}
		if len(e.Args) != 1 {
			return false
		}
		name, ok := e.Args[0].(*ast.Ident)
		return ok && name.Name == "nil"
	case *ast.CompositeLit:
		return len(e.Elts) == 0
	case *ast.SliceExpr: // s[:0:0]
		if e.Max == nil {
			return false
		}
		room, ok := e.Max.(*ast.BasicLit)
		return ok && room.Value == "0"
	}
	return false
}

// compared reports whether what is entered is only looked at: a key that is looked up, or an
// operand of a comparison.
func (f *finder) compared() bool {
	switch p := f.parent(0).(type) {
	case *ast.IndexExpr:
		_, isMap := f.info.TypeOf(p.X).Underlying().(*types.Map)
		if a, ok := f.parent(1).(*ast.AssignStmt); ok && isMap {
			for _, l := range a.Lhs {
				if l == p {
					return false // the key is kept
				}
			}
		}
		return true
	case *ast.BinaryExpr:
		return p.Op != token.ADD
	case *ast.SwitchStmt, *ast.CaseClause:
		return true
	}
	return false
}

func isString(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsString != 0
}

func isBytes(t types.Type) bool {
	s, ok := t.Underlying().(*types.Slice)
	if !ok {
		return false
	}
	b, ok := s.Elem().(*types.Basic)
	return ok && b.Kind() == types.Byte
}
