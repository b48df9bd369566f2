package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// An effectWalk collects the effects of a piece of code.
type effectWalk struct {
	info  *types.Info
	known map[*types.Func]*effects
	e     *effects
	loop  bool // within a loop of the piece: its break and continue stay in it
}

func (w *effectWalk) stmt(s ast.Stmt) {
	ast.Inspect(s, w.visit)
}

func (w *effectWalk) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, l := range n.Lhs {
			if n.Tok != token.ASSIGN && n.Tok != token.DEFINE {
				ast.Inspect(l, w.visit)
			}
			w.write(l)
		}
		for _, r := range n.Rhs {
			ast.Inspect(r, w.visit)
		}
		return false
	case *ast.IncDecStmt:
		w.write(n.X)
	case *ast.ForStmt:
		if !w.loop {
			ast.Inspect(n, (&effectWalk{info: w.info, known: w.known, e: w.e, loop: true}).visit)
			return false
		}
	case *ast.RangeStmt:
		if !w.loop {
			ast.Inspect(n, (&effectWalk{info: w.info, known: w.known, e: w.e, loop: true}).visit)
			return false
		}
		for _, l := range []ast.Expr{n.Key, n.Value} {
			if l != nil {
				w.write(l)
			}
		}
		if _, ok := w.info.TypeOf(n.X).Underlying().(*types.Signature); ok {
			w.e.changes = true // an iterator
		}
	case *ast.SendStmt, *ast.GoStmt, *ast.SelectStmt:
		w.e.changes = true
	case *ast.DeferStmt:
		w.e.later = true
	case *ast.ReturnStmt:
		w.e.leaves, w.e.returns = true, true
	case *ast.BranchStmt:
		if !w.loop || n.Label != nil {
			w.e.leaves, w.e.returns = true, true
		}
	case *ast.UnaryExpr:
		switch n.Op {
		case token.ARROW:
			w.e.changes = true
		case token.AND:
			// Who has the address writes or reads later.
			w.read(n.X)
		}
	case *ast.FuncLit:
		// It runs now, later, or never: what it changes may change now, but it leaves nothing.
		inner := newEffects()
		ast.Inspect(n.Body, (&effectWalk{info: w.info, known: w.known, e: inner}).visit)
		inner.leaves, inner.returns = false, false
		w.take(inner)
		return false
	case *ast.CallExpr:
		w.call(n)
	case *ast.Ident:
		if v, ok := w.info.Uses[n].(*types.Var); ok {
			w.e.reads[v.Origin()] = true
		}
	case *ast.SelectorExpr:
		return w.selector(n)
	case *ast.IndexExpr:
		if w.info.Types[n.X].IsValue() {
			w.e.reads[w.elementOf(n.X)] = true
			if _, isMap := w.info.TypeOf(n.X).Underlying().(*types.Map); !isMap {
				w.e.faults = true
			}
		}
	case *ast.SliceExpr, *ast.TypeAssertExpr:
		w.e.faults = true
	case *ast.StarExpr:
		if w.info.Types[n.X].IsValue() {
			w.e.reads[w.elementOf(n.X)] = true
			w.e.faults = true
		}
	}
	return true
}

func (w *effectWalk) take(e *effects) {
	for p := range e.reads {
		w.e.reads[p] = true
	}
	for p := range e.writes {
		w.e.writes[p] = true
	}
	w.e.changes = w.e.changes || e.changes
	w.e.leaves = w.e.leaves || e.leaves
	w.e.faults = w.e.faults || e.faults
	w.e.logs = w.e.logs || e.logs && !e.changes && len(e.writes) == 0
	// A function that takes a lock shares what it does with others.
	w.e.changes = w.e.changes || e.locks
}

func (w *effectWalk) read(e ast.Expr) { ast.Inspect(e, w.visit) }

// selector reads a field: of a variable that is a struct only that part of it.
func (w *effectWalk) selector(n *ast.SelectorExpr) bool {
	s := w.info.Selections[n]
	if s == nil { // of a package
		if v, ok := w.info.Uses[n.Sel].(*types.Var); ok {
			w.e.reads[v.Origin()] = true
		}
		return false
	}
	if s.Kind() == types.FieldVal {
		w.e.reads[s.Obj().(*types.Var).Origin()] = true
		if v := w.structVar(n.X); v != nil {
			w.e.reads[part{v}] = true
			return false
		}
	}
	w.read(n.X)
	return false
}

