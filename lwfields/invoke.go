package main

import (
	"go/types"

	"golang.org/x/tools/go/ssa"
)

func (a *analysis) invoke(s *site) {
	s.name, s.pkg = shortName(s.call.Method), a.p.of(s.call.Method.Pkg())
	s.args = append([]ssa.Value{s.call.Value}, s.call.Args...)
	i := &invocation{site: s, iface: s.call.Value.Type().Underlying().(*types.Interface), done: map[*ssa.Function]bool{}}
	a.invocations = append(a.invocations, i)
	for _, t := range a.boxed {
		a.dispatch(i, t)
	}
	m := a.modelOfMethod(s.call.Method)
	// An interface of the program has the implementations that the program boxes. One of a library
	// may have others, that nobody sees here.
	if m == nil && s.pkg != nil && s.pkg.own && !a.fromLibrary(s.call.Value) {
		a.unanswered = append(a.unanswered, i)
		return
	}
	if m == nil && s.pkg == nil { // error.Error
		return
	}
	a.bodyless(s, m, s.args)
}

// fromLibrary reports whether an interface value of the program's own type is one of a library's.
func (a *analysis) fromLibrary(v ssa.Value) bool {
	switch v := v.(type) {
	case *ssa.ChangeInterface:
		named, ok := types.Unalias(v.X.Type()).(*types.Named)
		p := (*pkg)(nil)
		if ok {
			p = a.p.of(named.Obj().Pkg())
		}
		return p != nil && !p.own
	case *ssa.Phi:
		for _, e := range v.Edges {
			if _, ok := e.(*ssa.Phi); !ok && a.fromLibrary(e) {
				return true
			}
		}
	}
	return false
}

// dispatch connects a call of an interface's method with that of a type that is in interfaces.
func (a *analysis) dispatch(i *invocation, t types.Type) {
	if !types.Implements(t, i.iface) {
		return
	}
	sel := a.p.prog.MethodSets.MethodSet(t).Lookup(i.call.Method.Pkg(), i.call.Method.Name())
	if sel == nil {
		return
	}
	if pkg := sel.Obj().Pkg(); pkg != nil && pkg.Path() == metaPath && (a.isPart(t) || isAPI(deref(t))) {
		return // its tag says what is read
	}
	fn := a.p.prog.MethodValue(sel)
	if fn == nil || i.done[fn] {
		return
	}
	i.done[fn] = true
	if fn.Blocks != nil && a.isSource(t) {
		if p := a.pkgOf(fn); len(sel.Index()) > 1 && p != nil && (!p.source || p.broken || p.path == metaPath) {
			a.promoted(i, t, sel, fn)
			return
		}
		if a.modelOf(fn) == nil {
			a.reached(fn)
			// The receiver came to the method when it was boxed.
			for n, arg := range i.args {
				if n > 0 && n < len(fn.Params) {
					a.copies(a.use(arg, i.block), a.of(fn.Params[n]))
				}
			}
			for n := range fn.Signature.Results().Len() {
				a.copies(a.result(fn, n), a.resultOf(i.site, n))
			}
			return
		}
	}
	if a.isPart(t) {
		return
	}
	c := *i.site
	c.name, c.pkg = a.nameOf(fn), a.pkgOf(fn)
	m := a.modelOf(fn)
	if m == nil { // it knows the fields of its receiver
		id := a.newVertex(vertex{fn: c.fn, pos: c.pos(), sink: &sink{fn: c.fn, pkg: c.pkg,
			use: use{level: whole, pos: c.pos(), class: "unknown", text: "given to " + c.name, advice: "give it the fields that it needs"}}})
		a.expand(t, shallow, id)
	}
	a.bodyless(&c, m, c.args[1:])
}

// promoted adds a call of a method of a library that a type of the program has from a field: the
// field is its receiver.
func (a *analysis) promoted(i *invocation, t types.Type, sel *types.Selection, fn *ssa.Function) {
	m := a.modelOf(fn)
	c := *i.site
	c.name, c.pkg = a.nameOf(fn), a.pkgOf(fn)
	for _, index := range sel.Index()[:len(sel.Index())-1] {
		s, ok := deref(t).Underlying().(*types.Struct)
		if !ok {
			return
		}
		t = s.Field(index).Type()
		field := a.field(s, index, t)
		switch {
		case m == nil:
			a.give(field, t, &sink{fn: c.fn, pkg: c.pkg, use: use{level: whole, pos: c.pos(), class: "unknown", text: "given to " + c.name}})
		case m.kind == reads:
			for _, path := range m.paths {
				a.readPath(&c, field, path, "read by "+c.name)
			}
		case m.kind == flows:
			a.results(&c, func(to vid) { a.copies(field, to) })
		case m.kind == reflects:
			a.give(field, t, &sink{fn: c.fn, use: use{level: whole, pos: c.pos(), class: m.class, text: "given to " + c.name, advice: m.advice}})
		}
	}
	a.bodyless(&c, m, c.args[1:])
}

// answer treats calls of the program's own interfaces that no type of the program implements: what
// they are given is given to somebody unknown.
func (a *analysis) answer() {
	for _, i := range a.unanswered {
		if len(i.done) == 0 {
			i.done[nil] = true
			a.bodyless(i.site, a.modelByName(i.call.Method), i.args)
		}
	}
	a.unanswered = nil
}
