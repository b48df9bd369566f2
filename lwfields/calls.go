package main

import (
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

func (s *site) pos() token.Pos {
	if s.call.Pos().IsValid() {
		return s.call.Pos()
	}
	return s.instr.Pos()
}

// call adds a call, a go or a defer statement.
func (a *analysis) call(instr ssa.CallInstruction) {
	c := instr.Common()
	s := &site{instr: instr, call: c, fn: instr.Parent(), block: instr.Block(), args: c.Args}
	if b, ok := c.Value.(*ssa.Builtin); ok {
		a.builtin(s, b.Name())
		return
	}
	if c.IsInvoke() {
		a.invoke(s)
		return
	}
	if fn := c.StaticCallee(); fn != nil {
		if closure, ok := c.Value.(*ssa.MakeClosure); ok {
			a.of(closure)
		}
		a.static(s, fn)
		return
	}
	done := map[*ssa.Function]bool{}
	foreign := false
	d := &sink{fn: s.fn, dynamic: func(t tag) {
		info := &a.tags[t]
		switch {
		case info.kind == funcTag && !done[info.fn]:
			done[info.fn] = true
			a.static(s, info.fn)
		case info.kind == foreignTag && !foreign:
			foreign = true
			s.name = "a function that a library has made"
			a.unknown(s, s.args)
			a.results(s, func(to vid) { a.copies(a.memory(""), to) })
		}
	}}
	a.copies(a.use(c.Value, s.block), a.newVertex(vertex{sink: d, fn: s.fn, pos: s.pos()}))
}

func (a *analysis) builtin(s *site, name string) {
	switch name {
	case "append":
		to := a.resultOf(s, 0)
		a.copies(a.use(s.args[0], s.block), to)
		if len(s.args) > 1 {
			a.stores(a.use(s.args[1], s.block), to)
		}
	case "copy":
		a.stores(a.use(s.args[1], s.block), a.use(s.args[0], s.block))
	case "print", "println":
		a.sinks(s, s.args, use{class: "formatted", text: "given to " + name, advice: "print the fields that matter"})
	case "ssa:wrapnilchk":
		a.copies(a.use(s.args[0], s.block), a.resultOf(s, 0))
	case "String", "StringData", "Slice", "SliceData", "Add": // of package unsafe
		a.sinks(s, s.args, use{class: "unsafe", text: "given to unsafe." + name, advice: "copy the fields that are needed"})
	}
}

// resultOf is the vertex of a result of a call; -1 if nobody looks at it.
func (a *analysis) resultOf(s *site, i int) vid {
	v := s.instr.Value()
	if v == nil {
		return -1
	}
	if _, ok := v.Type().(*types.Tuple); ok {
		return a.part(v, i)
	}
	return a.of(v)
}

// results calls f for all results that have a vertex.
func (a *analysis) results(s *site, f func(vid)) {
	n := s.call.Signature().Results().Len()
	for i := range n {
		if to := a.resultOf(s, i); to >= 0 {
			f(to)
		}
	}
}

// link connects a call with a function of which the body is known.
func (a *analysis) link(s *site, fn *ssa.Function, args []ssa.Value) {
	a.reached(fn)
	for i, arg := range args {
		if i < len(fn.Params) {
			a.copies(a.use(arg, s.block), a.of(fn.Params[i]))
		}
	}
	for i := range fn.Signature.Results().Len() {
		a.copies(a.result(fn, i), a.resultOf(s, i))
	}
}

// static adds a call of a known function.
func (a *analysis) static(s *site, fn *ssa.Function) {
	m := a.modelOf(fn)
	if m == nil && fn.Blocks != nil {
		a.link(s, fn, s.args)
		return
	}
	c := *s
	c.name, c.pkg = a.nameOf(fn), a.pkgOf(fn)
	for _, t := range fn.TypeArgs() {
		a.box(t)
	}
	if obj, ok := originOf(fn).Object().(*types.Func); ok {
		if path := libraryReaders[fullName(obj)]; path != "" {
			c.at = c.pos()
			a.readsLater(path, s.instr.Value(), &c)
		}
	}
	a.bodyless(&c, m, c.args)
}

// pkgOf returns the package of a function; nil for one that is made for a type of none.
func (a *analysis) pkgOf(fn *ssa.Function) *pkg {
	if o := fn.Origin(); o != nil {
		fn = o
	}
	if fn.Object() != nil {
		return a.p.of(fn.Object().Pkg())
	}
	if fn.Pkg != nil {
		return a.p.of(fn.Pkg.Pkg)
	}
	return nil
}

// nameOf is how a function is written in reports: logr.Logger.Info.
func (a *analysis) nameOf(fn *ssa.Function) string {
	if obj, ok := fn.Object().(*types.Func); ok {
		return shortName(obj)
	}
	return fn.Name()
}

func shortName(fn *types.Func) string {
	full := fullName(fn)
	return full[strings.LastIndexByte(full, '/')+1:]
}

// bodyless adds a call of a function of which only the name is known.
func (a *analysis) bodyless(s *site, m *model, args []ssa.Value) {
	for _, arg := range args {
		a.callbacks(s, m, arg)
	}
	if s.pkg != nil && holdsAnything(s.call.Signature().Results()) {
		a.results(s, func(to vid) { a.connect(a.memory(s.pkg.path), to, passEdge, 0) })
	}
	a.results(s, func(to vid) {
		if _, ok := a.verts[to].typ.Underlying().(*types.Signature); ok {
			a.source(to, a.foreignTag)
		}
	})
	if m == nil {
		a.unknown(s, args)
		return
	}
	a.apply(s, m, args)
}

// makes says what the results of a library's function may be, beside what it was given.
func (a *analysis) makes(s *site) {
	if s.pkg == nil || !s.pkg.caching || s.pkg.own {
		return
	}
	a.results(s, a.sourceAnyFor(s))
}

func (a *analysis) sourceAnyFor(s *site) func(vid) {
	return func(to vid) {
		if holdsInterface(a.verts[to].typ) {
			a.sourceAnyIn(to, nil)
		}
	}
}

func holdsAnything(t *types.Tuple) bool {
	for v := range t.Variables() {
		if _, ok := v.Type().Underlying().(*types.Basic); !ok {
			return true
		}
	}
	return false
}

// callbacks tells the functions in an argument that a library calls them, and that what they return
// may come out of the library again.
func (a *analysis) callbacks(s *site, m *model, arg ssa.Value) {
	if !holdsFunc(arg.Type()) {
		return
	}
	from := a.use(arg, s.block)
	if from < 0 {
		return
	}
	if s.pkg != nil && s.pkg.caching && !s.pkg.own && (m == nil || m.kind != keeps) {
		a.copies(from, a.library())
	}
	done := map[*ssa.Function]bool{}
	path := ""
	if s.pkg != nil {
		path = s.pkg.path
	}
	d := &sink{fn: s.fn, dynamic: func(t tag) {
		info := &a.tags[t]
		if info.kind != funcTag || done[info.fn] {
			return
		}
		done[info.fn] = true
		for i := range info.fn.Signature.Results().Len() {
			switch t := info.fn.Signature.Results().At(i).Type(); t.Underlying().(type) {
			case *types.Basic:
				continue
			case *types.Interface:
				if !a.mayBeObject(t) {
					continue
				}
			}
			a.connect(a.result(info.fn, i), a.memory(path), partsEdge, 0)
			a.connect(a.result(info.fn, i), a.memory(""), partsEdge, 0)
			if m == nil && (s.pkg == nil || !s.pkg.caching) {
				a.give(a.result(info.fn, i), info.fn.Signature.Results().At(i).Type(), &sink{fn: s.fn, pkg: s.pkg, use: use{level: whole, pos: s.pos(),
					class: "unknown", text: "returned to " + s.name, advice: "return the fields that it needs"}})
			}
		}
		if m != nil && m.kind == keeps {
			for _, p := range info.fn.Params {
				a.loads(a.memory(path), a.of(p))
			}
		}
	}}
	a.copies(from, a.newVertex(vertex{sink: d, fn: s.fn, pos: s.pos()}))
}

func holdsFunc(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Signature, *types.Interface:
		return true
	case *types.Slice:
		return holdsFunc(u.Elem())
	case *types.Map:
		return holdsFunc(u.Elem())
	}
	return false
}