// structVar returns the variable that e is, if it holds a struct and not a pointer to it.
func (w *effectWalk) structVar(e ast.Expr) *types.Var {
	name, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, ok := w.info.Uses[name].(*types.Var)
	if !ok {
		return nil
	}
	if _, isStruct := v.Type().Underlying().(*types.Struct); !isStruct {
		return nil
	}
	return v
}

func (w *effectWalk) elementOf(e ast.Expr) element {
	switch x := ast.Unparen(e).(type) {
	case *ast.Ident:
		if v, ok := w.info.Uses[x].(*types.Var); ok && !local(v) {
			return element{v.Origin()}
		}
	case *ast.SelectorExpr:
		if s := w.info.Selections[x]; s != nil {
			return element{s.Obj().(*types.Var).Origin()}
		}
	}
	return element{types.TypeString(w.info.TypeOf(e).Underlying(), nil)}
}

// write is an assignment to e.
func (w *effectWalk) write(e ast.Expr) {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if v, ok := w.info.ObjectOf(e).(*types.Var); ok {
			w.e.writes[v.Origin()] = true
		}
	case *ast.SelectorExpr:
		s := w.info.Selections[e]
		if s == nil {
			w.e.changes = true
			return
		}
		w.e.writes[s.Obj().(*types.Var).Origin()] = true
		if v := w.structVar(e.X); v != nil {
			w.e.writes[part{v}] = true
			return
		}
		w.read(e.X)
	case *ast.IndexExpr:
		w.e.writes[w.elementOf(e.X)] = true
		w.e.faults = true
		w.read(e.X)
		w.read(e.Index)
	case *ast.StarExpr:
		w.e.changes = true
		w.read(e.X)
	}
}

// call adds what a call does; its arguments are visited by themselves.
func (w *effectWalk) call(n *ast.CallExpr) {
	fun := ast.Unparen(n.Fun)
	if tv := w.info.Types[fun]; tv.IsType() {
		return
	}
	switch x := fun.(type) {
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	var obj types.Object
	switch x := fun.(type) {
	case *ast.Ident:
		obj = w.info.Uses[x]
	case *ast.SelectorExpr:
		obj = w.info.Uses[x.Sel]
	}
	switch obj := obj.(type) {
	case *types.Builtin:
		switch obj.Name() {
		case "delete", "clear", "copy":
			w.e.writes[w.elementOf(n.Args[0])] = true
		case "append":
			w.e.reads[w.elementOf(n.Args[0])] = true
		case "close", "recover", "print", "println":
			w.e.changes = true
		case "panic":
			w.e.leaves = true
		}
	case *types.Func:
		fn := obj.Origin()
		switch {
		case w.known[fn] != nil:
			w.take(w.known[fn])
		case isCounter(fn):
			if sel, ok := fun.(*ast.SelectorExpr); ok {
				if s := selectionOf(w.info, sel.X); s != nil {
					w.e.writes[counter{s.Obj().(*types.Var).Origin()}] = true
				}
			}
		case isBuffer(fn):
			if sel, ok := fun.(*ast.SelectorExpr); ok {
				w.write(sel.X)
			}
		case isLock(fn):
			w.e.locks = true
		case isLog(fn):
			w.e.logs = true
		case isPure(fn):
		default:
			w.e.changes = true
		}
	default:
		w.e.changes = true
	}
}

// isBuffer reports whether fn is a method of a buffer in memory, which changes nothing else.
func isBuffer(fn *types.Func) bool {
	recv := fn.Type().(*types.Signature).Recv()
	if recv == nil {
		return false
	}
	t := types.TypeString(recv.Type(), nil)
	return t == "*bytes.Buffer" || t == "*strings.Builder"
}

func selectionOf(info *types.Info, e ast.Expr) *types.Selection {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	return info.Selections[sel]
}

func isLock(fn *types.Func) bool {
	return fn.Pkg() != nil && fn.Pkg().Path() == "sync" && strings.HasSuffix(strings.ToLower(fn.Name()), "lock")
}

// isCounter reports whether fn adds to an atomic number.
func isCounter(fn *types.Func) bool {
	return fn.Pkg() != nil && fn.Pkg().Path() == "sync/atomic" && fn.Name() == "Add"
}

// isLog reports whether fn writes a log.
func isLog(fn *types.Func) bool {
	return fn.Pkg() != nil && fn.Pkg().Path() == "log/slog"
}
