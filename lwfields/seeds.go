package main

import (
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/types/typeutil"
)

// reached adds a function to the analysis.
func (a *analysis) reached(fn *ssa.Function) {
	if a.seen[fn] {
		return
	}
	a.seen[fn] = true
	if a.ignored(fn) {
		return
	}
	a.pending = append(a.pending, fn)
}

// open says that a library may call a function: it may give it any object that the parameters can
// be.
func (a *analysis) open(fn *ssa.Function) {
	a.reached(fn)
	if a.opened[fn] {
		return
	}
	a.opened[fn] = true
	for _, p := range fn.Params {
		if id, ok := a.values[p]; ok && id >= 0 {
			a.seed(id)
		}
	}
}

// function adds the instructions of a function.
func (a *analysis) function(fn *ssa.Function) {
	for _, b := range fn.Blocks {
		for _, instr := range b.Instrs {
			a.instruction(instr)
		}
	}
}

// roots reaches what runs without being called by the program itself.
func (a *analysis) roots() {
	mains := a.p.mains()
	needed := map[*pkg]bool{}
	var need func(*pkg)
	need = func(one *pkg) {
		if one == nil || needed[one] {
			return
		}
		needed[one] = true
		for _, i := range one.imports {
			need(i)
		}
	}
	for _, m := range mains {
		need(m)
	}
	for _, one := range a.p.pkgs {
		if one.ssa == nil || !one.source || one.broken || len(mains) > 0 && !needed[one] {
			continue
		}
		if init := one.ssa.Func("init"); init != nil && (one.own || len(mains) == 0) {
			a.reached(init)
		}
		if slices.Contains(mains, one) {
			a.reached(one.ssa.Func("main"))
		}
		if len(mains) > 0 || !one.root {
			continue
		}
		for _, m := range one.ssa.Members {
			switch m := m.(type) {
			case *ssa.Function:
				if m.Object() != nil && m.Object().Exported() {
					a.export(m)
				}
			case *ssa.Type:
				named, ok := m.Type().(*types.Named)
				if !ok || named.TypeParams().Len() > 0 || types.IsInterface(named) {
					continue
				}
				for fn := range named.Methods() {
					if f := a.p.prog.FuncValue(fn); f != nil && fn.Exported() {
						a.export(f)
					}
				}
			}
		}
	}
}

// export opens a function of a package that is analysed without a main function: whoever imports it
// may call it with any object.
func (a *analysis) export(fn *ssa.Function) {
	if fn.TypeParams().Len() > 0 && len(fn.TypeArgs()) == 0 {
		return // its instances are reached by their calls
	}
	a.open(fn)
	if fn.Object() == nil || !fn.Object().Exported() {
		return
	}
	for i, p := range fn.Params {
		if i == len(fn.Params)-1 && fn.Signature.Variadic() {
			continue
		}
		if _, ok := p.Type().Underlying().(*types.Interface); ok {
			a.sourceAny(a.of(p))
		}
	}
}

// foreign reports whether a package is one that may make objects of its own.
func (a *analysis) foreign(t *types.Package) bool {
	p := a.p.of(t)
	return p != nil && p.caching && !p.own
}

// sourceAny says that a value may be an object of any type, as far as its own type allows.
func (a *analysis) sourceAny(id vid) {
	if id < 0 {
		return
	}
	for _, api := range a.types {
		a.source(id, a.anyTags[api])
	}
}

// sourceAnyIn is sourceAny for what a function was given by a library, which is of one type if the
// function was registered for that.
func (a *analysis) sourceAnyIn(id vid, fn *ssa.Function) {
	scope, ok := a.scopeOf(fn)
	if !ok {
		a.sourceAny(id)
		return
	}
	for _, api := range scope {
		a.source(id, api.root.tag)
	}
}

