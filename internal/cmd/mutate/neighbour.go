package main

import (
	"go/ast"
	gc "go/constant"
	"go/token"
	"go/types"
	"strings"
)

// isLogging reports whether a call writes a log: what it writes are texts.
func (f *finder) isLogging(n *ast.CallExpr) bool {
	sel, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	fn, ok := f.info.Uses[sel.Sel].(*types.Func)
	return ok && isLog(fn)
}

// arguments makes mutants in which an argument is the one beside it.
func (f *finder) arguments(n *ast.CallExpr) {
	switch f.builtin(n) {
	case "copy", "append", "make", "delete": // copy(a, a) is a statement removed; the others take what is not of one meaning
		return
	}
	f.neighbours(n.Args)
}

// literal makes mutants in which a field or an element has the value of the one beside it.
func (f *finder) literal(n *ast.CompositeLit) {
	list := make([]ast.Expr, len(n.Elts))
	_, isStruct := types.Unalias(f.info.TypeOf(n)).Underlying().(*types.Struct)
	for i, e := range n.Elts {
		list[i] = e
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			list[i] = kv.Value
			if isStruct {
				f.leave[kv.Key] = true
			}
		}
	}
	f.neighbours(list)
}

// neighbours makes mutants of expressions that stand beside each other: each is the next one of its
// type, or the one before.
func (f *finder) neighbours(list []ast.Expr) {
	for i, e := range list {
		for _, at := range []int{i + 1, i - 1} {
			if at >= 0 && at < len(list) && f.exchangeable(e, list[at]) {
				is := f.file.of(list[at])
				f.add(e, e, eager, "", neighbour, f.file.of(e), is, is)
				break
			}
		}
	}
}

// exchangeable reports whether other can stand in the place of e.
func (f *finder) exchangeable(e, other ast.Expr) bool {
	for _, x := range []ast.Expr{e, other} {
		if lit, ok := x.(*ast.CompositeLit); ok && lit.Type == nil {
			return false // it has no type outside of its list
		}
	}
	t, o := f.info.Types[e], f.info.Types[other]
	return t.IsValue() && o.IsValue() && !t.IsNil() && !o.IsNil() && types.Identical(t.Type, o.Type) && f.pure(other) && f.file.of(e) != f.file.of(other) &&
		(t.Value == nil || o.Value == nil) && !isFormat(t) && !isFormat(o)
}

// isFormat reports whether e is the format of a text.
func isFormat(e types.TypeAndValue) bool {
	return e.Value != nil && e.Value.Kind() == gc.String && strings.Contains(gc.StringVal(e.Value), "%")
}

// variable makes mutants in which a variable is the nearest other one of its type, and a field the
// one beside it.
func (f *finder) variable(e ast.Expr) {
	if tv := f.info.Types[e]; !tv.Addressable() || f.leave[e] {
		return
	}
	switch e := e.(type) {
	case *ast.Ident:
		if other := f.otherVariable(e); other != "" {
			f.add(e, e, address, "", neighbour, e.Name, other, other)
		}
	case *ast.SelectorExpr:
		if other := f.otherField(e); other != "" {
			other = f.file.of(e.X) + "." + other
			f.add(e, e, address, "", neighbour, f.file.of(e), other, other)
		}
	}
}

// otherVariable names the variable of the type of name that is declared last before it is used.
func (f *finder) otherVariable(name *ast.Ident) (out string) {
	v, ok := f.info.Uses[name].(*types.Var)
	if !ok || v.IsField() || v.Name() == "zero" { // a zero value stands beside an error
		return ""
	}
	if v.Parent() == f.file.pkg.types.Scope() {
		return f.otherGlobal(v)
	}
	pkg := f.file.pkg.types
	last := token.NoPos
	for s := pkg.Scope().Innermost(name.Pos()); s != nil && s != pkg.Scope(); s = s.Parent() {
		for _, n := range s.Names() {
			w, ok := s.Lookup(n).(*types.Var)
			if !ok || w == v || n == "_" || n == v.Name() || w.Pos() <= last || w.Pos() >= name.Pos() || !types.Identical(w.Type(), v.Type()) {
				continue
			}
			// Another one of this name may be nearer.
			if _, found := pkg.Scope().Innermost(name.Pos()).LookupParent(n, name.Pos()); found != w {
				continue
			}
			out, last = n, w.Pos()
		}
	}
	return out
}

// otherGlobal names the variable of the package, of the type of v, that is declared nearest to v in
// the same file.
func (f *finder) otherGlobal(v *types.Var) (out string) {
	scope := v.Parent()
	file := f.file.pkg.fset.File(v.Pos())
	best := token.Pos(file.Size())
	for _, n := range scope.Names() {
		w, ok := scope.Lookup(n).(*types.Var)
		if !ok || w == v || n == "_" || f.file.pkg.fset.File(w.Pos()) != file || !types.Identical(w.Type(), v.Type()) {
			continue
		}
		if d := max(v.Pos()-w.Pos(), w.Pos()-v.Pos()); d < best {
			out, best = n, d
		}
	}
	return out
}

// otherField names the field of its type that is nearest to the one that e selects.
func (f *finder) otherField(e *ast.SelectorExpr) string {
	s := f.info.Selections[e]
	if s == nil || s.Kind() != types.FieldVal || len(s.Index()) != 1 || !f.pure(e.X) {
		return ""
	}
	t := s.Recv()
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	fields, ok := t.Underlying().(*types.Struct)
	if !ok {
		return ""
	}
	at, out, best := s.Index()[0], "", fields.NumFields()
	for i := range fields.NumFields() {
		other := fields.Field(i)
		d := max(i-at, at-i)
		if i == at || d > best || d == best && out != "" || other.Name() == "_" || !other.Exported() && other.Pkg() != f.file.pkg.types ||
			!types.Identical(other.Type(), fields.Field(at).Type()) {
			continue
		}
		out, best = other.Name(), d
	}
	return out
}