// mayBeObject reports whether an interface can have an object or a part of one in it.
func (a *analysis) mayBeObject(t types.Type) bool {
	i := t.Underlying().(*types.Interface)
	if i.NumMethods() == 0 {
		return true
	}
	for _, api := range a.types {
		if types.Implements(types.NewPointer(api.named), i) {
			return true
		}
	}
	for _, p := range a.parted {
		if types.Implements(p, i) {
			return true
		}
	}
	return false
}

// memory is what the functions of a library were given to keep; "" for all libraries.
func (a *analysis) memory(path string) vid {
	id, ok := a.memories[path]
	if !ok {
		id = a.newVertex(vertex{typ: anything, label: "the memory of " + path})
		a.memories[path] = id
	}
	return id
}

var anything = types.NewInterfaceType(nil, nil).Complete()

// unknown is a call of a function about which nothing is known: it reads all, keeps it, fills what
// it can reach, and returns anything.
func (a *analysis) unknown(s *site, args []ssa.Value) {
	u := use{class: "unknown", text: "given to " + s.name, advice: "give it the fields that it needs"}
	u.level, u.pos = whole, s.pos()
	for _, arg := range args {
		for _, v := range unpack(arg) {
			if a.onlyExample(v) {
				continue
			}
			from := a.use(v, s.block)
			a.giveFrom(from, v, &sink{use: u, fn: s.fn, pkg: s.pkg})
			a.fill(from)
		}
	}
	a.makes(s)
}

