package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"strings"
)

// Effects are what a statement does that another one may notice. Variables and fields are told
// apart by their declarations, elements of maps, slices and pointers by their types.
type effects struct {
	reads, writes  map[any]bool
	names, defines map[string]bool // all that occur in it; those that it defines for what is behind it
	changes        bool            // anything may change: it calls what is not known
	leaves         bool            // it may not go on with the next statement
	returns        bool            // and that is no panic
	faults         bool            // it may panic: an index, a conversion
	logs, locks    bool
	later          bool // it is a defer
}

// Places in memory. A variable, a field and a package's variable are their types.Var.
type (
	part    struct{ of *types.Var } // a field of a variable, beside the field's own place
	element struct{ of any }        // of a map, a slice or a pointer: of the variable or field that has it, or of its type
	counter struct{ of *types.Var } // a field that is added to, in whatever order
)

func newEffects() *effects {
	return &effects{reads: map[any]bool{}, writes: map[any]bool{}, names: map[string]bool{}, defines: map[string]bool{}}
}

// needsNot reports whether no variable that other defines occurs in e: else they could not be
// written in the other order.
func (e *effects) needsNot(other *effects) bool {
	for name := range other.defines {
		if e.names[name] {
			return false
		}
	}
	return true
}

// conflicts reports whether the order of a and b makes a difference. Which of two statements comes
// under a lock makes one for the race detector alone, and when a line is logged for nobody.
func (e *effects) conflicts(o *effects) bool {
	switch {
	case e.locks || o.locks || e.logs && !o.leaves || o.logs && !e.leaves:
		return false
	case meets(e.writes, o.writes) || meets(e.writes, o.reads) || meets(e.reads, o.writes):
		return true
	case e.later || o.later:
		// A defer runs last wherever it stands, if it comes to stand.
		return e.later && o.later && e.changes && o.changes || e.leaves || o.leaves
	case e.changes && o.changes:
		return true
	case e.changes && o.touches() || o.changes && e.touches():
		return true
	case e.leaves && o.stays() || o.leaves && e.stays():
		return true
	}
	// Of two complaints about misuse either one will do.
	return e.leaves && o.leaves && (e.returns || o.returns)
}

// stays reports whether it makes a difference that e does not run.
func (e *effects) stays() bool {
	if e.changes || e.faults || e.logs {
		return true
	}
	for place := range e.writes {
		if !local(place) {
			return true
		}
	}
	return false
}

// touches reports whether e reads or writes what a call may.
func (e *effects) touches() bool {
	for _, set := range []map[any]bool{e.reads, e.writes} {
		for place := range set {
			if !local(place) {
				return true
			}
		}
	}
	return false
}

// local reports whether a place is a variable of a function.
func local(place any) bool {
	switch p := place.(type) {
	case *types.Var:
		return !p.IsField() && p.Pkg() != nil && p.Parent() != p.Pkg().Scope()
	case part, counter:
		return true
	}
	return false
}

func meets(a, b map[any]bool) bool {
	for p := range a {
		switch p := p.(type) {
		case part: // which part is told by the field
			if b[p.of] {
				return true
			}
		case *types.Var:
			if b[p] || b[part{p}] {
				return true
			}
		default:
			if b[p] {
				return true
			}
		}
	}
	return false
}

// effectsOf finds the effects of a statement.
func (f *finder) effectsOf(s ast.Stmt) *effects {
	e := newEffects()
	w := &effectWalk{info: f.info, known: f.known, e: e}
	if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
		for _, l := range a.Lhs {
			if name, ok := l.(*ast.Ident); ok && f.info.Defs[name] != nil {
				e.defines[name.Name] = true
			}
		}
	}
	ast.Inspect(s, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && !e.defines[name.Name] {
			e.names[name.Name] = true
		}
		return true
	})
	w.stmt(s)
	if e.changes {
		for v := range f.captured {
			e.reads[v], e.writes[v] = true, true
		}
	}
	return e
}

// capturedIn finds the variables that are shared with a closure, and change.
func (f *finder) capturedIn(d ast.Decl) map[*types.Var]bool {
	written := effectWalk{info: f.info, e: newEffects()}
	out := map[*types.Var]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, l := range n.Lhs {
					written.write(l)
				}
			}
		case *ast.IncDecStmt:
			written.write(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				written.write(n.X)
			}
		case *ast.FuncLit:
			ast.Inspect(n.Body, func(in ast.Node) bool {
				if name, ok := in.(*ast.Ident); ok {
					if v, ok := f.info.Uses[name].(*types.Var); ok && local(v) && (v.Pos() < n.Pos() || n.End() <= v.Pos()) {
						out[v] = true
					}
				}
				return true
			})
		}
		return true
	})
	for v := range out {
		if !written.e.writes[v] {
			delete(out, v)
		}
	}
	return out
}

// summaries finds what calls of the package's own functions do: the effects of their bodies on what
// is not theirs.
func (p *pkg) summaries() map[*types.Func]*effects {
	known := map[*types.Func]*effects{}
	bodies := map[*types.Func]*ast.BlockStmt{}
	for _, file := range p.files {
		for _, d := range file.tree.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				fn := p.info.Defs[d.Name].(*types.Func)
				bodies[fn], known[fn] = d.Body, newEffects()
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for fn, body := range bodies {
			e := newEffects()
			(&effectWalk{info: p.info, known: known, e: e}).stmt(body)
			maps.DeleteFunc(e.reads, func(place any, _ bool) bool { return local(place) })
			maps.DeleteFunc(e.writes, func(place any, _ bool) bool { return local(place) })
			e.leaves, e.returns, e.faults = false, false, false
			old := known[fn]
			if len(e.reads) != len(old.reads) || len(e.writes) != len(old.writes) || e.changes != old.changes || e.logs != old.logs {
				known[fn], changed = e, true
			}
		}
	}
	return known
}

// pureIn are packages whose functions, but those that are named, change nothing.
var pureIn = map[string]string{
	"strings": "", "strconv": "", "errors": "", "cmp": "", "math": "", "math/bits": "", "unicode": "", "unicode/utf8": "", "path": "",
	"bytes": "", "net/url": "", "hash/maphash": "", "unsafe": "", "context": "",
	"time":   "Sleep AfterFunc",
	"fmt":    "Fprint Fprintf Fprintln Print Printf Println",
	"maps":   "Copy DeleteFunc Insert",
	"slices": "Sort SortFunc SortStableFunc Reverse Delete DeleteFunc Compact CompactFunc Insert Replace",
}

// isPure reports whether fn, of another package, changes nothing and looks at nothing that changes.
func isPure(fn *types.Func) bool {
	if fn.Pkg() == nil {
		return true // error.Error
	}
	path, sig := fn.Pkg().Path(), fn.Type().(*types.Signature)
	if sig.Recv() == nil {
		except, ok := pureIn[path]
		return ok && !strings.Contains(" "+except+" ", " "+fn.Name()+" ")
	}
	if t := types.TypeString(sig.Recv().Type(), nil); t == "net/http.Header" || t == "net/url.Values" {
		return true // the order of members is nothing
	}
	switch fn.Name() {
	case "Len", "String", "Done", "Err":
		return true
	case "Stop", "Reset":
		return false
	}
	return path == "time" || strings.HasPrefix(fn.Name(), "Get") && sig.Params().Len() == 0
}