// sourceFunc says that a value is a function of the program. It is opened: who has the value is not
// known.
func (a *analysis) sourceFunc(id vid, fn *ssa.Function) {
	a.open(fn)
	t, ok := a.funcTags[fn]
	if !ok {
		t = a.newTag(tagInfo{kind: funcTag, fn: fn})
		a.funcTags[fn] = t
	}
	a.source(id, t)
}

// library is the sink of what a library calls back: functions that are given to one that makes
// objects get objects of any type.
func (a *analysis) library() vid {
	if a.libraryID == 0 {
		a.libraryID = a.newVertex(vertex{sink: &sink{callback: true}, label: "a library"})
	}
	return a.libraryID
}

// called gives the parameters of a function what a library may give them.
func (a *analysis) called(fn *ssa.Function) {
	for i, p := range fn.Params {
		if i == len(fn.Params)-1 && fn.Signature.Variadic() {
			continue
		}
		if holdsInterface(p.Type()) {
			a.sourceAnyIn(a.of(p), fn)
			a.connect(a.memory(handlerPath), a.of(p), passEdge, 0)
		}
	}
}

func holdsInterface(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Interface:
		return true
	case *types.Slice:
		return holdsInterface(u.Elem())
	case *types.Map:
		return holdsInterface(u.Elem())
	case *types.Chan:
		return holdsInterface(u.Elem())
	}
	return false
}

// box reaches the methods of a type that is put into an interface, and those of the types that it
// is made of, which reflection finds.
func (a *analysis) box(t types.Type) {
	if a.boxedTypes.Set(t, true) != nil {
		return
	}
	a.boxed = append(a.boxed, t)
	if s := innerStruct(t); s != nil && a.partKeys()[a.structKey(s)] {
		a.parted = append(a.parted, t)
		clear(a.holdsMemo)
	}
	for _, fn := range a.methods(t) {
		a.open(fn)
		if p := a.pkgOf(fn); p != nil && !alwaysSource[p.path] {
			a.callback(t, fn)
		}
	}
	a.components(t, func(part types.Type) { a.box(part) })
}

// innerStruct is the struct that is left of t without pointers and containers.
func innerStruct(t types.Type) *types.Struct {
	for {
		switch u := t.Underlying().(type) {
		case *types.Map:
			t = u.Elem()
		case *types.Chan:
			t = u.Elem()
		default:
			core, _ := coreOf(t)
			return core
		}
	}
}

// components calls f for the named types of the program that t is made of.
func (a *analysis) components(t types.Type, f func(types.Type)) {
	switch u := types.Unalias(t).Underlying().(type) {
	case *types.Pointer:
		a.component(u.Elem(), f)
	case *types.Slice:
		a.component(u.Elem(), f)
	case *types.Array:
		a.component(u.Elem(), f)
	case *types.Chan:
		a.component(u.Elem(), f)
	case *types.Map:
		a.component(u.Key(), f)
		a.component(u.Elem(), f)
	case *types.Struct:
		for v := range u.Fields() {
			a.component(v.Type(), f)
		}
	}
}

func (a *analysis) component(t types.Type, f func(types.Type)) {
	t = types.Unalias(t)
	if named, ok := t.(*types.Named); ok {
		p := a.p.of(named.Obj().Pkg())
		if p == nil || !p.source {
			return
		}
		if _, ok := named.Underlying().(*types.Interface); ok {
			return
		}
		f(t)
		f(types.NewPointer(t))
		return
	}
	a.components(t, f)
}

// methods are the methods of a type of the program, those of embedded fields too. Those that it has
// from a type of a library are not among them: what they read is known where they are called.
func (a *analysis) methods(t types.Type) []*ssa.Function {
	if fns, ok := a.methodsOf.At(t).([]*ssa.Function); ok {
		return fns
	}
	var fns []*ssa.Function
	if !types.IsInterface(t) && a.isSource(t) {
		set := a.p.prog.MethodSets.MethodSet(t)
		for sel := range set.Methods() {
			if p := a.p.of(sel.Obj().Pkg()); p != nil && (!p.source || p.broken || p.path == metaPath) {
				continue
			}
			if fn := a.p.prog.MethodValue(sel); fn != nil {
				fns = append(fns, fn)
			}
		}
	}
	a.methodsOf.Set(t, fns)
	return fns
}