// fill says that a library may store an object in what a value refers to.
func (a *analysis) fill(v vid) {
	if v >= 0 {
		a.add(v, a.fillTag, held|stored, 0)
	}
}

// sinks gives all arguments to sinks of the same use.
func (a *analysis) sinks(s *site, args []ssa.Value, u use) {
	u.level, u.pos = whole, s.pos()
	for _, arg := range args {
		for _, v := range unpack(arg) {
			a.giveFrom(a.use(v, s.block), v, &sink{use: u, fn: s.fn})
		}
	}
}

// escape gives a value to a sink.
func (a *analysis) escape(from vid, v ssa.Value, s *sink) { a.giveFrom(from, v, s) }

func (a *analysis) giveFrom(from vid, v ssa.Value, s *sink) {
	if _, ok := v.(*ssa.Const); ok {
		return
	}
	a.give(from, v.Type(), s)
}

// give connects a value with a sink, and all that a struct of its type has in its fields.
func (a *analysis) give(from vid, t types.Type, s *sink) {
	if from < 0 {
		return
	}
	id := a.newVertex(vertex{sink: s, fn: s.fn, pos: s.pos})
	a.copies(from, id)
	// A function that takes a struct of the program's by its own type knows its fields.
	a.expand(t, s.depth(), id)
}

// unpack returns the values of a variadic argument, or the argument itself.
func unpack(v ssa.Value) []ssa.Value {
	if elems := variadic(v); elems != nil {
		return elems
	}
	return []ssa.Value{v}
}

// variadic returns what the compiler has put into the slice of a variadic call; nil if v is no such
// slice.
func variadic(v ssa.Value) []ssa.Value {
	slice, ok := v.(*ssa.Slice)
	if !ok || slice.Low != nil || slice.High != nil {
		return nil
	}
	array, ok := slice.X.(*ssa.Alloc)
	if !ok || array.Comment != "varargs" {
		return nil
	}
	var elems []ssa.Value
	for _, r := range *array.Referrers() {
		switch r := r.(type) {
		case *ssa.IndexAddr:
			for _, w := range *r.Referrers() {
				if store, ok := w.(*ssa.Store); ok && store.Addr == r {
					elems = append(elems, store.Val)
				}
			}
		case *ssa.Slice, *ssa.DebugRef:
		default:
			return nil
		}
	}
	return elems
}