func (a *analysis) isSource(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	switch n := types.Unalias(t).(type) {
	case *types.Named:
		p := a.p.of(n.Obj().Pkg())
		return p != nil && p.source && !p.broken
	case *types.Struct:
		return true
	}
	return false
}

// callback gives a method what a library gives it that knows it by one of its interfaces.
func (a *analysis) callback(t types.Type, fn *ssa.Function) {
	if !slices.ContainsFunc(fn.Params, func(p *ssa.Parameter) bool { return holdsInterface(p.Type()) }) {
		return
	}
	for _, i := range a.libraryInterfaces()[fn.Name()] {
		if i.generic && a.hasMethods(t, i.names) || !i.generic && types.Implements(t, i.typ) {
			a.called(fn)
			return
		}
	}
}

func (a *analysis) hasMethods(t types.Type, names []string) bool {
	set := a.p.prog.MethodSets.MethodSet(t)
	have := map[string]bool{}
	for sel := range set.Methods() {
		have[sel.Obj().Name()] = true
	}
	return !slices.ContainsFunc(names, func(n string) bool { return !have[n] })
}

// libraryInterfaces are those of the libraries that may make objects, by the names of their
// methods.
func (a *analysis) libraryInterfaces() map[string][]libraryInterface {
	if a.libInterfaces != nil {
		return a.libInterfaces
	}
	a.libInterfaces = map[string][]libraryInterface{}
	for _, one := range a.p.pkgs {
		// The objects of a webhook come with a request, not from a cache.
		if !one.caching || one.own || strings.Contains(one.path, "/webhook") {
			continue
		}
		scope := one.types.Scope()
		for _, name := range scope.Names() {
			obj, ok := scope.Lookup(name).(*types.TypeName)
			if !ok || !obj.Exported() {
				continue
			}
			i, ok := obj.Type().Underlying().(*types.Interface)
			if !ok || i.NumMethods() == 0 {
				continue
			}
			named, _ := obj.Type().(*types.Named)
			l := libraryInterface{typ: i, generic: named != nil && named.TypeParams().Len() > 0}
			for m := range i.Methods() {
				l.names = append(l.names, m.Name())
			}
			for _, m := range l.names {
				a.libInterfaces[m] = append(a.libInterfaces[m], l)
			}
		}
	}
	return a.libInterfaces
}

// mayContain reports whether a value of type t may lead to an object, as one that has one does.
func (a *analysis) mayContain(t types.Type) bool {
	var seen typeutil.Map
	var walk func(types.Type) bool
	walk = func(t types.Type) bool {
		if seen.Set(t, true) != nil {
			return false
		}
		switch u := t.Underlying().(type) {
		case *types.Pointer:
			return walk(u.Elem())
		case *types.Slice:
			return walk(u.Elem())
		case *types.Array:
			return walk(u.Elem())
		case *types.Chan:
			return walk(u.Elem())
		case *types.Map:
			return walk(u.Key()) || walk(u.Elem())
		case *types.Interface:
			return true
		case *types.Struct:
			if a.isWhole(u) || a.partKeys()[a.structKey(u)] {
				return true
			}
			for v := range u.Fields() {
				if walk(v.Type()) {
					return true
				}
			}
		}
		return false
	}
	return walk(t)
}

// partKeys are the structs that the API types are made of.
func (a *analysis) partKeys() map[string]bool {
	if a.parts == nil {
		a.parts = map[string]bool{}
		var walk func(n *node)
		walk = func(n *node) {
			if n.leaf() || n.hidden {
				return
			}
			a.parts[n.key] = true
			for i := range n.core.NumFields() {
				walk(a.child(n, i))
			}
		}
		for _, api := range a.types {
			walk(api.root)
		}
	}
	return a.parts
}
